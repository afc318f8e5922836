"""The tool that does a recording again: who does which I/O, where it goes, and what came of it."""

from __future__ import annotations

import json
import random
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from test_recorded_load import FLUSH, SIZE, WRITE, events, served

from iotrial.cli.main import status
from iotrial.errors import FormatError, StudyError, UsageError
from iotrial.model.study import Study
from iotrial.model.tool import ToolTarget
from iotrial.model.workload import TRACED, OptionValue, Workload
from iotrial.plan.load import load_study, parse_study
from iotrial.plan.tune_request import load_named
from iotrial.tools.replay import TOOL, clients_of, placed, trace_of
from iotrial_record.again import text_for
from iotrial_record.character import character
from iotrial_record.check import CheckRequest, compared, original
from iotrial_record.trace import (
    TracedDevice,
    TraceFacts,
    joined,
    load_device,
    save_index,
    save_part,
)

MIB = 1 << 20
DEVICE = ToolTarget("/dev/loop0", "device", capacity=SIZE)
Row = tuple[int, int, int, int, int, int]


def trace(*rows: Row, seconds: float = 1.0) -> str:
    return f"{TRACED}{seconds:.6f}\n" + "".join(" ".join(map(str, row)) + "\n" for row in rows)


def load(text: str, **options: OptionValue) -> Workload:
    return Workload("mine", "replay", tuple(options.items()), trace=text)


def logs(text: str, target: ToolTarget = DEVICE, **options: OptionValue) -> dict[str, list[str]]:
    files = dict(TOOL.command(load(text, **options), target, {}).files)
    return {
        name: content.decode().splitlines() for name, content in files.items() if name != "job.fio"
    }


def test_each_io_is_done_once_by_a_client_that_is_ready() -> None:
    """Of a load whose I/Os took 1 ms, each client has its next one 11 ms later at the earliest."""
    chance = random.Random(3)
    times = sorted(chance.randrange(2_000_000) for _ in range(4000))
    rows = [(at, n, chance.randrange(2), 4096 * n, 4096, 1000) for n, at in enumerate(times)]
    found = trace_of(trace(*rows, seconds=2.0))
    clients = clients_of(found, 1.0)
    for client in range(int(clients.max()) + 1):
        mine = found.at[clients == client].tolist()
        assert all(later - earlier >= 11_000 for earlier, later in pairwise(mine))
    assert int(clients.max()) < 60  # 2,000 a second for 11 ms are 22 on average
    written = [line for each in logs(trace(*rows, seconds=2.0)).values() for line in each]
    done = sorted(int(line.split()[2]) for line in written if " read " in line or " write " in line)
    assert done == [4096 * n for n in range(4000)]


def test_an_io_that_waited_for_the_one_before_follows_it_at_the_same_client() -> None:
    """Three threads; each has two I/Os in a row, the second 0.3 ms after the first has ended, and
    later another pair; a fourth begins its second before its first has ended."""
    rows = []
    for at in range(0, 400_000, 40_000):
        for thread in range(3):
            rows += [
                (at + thread, thread, 0, 0, 4096, 500),
                (at + thread + 800, thread, 1, 0, 4096, 500),
            ]
        rows += [(at + 5, 3, 0, 0, 4096, 500), (at + 305, 3, 0, 0, 4096, 500)]
    found = trace_of(trace(*sorted(rows)))
    clients = clients_of(found, 1.0)
    for thread in range(3):
        mine = clients[found.thread == thread]
        assert mine[::2].tolist() == mine[1::2].tolist()
    mine = clients[found.thread == 3]
    assert all(one != other for one, other in zip(mine[::2], mine[1::2], strict=True))


def test_there_are_no_more_clients_than_fio_has_room_for() -> None:
    rows = [(at, at, 0, 0, 4096, 50_000) for at in range(2000)]
    assert int(clients_of(trace_of(trace(*rows)), 1.0).max()) == 255
    assert int(clients_of(trace_of(trace(*rows)), 0.0).max()) == 255


def test_as_fast_as_it_goes_a_thread_s_ios_stay_in_their_order() -> None:
    """Two threads, one at a time each, and a third with two at a time."""
    rows = [(100 * n, n % 2, 0, 4096 * n, 4096, 150) for n in range(50)]
    rows += [(1000 * n + 50, 2, 1, MIB + 4096 * n, 4096, 1500) for n in range(10)]
    found = trace_of(trace(*sorted(rows)))
    clients = clients_of(found, 0.0)
    assert len(set(clients.tolist())) == 4
    for thread in (0, 1):
        (mine,) = set(clients[found.thread == thread].tolist())
        assert set(found.thread[clients == mine].tolist()) == {thread}
    lines = logs(trace(*sorted(rows)), speed="max")
    assert not any("wait" in line for each in lines.values() for line in each)


