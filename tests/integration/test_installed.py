"""The wheel, installed by pipx and by uv into a plain Debian 12 and 13, away from any checkout: a
root file system made of packages, in a mount namespace that ends with the test."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from debians import Machine, built, measures, stores, wants_store, works

SUITES = ("bookworm", "trixie")
PACKAGES = "ca-certificates,fio,man-db,mount,pipx,python3-venv"
OF_UV = {"UV_PYTHON_DOWNLOADS": "never", "UV_PYTHON": "/usr/bin/python3"}

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(params=SUITES)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, request.param, PACKAGES)
    yield made
    made.close()


def test_pipx_installs_what_works_away_from_a_checkout(machine: Machine, wheel: Path) -> None:
    shutil.copy(wheel, machine.home)
    machine.install("pipx", "install", f"./{wheel.name}")
    works(machine)
    said = machine.run("iotrial", "report", "pretended", "--as", "xlsx", code=2).stderr
    command = "pipx inject iotrial openpyxl"
    assert f"{command}, or pip install 'iotrial[xlsx]'" in said
    machine.install(*command.split())
    machine.run("iotrial", "report", "pretended", "--as", "xlsx", "--out", "book.xlsx")
    assert (machine.home / "book.xlsx").read_bytes().startswith(b"PK")
    command = "pipx inject iotrial duckdb 'psycopg[binary]' pyarrow"
    assert f"{command}, or pip install 'iotrial[store]'" in wants_store(machine)
    machine.install(*shlex.split(command))
    stores(machine)
    if int(machine.run("pipx", "--version").stdout.split(".")[1]) >= 3:  # links manual pages
        assert "iotrial-run.1" in machine.run("man", "-w", "iotrial-run").stdout
    measures(machine)


def test_uv_installs_what_works_away_from_a_checkout(machine: Machine, wheel: Path) -> None:
    shutil.copy(wheel, machine.home)
    shutil.copy(Path(sys.prefix, "bin/uv"), machine.home)
    machine.install("./uv", "tool", "install", f"./{wheel.name}", **OF_UV)
    works(machine)
    said = machine.run("iotrial", "report", "pretended", "--as", "xlsx", code=2).stderr
    as_told(machine, said)
    machine.run("iotrial", "report", "pretended", "--as", "xlsx", "--out", "book.xlsx")
    assert (machine.home / "book.xlsx").read_bytes().startswith(b"PK")
    as_told(machine, wants_store(machine))
    stores(machine)


def as_told(machine: Machine, said: str) -> None:
    """Install what an error says, by the uv beside."""
    command = next(line.strip() for line in said.splitlines() if "uv pip install" in line)
    machine.install(*shlex.split(f"./{command}"), **OF_UV)
