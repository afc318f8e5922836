"""Mount options for real: ext4 and xfs on loop devices of the test's own, mounted in its folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrial.errors import SettingRefused
from iotrial.execute.session import HostSession
from iotrial.execute.settings.journal import open_journal, sessions
from iotrial.execute.settings.restore import boot_id, restore
from iotrial.execute.settings.tuning import observe
from iotrial.hosts.local import LocalHost
from iotrial.hosts.places import journal_folder
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable

pytestmark = pytest.mark.root

STUDY = Study("?", "mounts", (), (), (), Design(), DecisionRule(()))


@pytest.fixture(params=["ext4", "xfs"])
def point(request: pytest.FixtureRequest, loop_device: str, tmp_path: Path) -> Iterator[str]:
    """Where a new file system of that kind is mounted."""
    kind = request.param
    if not shutil.which(f"mkfs.{kind}"):
        pytest.skip(f"mkfs.{kind} is not installed")
    if kind == "xfs":  # mkfs.xfs makes none below 300 MiB
        os.truncate(tmp_path / "loop.img", 320 * 2**20)
        command("losetup", "--set-capacity", f"/dev/{loop_device}")
    command(f"mkfs.{kind}", "-q", f"/dev/{loop_device}")
    with mounted(f"/dev/{loop_device}", tmp_path / "a place") as place:
        yield place


@contextmanager
def mounted(source: str, place: Path) -> Iterator[str]:
    place.mkdir()
    command("mount", source, str(place))
    try:
        yield str(place)
    finally:
        subprocess.run(["umount", str(place)], check=False, capture_output=True)


def command(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=200).stdout


def options(point: str) -> str:
    return command("findmnt", "-n", "-o", "SOURCE,FSTYPE,OPTIONS", "--mountpoint", point)


def kind(point: str) -> str:
    return command("findmnt", "-n", "-o", "FSTYPE", "--mountpoint", point).strip()


def owning(names: list[str], point: str) -> HostSession:
    host = LocalHost()
    header = {"boot_id": boot_id(host), "token": "mounts", "study": "mounts"}
    session = HostSession(host, STUDY, open_journal(host, journal_folder(host), header))
    session.own_groups({point: names})
    return session


def pay() -> None:
    host = LocalHost()
    restore(host, journal_folder(host))
    assert sessions(host, journal_folder(host)) == ()


LEVELS = {
    "ext4": {
        "atime": ("noatime", "strictatime", "relatime"),
        "diratime": ("nodiratime", "diratime"),
        "commit": ("7", "unset"),
        "barrier": ("nobarrier", "barrier"),
        "discard": ("on", "unset"),
        "lazytime": ("on",),
        "sync": ("sync",),
        "data": ("journal", "writeback"),
        "delalloc": ("nodelalloc",),
        "dioread_nolock": ("nodioread_nolock",),
        "stripe": ("16", "unset"),
        "max_batch_time": ("1000", "unset"),
        "min_batch_time": ("10", "unset"),
        "inode_readahead_blks": ("64",),
        "auto_da_alloc": (),
    },
    "xfs": {
        "atime": ("noatime", "strictatime"),
        "lazytime": ("on",),
        "logbufs": ("4",),
        "logbsize": ("64k",),
        "allocsize": ("1024k",),
        "largeio": ("largeio",),
        "inode64": ("inode32",),
        "discard": ("on", "unset"),
        "wsync": ("on",),
    },
}


@pytest.mark.usefixtures("state")
def test_every_option_is_set_read_back_and_given_back(point: str) -> None:
    before = options(point)
    session = owning([f"mount.{name}" for name in LEVELS[kind(point)]], point)
    for name, levels in LEVELS[kind(point)].items():
        for value in levels:
            session.hold([Setting(point, f"mount.{name}", value)])
            assert observe(session.host, tunable(f"mount.{name}"), point) == value
        session.release()
        assert options(point) == before, name
    pay()
    assert options(point) == before


@pytest.mark.usefixtures("state")
def test_several_options_hold_together(point: str) -> None:
    before = options(point)
    wanted = {"mount.atime": "noatime", "mount.discard": "on"}
    wanted |= {"mount.data": "journal"} if kind(point) == "ext4" else {"mount.logbufs": "4"}
    session = owning(list(wanted), point)
    settings = [Setting(point, name, value) for name, value in wanted.items()]
    session.hold(settings)
    assert set(settings) <= set(session.observed())
    pay()
    assert options(point) == before


@pytest.mark.usefixtures("state")
def test_what_is_in_use_is_refused_and_stays_as_it_was(point: str) -> None:
    name, value = ("data", "journal") if kind(point) == "ext4" else ("logbufs", "4")
    before = options(point)
    session = owning([f"mount.{name}"], point)
    with (Path(point) / "open").open("w"), pytest.raises(SettingRefused, match="fuser -vm"):
        session.hold([Setting(point, f"mount.{name}", value)])
    assert options(point) == before
    pay()


@pytest.mark.usefixtures("state")
def test_a_live_option_needs_nobody_to_go(point: str) -> None:
    session = owning(["mount.atime"], point)
    with (Path(point) / "open").open("w"):
        session.hold([Setting(point, "mount.atime", "noatime")])
        assert "noatime" in options(point)
        pay()
    assert "relatime" in options(point)


@pytest.mark.usefixtures("state")
def test_what_cannot_be_mounted_with_the_option_is_mounted_as_before(point: str) -> None:
    before = options(point)
    session = owning(["mount.nonsense"], point)
    with pytest.raises(SettingRefused, match="mounted as before"):
        session.hold([Setting(point, "mount.nonsense", "on")])
    assert options(point) == before
    pay()


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("former", ["nosuid,noatime", "strictatime,nodiratime", "ro"])
def test_killed_between_unmounting_and_mounting_it_is_mounted_again(
    point: str, former: str
) -> None:
    command("mount", "-o", f"remount,{former}", point)
    before = options(point)
    owning(["mount.atime"], point)
    command("umount", point)
    pay()
    assert options(point) == before
    assert former.replace("strictatime,", "") in before


@pytest.mark.usefixtures("state")
def test_what_another_mount_has_taken_is_named_and_left(point: str, tmp_path: Path) -> None:
    owning(["mount.atime"], point)
    command("umount", point)
    command("mount", "-t", "tmpfs", "another", point)
    host = LocalHost()
    with pytest.raises(Exception, match=r"mount\.mounted.*another is mounted on"):
        restore(host, journal_folder(host))
    command("umount", point)
    pay()


def test_what_could_not_be_mounted_again_is_never_unmounted(tmp_path: Path) -> None:
    """A memory file system would lose its files, a bind mount shows another source."""
    host = LocalHost()
    memory, bound = tmp_path / "memory", tmp_path / "bound"
    for place in (memory, bound):
        place.mkdir()
    command("mount", "-t", "tmpfs", "memory", str(memory))
    try:
        (memory / "folder").mkdir()
        command("mount", "--bind", str(memory / "folder"), str(bound))
        for place in (memory, bound):
            before = options(str(place))
            assert observe(host, tunable("mount.mounted"), str(place)) is None
            act = tunable("mount.size").acts(str(place), "1m")[0]
            done = host.run(act.argv)
            assert done.exit == 1
            assert done.complaint.endswith("Operation not supported")
            assert options(str(place)) == before
    finally:
        for place in (bound, memory):
            subprocess.run(["umount", str(place)], check=False)


@pytest.mark.usefixtures("state")
def test_a_copy_in_another_mount_namespace_is_told_of(point: str) -> None:
    """It would keep the file system alive with its options, as a container does."""
    name, value = ("data", "journal") if kind(point) == "ext4" else ("logbufs", "4")
    before = options(point)
    session = owning([f"mount.{name}"], point)
    other = subprocess.Popen(["unshare", "-m", "sh", "-c", "echo; exec sleep 600"], stdout=-1)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(SettingRefused, match=rf"elsewhere too.* {other.pid}:"):
            session.hold([Setting(point, f"mount.{name}", value)])
    finally:
        other.kill()
        other.communicate()
    assert options(point) == before
    pay()
