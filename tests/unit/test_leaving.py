"""What loads leave in a directory: owed before it is made, gone after; the rest stays."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import ANY

import pytest

from deaths import opened
from iotrial.errors import OwedError, TrialError
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.chores import clear, own
from iotrial.execute.runner import execute_study
from iotrial.execute.session import HostSession
from iotrial.execute.settings.debris import unmake
from iotrial.execute.settings.journal import ResourceUndo, read_session
from iotrial.execute.targets.trees import MARK
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.mounts import EXT4
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tool import Leftover, SupportsLeftovers, ToolTarget, inside
from iotrial.model.workload import Chore, OptionValue, Workload
from iotrial.plan.load import parse_study
from iotrial.tools import tool

HOME = "/var/tmp"
AIM = PreparedTarget(Target("t", "directory", HOME), HOME, "", None)
TRIALS, STUDYS = (
    Leftover(f"{HOME}/ours", "folder", "trial"),
    Leftover(f"{HOME}/kept", "folder", "study"),
)
FILE, DATA = Leftover(f"{HOME}/f", "file", "trial"), Leftover(f"{HOME}/d", "file", "study")
STUDY = """
question = "What is left?"
[targets.data]
directory = "/var/tmp"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", size = "1m", runtime = "1s" }
LOAD
[factors.depth]
option = "iodepth"
levels = [1, 4]
[design]
blocks = 2
"""


def owed(session: HostSession) -> list[ResourceUndo]:
    host, path = session.host, session.journal.path
    return list(read_session(path, host.read(path)).made)


def files(host: FakeHost) -> list[str]:
    machine = host.machine
    return sorted(p for p in {*machine.files, *machine.folders} if p.startswith(f"{HOME}/"))


def leaves(name: str, aimed: ToolTarget, **options: OptionValue) -> list[tuple[str, str, str]]:
    driver = tool(name)
    assert isinstance(driver, SupportsLeftovers)
    found = driver.leaves(Workload("w", name, tuple(options.items())), aimed, {"cpus": 4.0})
    return [(left.path, left.kind, left.each) for left in found]


# What the tools say.


def test_every_tool_that_makes_something_in_a_directory_says_what() -> None:
    there = ToolTarget("/mnt/x/", "directory")
    assert leaves("fio", there, rw="read") == [("/mnt/x/iotrial-fio", "folder", "study")]
    assert leaves("bonnie++", there) == [("/mnt/x/iotrial-bonnie", "folder", "trial")]
    assert leaves("listing", there) == [("/mnt/x/iotrial-listing", "folder", "trial")]
    assert leaves("dd", there, rw="write") == [("/mnt/x/iotrial.dd", "file", "study")]
    assert leaves("dd", there, rw="read") == []
    laid = Workload("w", "dd", (("size", "1m"),), prepare=(Chore("lay out", "study"),))
    assert tool("dd").leaves(laid, there, {}) == (Leftover("/mnt/x/iotrial.dd", "file", "study"),)
    for name in ("elbencho", "ior", "mdtest"):
        assert leaves(name, there) == [(f"/mnt/x/iotrial-{name}", "folder", "study")]
    assert leaves("iozone", there, threads="cpus/2") == [
        ("/mnt/x/iozone.0", "file", "trial"), ("/mnt/x/iozone.1", "file", "trial"),
    ]  # fmt: skip
    assert leaves("iozone", ToolTarget("/mnt/f", "file", 5)) == [
        ("/mnt/f.iozone.0", "file", "trial")
    ]
    assert leaves("fio", ToolTarget("/dev/sdx", "device"), rw="read") == []
    assert leaves("dd", ToolTarget("/mnt/f", "file", 5), rw="write") == []


def test_what_iozone_is_told_to_make_is_what_it_leaves() -> None:
    there = ToolTarget("/mnt/x", "directory", 2**20)
    argv = tool("iozone").command(Workload("w", "iozone", (("threads", 3),)), there, {}).argv
    assert list(argv[-3:]) == [path for path, *_ in leaves("iozone", there, threads=3)]


def test_files_that_a_job_file_names_go_as_fio_s_own_folder_does() -> None:
    driver = tool("fio")
    assert isinstance(driver, SupportsLeftovers)
    for text, kinds in (
        ("[a]\nrw=read\nsize=1m\n", ["folder"]),
        ("[a]\nfilename=/mnt/x/f\n", ["file"]),
        ("[a]\nfilename=/mnt/y/f\n", []),
        ("[a]\nsize=1m\n[b]\ndirectory=/mnt/x\n", ["file"]),
    ):
        job = Workload("w", "fio", jobfile=text)
        found = driver.leaves(job, ToolTarget("/mnt/x", "directory"), {})
        assert [left.kind for left in found] == kinds


# What is done.


def test_it_is_owed_once_and_before_it_is_made() -> None:
    host = FakeHost()
    session = opened(host)
    host.log.clear()
    for _ in range(2):
        own(session, AIM, (TRIALS, STUDYS, FILE))
        clear(session, (TRIALS, STUDYS, FILE))
    assert [debt.what for debt in owed(session)] == ["tree", "tree", "file"]
    assert owed(session)[0].plan == {
        "tree": TRIALS.path, "below": HOME, "on": "/", "mark": "life", "inode": ANY,
    }  # fmt: skip
    assert host.log[0].startswith("save ")
    assert host.log[1] == f"mkdir {TRIALS.path}"
    assert files(host) == [STUDYS.path, inside(STUDYS.path), f"{STUDYS.path}/{MARK}"]
    assert session.journal.describe()[0] == f"made: tree {TRIALS.path}"


def test_each_trial_gets_an_empty_folder_and_a_study_keeps_what_is_in_its() -> None:
    host = FakeHost()
    session = opened(host)
    own(session, AIM, (TRIALS, STUDYS))
    for left in (TRIALS, STUDYS):
        host.machine.put(f"{inside(left.path)}/sub/x", b"x")
    own(session, AIM, (TRIALS, STUDYS))
    assert [path for path in files(host) if path.endswith("/x")] == [f"{STUDYS.path}/data/sub/x"]


@pytest.mark.parametrize("left", [TRIALS, STUDYS, FILE], ids=lambda left: f"{left.kind}")
def test_a_name_that_is_taken_is_refused_and_left_alone(left: Leftover) -> None:
    host = FakeHost()
    host.machine.put(left.path, b"years of work")
    session = opened(host)
    with pytest.raises(TrialError, match=f"{left.path} exists"):
        own(session, AIM, (left,))
    assert owed(session) == []
    clear(session, (left,))
    assert host.read(left.path) == b"years of work"


def test_a_file_that_was_there_is_used_and_stays() -> None:
    host = FakeHost()
    host.machine.put(DATA.path, b"x")
    session = opened(host)
    own(session, AIM, (DATA,))
    assert owed(session) == []
    clear(session, (DATA,))
    assert host.read(DATA.path) == b"x"


@pytest.mark.parametrize("options", [{"rw": "write", "size": "1m"}, {"size": "1m"}])
def test_dd_takes_no_file_of_somebody_else_for_its_own(options: dict[str, str]) -> None:
    chores = (Chore("lay out", "study"),)
    load = Workload("w", "dd", tuple(options.items()), prepare=chores)
    (left,) = tool("dd").leaves(load, ToolTarget(HOME, "directory"), {})
    host = FakeHost()
    host.machine.put(left.path, b"years of work")
    session = opened(host)
    with pytest.raises(TrialError, match=r"iotrial\.dd exists"):
        own(session, AIM, (left,))
    assert host.read(left.path) == b"years of work"
    assert owed(session) == []


def test_on_a_file_system_of_ours_it_goes_with_that() -> None:
    host = FakeHost()
    session = opened(host)
    own(session, PreparedTarget(Target("t", "loop", filesystem="ext4"), HOME, "", None), (TRIALS,))
    assert owed(session) == []
    assert f"{TRIALS.path}/{MARK}" in host.machine.files


def test_where_the_file_system_is_not_mounted_it_stays_owed() -> None:
    host = FakeHost()
    left = Leftover(f"{EXT4}/ours", "folder", "study")
    session = opened(host)
    own(session, PreparedTarget(Target("t", "directory", EXT4), EXT4, "", None), (left,))
    (debt,) = owed(session)
    assert debt.plan["on"] == EXT4
    host.machine.folders.pop(left.path)
    for path in (inside(left.path), f"{left.path}/{MARK}"):
        host.machine.folders.pop(path, None)
        host.machine.files.pop(path, None)
    assert unmake(host, debt) == []
    host.run(["umount", EXT4])
    with pytest.raises(OwedError, match=f"{EXT4}, the mount point of"):
        unmake(host, debt)


def test_a_study_leaves_its_directory_as_it_was(tmp_path: Path) -> None:
    host = FakeHost()
    for name in ("reads.0.0", "thesis"):
        host.machine.put(f"{HOME}/{name}", b"years of work")
    there = files(host)
    load = 'prepare = ["lay out"]'
    study = parse_study(STUDY.replace("LOAD", load), "left.toml", str)
    outcome = execute_study(study, host, tmp_path / "out", interruption=Interruption())
    assert {record.state for record in outcome.results.records} == {"valid"}
    assert files(host) == there
    assert host.read(f"{HOME}/reads.0.0") == b"years of work"
    made = [what for what in host.log if what == f"mkdir {HOME}/iotrial-fio"]
    assert len(made) == 1, "what was laid out is kept for the trials after"