def test_waits_are_milliseconds_after_the_start_of_fio_in_the_speed_that_was_asked_for() -> None:
    text = trace((0, 0, 0, 0, 512, 10), (500_000, 0, 0, 0, 512, 10))
    for speed, apart in ((1, 500), (2, 250), (0.5, 1000)):
        (only,) = logs(text, speed=speed).values()
        first, second = (int(line.split()[2]) for line in only if "wait" in line)
        assert second - first == apart
        assert first >= 1000


def test_a_sync_and_a_trim_are_done_too() -> None:
    (only,) = logs(trace((0, 0, 3, 0, 0, 0), (9000, 0, 2, MIB, 4096, 10))).values()
    assert [line for line in only if "wait" not in line] == [
        "fio version 2 iolog", "t add", "t open", "t sync 0 0", "t trim 1048576 4096", "t close",
    ]  # fmt: skip


def test_a_smaller_target_has_the_used_places_in_their_order() -> None:
    rows = [(n, 0, 0, place * MIB, 4096, 1) for n, place in enumerate((0, 500, 501, 900))]
    found = placed(trace_of(trace(*rows)), 4 * MIB)
    assert found.tolist() == [0, MIB, 2 * MIB, 3 * MIB]
    folded = placed(trace_of(trace(*rows)), 2 * MIB)
    assert folded.tolist() == [0, MIB, 0, MIB]
    assert placed(trace_of(trace(*rows)), 2000 * MIB).tolist() == [each[3] for each in rows]


def test_what_was_next_to_each_other_stays_so_and_nothing_is_beyond_the_end() -> None:
    chance = random.Random(8)
    begin = [chance.randrange(900) * MIB for _ in range(20)]
    rows = [
        (n, 0, 0, at + 65536 * step, 65536, 1)
        for n, at in enumerate(begin) for step in range(40)
    ]  # fmt: skip
    for size in (20 * MIB + 512, 64 * MIB, 200 * MIB):
        found = placed(trace_of(trace(*rows)), size)
        assert int((found + 65536).max()) <= size
        steps = np.diff(found.reshape(20, 40), axis=1)
        assert np.mean(steps == 65536) > 0.85


def test_a_target_smaller_than_an_io_is_refused() -> None:
    with pytest.raises(UsageError, match="smaller than an I/O of 4096"):
        placed(trace_of(trace((0, 0, 0, 0, 4096, 1))), 2048)


@pytest.mark.parametrize(
    ("kinds", "reads", "writes"),
    [((0,), True, False), ((1,), False, True), ((2,), False, True), ((0, 3), True, False)],
)
def test_what_it_reaches_is_what_the_recording_did(
    kinds: tuple[int, ...], *, reads: bool, writes: bool
) -> None:
    text = trace(*((n, 0, kind, 0, 4096, 1) for n, kind in enumerate(kinds)))
    reach = TOOL.reach(load(text))
    assert (reach.reads, reach.writes) == (reads, writes)
    assert TOOL.written(load(text)) == 4096 * kinds.count(1)


def test_a_directory_is_no_target() -> None:
    with pytest.raises(UsageError, match="needs a device or a file"):
        TOOL.command(load(trace((0, 0, 0, 0, 4096, 1))), ToolTarget("/mnt", "directory"), {})


def result(folder: Path, ended: list[tuple[float, float, int]], due: list[int]) -> Path:
    """What fio leaves: when each I/O ended (ms), how long it took (ms), and its action."""
    lines = ["fio version 2 iolog", "t add", "t open"]
    for at, (_, _, action) in zip(due, ended, strict=True):
        lines += [f"t wait {at} 0", f"t {('read', 'write')[action]} 0 4096"]
    (folder / "client-0.iolog").write_text("\n".join([*lines, "t close", ""]))
    rows = [f"{int(at)}, {took * 1e6:.0f}, {action}, 4096, 0" for at, took, action in ended]
    (folder / "replay_lat.1.log").write_text("\n".join([*rows, ""]))
    (folder / "fio.json").write_text(
        '{"fio version": "fio-3.33", "timestamp": 1, "jobs": [{"jobname": "client-0", "error": 0,'
        ' "elapsed": 1, "job_runtime": 1000, "usr_cpu": 0, "sys_cpu": 0,'
        ' "read": {"total_ios": 1, "io_bytes": 4096, "bw_bytes": 1, "iops": 1, "runtime": 1000}}]}'
    )
    return folder


