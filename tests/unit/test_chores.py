"""Chores, the cache and evidence as a study says them, as they are planned, and on the pretended
machine."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import RefusedError, StudyError, TargetRefused
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.chores import LIMITED, WRITE, ChoreSite, deed
from iotrial.execute.runner import execute_study
from iotrial.execute.session import HostSession
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.mounts import CachePrograms
from iotrial.hosts.local import LocalHost
from iotrial.model.study import Study
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tool import ToolTarget
from iotrial.model.trial import Doubt, Trial, TrialRecord
from iotrial.model.workload import Chore, OptionValue, Workload
from iotrial.plan.estimate import estimate
from iotrial.plan.load import parse_study
from iotrial.plan.schema import chore
from iotrial.rows import record_in, record_out
from iotrial.store import open_results
from iotrial.tools import tool

MIB = 2**20
STUDY = """
question = "?"
[targets.data]
{target}
[workloads.load]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, runtime = "1s"{options} }}
{load}
[factors.depth]
option = "iodepth"
levels = [1, 4]
[design]
blocks = {blocks}
"""
FILE = 'file = "/var/tmp/iotrial.dat"\nsize = "16MiB"'
LOOP = 'loop = { size = "16MiB" }'


def study(load: str, *, target: str = FILE, options: str = "", blocks: int = 2) -> Study:
    text = STUDY.format(load=load, target=target, options=options, blocks=blocks)
    return parse_study(text, "chores.toml", str)


def run(host: FakeHost, folder: Path, it: Study) -> tuple[TrialRecord, ...]:
    execute_study(it, host, folder, interruption=Interruption())
    return open_results(folder).records


def upkeep(host: FakeHost) -> CachePrograms:
    part = host.machine.parts["upkeep"]
    assert isinstance(part, CachePrograms)
    return part


# What a study says.


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("trim", Chore("trim", "study")),
        ("lay out", Chore("lay out", "study")),
        ({"trim": True, "each": "trial"}, Chore("trim", "trial")),
        ({"fill": "80%"}, Chore("fill", "study", share=0.8)),
        ({"fill": 0.5, "each": "block"}, Chore("fill", "block", share=0.5)),
        ({"precondition": "2x"}, Chore("precondition", "study", times=2.0)),
        ({"precondition": 1.5}, Chore("precondition", "study", times=1.5)),
        ({"command": ["sh", "-c", ":"]}, Chore("command", "trial", argv=("sh", "-c", ":"))),
    ],
)
def test_a_chore_is_read_as_it_is_written(written: object, meant: Chore) -> None:
    assert chore(written) == meant


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["trim", "fill", "precondition", "lay out", "command", "each"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=6,
    )
)
def test_anything_else_is_refused_in_words_and_nothing_worse(value: object) -> None:
    try:
        found = chore(value)
    except ValueError:
        return
    assert found.each in ("study", "block", "trial")
    assert (found.kind == "fill") == (0 < found.share <= 1)
    assert (found.kind == "precondition") == (0 < found.times <= 100)
    assert (found.kind == "command") == bool(found.argv)


def test_direct_is_refused_where_any_level_is_buffered() -> None:
    assert study('cache = "direct"').workloads[0].cache == "direct"
    with pytest.raises(StudyError, match="through the page cache: job load has direct=0"):
        study('cache = "direct"', options=", direct = 0")
    varied = STUDY.format(load='cache = "direct"', target=FILE, options="", blocks=1)
    varied = varied.replace('"iodepth"', '"direct"').replace("[1, 4]", "[1, 0]")
    with pytest.raises(StudyError, match="through the page cache"):
        parse_study(varied, "varied.toml", str)


@pytest.mark.parametrize(
    ("name", "options", "jobfile", "buffered"),
    [
        ("fio", {"rw": "read"}, "", False),
        ("fio", {"rw": "read", "buffered": 1}, "", True),
        ("fio", {"rw": "read", "ioengine": "mmap"}, "", True),
        ("fio", {}, "[a]\nrw=read\ndirect=1\n[b]\nrw=read\n", True),
        ("fio", {}, "[global]\ndirect=1\n[a]\nrw=read\n[b]\nrw=read\n", False),
        ("dd", {"rw": "read"}, "", False),
        ("dd", {"rw": "read", "direct": False}, "", True),
        ("bonnie++", {"size": "1G", "direct": True, "fast": True, "files": 0}, "", False),
        ("bonnie++", {"size": "1G", "direct": True, "fast": True}, "", True),
        ("bonnie++", {"size": "1G"}, "", True),
    ],
)
def test_a_tool_knows_whether_it_goes_past_the_cache(
    name: str,
    options: dict[str, OptionValue],
    jobfile: str,
    buffered: bool,  # noqa: FBT001
) -> None:
    workload = Workload("load", name, tuple(options.items()), jobfile)
    driver = tool(name)
    assert bool(driver.buffered(workload)) == buffered  # type: ignore[attr-defined]


def test_fio_lays_out_with_the_very_command_of_the_load() -> None:
    facts = {"cpus": 4.0, "memory": 2.0**33, "io_uring": 1.0}
    driver = tool("fio")
    for workload in (
        Workload("load", "fio", (("rw", "read"), ("size", "1m"))),
        Workload("load", "fio", (("size", "1m"),), "[a]\nrw=read\n"),
    ):
        aimed = ToolTarget("/mnt/x", "directory")
        load = driver.command(workload, aimed, facts)
        laid = driver.lay_out(workload, aimed, facts)  # type: ignore[attr-defined]
        assert [word for word in laid.argv if word != "--create_only=1"] == list(load.argv)
        assert laid.argv.index("--create_only=1") > laid.argv.index("--eta=never")
        assert laid.argv[-1] == ("job.fio" if workload.jobfile else "--create_only=1")


# What it costs.


def test_chores_are_in_the_bytes_and_the_time() -> None:
    bare = estimate(study("", target=LOOP, blocks=3))
    load = 'prepare = [{ precondition = "2x" }, { fill = "50%", each = "block" }, "lay out"]'
    told = estimate(study(load, target=LOOP, blocks=3))
    assert [(each.times, each.written) for each in told.chores] == [
        (1, 32 * MIB), (3, 8 * MIB), (1, 16 * MIB),
    ]  # fmt: skip
    assert told.bytes_written - bare.bytes_written == (32 + 24 + 16) * MIB
    assert told.seconds > bare.seconds


def test_what_is_done_for_each_trial_is_counted_for_each() -> None:
    told = estimate(study('cleanup = [{ trim = true, each = "trial" }]', target=LOOP, blocks=3))
    assert [each.times for each in told.chores] == [6]
    directory = 'directory = "/var/tmp"'
    told = estimate(study('prepare = [{ fill = "5%" }]', target=directory, options=', size="1m"'))
    assert math.isinf(told.bytes_written)


# What is done.


def test_chores_of_a_study_a_block_and_a_trial_are_done_in_their_turn(tmp_path: Path) -> None:
    load = """
