"""Making targets on the fake machine: what is owed before what, what is refused before anything."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from iotrial.errors import IotrialError, StudyError, TargetRefused, ToolMissing, TrialError
from iotrial.execute.preflight import check_tools
from iotrial.execute.targets.making import MKFS, TargetSite, make, mkfs, mount_again
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.mounts import EXT4
from iotrial.look.inodes import folders_of
from iotrial.look.outline import outline
from iotrial.look.targets import same
from iotrial.model.study import Study
from iotrial.model.target import FILESYSTEMS, MOUNT_POINT, MountSpec, Target
from iotrial.model.tool import Leftover, LoadAccess
from iotrial.plan.load import parse_study

READS, WRITES = LoadAccess(reads=True, writes=False), LoadAccess(reads=True, writes=True)
FAKE0 = Target("disk", "device", "FAKE0000", destroy="FAKE0000", filesystem="ext4")
NAS = Target("nas", "directory", "/mnt/new/deep", mount=MountSpec("srv:/x/", "nfs", "soft"))


def site(host: FakeHost) -> TargetSite:
    """The journal is the host's own log, so that it stands between the acts."""
    return TargetSite(
        host, lambda debt: host.log.append(f"owe {debt.what} {sorted(debt.plan.values())}"), "t"
    )


def acts(host: FakeHost) -> list[str]:
    """What was owed and done, a word or two of each."""
    return [" ".join(line.split()[:2]) for line in host.log]


def test_everything_is_owed_before_it_is_made() -> None:
    host = FakeHost()
    host.machine.make_folder("/var/lib/iotrial", 0o700)
    make(site(host), FAKE0, WRITES)
    assert acts(host) == [
        "owe command", "mkfs.ext4 -q",
        "owe folder", "mkdir /var/lib/iotrial/files",
        "owe folder", "mkdir /var/lib/iotrial/files/iotrial-t",
        "owe mount", "mount -t",
    ]  # fmt: skip


def test_a_mount_is_owed_by_each_name_the_kernel_may_give_it() -> None:
    host = FakeHost()
    here = site(host)
    aim = make(here, NAS, READS)
    assert (aim.path, aim.device) == ("/mnt/new/deep", "")
    assert acts(host)[:4] == ["owe folder", "mkdir /mnt/new", "owe folder", "mkdir /mnt/new/deep"]
    assert [line for line in host.log if "owe mount" in line] == [
        "owe mount ['/mnt/new/deep', 'srv:/x/']",
        "owe mount ['/mnt/new/deep', 'srv:/x']",
    ]
    own = {name for name in here.gone_with if name.startswith("0:")}
    assert here.gone_with - own == {"/mnt/new/deep"}
    assert own, "its backing device goes with it"