def test_the_response_time_is_from_the_time_at_which_an_io_was_to_begin(tmp_path: Path) -> None:
    """Every I/O takes 1 ms; from the thousandth on the target is 200 ms late."""
    due = [1000 + 10 * n for n in range(2000)]
    ended = [(at + (1.0 if n < 1000 else 201.0), 1.0, 0) for n, at in enumerate(due)]
    parsed = TOOL.parse(result(tmp_path, ended, due))
    found = {each.metric: each.value for each in parsed.measurements}
    assert found["read.lat.p99"] == pytest.approx(0.001)
    assert found["read.response.p99"] == pytest.approx(0.201, abs=0.003)
    assert found["total.late.p50"] < 0.2
    assert found["total.late.max"] == pytest.approx(0.2, abs=0.003)
    assert found["read.ios"] == 2000
    assert [doubt.check for doubt in parsed.doubts if doubt.check == "replay-late"]


def test_what_is_on_time_is_not_late_for_the_clock_s_sake(tmp_path: Path) -> None:
    chance = random.Random(4)
    due = [1000 + 10 * n for n in range(3000)]
    ended = [(at + chance.random() + 0.3, 0.1, 1) for at in due]
    parsed = TOOL.parse(result(tmp_path, ended, due))
    found = {each.metric: each.value for each in parsed.measurements}
    assert found["total.late.max"] == 0
    assert found["write.response.p99"] == found["write.lat.p99"]
    assert not [doubt for doubt in parsed.doubts if doubt.check == "replay-late"]


def test_ios_that_were_not_done_are_a_doubt_and_another_s_log_an_error(tmp_path: Path) -> None:
    due = [1000 + 10 * n for n in range(20)]
    ended = [(at + 1.0, 1.0, 0) for at in due]
    result(tmp_path, ended, due)
    log = tmp_path / "replay_lat.1.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-3]))
    doubts = [each.what for each in TOOL.parse(tmp_path).doubts]
    assert "3 of 20 I/Os of the recording were not done" in doubts
    log.write_text("1001, 1000, 1, 4096, 0\n")
    with pytest.raises(FormatError, match="is not that of its I/Os"):
        TOOL.parse(tmp_path)


def test_no_trace_is_an_error() -> None:
    for text in ("", "1 2 3", f"{TRACED}1.0\n1 2 3", f"{TRACED}x\n"):
        with pytest.raises(FormatError):
            trace_of(text)


