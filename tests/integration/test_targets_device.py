"""Devices as targets, on real loop devices: who they are, and every reason to refuse them."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotrial.errors import TargetRefused
from iotrial.hosts.local import LocalHost
from iotrial.look.identity import identify
from iotrial.look.targets import ready, same
from iotrial.look.usage import busy, usages
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tool import LoadAccess

pytestmark = pytest.mark.root

HOST = LocalHost()
READS = LoadAccess(reads=True, writes=False)
WRITES = LoadAccess(reads=True, writes=True)
MIB = 2**20


def do(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=200)


def backing(device: str) -> str:
    return Path(f"/sys/block/{device}/loop/backing_file").read_text().strip()


def disk(device: str, *, destroy: str = "") -> Target:
    return Target("disk", "device", f"/dev/{device}", destroy=destroy)


def armed(device: str) -> Target:
    return disk(device, destroy=backing(device))


def refusal(target: Target, reach: LoadAccess = READS) -> TargetRefused:
    with pytest.raises(TargetRefused) as caught:
        ready(HOST, target, reach)
    assert caught.value.target == target.name
    assert caught.value.advice
    return caught.value


def partition_table(device: str) -> None:
    """A DOS partition table with one partition: 20 MiB from sector 2048."""
    block = bytearray(512)
    entry = struct.pack("<B3xB3xII", 0, 0x83, 2048, 40960)
    block[446 : 446 + len(entry)] = entry
    block[510:] = b"\x55\xaa"
    with Path(f"/dev/{device}").open("r+b") as disk_:
        disk_.write(block)


@pytest.fixture
def partition(loop_device: str) -> Iterator[str]:
    """The kernel name of the only partition of a loop device."""
    partition_table(loop_device)
    do("partx", "--add", f"/dev/{loop_device}")
    try:
        yield f"{loop_device}p1"
    finally:
        do("partx", "--delete", f"/dev/{loop_device}")


@pytest.fixture
def mounted(loop_device: str, tmp_path: Path) -> Iterator[Path]:
    """A folder on which an ext4 on the loop device is mounted."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    do("mkfs.ext4", "-q", f"/dev/{loop_device}")
    do("mount", f"/dev/{loop_device}", str(folder))
    try:
        yield folder
    finally:
        do("umount", str(folder))


def test_a_loop_device_is_known_by_its_backing_file_and_inode(loop_device: str) -> None:
    who = identify(HOST, f"/dev/{loop_device}")
    inode = Path(backing(loop_device)).stat()
    assert who.kernel_name == loop_device
    assert who.size == 64 * MIB
    assert dict(who.ids) == {
        "backing_file": backing(loop_device),
        "backing_inode": f"{inode.st_dev}:{inode.st_ino}",
    }


def test_any_link_to_a_device_names_the_same_device(loop_device: str, tmp_path: Path) -> None:
    links = tmp_path / "by-id"
    links.mkdir()
    (links / "wwn-1").symlink_to(f"/dev/{loop_device}")
    (links / "again").symlink_to("wwn-1")
    target = Target("disk", "device", str(links / "again"))
    assert identify(HOST, target.path) == identify(HOST, f"/dev/{loop_device}")
    aim = ready(HOST, target, READS)
    assert (aim.path, aim.device) == (f"/dev/{loop_device}", loop_device)


def test_a_read_only_load_needs_no_arming(loop_device: str) -> None:
    aim = ready(HOST, disk(loop_device), READS)
    assert aim == PreparedTarget(
        disk(loop_device), f"/dev/{loop_device}", loop_device, identify(HOST, aim.path)
    )
    same(HOST, aim)


def test_writing_needs_arming_and_the_refusal_says_what_to_write(loop_device: str) -> None:
    refused = refusal(disk(loop_device), WRITES)
    assert f'destroy = "{backing(loop_device)}"' in refused.advice
    assert ready(HOST, armed(loop_device), WRITES).device == loop_device


def test_arming_that_names_another_disk_is_refused(loop_device: str) -> None:
    refused = refusal(disk(loop_device, destroy="/somewhere/else.img"), WRITES)
    assert "is not the disk at" in refused.message
    assert any(backing(loop_device) in line for line in refused.evidence)


@pytest.mark.parametrize("reach", [READS, WRITES], ids=["reads", "writes"])
@pytest.mark.usefixtures("mounted")
def test_a_mounted_device_is_refused_even_when_armed(loop_device: str, reach: LoadAccess) -> None:
    refused = refusal(armed(loop_device), reach)
    assert any("is mounted on" in line for line in refused.evidence)


@pytest.mark.usefixtures("mounted")
def test_a_device_mounted_only_in_another_namespace_is_refused(
    loop_device: str, mounted: Path
) -> None:
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        do("umount", str(mounted))
        found = usages(HOST, identify(HOST, f"/dev/{loop_device}"))
        assert any(f"seen by process {holder.pid}" in line for line in found)
    finally:
        holder.kill()
        holder.communicate()
        wait_until(lambda: try_mount(loop_device, mounted))


def try_mount(device: str, folder: Path) -> bool:
    """Put the mount back that the fixture will undo; the dead namespace lets go in its time."""
    done = subprocess.run(
        ["mount", f"/dev/{device}", str(folder)], capture_output=True, check=False
    )
    return done.returncode == 0


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 200
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("maker", "evidence"),
    [
        (["mkfs.ext4", "-q", "-L", "photos"], "carries a ext4 filesystem labelled photos"),
        (["mkswap"], "carries a swap signature"),
    ],
    ids=["ext4", "swap"],
)
def test_a_signature_alone_is_use(loop_device: str, maker: list[str], evidence: str) -> None:
    do(*maker, f"/dev/{loop_device}")
    assert any(evidence in line for line in refusal(armed(loop_device), WRITES).evidence)
    assert any(evidence in line for line in refusal(disk(loop_device)).evidence)


