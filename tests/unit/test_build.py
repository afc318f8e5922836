"""An sdist and a wheel: what is in them, and that they are the same bytes whoever builds them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tomllib
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def clone(folder: Path) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a clone of the repository")
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True, timeout=120
    )
    return folder


def built(source: Path, into: Path, *kinds: str, **env: str) -> dict[str, str]:
    """Name → SHA-256 of what is built."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *kinds, "-d", into],
        cwd=source,
        env={**os.environ, **env},
        capture_output=True,
        check=True,
        timeout=300,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in into.iterdir()}


def test_an_sdist_holds_what_git_knows_and_nothing_else(tmp_path: Path) -> None:
    source = clone(tmp_path / "clone")
    for name in ("notes.txt", "results/first/plan.jsonl", "src/.swp", "src/iotrial/x.pyc"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("junk")
    (name,) = built(source, tmp_path / "dist", "-t", "sdist")
    with tarfile.open(tmp_path / "dist" / name) as packed:
        held = {path.partition("/")[2] for path in packed.getnames()}
    known = subprocess.run(
        ["git", "ls-files"], cwd=source, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    assert set(known) <= held
    assert held - set(known) <= {"PKG-INFO", "src/.swp"}


def test_two_who_build_from_two_clones_get_the_same_bytes(tmp_path: Path) -> None:
    """Without any setting, as ``python -m build`` does, and elsewhere in every way."""
    here = built(clone(tmp_path / "clone"), tmp_path / "dist", "-t", "sdist", "-t", "wheel")
    mask = os.umask(0o077)
    try:
        other = clone(tmp_path / "elsewhere/below")
    finally:
        os.umask(mask)
    elsewhere = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "HOME": str(tmp_path), "COLUMNS": "200"}
    assert here == built(other, tmp_path / "again", "-t", "sdist", "-t", "wheel", **elsewhere)
    assert len(here) == 2


def test_the_debian_package_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    head = (ROOT / "packaging/debian/changelog").read_text("utf-8").partition("\n")[0]
    assert head.startswith(f"iotrial ({project['version']}) ")


def test_the_debian_package_is_of_a_day_that_has_been() -> None:
    """Files that are newer have its time: with one to come, each build would have its own."""
    last = (ROOT / "packaging/debian/changelog").read_text("utf-8").rstrip().splitlines()[-1]
    made = parsedate_to_datetime(last.rpartition("  ")[2])
    assert made < datetime.now(tz=UTC)