prepare = [
    "trim", { precondition = "2x", each = "block" },
    { command = ["truncate", "-s", "1", "/var/tmp/there"] },
]
cleanup = [{ command = ["rm", "/var/tmp/there"] }, { trim = true, each = "block" }]
"""
    host = FakeHost()
    records = run(host, tmp_path / "out", study(load, target=LOOP))
    assert [record.state for record in records] == ["valid"] * 4
    kinds = [what.split()[0] for what in upkeep(host).done]
    assert kinds == ["trim", "write", "trim", "write", "trim"]
    assert [what for what in host.log if what == "rm /var/tmp/there"] == ["rm /var/tmp/there"] * 4
    assert "/var/tmp/there" not in host.machine.files
    folders = [tmp_path / "out" / "trials" / record.trial.folder for record in records]
    assert [len(list(folder.glob("prepare-*"))) for folder in folders] == [3, 1, 2, 1]
    assert (folders[2] / "after-1" / "cleanup-1" / "command").exists()
    assert [bool(record.prepared) for record in records] == [True, False, True, False]


def test_what_stays_in_memory_makes_a_trial_invalid(tmp_path: Path) -> None:
    host = FakeHost()
    upkeep(host).locked.add("/var/tmp/iotrial.dat")
    records = run(host, tmp_path / "locked", study('cache = "drop"', blocks=1))
    assert {record.state for record in records} == {"invalid"}
    assert {doubt.check for record in records for doubt in record.doubts} == {"cache-kept"}
    host = FakeHost()
    records = run(host, tmp_path / "free", study('cache = "drop"', blocks=1))
    assert [(record.state, record.doubts) for record in records] == [("valid", ())] * 2


def test_buffered_reads_that_the_disk_delivered_are_not_doubted(tmp_path: Path) -> None:
    records = run(FakeHost(), tmp_path / "out", study("", options=", direct = 0", blocks=1))
    assert not [doubt for record in records for doubt in record.doubts]
    records = run(FakeHost(), tmp_path / "direct", study("", blocks=1))
    assert not [doubt for record in records for doubt in record.doubts]


def test_evidence_is_kept_and_its_failure_is_a_doubt(tmp_path: Path) -> None:
    it = study('evidence = [["uname", "-r"], ["no-such-program"]]', blocks=1)
    records = run(FakeHost(), tmp_path / "out", it)
    for record in records:
        folder = tmp_path / "out" / "trials" / record.trial.folder
        assert (folder / "evidence-1.txt").read_text().strip().endswith("fake")
        assert (folder / "evidence-2.stderr").read_text() == "sh: no-such-program: not found\n"
        (doubt,) = record.doubts
        assert (record.state, doubt.check, doubt.invalid) == ("valid", "evidence", False)


def test_a_chore_that_fails_fails_every_trial_that_needs_it(tmp_path: Path) -> None:
    it = study('prepare = [{ command = ["no-such-program"], each = "study" }]', blocks=1)
    records = run(FakeHost(), tmp_path / "out", it)
    assert [record.state for record in records] == ["failed", "failed"]
    assert all("prepare-1 (command `no-such-program`)" in record.error for record in records)


def test_a_disk_that_is_not_armed_is_not_touched(tmp_path: Path) -> None:
    disk = 'device = "FAKE0000"'
    for load in ('prepare = ["trim"]', 'cleanup = [{ precondition = "1x" }]'):
        host = FakeHost()
        with pytest.raises(TargetRefused, match="does not permit it"):
            run(host, tmp_path / "out", study(load, target=disk))
        assert upkeep(host).done == []
    armed = study('prepare = ["trim"]', target=f'{disk}\ndestroy = "FAKE0000"')
    host = FakeHost()
    run(host, tmp_path / "armed", armed)
    assert len(upkeep(host).done) == 1


def test_a_file_that_exists_is_not_written_by_a_chore_either(tmp_path: Path) -> None:
    host = FakeHost()
    host.machine.put("/var/tmp/iotrial.dat", b"", size=16 * MIB)
    with pytest.raises(TargetRefused, match="exists"):
        run(host, tmp_path / "out", study('prepare = ["lay out"]'))
    run(host, tmp_path / "trimmed", study('prepare = ["trim"]'))  # of what is free around it


def test_caches_are_dropped_by_root_only(tmp_path: Path) -> None:
    host = FakeHost()
    host.unprivileged = "this is user 1000; run it with sudo"
    with pytest.raises(RefusedError, match="drops caches, which needs root"):
        run(host, tmp_path / "out", study('cache = "drop"'))


# Pieces.


def test_the_writer_writes_from_the_beginning_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(3 * MIB))
    argv = ["sh", "-c", WRITE, "iotrial-write", str(path), "3", "7", "conv=notrunc,nocreat"]
    done = LocalHost().run(argv)
    assert done.exit == 0
    copied = re.findall(r"^(\d+) bytes", done.stderr.decode(), re.MULTILINE)
    assert [int(each) // MIB for each in copied] == [3, 3, 1]
    assert path.stat().st_size == 3 * MIB
    assert path.read_bytes()[-16:] != bytes(16)
    argv[4] = str(tmp_path / "missing")
    assert LocalHost().run(argv).exit == 1


@pytest.mark.parametrize(
    ("script", "exit_", "out", "err"),
    [
        ("echo out; echo err >&2; exit 3", 3, b"out\n", b"err\n"),
        ("printf 1234567890; printf abcdefghij >&2", 0, b"123456", b"abcdef"),
        ("exec head -c 1000000 /dev/zero", None, bytes(6), b""),
        (":", 0, b"", b""),
    ],
)
def test_evidence_is_limited_and_keeps_its_exit_status(
    script: str, exit_: int | None, out: bytes, err: bytes
) -> None:
    argv = ["sh", "-c", LIMITED, "iotrial-limited", "6", "sh", "-c", script]
    done = LocalHost().run(argv)
    assert (done.stdout, done.stderr) == (out, err)
    assert done.exit == exit_ or (exit_ is None and done.exit)


def test_a_file_system_fuller_than_its_share_is_left_alone() -> None:
    host = FakeHost()
    target = Target("data", "file", "/var/tmp/x", 16 * MIB)
    site = ChoreSite(host, target, PreparedTarget(target, "/var/tmp/x", "", None), "iotrial-fill-1")
    assert deed(site, Chore("fill", "study", share=0.1)).load.argv == ()
    it = deed(site, Chore("fill", "study", share=0.5))
    assert it.makes == ("/var/tmp/iotrial-fill-1",)
    with pytest.raises(Exception, match="not enough space to fill"):
        deed(site, Chore("fill", "study", share=1.0))


def test_a_record_without_chores_reads_and_writes_as_before(tmp_path: Path) -> None:
    records = run(FakeHost(), tmp_path / "out", study("", blocks=1))
    row = json.loads(json.dumps(record_out(records[0])))
    assert "prepared" not in row
    row |= {"before": "[]", "after": "[]", "values": {}}
    assert record_in(row, {}).prepared == 0.0
    assert record_in(row | {"prepared": 2.5}, {}).prepared == 2.5


# What a treatment set.


VARIED = """
question = "?"
[targets.data]
loop = { size = "16MiB" }
[workloads.load]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 4, runtime = "1s" }
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [128, 512]
[design]
blocks = 1
"""


def test_a_setting_that_something_else_changes_before_the_load_makes_the_trial_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a remount may, that meets the cache.  Before and after the load it is the same."""

    def meets(session: HostSession, _: Trial) -> tuple[Doubt, ...]:
        device = session.aims["data"].device
        session.host.write(f"/sys/block/{device}/queue/read_ahead_kb", b"512")
        return ()

    monkeypatch.setattr("iotrial.execute.load.part.meet_cache", meets)
    records = run(FakeHost(), tmp_path / "results", parse_study(VARIED, "varied.toml", str))
    by_level: dict[str, set[str]] = {}
    for record in records:
        by_level.setdefault(dict(record.trial.treatment)["ahead"], set()).add(record.state)
    assert by_level == {"512": {"valid"}, "128": {"invalid"}}
    (doubt,) = next(r for r in records if r.state == "invalid").doubts
    assert doubt.check == "drift"
    assert "before the load started: queue.read_ahead_kb on" in doubt.what
    assert "went from 128 to 512" in doubt.what
