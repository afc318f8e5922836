"""A virtual lab for tests: one node, brought up once, in a cache folder of its own.

It boots in seconds on a quiet machine and in minutes on a busy one, so these tests have the mark
``vm``, and run by ``./dev test --all`` alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.ssh import SSHHost
from iotrial.model.host import Host
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial_vmlab import qemu
from iotrial_vmlab.image import find
from iotrial_vmlab.lab import load, places

ENTRY = (sys.executable, "-c", "from iotrial.cli.main import main; main()")


class VirtualLab:
    """The lab ``disks`` as its user has it: by the command line."""

    def __init__(self, cache: Path) -> None:
        self.environment = {**os.environ, "IOTRIAL_CACHE": str(cache), "NO_COLOR": "1"}

    def command(self, *words: str) -> list[str]:
        return [*ENTRY, *words]

    def said(self, *words: str, within: float = 600.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )

    def vmlab(self, *words: str) -> dict[str, Any]:
        done = self.said("vmlab", *words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def up(self, *words: str) -> str:
        """Boot what is off; how ssh reaches the node."""
        way: str = self.vmlab("up", "disks", *words)["nodes"][0]["ssh"]
        return way

    def cut(self) -> None:
        self.vmlab("cut", "disks")


class Node:
    """The node, and the words a test needs of it."""

    def __init__(self, lab: VirtualLab, way: str) -> None:
        self.lab = lab
        self.way = way
        self.host = SSHHost(way, name="disks-1", purpose="tests")

    def again(self) -> None:
        """After it was cut: boot it and connect anew."""
        self.host.close()
        self.way = self.lab.up()
        self.host = SSHHost(self.way, name="disks-1", purpose="tests")

    def do(self, *argv: str, within: float = 300.0) -> str:
        done = self.host.run(argv, timeout=within)
        assert done.exit == 0, f"{argv}: {done.text}{done.stderr.decode()}"
        return done.text

    def disk(self, name: str) -> str:
        """The kernel name, today, of the lab's disk ``name``."""
        rows = (line.split() for line in self.do("lsblk", "-dno", "NAME,SERIAL").splitlines())
        return next(row[0] for row in rows if row[1:] and row[1].startswith(f"{name.upper()}-"))

    @contextmanager
    def instead(self, program: str, script: str) -> Iterator[None]:
        """A shell script in the place of a program: where PATH is searched first."""
        path = f"/usr/local/sbin/{program}"
        self.host.save(path, f"#!/bin/sh\n{script}\n".encode(), private=False)
        self.do("chmod", "755", path)
        try:
            yield
        finally:
            self.host.remove(path)

    def block_devices(self) -> list[str]:
        """Those that hold anything: an empty loop device goes when the kernel gets to it."""
        return self.do("lsblk", "-dno", "NAME").split()

    def wwid(self, disk: str) -> str:
        return self.do("cat", f"/sys/block/{disk}/device/wwid").strip()

    def there(self, paths: Sequence[str]) -> list[str]:
        """Those of these files that exist."""
        script = 'for each; do [ ! -e "$each" ] || echo "$each"; done'
        return self.do("sh", "-c", script, "sh", *paths).split()


class Several:
    """A lab that is up."""

    def __init__(self, lab: VirtualLab, name: str) -> None:
        self.lab = lab
        self.name = name

    @property
    def folder(self) -> Path:
        return Path(self.lab.environment["IOTRIAL_CACHE"]) / "vmlab/labs" / self.name

    @property
    def network(self) -> str:
        """The multicast address and port of the network among its nodes."""
        return load(self.folder).group_of("lab")

    def do(self, number: int, script: str) -> str:
        """A script on a node, which must succeed; what it says."""
        words = ("vmlab", "exec", f"{self.name}-{number}", "sh", "-ec", script)
        done: subprocess.CompletedProcess[str] = self.lab.said(*words)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def up(lab: VirtualLab, kind: str, nodes: int, kernel: str = "stable") -> Iterator[Several]:
    """A lab of this kind, and afterwards nothing of it."""
    name = f"{kind}{nodes}"
    folder = Path(lab.environment["IOTRIAL_CACHE"]) / "vmlab/labs" / name
    try:
        document = lab.vmlab("up", kind, "--name", name, "--nodes", str(nodes), "--kernel", kernel)
        assert len(document["nodes"]) == nodes
        yield Several(lab, name)
    finally:
        lab.vmlab("down", name)
    assert qemu.processes(folder) == {}
    assert not folder.exists()


def hold(host: Host, name: str, device: str, value: str) -> None:
    """Set a knob, see it in force, give it back, and see that too."""
    knob = tunable(name)
    before = observe(host, knob, device)
    assert before not in (None, value)
    group = snapshot(host, [name], device)
    try:
        apply(host, [Setting(device, name, value)])
        assert observe(host, knob, device) == value
    finally:
        assert put_back(host, group.owed) == ()
    assert observe(host, knob, device) == before


def why_not(kernel: str = "stable") -> str:
    """What this machine lacks for a lab with this kernel, '' when nothing."""
    for program in ("qemu-system-x86_64", "qemu-img", "ssh", "ssh-keygen"):
        if not shutil.which(program):
            return f"needs {program}: qemu-system-x86, qemu-utils, openssh-client"
    if find(places(os.geteuid(), os.environ), kernel) is None:
        return f"needs an image: sudo iotrial vmlab build --kernel {kernel}"
    return ""


@pytest.fixture(scope="session")
def virtual_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualLab]:
    made = VirtualLab(tmp_path_factory.mktemp("vm"))
    try:
        yield made
    finally:
        made.said("vmlab", "down", "--all")


@pytest.fixture(scope="session")
def node(virtual_lab: VirtualLab) -> Iterator[Node]:
    made = Node(virtual_lab, virtual_lab.up())
    try:
        yield made
    finally:
        made.host.close()


@pytest.fixture(scope="session")
def newer_node(virtual_lab: VirtualLab) -> Iterator[Node]:
    """One with the kernel of Debian's backports."""
    if lacking := why_not("backports"):
        pytest.skip(lacking)
    words = ("--name", "newer", "--kernel", "backports")
    made = Node(virtual_lab, virtual_lab.up(*words))
    try:
        yield made
    finally:
        made.host.close()
        virtual_lab.vmlab("down", "newer")