# -- a recording in a study ------------------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Reads at 1, 2, 3 … 9 s, a write and a flush at 5 s; each takes 2 ms."""
    folder = tmp_path / "monday"
    folder.mkdir()
    times = np.arange(1, 10)
    asked = [served(events(times, times * 8, 8), 0.002)]
    asked.append(served(events([5.1], 800, 16, operation=WRITE), 0.002))
    asked.append(events([5.2], 0, 0, operation=FLUSH))
    part = save_part(folder, 1, joined(asked))
    device = TracedDevice("sda", "8:0", SIZE)
    save_index(
        folder,
        TraceFacts("box", "6.1", 0.0, (device,), seconds=10.0, complete=True, parts=(part,)),
    )
    return folder


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """Of a disk that is read once a second, and of a smaller one that two writes, of 2 ms each, are
    asked of meanwhile at the same places; in two parts."""
    folder = tmp_path / "both"
    folder.mkdir()
    reads = served(events(np.arange(1, 10), np.arange(1, 10) * 8, 8), 0.001)
    writes = served(events([3, 8], [24, 64], 16, operation=WRITE), 0.002)
    every = joined([reads, replace(writes, device=np.ones_like(writes.device))])
    halves = every.only(every.at < 5e9), every.only(every.at >= 5e9)
    parts = tuple(save_part(folder, at, half) for at, half in enumerate(halves, 1))
    devices = (TracedDevice("sda", "8:0", SIZE), TracedDevice("sdb", "8:16", SIZE // 4))
    save_index(
        folder, TraceFacts("box", "6.1", 0.0, devices, seconds=10.0, complete=True, parts=parts)
    )
    return folder


def test_a_part_of_a_recording_counts_from_its_beginning(recording: Path) -> None:
    found = trace_of(text_for("replay", recording, 4.5, 1.0))
    assert found.seconds == 1.0
    assert found.at.tolist() == [500_000, 600_000, 700_000]
    assert found.action.tolist() == [0, 1, 3]
    assert found.length.tolist() == [4096, 8192, 0]
    assert found.took.tolist() == [2000, 2000, 0]


def study(folder: Path, lines: str) -> Study:
    path = folder / "study.toml"
    path.write_text(f'[targets.x]\nfile = "/tmp/x"\nsize = "1MiB"\n[workloads.mine]\n{lines}\n')
    return load_study(path)


def test_the_study_has_the_trace_or_the_job_file(recording: Path) -> None:
    lines = 'tool = "replay"\nrecorded = "monday"\n[decide]\nprimary = "read.iops"'
    (mine,) = study(recording.parent, lines).workloads
    assert trace_of(mine.trace).action.tolist().count(0) == 9
    lines = 'tool = "fio"\nrecorded = { folder = "monday", begin = "4s" }'
    (mine,) = study(recording.parent, lines).workloads
    assert "rwmixread=" in mine.jobfile
    assert "filename" not in mine.jobfile
    assert not mine.trace


def test_another_recording_is_another_study(recording: Path) -> None:
    lines = 'tool = "replay"\nrecorded = {{ folder = "monday", begin = "{}s" }}'
    one, other = (study(recording.parent, lines.format(at)).digest for at in (1, 2))
    again = study(recording.parent, lines.format(1)).digest
    assert one == again != other


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('tool = "dd"\nrecorded = "monday"', "dd does no recording again"),
        ('tool = "replay"', "name the folder that `iotrial record` made"),
        ('tool = "replay"\nrecorded = "nowhere"', "is no recording"),
        ('tool = "replay"\nrecorded = "monday"\noptions = { speed = 0 }', '"max"'),
        ('tool = "replay"\nrecorded = "monday"\noptions = { rw = "read" }', "no option 'rw'"),
        ('tool = "replay"\nrecorded = "monday"\noptions = { by = "hand" }', "'hand'"),
        ('tool = "replay"\nrecorded = "monday"\noptions = { ioengine = "libaio" }', "libaio"),
        ('tool = "replay"\nrecorded = { folder = "monday", begin = "1h" }', "is 10 s long"),
        ('tool = "replay"\nrecorded = "monday"\njobfile = "x.fio"', "not both"),
    ],
)
def test_what_cannot_be_done_again_is_refused_with_words(
    recording: Path, lines: str, said: str
) -> None:
    with pytest.raises(StudyError) as caught:
        study(recording.parent, lines)
    assert said in str(caught.value)


def test_a_recording_of_two_devices_is_no_load_of_one(recording: Path) -> None:
    two = (TracedDevice("sda", "8:0", SIZE), TracedDevice("sdb", "8:16", SIZE))
    save_index(recording, TraceFacts("box", "6.1", 0.0, two, seconds=1.0))
    with pytest.raises(StudyError, match="several devices"):
        study(recording.parent, 'tool = "replay"\nrecorded = "monday"')


def test_of_several_devices_one_must_be_named_and_the_refusal_says_how(both: Path) -> None:
    with pytest.raises(StudyError, match=r"\(sda, sdb\)") as caught:
        study(both.parent, 'tool = "replay"\nrecorded = "both"')
    assert caught.value.advice.endswith('recorded = { folder = "both", device = "sda" }')


def test_a_study_does_again_what_was_asked_of_the_device_that_it_names(both: Path) -> None:
    lines = 'tool = "{}"\nrecorded = {{ folder = "both", device = "{}"{} }}'

    def of(tool: str, device: str, more: str = "") -> Workload:
        (mine,) = study(both.parent, lines.format(tool, device, more)).workloads
        return mine

    found = trace_of(of("replay", "sdb").trace)
    assert (found.action.tolist(), found.offset.tolist()) == ([1, 1], [24 * 512, 64 * 512])
    assert found.took.tolist() == [2000, 2000]
    assert trace_of(of("replay", "sda").trace).action.tolist() == [0] * 9
    part = trace_of(of("replay", "sdb", ', begin = "5s", time = "4s"').trace)
    assert part.at.tolist() == [3_000_000]
    assert "rw=randwrite" in of("fio", "sdb").jobfile
    assert "; The load of sdb of box" in text_for("fio", both, 0.0, None, device="sdb")
    assert "rw=randread" in of("fio", "sda").jobfile