def test_a_partition_table_alone_is_use(loop_device: str) -> None:
    partition_table(loop_device)
    refused = refusal(armed(loop_device), WRITES)
    assert any("carries a dos partition table" in line for line in refused.evidence)


def test_an_empty_partition_may_be_a_target_and_has_the_queue_of_its_disk(
    loop_device: str, partition: str
) -> None:
    who = identify(HOST, f"/dev/{partition}")
    assert (who.kernel_name, who.size) == (partition, 20 * MIB)
    assert dict(who.ids)["partition"] == "1@2048"
    target = Target("disk", "device", f"/dev/{partition}", destroy=backing(loop_device))
    aim = ready(HOST, target, WRITES)
    assert (aim.path, aim.device) == (f"/dev/{partition}", loop_device)
    assert aim.identity == identify(HOST, f"/dev/{loop_device}")
    same(HOST, aim)


def test_a_mounted_partition_makes_its_disk_used(
    loop_device: str, partition: str, tmp_path: Path
) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    do("mkfs.ext4", "-q", f"/dev/{partition}")
    do("mount", f"/dev/{partition}", str(folder))
    try:
        evidence = "\n".join(refusal(armed(loop_device), WRITES).evidence)
        assert f"{partition} is a partition of {loop_device}" in evidence
        assert f"{partition} (a partition of {loop_device}) is mounted on {folder}" in evidence
    finally:
        do("umount", str(folder))


def test_a_loop_device_on_the_device_is_use(loop_device: str) -> None:
    upper = f"loop{int(loop_device[4:]) + 1}"
    do("losetup", f"/dev/{upper}", f"/dev/{loop_device}")
    try:
        found = refusal(armed(loop_device), WRITES).evidence
        assert f"{upper} is attached to /dev/{loop_device}" in found
    finally:
        do("losetup", "--detach", f"/dev/{upper}")
        wait_until(lambda: not Path(f"/sys/block/{upper}/loop").exists())
        perl = "open(F,'+<','/dev/loop-control'); ioctl(F,0x4C81,$ARGV[0]+0)"
        do("perl", "-e", perl, upper[4:])


def test_an_exclusive_opener_that_the_tables_do_not_name_is_use(loop_device: str) -> None:
    descriptor = os.open(f"/dev/{loop_device}", os.O_RDONLY | os.O_EXCL)
    try:
        found = usages(HOST, identify(HOST, f"/dev/{loop_device}"))
        assert found == (f"{loop_device} is held by an unknown user (open with O_EXCL: busy)",)
    finally:
        os.close(descriptor)
    assert usages(HOST, identify(HOST, f"/dev/{loop_device}")) == ()


def test_a_read_only_device_is_not_written(loop_device: str) -> None:
    do("blockdev", "--setro", f"/dev/{loop_device}")
    assert "is read-only" in refusal(armed(loop_device), WRITES).message
    assert ready(HOST, disk(loop_device), READS).device == loop_device


def test_what_is_not_a_block_device_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"x")
    assert "does not exist" in refusal(Target("d", "device", str(tmp_path / "gone"))).message
    assert "is a regular file" in refusal(Target("d", "device", str(plain))).message
    assert "character special" in refusal(Target("d", "device", "/dev/null")).message


def test_a_device_that_was_detached_is_empty_and_refused(loop_device: str) -> None:
    aim = ready(HOST, disk(loop_device), READS)
    do("losetup", "--detach", f"/dev/{loop_device}")
    wait_until(lambda: not Path(f"/sys/block/{loop_device}/loop").exists())
    assert "is empty" in refusal(disk(loop_device)).message
    with pytest.raises(TargetRefused, match="is now another disk"):
        same(HOST, aim)


@pytest.mark.parametrize("renamed", [False, True], ids=["other file", "other inode, same name"])
def test_another_disk_under_the_same_name_is_seen(
    loop_device: str, tmp_path: Path, *, renamed: bool
) -> None:
    target = armed(loop_device)
    aim = ready(HOST, target, WRITES)
    other = tmp_path / "other.img"
    other.write_bytes(b"")
    os.truncate(other, 64 * MIB)
    do("losetup", "--detach", f"/dev/{loop_device}")
    wait_until(lambda: not Path(f"/sys/block/{loop_device}/loop").exists())
    path = other.replace(target.destroy) if renamed else other
    do("losetup", f"/dev/{loop_device}", str(path))
    with pytest.raises(TargetRefused, match=f"{loop_device} is now another disk") as caught:
        same(HOST, aim)
    assert len(caught.value.evidence) == 2


@pytest.mark.usefixtures("mounted")
def test_a_device_mounted_since_is_refused_before_the_next_trial(
    loop_device: str, mounted: Path
) -> None:
    do("umount", str(mounted))
    who = identify(HOST, f"/dev/{loop_device}")
    aim = PreparedTarget(disk(loop_device), f"/dev/{loop_device}", loop_device, who)
    same(HOST, aim)
    do("mount", f"/dev/{loop_device}", str(mounted))
    with pytest.raises(TargetRefused, match="is in use"):
        same(HOST, aim)
    assert busy(HOST, who) == (f"{loop_device} is mounted on {mounted} (ext4)",)


def test_looking_changes_nothing(loop_device: str) -> None:
    def everything() -> dict[str, str]:
        queue = Path(f"/sys/block/{loop_device}/queue").iterdir()
        return {path.name: path.read_text() for path in queue if path.is_file() and readable(path)}

    before = everything()
    refusal(disk(loop_device), WRITES)
    ready(HOST, armed(loop_device), WRITES)
    assert everything() == before


def readable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o444)
