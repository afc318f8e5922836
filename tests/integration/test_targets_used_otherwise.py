"""Use that no name tells: other nodes of a device, other names of a file, whoever has it in hand.

One table of kinds and ways, each on real loop devices: the target is refused however it is armed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import new_loop, remove_loop
from iotrial.errors import TargetRefused
from iotrial.hosts.local import LocalHost
from iotrial.look.identity import identify
from iotrial.look.targets import ready, same
from iotrial.look.usage import busy
from iotrial.model.target import Target
from iotrial.model.tool import LoadAccess

pytestmark = pytest.mark.root

HOST = LocalHost()
WRITES = LoadAccess(reads=True, writes=True)
READS = LoadAccess(reads=True, writes=False)
SIZE = 64 * 2**20
OVERLAY = "overlay" in Path("/proc/filesystems").read_text()


def do(*argv: str) -> str:
    done = subprocess.run(argv, check=True, capture_output=True, timeout=200, text=True)
    return done.stdout


class Bed:
    """Makes things, and unmakes them in reverse."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()

    def attach(self, path: Path | str) -> str:
        """A new loop device on a file or node: its kernel name."""
        number = new_loop()
        name = f"loop{number}"
        self.stack.callback(remove_loop, number)
        do("losetup", f"/dev/{name}", str(path))
        return name

    def node(self, device: str) -> Path:
        """Another node of a device."""
        major, minor = Path(f"/sys/class/block/{device}/dev").read_text().split(":")
        node = self.folder / f"mynode-{device}"
        do("mknod", "-m", "600", str(node), "b", major, minor.strip())
        return node

    def mount(self, *what: str) -> Path:
        point = self.folder / f"point{len(list(self.folder.iterdir()))}"
        point.mkdir()
        do("mount", *what, str(point))
        self.stack.callback(do, "umount", str(point))
        return point

    def swap(self, what: Path | str) -> None:
        do("swapon", str(what))
        self.stack.callback(do, "swapoff", str(what))

    def hold(self, path: Path | str, flags: int = os.O_RDWR) -> None:
        """A program that has it open: ourselves."""
        self.stack.callback(os.close, os.open(path, flags))


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    bed = Bed(tmp_path / "bed")
    bed.folder.mkdir()
    with bed.stack:
        yield bed


# A device, used through another node of it.


def mounted(bed: Bed, device: str) -> str:
    do("mkfs.ext4", "-q", f"/dev/{device}")
    bed.mount(str(bed.node(device)))
    return "is mounted on"


def mounted_and_gone(bed: Bed, device: str) -> str:
    do("mkfs.ext4", "-q", f"/dev/{device}")
    node = bed.node(device)
    bed.mount(str(node))
    node.unlink()
    return "is mounted on"


def swapped(bed: Bed, device: str) -> str:
    do("mkswap", f"/dev/{device}")
    bed.swap(bed.node(device))
    return "is swap space"


def swapped_and_gone(bed: Bed, device: str) -> str:
    do("mkswap", f"/dev/{device}")
    node = bed.node(device)
    bed.swap(node)
    kept = node.with_name("kept")
    kept.hardlink_to(node)
    node.unlink()
    bed.stack.callback(lambda: kept.rename(node))
    return "may be swap space"


def looped(bed: Bed, device: str) -> str:
    bed.attach(bed.node(device))
    return f"is attached to /dev/{device}"


def looped_and_gone(bed: Bed, device: str) -> str:
    node = bed.node(device)
    bed.attach(node)
    node.unlink()
    return f"is attached to /dev/{device}"


def same_file(bed: Bed, device: str) -> str:
    bed.attach(Path(f"/sys/block/{device}/loop/backing_file").read_text().strip())
    return "is attached to the same file"


def same_file_by_another_name(bed: Bed, device: str) -> str:
    name = bed.folder / "hard"
    name.hardlink_to(Path(f"/sys/block/{device}/loop/backing_file").read_text().strip())
    upper = bed.attach(name)
    do("mkfs.ext4", "-q", f"/dev/{upper}")
    bed.mount(f"/dev/{upper}")
    return "is attached to the same file"


def opened(bed: Bed, device: str) -> str:
    bed.hold(f"/dev/{device}")
    return f"({Path('/proc/self/comm').read_text().strip()}) has /dev/{device} open for writing"


def opened_by_node(bed: Bed, device: str) -> str:
    bed.hold(bed.node(device), os.O_WRONLY)
    return "open for writing"


def opened_alone(bed: Bed, device: str) -> str:
    bed.hold(bed.node(device), os.O_RDONLY | os.O_EXCL)
    return "held by an unknown user"


DEVICE: list[Callable[[Bed, str], str]] = [
    mounted,
    mounted_and_gone,
    swapped,
    swapped_and_gone,
    looped,
    looped_and_gone,
    same_file,
    same_file_by_another_name,
    opened,
    opened_by_node,
    opened_alone,
]
ONLY_AT_FIRST = {opened, opened_by_node, opened_alone}
"""What is too dear to be looked for before every trial."""


