"""The Debian package: built in a clean Debian 12 and 13 where lintian finds no error, the same
bytes twice, installed in another one, used, upgraded, and removed without a trace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from debians import ROOT, Machine, built, measures, stores, works

SUITES = ("bookworm", "trixie")
BUILDER = "build-essential,ca-certificates,debhelper,lintian,python3-pip,python3-venv"
USER = "bash-completion,fio,fish,man-db,mount,python3,systemd,zsh"
TREES = ("/usr", "/etc", "/opt", "/var/lib")
TYPED = """
import os, pty, re, select, signal, sys, time
typed, wanted, *argv = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    os.environ.update(TERM="dumb", COLUMNS="400", LINES="200")
    os.execvp(argv[0], argv)
said, last = "", 0.0
ends = time.monotonic() + 100
while time.monotonic() < ends and wanted not in said:
    if time.monotonic() - last > 10:  # the shell may not have read its settings before
        os.write(terminal, b"\\x15" + typed.encode() + b"\\t\\t")
        last = time.monotonic()
    if select.select([terminal], [], [], 1)[0]:
        said += os.read(terminal, 65536).decode("utf-8", "replace")
os.kill(child, signal.SIGKILL)
sys.exit(0 if wanted in said else f"not offered: {said[-1500:]!r}")
"""
"""Types something and two tabs at a shell on a terminal, until it offers what is wanted."""
SHELLS = {
    "bash": ["--rcfile", "/usr/share/bash-completion/bash_completion", "-i"],
    "zsh": ["-i"],
}
ZSH = "autoload -Uz compinit\ncompinit -u\nsetopt no_always_last_prompt\nLISTMAX=9999\n"

pytestmark = [pytest.mark.root, pytest.mark.timeout(5400)]


@dataclass(frozen=True)
class Builder:
    """A machine of a release that makes the package for it, of the same sdist and wheel."""

    suite: str
    machine: Machine
    names: tuple[str, ...]

    def build(self, folder: str, umask: str = "022", **habits: str) -> Path:
        (self.machine.home / folder).mkdir()
        line = f'umask {umask} && exec ./build-deb "$@"'
        self.machine.install("sh", "-c", line, "-", *self.names, folder, **habits)
        return next((self.machine.home / folder).glob("*.deb"))


@pytest.fixture(scope="module", params=SUITES)
def builder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Builder]:
    machine = Machine(tmp_path_factory.mktemp("builder"), request.param, BUILDER)
    try:
        names = tuple(built(machine.home, kind).name for kind in ("sdist", "wheel"))
        shutil.copy(ROOT / "packaging/build-deb", machine.home)
        yield Builder(request.param, machine, names)
    finally:
        machine.close()


@pytest.fixture(scope="module")
def package(builder: Builder) -> Path:
    return builder.build("first")


@pytest.fixture
def machine(builder: Builder, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, builder.suite, USER)
    yield made
    made.close()


def files(machine: Machine) -> set[str]:
    """But for dpkg's own notes, which it keeps of every package."""
    found = machine.run("find", *TREES, "-xdev").stdout.splitlines()
    return {path for path in found if not path.startswith("/var/lib/dpkg/")}


def test_each_shell_completes_from_where_it_looks(machine: Machine, package: Path) -> None:
    shutil.copy(package, machine.home)
    machine.run("dpkg", "--install", package.name)
    (machine.home / ".zshrc").write_text(ZSH)
    for shell, options in SHELLS.items():
        for typed, wanted in (("iotrial hist", "history"), ("iotrial run --pre", "--pretend")):
            machine.run(
                "python3", "-c", TYPED, typed, wanted, shell, *options, ZDOTDIR="/home/work"
            )
    offered = machine.run("fish", "-c", "complete -C 'iotrial run --'").stdout
    assert "--pretend" in offered
    assert "--against" in offered
    assert "history" in machine.run("fish", "-c", "complete -C 'iotrial hist'").stdout


def test_the_timer_of_its_examples_is_one_to_systemd(machine: Machine, package: Path) -> None:
    shutil.copy(package, machine.home)
    machine.run("dpkg", "--install", package.name)
    folder = "/usr/share/doc/iotrial/examples/nightly"
    units = [f"{folder}/iotrial-study@.{kind}" for kind in ("service", "timer")]
    machine.run("cp", *units, "/etc/systemd/system/")
    there = [f"/etc/systemd/system/iotrial-study@disk.{kind}" for kind in ("service", "timer")]
    done = machine.run("systemd-analyze", "verify", "--man=no", *there)
    assert "iotrial" not in done.stderr


def test_it_replaces_an_older_one_whole(machine: Machine, package: Path) -> None:
    """Older: the same with a lower version and a module that is there no more, which was run."""
    shutil.copy(package, machine.home)
    before = files(machine)
    change = """
    dpkg-deb --raw-extract "$1" old
    sed -i 's/^Version: .*/Version: 0.0.1/' old/DEBIAN/control
    gone=$(echo old/usr/lib/iotrial/lib/python3*/site-packages/iotrial)/gone.py
    echo 'print("here")' >"$gone"
    dpkg-deb --build -Znone old old.deb >&2
    rm -r old
    """
    machine.run("sh", "-ec", change, "-", package.name)
    machine.run("dpkg", "--install", "old.deb")
    python = "/usr/lib/iotrial/bin/python3"
    assert machine.run(python, "-m", "iotrial.gone").stdout == "here\n"
    assert [path for path in files(machine) if path.rpartition("/")[2].startswith("gone.cpython")]
    machine.run("iotrial", "demo", "--pretend", "--out", "by-old")
    machine.run("dpkg", "--install", package.name)
    assert not [path for path in files(machine) if path.rpartition("/")[2].startswith("gone.")]
    assert machine.run("dpkg-query", "-f", "${Version}", "-W", "iotrial").stdout != "0.0.1"
    machine.run("iotrial", "compare", "by-old")
    machine.run("dpkg", "--remove", "iotrial")
    assert files(machine) - before == set()
    machine.run("dpkg", "--purge", "iotrial")
    assert machine.run("dpkg-query", "-W", "iotrial", code=1).stdout == ""


def test_it_is_installed_used_and_removed(machine: Machine, package: Path) -> None:
    before = files(machine)
    shutil.copy(package, machine.home)
    machine.run("dpkg", "--install", package.name)
    assert machine.run("sh", "-c", "command -v iotrial").stdout == "/usr/bin/iotrial\n"
    assert "iotrial.1" in machine.run("man", "-w", "iotrial").stdout
    works(machine)
    stores(machine)
    for kind, name in (("xlsx", "book.xlsx"), ("parquet", "rows.parquet"), ("html", "c.html")):
        machine.run("iotrial", "report", "pretended", "--as", kind, "--out", name)
    assert "<svg" in (machine.home / "c.html").read_text("utf-8")
    measures(machine)
    machine.run("dpkg", "--purge", "iotrial")
    assert files(machine) - before == set()


def test_it_is_the_same_bytes_twice(builder: Builder, package: Path) -> None:
    """Made in another folder, by another user's habits."""
    again = builder.build("again", "077", TZ="Asia/Kathmandu", LC_ALL="C", HOME="/")
    assert sha256(again.read_bytes()).digest() == sha256(package.read_bytes()).digest()
