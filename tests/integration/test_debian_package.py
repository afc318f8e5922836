"""The Debian package: built in a clean Debian 12 where lintian finds no error, installed in another
one, used, and removed without a trace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from debians import ROOT, Machine, built, measures, works

BUILDER = "build-essential,ca-certificates,debhelper,lintian,python3-pip,python3-venv"
USER = "fio,man-db,mount,python3"

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    machine = Machine(tmp_path_factory.mktemp("builder"), "bookworm", BUILDER)
    try:
        names = [built(machine.home, kind).name for kind in ("sdist", "wheel")]
        shutil.copy(ROOT / "packaging/build-deb", machine.home)
        machine.install("./build-deb", *names, ".")
        yield next(machine.home.glob("*.deb"))
    finally:
        machine.close()


def test_the_package_is_installed_used_and_removed(package: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "bookworm", USER)
    try:
        before = machine.run("find", "/usr", "/etc", "/opt", "-xdev").stdout.splitlines()
        shutil.copy(package, machine.home)
        machine.run("dpkg", "--install", package.name)
        assert machine.run("sh", "-c", "command -v iotrial").stdout == "/usr/bin/iotrial\n"
        assert "iotrial.1" in machine.run("man", "-w", "iotrial").stdout
        works(machine)
        for kind, name in (("xlsx", "book.xlsx"), ("parquet", "rows.parquet"), ("html", "c.html")):
            machine.run("iotrial", "report", "pretended", "--as", kind, "--out", name)
        assert "<svg" in (machine.home / "c.html").read_text("utf-8")
        measures(machine)
        machine.run("dpkg", "--purge", "iotrial")
        after = machine.run("find", "/usr", "/etc", "/opt", "-xdev").stdout.splitlines()
        assert set(after) - set(before) == set()
    finally:
        machine.close()