# While swap lies on a node that is gone, any device of its size may be that swap.
ALONE = {swapped_and_gone: pytest.mark.alone}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=ALONE.get(way, ()), id=way.__name__) for way in DEVICE]
)
@pytest.mark.parametrize("reach", [READS, WRITES], ids=["reads", "writes"])
def test_a_device_that_is_used_otherwise_is_refused(
    loop_device: str, bed: Bed, way: Callable[[Bed, str], str], reach: LoadAccess
) -> None:
    backing = Path(f"/sys/block/{loop_device}/loop/backing_file").read_text().strip()
    target = Target("disk", "device", f"/dev/{loop_device}", destroy=backing)
    who = identify(HOST, target.path)
    ready(HOST, target, reach)
    expected = way(bed, loop_device)
    with pytest.raises(TargetRefused, match="is in use") as caught:
        ready(HOST, target, reach)
    assert any(expected in line for line in caught.value.evidence), caught.value.evidence
    if way not in ONLY_AT_FIRST:
        assert any(expected in line for line in busy(HOST, who))


def test_a_loop_device_on_a_device_in_use_is_refused(loop_device: str, bed: Bed) -> None:
    upper = bed.attach(f"/dev/{loop_device}")
    target = Target("disk", "device", f"/dev/{upper}", destroy=f"/dev/{loop_device}")
    ready(HOST, target, WRITES)
    do("mkfs.ext4", "-q", f"/dev/{loop_device}")
    point = bed.mount(f"/dev/{loop_device}")
    with pytest.raises(TargetRefused, match="is in use") as caught:
        ready(HOST, target, WRITES)
    said = f"{loop_device} (under {upper}) is mounted on {point} (ext4)"
    assert said in caught.value.evidence


# A file, used as a disk.


def backs_a_loop(bed: Bed, file: Path) -> str:
    return f"{bed.attach(file)} is attached to it"


def backs_a_mount(bed: Bed, file: Path) -> str:
    do("mkfs.ext4", "-q", str(file))
    return f"is mounted on {bed.mount(f'/dev/{bed.attach(file)}')}"


def by_a_hard_link(bed: Bed, file: Path) -> str:
    (bed.folder / "hard").hardlink_to(file)
    return f"{bed.attach(bed.folder / 'hard')} is attached to it"


def by_a_bound_folder(bed: Bed, file: Path) -> str:
    point = bed.mount("--bind", str(file.parent))
    return f"{bed.attach(point / file.name)} is attached to it"


def by_a_name_that_is_gone(bed: Bed, file: Path) -> str:
    point = bed.mount("--bind", str(file.parent))
    loop = bed.attach(point / file.name)
    bed.mount("-t", "tmpfs", "none")
    return f"{loop} is attached to it"


def by_proc_root(bed: Bed, file: Path) -> str:
    return f"{bed.attach(f'/proc/self/root{file}')} is attached to it"


def swap_file(bed: Bed, file: Path) -> str:
    file.chmod(0o600)
    do("mkswap", str(file))
    bed.swap(file)
    return "it is swap space"


def bound_file(bed: Bed, file: Path) -> str:
    point = bed.folder / "bound"
    point.touch()
    do("mount", "--bind", str(file), str(point))
    bed.stack.callback(do, "umount", str(point))
    return f"it is mounted on {point}"


def two_names(bed: Bed, file: Path) -> str:
    (bed.folder / "snapshot").hardlink_to(file)
    return "it has 2 hard links"


def in_a_programs_hand(bed: Bed, file: Path) -> str:
    bed.hold(file)
    return "open for writing"


FILE: list[Callable[[Bed, Path], str]] = [
    backs_a_loop,
    backs_a_mount,
    by_a_hard_link,
    by_a_bound_folder,
    by_a_name_that_is_gone,
    by_proc_root,
    swap_file,
    bound_file,
    two_names,
    in_a_programs_hand,
]


@pytest.mark.parametrize("way", FILE)
def test_a_file_that_is_used_as_a_disk_is_refused_even_when_armed(
    bed: Bed, tmp_path: Path, way: Callable[[Bed, Path], str]
) -> None:
    file = tmp_path / "files" / "disk.img"
    file.parent.mkdir()
    file.write_bytes(bytes(16 * 2**20))
    target = Target("data", "file", str(file), 2**20, destroy=str(file))
    aim = ready(HOST, target, WRITES)
    same(HOST, aim)
    expected = way(bed, file)
    if way not in (two_names, in_a_programs_hand):
        with pytest.raises(TargetRefused, match="is in use"):
            same(HOST, aim)
    with pytest.raises(TargetRefused, match="is in use") as caught:
        ready(HOST, target, WRITES)
    assert any(expected in line for line in caught.value.evidence), caught.value.evidence
    assert "Use another file" in caught.value.advice
    ready(HOST, target, READS)  # reading does no harm


@pytest.mark.skipif(not OVERLAY, reason="this kernel has no overlay file system")
@pytest.mark.parametrize("target_is", ["merged", "upper"])
def test_a_file_on_an_overlay_is_the_one_in_its_upper_layer(
    bed: Bed, tmp_path: Path, target_is: str
) -> None:
    base = bed.mount("-t", "tmpfs", "none")
    for name in ("lower", "upper", "work"):
        (base / name).mkdir()
    base.chmod(0o755)
    options = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
    merged = bed.mount("-t", "overlay", "-o", options, "overlay")
    (merged / "disk.img").write_bytes(bytes(2**20))
    paths = {"merged": merged / "disk.img", "upper": base / "upper" / "disk.img"}
    other = "upper" if target_is == "merged" else "merged"
    target = Target("data", "file", str(paths[target_is]), 2**20, str(paths[target_is]))
    ready(HOST, target, WRITES)
    loop = bed.attach(paths[other])
    with pytest.raises(TargetRefused, match="is in use") as caught:
        ready(HOST, target, WRITES)
    assert f"{loop} is attached to it" in caught.value.evidence
