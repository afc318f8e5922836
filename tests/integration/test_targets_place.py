"""Files and directories as targets, on real filesystems."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import TargetRefused
from iotrial.execute.targets.making import lay_out
from iotrial.hosts.local import LocalHost
from iotrial.look.identity import identify
from iotrial.look.places import standing
from iotrial.look.targets import doubts, ready, same
from iotrial.model.target import Target
from iotrial.model.tool import LoadAccess

HOST = LocalHost()
READS = LoadAccess(reads=True, writes=False)
WRITES = LoadAccess(reads=True, writes=True)
MIB = 2**20


def do(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=200)


def refusal(target: Target, reach: LoadAccess = WRITES) -> TargetRefused:
    with pytest.raises(TargetRefused) as caught:
        ready(HOST, target, reach)
    assert caught.value.target == target.name
    return caught.value


def file(path: Path, size: int = MIB, *, destroy: str = "") -> Target:
    return Target("data", "file", str(path), size, destroy)


def folder(path: Path, size: int = 0) -> Target:
    return Target("data", "directory", str(path), size)


@pytest.fixture
def mounted(loop_device: str, tmp_path: Path) -> Iterator[Path]:
    """A folder on which an ext4 on the loop device is mounted."""
    point = tmp_path / "disk"
    point.mkdir()
    do("mkfs.ext4", "-q", f"/dev/{loop_device}")
    do("mount", f"/dev/{loop_device}", str(point))
    try:
        yield point
    finally:
        do("umount", str(point))


def test_a_missing_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "mnt" / "nas"
    for target in (file(missing / "f"), folder(missing)):
        refused = refusal(target)
        assert "does not exist" in refused.message
        assert refused.evidence == (f"what exists of it: {tmp_path}",)
    assert not (tmp_path / "mnt").exists()


def test_a_path_must_be_absolute() -> None:
    assert "not an absolute path" in refusal(folder(Path("here"))).message


def test_a_size_that_does_not_fit_is_refused_with_what_is_left(tmp_path: Path) -> None:
    refused = refusal(file(tmp_path / "big", 2**60))
    assert (
        "not enough space for 1.00 EiB" in refused.message
        or "not enough space for 1024 PiB" in refused.message
    )
    assert any(" free" in line for line in refused.evidence)
    assert "not enough space" in refusal(folder(tmp_path, 2**60)).message


def test_links_are_refused_with_the_real_path(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "f").write_bytes(b"x")
    (tmp_path / "link").symlink_to(real)
    (real / "g").symlink_to(real / "f")
    for target in (folder(tmp_path / "link"), file(tmp_path / "link" / "f"), file(real / "g")):
        refused = refusal(target)
        assert "leads elsewhere" in refused.message
        assert str(real) in refused.evidence[0]


def test_a_dangling_link_is_not_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "f").symlink_to(tmp_path / "nowhere")
    assert "leads elsewhere" in refusal(file(tmp_path / "f")).message


def test_kinds_are_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    assert "not a folder" in refusal(folder(tmp_path / "f")).message
    assert "is a directory, not a file" in refusal(file(tmp_path)).message
    os.mkfifo(tmp_path / "pipe")
    assert "is a fifo, not a file" in refusal(file(tmp_path / "pipe")).message


@pytest.mark.parametrize("path", ["/dev/sdzz9", "/proc/x", "/sys/block/x"])
def test_a_mistyped_device_is_not_a_new_file(path: str) -> None:
    assert "would not be on storage" in refusal(file(Path(path))).message


def test_a_file_of_somebody_else_is_written_only_when_the_study_names_it(tmp_path: Path) -> None:
    mine = tmp_path / "thesis.tex"
    mine.write_bytes(b"x" * MIB)
    refused = refusal(file(mine))
    assert f'destroy = "{mine}"' in refused.advice
    assert ready(HOST, file(mine, destroy=str(mine)), WRITES).path == str(mine)
    assert ready(HOST, file(mine), READS).path == str(mine)
    assert "would write" in refusal(file(mine, 2 * MIB), READS).message  # it would be made longer
    assert mine.read_bytes() == b"x" * MIB


def test_a_file_is_laid_out_with_random_bytes_in_whole_mebibytes(tmp_path: Path) -> None:
    aim = ready(HOST, file(tmp_path / "f", MIB + 1), WRITES)
    assert not (tmp_path / "f").exists()
    aim = lay_out(HOST, aim)
    same(HOST, aim)
    data = (tmp_path / "f").read_bytes()
    assert len(data) == 2 * MIB
    assert len(set(data[:4096])) > 200


def test_a_load_may_name_its_target_and_nothing_else(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "sub").mkdir(parents=True)
    target = folder(mine)

    def reach(*paths: str) -> LoadAccess:
        return LoadAccess(reads=True, writes=True, paths=paths)

    inside = reach(str(mine), str(mine / "sub" / "new"))
    assert ready(HOST, target, inside).path == str(mine)
    (mine / "out").symlink_to(tmp_path)
    for outside in (
        *("/dev/sda", str(tmp_path / "mine2"), f"{mine}/../x", f"{mine}/out/x"),
        *("relative", "sub/new", "../x"),  # in the folder that the tool works in
    ):
        with pytest.raises(TargetRefused, match="outside its target") as caught:
            ready(HOST, target, reach(outside))
        assert caught.value.evidence == (f"names {outside}",)
    own = file(tmp_path / "f")
    assert ready(HOST, own, reach(own.path)).path == own.path
    with pytest.raises(TargetRefused, match="outside its target"):
        ready(HOST, own, reach("f"))


def test_a_file_that_lies_in_a_directory_is_not_written_and_a_directory_cannot_be_armed(
    tmp_path: Path,
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"x" * MIB)

    named = LoadAccess(reads=True, writes=False, paths=(str(theirs),))

    def refused(reach: LoadAccess, *, armed: bool) -> str:
        target = Target("data", "directory", str(tmp_path), 0, str(tmp_path) if armed else "")
        try:
            ready(HOST, target, reach)
        except TargetRefused as caught:
            return str(caught)
        return ""

    for reach in (
        replace(named, writes=True),
        replace(named, alters=("unlink=1",)),
        replace(named, extent=MIB + 1),
    ):
        told = refused(reach, armed=False)
        assert f"{theirs} exists, and the load would write to it" in told
        assert "move this one away. A directory cannot be armed" in told
        assert refused(reach, armed=True) == told
    assert not refused(replace(named, extent=MIB), armed=False)


def test_a_command_may_not_name_a_device_by_any_node(tmp_path: Path, loop_device: str) -> None:
    node = tmp_path / "node"
    os.mknod(node, 0o600 | stat.S_IFBLK, Path("/dev", loop_device).stat().st_rdev)
    (tmp_path / "link").symlink_to(node)
    for path in (node, tmp_path / "link", Path("/proc/self/root/dev", loop_device)):
        with pytest.raises(TargetRefused, match="outside its target"):
            ready(
                HOST, folder(tmp_path), LoadAccess(reads=True, writes=False, mentions=(str(path),))
            )
    plain = LoadAccess(reads=True, writes=False, mentions=("/usr/bin/env", str(tmp_path / "gone")))
    assert ready(HOST, folder(tmp_path), plain).path == str(tmp_path)


def test_a_load_that_runs_commands_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetRefused, match="runs shell commands") as caught:
        ready(HOST, folder(tmp_path), LoadAccess(reads=True, writes=False, runs=("rm -rf /",)))
    assert caught.value.evidence == ("would run: rm -rf /",)


def test_a_memory_filesystem_is_doubted() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        aim = ready(HOST, folder(Path(place)), READS)
        assert (aim.device, aim.identity) == ("", None)
        assert [doubt.check for doubt in doubts(HOST, aim)] == ["target-memory"]


@pytest.mark.root
def test_the_device_of_a_path_is_that_of_its_real_mount(mounted: Path, loop_device: str) -> None:
    aim = ready(HOST, folder(mounted), WRITES)
    assert aim.device == loop_device
    assert aim.identity == identify(HOST, f"/dev/{loop_device}")
    place = standing(HOST, str(mounted))
    assert (place.mount.point, place.mount.fstype) == (str(mounted), "ext4")
    same(HOST, aim)


@pytest.mark.root
def test_a_path_whose_mount_went_away_is_seen(mounted: Path) -> None:
    aim = ready(HOST, folder(mounted), WRITES)
    do("umount", str(mounted))
    try:
        with pytest.raises(TargetRefused, match="is now another disk"):
            same(HOST, aim)
    finally:
        do("mount", f"/dev/{aim.device}", str(mounted))


@pytest.mark.root
def test_a_mount_that_hides_another_is_the_one_that_counts(mounted: Path, tmp_path: Path) -> None:
    """The longest mount point is the hidden ext4; the path really lies on the tmpfs above it."""
    do("mount", "-t", "tmpfs", "none", str(tmp_path))
    try:
        mounted.mkdir()
        assert standing(HOST, str(mounted)).mount.fstype == "tmpfs"
    finally:
        do("umount", str(tmp_path))
    assert standing(HOST, str(mounted)).mount.fstype == "ext4"


@pytest.mark.root
def test_a_filesystem_mounted_read_only_is_not_written(mounted: Path) -> None:
    do("mount", "-o", "remount,ro", str(mounted))
    assert "is mounted read-only" in refusal(folder(mounted)).message
    assert "is mounted read-only" in refusal(file(mounted / "f"), READS).message
    assert ready(HOST, folder(mounted), READS).path == str(mounted)


@pytest.mark.root
def test_room_is_that_of_the_real_mount(mounted: Path) -> None:
    assert "not enough space" in refusal(file(mounted / "f", 48 * MIB)).message
