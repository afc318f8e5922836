"""Programs of Debian packages, unpacked into a folder of the tests' own: nothing is installed, so
that no daemon starts and no file of the system changes."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parent.parent / ".venv" / "packages"


@cache
def unpacked(package: str) -> Path:
    """The folder that ``package`` is unpacked in.  Skips the test where it cannot be had."""
    folder = _FOLDER / package
    _FOLDER.mkdir(parents=True, exist_ok=True)
    # Several workers may ask for the same package: one unpacks it, the others wait.
    with (_FOLDER / f"{package}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _unpack(package, folder)
    return folder


def _unpack(package: str, folder: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip(f"{package}: no apt-get here to get it with")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    argv = ["apt-get", "-qq", "download", package]
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package} cannot be downloaded within 120 s")
    if done.returncode != 0:
        pytest.skip(f"{package} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True, timeout=60)
    (folder / "complete").touch()