def test_what_is_mounted_again_is_the_same_though_its_number_is_another() -> None:
    """As the kernel numbers NFS: anew each time."""
    host = FakeHost()
    aim = make(site(host), NAS, READS)
    folder = Leftover("folder", "/mnt/new/deep/iotrial-x", each="study")
    host.machine.make_folder(folder.path, 0o700)
    host.machine.make_folder(f"{folder.path}/data", 0o700)
    known: dict[str, str] = {}
    folders_of(host, NAS, [folder], known)
    mount_again(host, NAS, aim.path)
    same(host, aim)
    folders_of(host, NAS, [folder], known)
    host.run(["umount", aim.path])
    with pytest.raises(TargetRefused, match="is now another disk"):
        same(host, aim)
    host.run(["mount", "-t", "nfs", "other:/x", aim.path])
    with pytest.raises(TargetRefused, match="was replaced"):
        same(host, aim)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Target("d", "device", "FAKE0000", filesystem="ext4"), "does not permit it"),
        (Target("d", "device", "FAKEFS", destroy="FAKEFS", filesystem="ext4"), "in use"),
        (Target("d", "device", "FAKESYS", destroy="FAKESYS", filesystem="ext4"), "in use"),
        (Target("d", "directory", EXT4, mount=MountSpec("x", "nfs")), "is already a mount point"),
        (Target("d", "directory", "/var", mount=MountSpec("x", "nfs")), "not empty"),
        (
            Target("d", "directory", "/mnt/a", mount=MountSpec("/dev/fake1", "ext4")),
            "persistent name",
        ),
        (
            Target("d", "directory", "/home", create=(("true",),), remove=(("true",),)),
            "can neither create nor remove it",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused_is_refused_before_anything_is_owed(target: Target, words: str) -> None:
    host = FakeHost()
    with pytest.raises(TargetRefused, match=words):
        make(site(host), target, READS)
    assert host.log == []


def failing(command: str) -> Callable[[FakeHost], Target]:
    def prepare(host: FakeHost) -> Target:
        del host
        argv = (command, "/mnt/made")
        return Target(
            "d", "directory", "/mnt/made", create=(argv,), remove=(("rmdir", "/mnt/made"),)
        )

    return prepare


@pytest.mark.parametrize(
    ("command", "words"), [("false", "could not create"), ("true", "did not create /mnt/made")]
)
def test_a_create_that_makes_nothing_is_told(command: str, words: str) -> None:
    host = FakeHost()
    with pytest.raises(TrialError, match=words):
        make(site(host), failing(command)(host), READS)
    assert acts(host)[0] == "owe command"


def test_what_is_created_may_be_armed_by_the_path_it_was_created_at() -> None:
    """Nobody knows the UUID of an array that is not made yet; of what is there it is asked."""
    host = FakeHost()
    with pytest.raises(IotrialError, match="is not the disk"):
        make(site(host), Target("d", "device", "/dev/fake0", destroy="/dev/fake0"), WRITES)


def test_every_file_system_of_a_study_can_be_made() -> None:
    assert tuple(MKFS) == FILESYSTEMS
    for argv in MKFS.values():
        assert argv[-1] == "{node}"
        assert any("{uuid}" in word for word in argv)


STUDY = """
[targets.disk]
loop = { size = "64MiB" }
filesystem = "ext4"
[targets.nas]
directory = "/mnt/new"
mount = { source = "srv:/x", type = "nfs" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", size = "1m", runtime = "1s" }
[factors.storage]
targets = ["disk", "nas"]
[factors.atime]
tunable = "mount.atime"
levels = ["relatime", "noatime"]
"""


def test_a_plan_says_what_would_be_made_and_makes_nothing() -> None:
    host = FakeHost()
    seen = outline(host, parse_study(STUDY, "made.toml", lambda _name: ""))
    assert host.log == []
    assert "with ext4 on it" in seen.targets[0]
    places = {setting.device for _, settings in seen.settings for setting in settings}
    assert places == {MOUNT_POINT, "/mnt/new"}
    folders = {f"--directory={point}/iotrial-fio/data" for point in (MOUNT_POINT, "/mnt/new")}
    assert folders & {*seen.commands[0][1]}
    assert seen.refused == ()


def test_a_program_that_makes_the_file_system_and_is_not_there_is_named_with_its_package() -> None:
    text = STUDY.replace('filesystem = "ext4"', 'filesystem = "btrfs"')
    study = parse_study(text, "made.toml", lambda _name: "")
    with pytest.raises(ToolMissing, match=r"mkfs\.btrfs is not installed") as caught:
        check_tools(FakeHost(), study)
    assert "apt-get install btrfs-progs" in caught.value.advice


# Options of mkfs.

FORMATTED = """
[targets.disk]
loop = {{ size = "64MiB" }}
{filesystem}
format = {format}
[workloads.reads]
tool = "fio"
options = {{ rw = "read", runtime = 1, size = "1m" }}
"""


def formatted(words: list[str], filesystem: str = 'filesystem = "ext4"') -> Study:
    text = FORMATTED.format(format=json.dumps(words), filesystem=filesystem)
    return parse_study(text, "s.toml", str)


@pytest.mark.parametrize(
    "words",
    [
        ["-F"],
        ["-U", "random"],
        ["-J", "device=UUID=0"],
        ["-J", "device=/dev/sdb"],
        ["-J", "Device=LABEL=x"],
        ["-O^has_journal"],
        ["-qF"],
        ["sdb"],
        ["-O", "^has_journal", "sdb"],
        ["-z", "undo"],
        ["-E", "{node}"],
        ["-L", "a\nb"],
        [""],
    ],
)
def test_options_by_which_mkfs_would_force_or_write_elsewhere_are_refused(words: list[str]) -> None:
    with pytest.raises(StudyError, match=r"targets\.disk\.format"):
        formatted(words)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("xfs", ["-l", "logdev=sdb"]),
        ("xfs", ["-d", "file,name=x"]),
        ("xfs", ["-f"]),
        ("xfs", ["-m", "uuid=1"]),
        ("btrfs", ["--force"]),
        ("btrfs", ["--rootdir=etc"]),
        ("btrfs", ["--uuid", "1"]),
    ],
)
def test_so_are_those_of_other_file_systems(kind: str, words: list[str]) -> None:
    with pytest.raises(StudyError, match=r"targets\.disk\.format"):
        formatted(words, f'filesystem = "{kind}"')


def test_options_without_a_file_system_are_refused() -> None:
    with pytest.raises(StudyError, match="format is for a target with a filesystem"):
        formatted(["-O", "^has_journal"], "")


def test_options_stand_before_the_device_and_extended_ones_join_ours() -> None:
    study = formatted(["-O", "^has_journal", "-E", "stride=16", "-m", "0"])
    argv = mkfs("ext4", study.targets[0].format, "/dev/loop9", "ID")
    assert argv[:4] == ["mkfs.ext4", "-q", "-U", "ID"]
    assert argv[argv.index("-E") + 1].endswith("lazy_journal_init=0,stride=16")
    assert argv.count("-E") == 1
    assert argv[-5:] == ["-O", "^has_journal", "-m", "0", "/dev/loop9"]
    assert mkfs("xfs", ("-d", "agcount=8"), "/dev/x", "ID")[-3:] == ["-d", "agcount=8", "/dev/x"]