def test_places_are_those_of_the_device_that_is_named(both: Path) -> None:
    """The smaller one alone is the whole, not the last fifth of both."""
    index, parts = load_device(both, "sdb", str)
    zones = character(index, parts).zones
    assert zones[1].nonzero()[0].tolist() == [0]
    assert not zones[0].any()


@pytest.mark.parametrize("tool", ["replay", "fio"])
def test_a_device_that_was_not_recorded_is_refused_with_those_that_were(
    both: Path, recording: Path, tool: str
) -> None:
    lines = 'tool = "{}"\nrecorded = {{ folder = "{}", device = "{}" }}'
    for folder, device, known in (("both", "sdc", "sda, sdb"), ("monday", "sdb", "sda")):
        with pytest.raises(StudyError, match=f"is not a recording of {device}") as caught:
            study(recording.parent, lines.format(tool, folder, device))
        assert caught.value.advice.endswith(f"devices: {known}")
    study(recording.parent, lines.format("fio", "monday", "sda"))


def test_a_part_without_an_io_of_the_device_is_refused(both: Path) -> None:
    for begin in (0.0, 5.0):
        with pytest.raises(UsageError, match="no I/O of sdb is in it"):
            text_for("replay", both, begin, 2.0, device="sdb")


def test_tune_takes_one_device_of_a_recording(both: Path, recording: Path) -> None:
    for word, named in ((f"{both}:sdb", {"device": "sdb"}), (f"{recording}", {})):
        folder = word.removesuffix(":sdb")
        for lasting, part in ((60.0, {}), (4.0, {"time": "4s"})):
            table = load_named(word, lasting).table
            assert table == {"tool": "replay", "recorded": {"folder": folder, **named, **part}}
    with pytest.raises(UsageError, match="several devices") as caught:
        load_named(f"{both}/", 60.0)
    assert caught.value.advice.endswith(f"--load {both}:sda")
    with pytest.raises(UsageError, match="is not a recording of sdc"):
        load_named(f"{both}:sdc", 60.0)


