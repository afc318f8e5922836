"""What lies between a target and the metal, on the machine that runs the tests.

What is expected is found in another way than the topology finds it: stat(2), lsblk, ip, /proc.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from iotrial.cli.main import status
from iotrial.hosts.local import LocalHost
from iotrial.look.topology import devices_here, topology
from iotrial.look.topology_words import words
from iotrial.model.step import Step, StepResult
from iotrial.model.target import PreparedTarget, Target

pytestmark = pytest.mark.root


class Counting(LocalHost):
    """The local host, and how often it was asked."""

    rounds = 0

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        self.rounds += 1
        return super().batch(steps)


def said(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=200).stdout


def root_disk() -> str:
    """The disk of the root file system, by its device number."""
    number = Path("/").stat().st_dev
    link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not link.exists():
        pytest.skip("the root file system of this machine is on no block device")
    folder = link.resolve()
    return folder.parent.name if (folder / "partition").exists() else folder.name


def interrupts(word: str) -> set[str]:
    lines = Path("/proc/interrupts").read_text(encoding="utf-8").splitlines()
    return {line.split(":")[0].strip() for line in lines if re.search(rf"\b{word}\b", line)}


def test_the_root_file_system_leads_to_its_disk_in_few_round_trips() -> None:
    disk = root_disk()
    host = Counting()
    found = topology(host, PreparedTarget(Target("t", "directory", "/"), "/", disk, None))
    number = Path(f"/sys/block/{disk}/dev").read_text(encoding="utf-8").strip()
    assert found.names("mount") == ("/",)
    assert found.names("device") == (disk,)
    assert found.names("cgroup") == found.names("bdi") == (number,)
    assert Path(f"/sys/class/bdi/{number}/read_ahead_kb").exists()
    assert len(found.names("cpu")) == os.cpu_count()
    for each in found.names("disk"):
        assert Path(f"/sys/block/{each}/queue").is_dir()
    for irq in found.names("irq"):
        assert Path(f"/proc/irq/{irq}/smp_affinity").exists()
    assert host.rounds <= 12
    assert words(found)[0].startswith("/: ")


def test_a_virtio_disk_has_the_interrupts_that_proc_names_after_it() -> None:
    disk = root_disk()
    device = re.search(r"/(virtio\d+)/", str(Path(f"/sys/block/{disk}").resolve()))
    if not device:
        pytest.skip("the root disk of this machine is not virtio")
    found = topology(LocalHost(), PreparedTarget(Target("t", "device"), f"/dev/{disk}", disk, None))
    assert set(found.names("irq")) == interrupts(device[1])
    assert found.names("irq")


def test_a_loop_device_is_its_own_disk(loop_device: str) -> None:
    found = topology(
        LocalHost(), PreparedTarget(Target("t", "device"), f"/dev/{loop_device}", loop_device, None)
    )
    backing = said("losetup", "-n", "-O", "BACK-FILE", f"/dev/{loop_device}").strip()
    assert found.names("disk") == (loop_device,)
    assert found.names("irq") == found.names("mount") == ()
    assert dict(found.nodes[0].about)["backing"] == backing


def test_a_loop_device_that_is_mounted_says_where(loop_device: str, tmp_path: Path) -> None:
    point = tmp_path / "a b"
    point.mkdir()
    said("mkfs.ext4", "-q", f"/dev/{loop_device}")
    said("mount", f"/dev/{loop_device}", str(point))
    try:
        aim = PreparedTarget(Target("t", "directory", str(point)), str(point), loop_device, None)
        found = topology(LocalHost(), aim)
        assert found.names("mount") == (str(point),)
        device = PreparedTarget(Target("t", "device"), f"/dev/{loop_device}", loop_device, None)
        assert topology(LocalHost(), device).names("mount") == (str(point),)
    finally:
        said("umount", str(point))


def test_a_partition_leads_to_its_disk_whose_backing_device_it_uses(
    loop_device: str, tmp_path: Path
) -> None:
    node = f"/dev/{loop_device}"
    said("addpart", node, "1", "2048", "100000")
    try:
        said("mkfs.ext4", "-q", f"{node}p1")
        said("mount", f"{node}p1", str(tmp_path))
        try:
            aim = PreparedTarget(
                Target("t", "directory", str(tmp_path)), str(tmp_path), loop_device, None
            )
            found = topology(LocalHost(), aim)
        finally:
            said("umount", str(tmp_path))
        mount = found.nodes[0]
        assert (mount.name, dict(mount.about)["from"]) == (str(tmp_path), f"{node}p1")
        (bdi,) = found.names("bdi")
        folder = Path(f"/sys/block/{loop_device}")
        assert bdi == (folder / "dev").read_text(encoding="utf-8").strip()
        assert Path(f"/sys/class/bdi/{bdi}").exists()
        own = (folder / f"{loop_device}p1" / "dev").read_text(encoding="utf-8").strip()
        assert not Path(f"/sys/class/bdi/{own}").exists()
    finally:
        said("delpart", node, "1")


def test_every_disk_here_is_below_some_device(loop_device: str) -> None:
    seen = {name for each in devices_here(LocalHost()) for name in each.names("disk")}
    tree = json.loads(said("lsblk", "--json", "--output", "NAME,TYPE,SIZE"))
    disks = {each["name"] for each in tree["blockdevices"] if each["type"] in ("disk", "loop")}
    here = {name for name in disks if not name.startswith(("loop", "ram", "zram", "fd", "sr"))}
    assert here <= seen
    assert loop_device in seen


def test_the_doctor_lists_them(
    loop_device: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["doctor", "-v"]) in (0, 1)
    assert f"\n  disk {loop_device}" in capsys.readouterr().out
    assert status(["doctor", "--json"]) in (0, 1)
    devices = json.loads(capsys.readouterr().out)["devices"]
    tops = [each["topology"]["nodes"][-1]["name"] for each in devices]
    assert len(tops) == len(devices) > 0


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"topo{os.getpid()}"
    said("ip", "netns", "add", name)
    try:
        yield name
    finally:
        said("ip", "netns", "del", name)


class Inside(LocalHost):
    """The local host as a network namespace sees it; ip netns exec mounts a /sys of its own."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.namespace = namespace

    def run(self, argv: Sequence[str], **more: Any) -> Any:  # noqa: ANN401 (as it came)
        return super().run(("ip", "netns", "exec", self.namespace, *argv), **more)

    def read(self, path: str) -> bytes:
        if path == "/proc/self/mountinfo":
            options = "rw,vers=4.2,addr=192.0.2.9"
            mount = f"40 22 0:999 / /mnt rw - nfs4 filer:/vol {options}"
            return f"22 1 254:0 / / rw - ext4 /dev/vda rw\n{mount}\n".encode()
        done = self.run(("cat", path))
        return bytes(done.stdout)


def test_a_route_leads_to_the_interface_and_to_what_that_is_built_on(namespace: str) -> None:
    # macvlan: this kernel may have neither bonds nor VLANs, and all three make the same links.
    inside = ("ip", "-n", namespace)
    said(*inside, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    said(*inside, "link", "add", "link", "v0", "name", "mac0", "type", "macvlan")
    said(*inside, "address", "add", "192.0.2.1/24", "dev", "mac0")
    for name in ("v0", "v1", "mac0"):
        said(*inside, "link", "set", name, "up")
    found = topology(Inside(namespace), PreparedTarget(Target("t", "directory"), "/mnt", "", None))
    assert found.names("nic") == ("mac0", "v0")
    assert set(found.names("tx")) >= {"v0/queues/tx-0"}
    assert set(found.names("rx")) >= {"v0/queues/rx-0"}
    assert not [each for each in found.names("tx") if each.startswith("mac0/")]
    assert found.names("disk") == ()
