"""Programs of Debian packages, unpacked into a folder of the tests' own: nothing is installed, so
that no daemon starts and no file of the system changes."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / ".venv" / "packages"


@cache
def unpacked(package: str) -> Path:
    """The folder that ``package`` is unpacked in.  Skips the test where it cannot be had."""
    folder = FOLDER / package
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Several workers may ask for the same package: one unpacks it, the others wait.
    with (FOLDER / f"{package}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _unpack(package, folder)
    return folder


@cache
def with_all_they_need(*packages: str) -> Path:
    """The folder that Debian packages are unpacked in, with what they depend on and this machine
    does not have.  Skips the test where they cannot be had."""
    folder = FOLDER / "+".join(packages)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            archives = folder / "archives"
            shutil.rmtree(folder, ignore_errors=True)
            (archives / "partial").mkdir(parents=True)
            options = ["-o", f"Dir::Cache::archives={archives}", "-o", "Debug::NoLocking=1"]
            wanted = ["--download-only", "-y", "--no-install-recommends", "install", *packages]
            _download(" and ".join(packages), folder, [*options, *wanted])
            for archive in archives.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", archive, folder], check=True, timeout=60)
            shutil.rmtree(archives)
            (folder / "complete").touch()
    return folder


def _unpack(package: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _download(package, folder, ["download", package])
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True, timeout=60)
    (folder / "complete").touch()


def _download(what: str, folder: Path, arguments: list[str]) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip(f"{what}: no apt-get here to get it with")
    argv = ["apt-get", "-qq", *arguments]
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} cannot be downloaded within 300 s")
    if done.returncode != 0:
        pytest.skip(f"{what} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