def test_a_check_is_of_one_device_and_says_how_to_name_it(
    both: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a host is asked for anything."""
    check = ["record", "--check", str(both), "/dev/nowhere"]
    for words, message, advice in (
        ([], "is of several devices (sda, sdb)", "--device sda"),
        (["--device", "sdc"], "is not a recording of sdc", "devices: sda, sdb"),
    ):
        assert status([*check, *words, "--json"]) == 2
        error = json.loads(capsys.readouterr().out)["error"]
        assert message in error["message"]
        assert error["advice"].endswith(advice)
    assert status(["record", "/dev/nowhere", "--device", "sdb"]) == 2
    assert "--device is for --check" in capsys.readouterr().err
    assert original(CheckRequest(both, "/dev/nowhere", device="sdb"))[0].devices[0].name == "sdb"


def test_a_check_compares_with_the_device_that_is_named(both: Path, tmp_path: Path) -> None:
    """What fio did again of the writes, recorded alone and a second later."""
    again = tmp_path / "again"
    again.mkdir()
    part = save_part(again, 1, served(events([4, 9], [24, 64], 16, operation=WRITE), 0.002))
    device = TracedDevice("loop0", "7:0", SIZE // 4)
    save_index(
        again,
        TraceFacts("box", "6.1", 0.0, (device,), seconds=11.0, parts=(part,), names={"7": "fio"}),
    )
    request = CheckRequest(both, "/dev/loop0", device="sdb")
    (found,) = compared(request, {"replay": again}).values()
    assert {name for name, each in found.items() if each.value} == set()
    (found,) = compared(replace(request, device="sda"), {"replay": again}).values()
    assert found["mix"].value == 1


def test_a_text_without_a_place_has_no_recording() -> None:
    text = '[targets.x]\nfile = "/tmp/x"\nsize = "1MiB"\n[workloads.m]\ntool = "replay"\n'
    with pytest.raises(StudyError, match="cannot be read here"):
        parse_study(f'{text}recorded = "monday"\n', "s.toml", str)


def test_reads_alone_are_no_harm(recording: Path) -> None:
    text = text_for("replay", recording, 0.0, 4.0)
    assert not TOOL.reach(load(text)).writes
    assert set(trace_of(text).action.tolist()) == {0}


def many(reads: int, writes: int = 0) -> str:
    kinds = [0] * reads + [1] * writes
    return trace(*((n * 1000, 0, kind, 0, 4096, 1) for n, kind in enumerate(kinds)))


@pytest.mark.parametrize(
    ("text", "options", "metric"),
    [
        (many(1000), {}, "read.response.p99"),
        (many(999), {}, "read.response.p90"),
        (many(50), {}, "read.response.mean"),
        (many(0, 2000), {}, "write.response.p99"),
        (many(10, 5000), {}, "read.response.mean"),
        (many(5000), {"speed": "max"}, "total.iops"),
        (trace((0, 0, 3, 0, 0, 0), (1, 0, 1, 0, 4096, 1)), {}, "write.response.mean"),
    ],
)
def test_what_decides_is_what_there_are_enough_ios_for(
    text: str, options: dict[str, OptionValue], metric: str
) -> None:
    assert TOOL.primary(load(text, **options)) == metric
    assert not TOOL.lacking(load(text, **options), metric)


def test_a_metric_that_no_trial_will_have_is_refused_by_the_plan(recording: Path) -> None:
    lines = 'tool = "replay"\nrecorded = "monday"\n{}[decide]\nprimary = "{}"'
    for more, metric, said in (
        ("", "read.response.p99", "needs 1000 I/Os, and the recording has 9"),
        ("", "total.late.p90", "needs 100 I/Os, and the recording has 10"),
        ('options = { speed = "max" }\n', "read.response.mean", "no I/O is to begin at a time"),
    ):
        with pytest.raises(StudyError) as caught:
            study(recording.parent, lines.format(more, metric))
        assert said in str(caught.value)


def test_options_of_the_study_stand_in_place_of_the_job_file_s(recording: Path) -> None:
    lines = (
        'tool = "fio"\nrecorded = "monday"\noptions = { runtime = "3s", rate_process = "linear" }'
    )
    (mine,) = study(recording.parent, lines).workloads
    assert "runtime=" not in mine.jobfile
    assert "rate_process" not in mine.jobfile
    assert "rate_iops=" in mine.jobfile


def test_where_places_are_laid_on_each_other_each_trial_says_so(tmp_path: Path) -> None:
    text = trace(*((n, 0, 0, n * MIB, 4096, 1) for n in range(20)))
    roomy, small = (
        dict(TOOL.command(load(text), replace(DEVICE, capacity=size * MIB), {}).files)
        for size in (20, 10)
    )
    assert "folded.txt" not in roomy
    due = [1000 + 10 * n for n in range(20)]
    result(tmp_path, [(at + 1.0, 1.0, 0) for at in due], due)
    (tmp_path / "folded.txt").write_bytes(small["folded.txt"])
    (told,) = (each for each in TOOL.parse(tmp_path).doubts if each.check == "replay-folded")
    assert told.what.startswith("the load uses 20 MiB of a device, and the target has 10")


def test_a_thread_that_does_not_wait_has_its_ios_at_their_times() -> None:
    """Of a Poisson process with several in flight at times, hardly any follows at its client what
    ended just before."""
    chance = random.Random(6)
    times = sorted(chance.randrange(2_000_000) for _ in range(1000))
    found = trace_of(trace(*((at, 0, 0, 0, 4096, 100) for at in times), seconds=2.0))
    clients = clients_of(found, 1.0).tolist()
    close = [
        one == other
        for (one, other), gap in zip(pairwise(clients), np.diff(found.at).tolist(), strict=True)
        if gap < 1000
    ]
    assert len(close) > 300
    assert not any(close)


def test_for_comparison_it_is_the_file_that_blkparse_writes_for_fio(tmp_path: Path) -> None:
    """Fields at their places in ``struct blk_io_trace``; what came of it is read from fio's log."""
    asked = trace((0, 1, 0, 4096, 4096, 0), (2500, 1, 1, 8192, 8192, 0), (3000, 1, 3, 0, 0, 0))
    command = TOOL.command(load(asked, by="blktrace"), DEVICE, {})
    raw = dict(command.files)["client-0.iolog"]
    assert len(raw) == 3 * 48
    second = struct.unpack_from("<IIQQIIIIIHH", raw, 48)
    assert second[0] == 0x65617407
    assert second[2:5] == (2_500_000, 16, 8192)
    assert second[5] & 0xFFFF == 1, "queued"
    assert second[5] >> 16 & 3 == 2, "a write"
    assert "--ioengine=libaio" in command.argv
    result(tmp_path, [(1.0, 0.5, 0), (4.0, 0.9, 1)], [0, 0])
    (tmp_path / "client-0.iolog").write_bytes(raw)
    found = {each.metric: each.value for each in TOOL.parse(tmp_path).measurements}
    assert (found["read.ios"], found["write.ios"]) == (1, 1)
    assert found["write.lat.mean"] == pytest.approx(0.0009)
