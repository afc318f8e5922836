"""fio's logs: what they say, in every version, of any size."""

from __future__ import annotations

import math
import mmap
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.formats.fio import log_rows
from iotrial.formats.fio import log_rows as fio_log_rows
from iotrial.formats.fio.bins import MOST, bins_of, edge, middle
from iotrial.formats.fio.json_output import parse
from iotrial.formats.fio.log import job_of, kind_of, layout_of
from iotrial.model.measurement import metric
from iotrial.model.recording import Recording
from iotrial_import.formats import fio_hist_log, fio_log
from iotrial_import.formats import fio_log_ios as fio_log_kernel
from iotrial_import.formats.fio_hist_log import histograms

DATA = Path(__file__).parent.parent / "data" / "fio-log"
LOGS = sorted(path for path in DATA.iterdir() if path.suffix == ".log")
PLAIN = [path for path in LOGS if "hist" not in path.name]
PAIRS = [
    (DATA / f"{path.stem}_clat{'' if path.stem == '2.1.10' else '.1'}.log", path)
    for path in sorted(DATA.glob("*.json"))
    if "avg" not in path.name
]
LINE = b"%d, %d, 0, 4096, 0\n"


@pytest.fixture(scope="module", autouse=True, params=["usual", "compiled"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """What holds for a log holds whichever way it is read."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "usual":
            patch.setattr(fio_log_kernel, "reader", lambda *_: None)
        else:
            pytest.importorskip("numba", reason="numba, which is optional, is not installed")
            assert fio_log_kernel.load()
        yield str(request.param)


def read(data: bytes, name: str = "x_clat.1.log") -> Recording:
    (run,) = fio_log.FORMAT.read(data, name)
    return run


def values(run: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in run.measurements}


def doubts(run: Recording) -> set[str]:
    return {each.check for each in run.doubts}


@cache
def lines(count: int, *, apart: int = 1, value: int = 80_000) -> bytes:
    return b"".join(LINE % (n * apart, value) for n in range(1, count + 1))


def shown(path: Path) -> dict[str, float]:
    measured = parse(path.read_bytes(), path.name).measurements
    return {each.metric: each.value for each in measured if each.job == "all"}


def test_the_registry_has_both() -> None:
    assert formats()["fio-log"] is fio_log.FORMAT
    assert formats()["fio-hist-log"] is fio_hist_log.FORMAT


@pytest.mark.parametrize(("log", "output"), PAIRS, ids=lambda path: path.name)
def test_a_log_of_every_io_says_what_the_output_of_the_same_run_says(
    log: Path, output: Path
) -> None:
    found, told = values(read(log.read_bytes(), log.name)), shown(output)
    same = [name for name in told if re.search(r"\.(bytes|clat\.p[\d.]+)$", name)]
    assert len(same) > 10
    assert {name: found[name] for name in same} == pytest.approx({n: told[n] for n in same})
    for operation in ("read", "write"):
        assert found[f"{operation}.clat.mean"] == pytest.approx(
            told[f"{operation}.clat.mean"], rel=1e-3
        )
        assert found[f"{operation}.iops"] == pytest.approx(told[f"{operation}.iops"], rel=0.03)
        assert found[f"{operation}.bw"] == pytest.approx(4096 * found[f"{operation}.iops"])


@pytest.mark.parametrize("version", ["2.1.10", "2.16", "3.42"])
def test_a_log_of_averages_has_the_means_over_time(version: str) -> None:
    told = shown(DATA / f"{version}-avg.json")
    dot = "" if version == "2.1.10" else ".1"
    rates, latencies = (
        read((DATA / f"{version}-avg_{kind}{dot}.log").read_bytes(), f"x_{kind}{dot}.log")
        for kind in ("iops", "clat")
    )
    for operation in ("read", "write"):
        name = f"{operation}.iops"
        assert values(rates)[name] == pytest.approx(told[name], rel=0.03)
        mean = values(latencies)[f"{operation}.clat.mean"]
        assert mean == pytest.approx(told[f"{operation}.clat.mean"], rel=0.5)
    assert "fio-log-averages" in doubts(latencies)
    assert not [name for name in values(latencies) if ".p" in name]
    assert values(rates)["read.iops.min"] <= values(rates)["read.iops"]


@pytest.mark.parametrize("log", [log for log, _ in PAIRS], ids=lambda path: path.name)
def test_a_log_is_recognised_by_shape_and_name(log: Path) -> None:
    head = log.read_bytes()[:65536]
    assert fio_log.FORMAT.recognises(head, log.name) == 3
    assert fio_log.FORMAT.recognises(head, "results.txt") == 1
    assert fio_hist_log.FORMAT.recognises(head, log.name) == 0


@pytest.mark.parametrize("head", [b"", b"a,b,c\n", b"\x00\xff", b"1, 2, 9, 4096\n", b"{}\n"])
def test_other_files_are_not_recognised(head: bytes) -> None:
    assert fio_log.FORMAT.recognises(head, "x_clat.1.log") == 0
    assert fio_hist_log.FORMAT.recognises(head, "x_clat_hist.1.log") == 0


@pytest.mark.parametrize(
    ("name", "kind", "job"),
    [
        ("x_clat.1.log", "clat", "x"),
        ("deep/lat_test_bw.12.log", "bw", "lat_test"),
        ("randread-iops.log", "iops", "randread"),
        ("agg-read_bw.log", "bw", "agg-read"),
        ("slat.log", "slat", ""),
        ("flat.log", "", ""),
        ("x_clat_hist.1.log", "", "x"),
    ],
)
def test_the_name_says_what_was_logged(name: str, kind: str, job: str) -> None:
    assert (kind_of(name), job_of(name)) == (kind, job)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b"1, 2, 0", "time value direction"),
        (b"1, 2, 0, 4096", "time value direction size"),
        (b"1, 2, 0, 4096, 8192", "time value direction size offset"),
        (b"1, 2, 0, 4096, 1", "time value direction size priority"),
        (b"1, 2, 0, 4096, 0x4001", "time value direction size priority"),
        (b"1, 2, 0, 4096, 8192, 0", "time value direction size offset priority"),
        (b"1, 200, 300, 1, 0, 0", "time value top direction size priority"),
        (b"1, 200, 0, 1, 4096, 0", "time value top direction size priority"),
        (b"1, 2, 0, 4096, 0, 99", "time value direction size priority issued"),
        (b"1, 2, 0, 4096, 8192, 0x0000, 9", "time value direction size offset priority issued"),
    ],
)
def test_the_columns_of_every_version_are_known(line: bytes, names: str) -> None:
    layout = layout_of([line])
    assert layout is not None
    assert layout.names == tuple(names.split())
    assert layout.recent is ("priority" in names)


def test_every_log_there_is_is_read() -> None:
    assert len(PLAIN) > 20
    for path in PLAIN:
        run = read(path.read_bytes(), path.name)
        assert run.tool == "fio"
        for each in run.measurements:
            assert metric(each.metric).unit == each.unit
            assert math.isfinite(each.value)


def test_epochs_priorities_and_issue_times_are_read() -> None:
    run = read((DATA / "3.42-epoch_bw.1.log").read_bytes(), "x_bw.1.log")
    assert run.started == pytest.approx(1795276662.445)
    assert run.seconds < 3
    assert values(run)["read.iops"] == pytest.approx(100, rel=0.05)
    for name in ("3.42-prio_clat.1.log", "3.42-issue_clat.1.log", "3.42-both-each_clat.1.log"):
        run = read((DATA / name).read_bytes(), name)
        assert values(run)["read.bytes"] == 4096 * values(run)["read.ios"]
        assert "fio-log-unit" not in doubts(run)
        assert run.treatment == (("bs", "4k"),)
    both = values(read((DATA / "3.42-both_clat.1.log").read_bytes(), "x_clat.1.log"))
    assert both["read.clat.max"] > both["read.clat.mean"]


def test_several_jobs_in_one_file_are_added_up_and_doubted() -> None:
    run = read((DATA / "2.1.10-many_bw.log").read_bytes(), "x_bw.log")
    assert "fio-log-jobs" in doubts(run)
    assert values(run)["read.bw"] == pytest.approx(3 * 100 * 4096, rel=0.05)
    two = read(lines(5000) + lines(5000))
    assert "fio-log-jobs" in doubts(two)
    assert values(two)["read.iops"] == pytest.approx(2 * values(read(lines(5000)))["read.iops"])


def test_ones_of_compressed_averages_are_no_rate() -> None:
    run = read((DATA / "3.33-compressed_iops.1.log").read_bytes(), "x_iops.1.log")
    assert run.measurements == ()
    assert doubts(run) == {"fio-log-ones"}


def test_a_compressed_log_says_how_to_unpack_it() -> None:
    data = (DATA / "3.33_clat.1.log.fz").read_bytes()
    assert fio_log.FORMAT.recognises(data, "x_clat.1.log.fz") == 2
    with pytest.raises(FormatError, match="--inflate-log"):
        read(data, "x_clat.1.log.fz")


def test_a_bandwidth_log_of_each_io_is_bytes_over_time_not_the_mean_of_its_values() -> None:
    data = b"".join(b"%d, 51200, 0, 4096, 0\n" % n for n in range(0, 4000, 10))
    found = values(read(data, "x_bw.1.log"))
    assert found["read.bw"] == pytest.approx(409600, rel=0.01)
    assert found["read.iops.min"] == found["read.iops.max"] == 100


def test_a_second_without_an_io_is_the_worst_one() -> None:
    data = b"".join(LINE % (n, 9) for n in range(5000) if not 2000 <= n < 3000)
    found = values(read(data))
    assert found["read.iops.min"] == 0
    assert found["read.iops"] == pytest.approx(800, rel=0.01)


def test_a_window_without_a_line_counts_as_nothing_done() -> None:
    data = b"".join(b"%d, 100, 0, 0, 0\n" % n for n in range(1000, 11000, 1000) if n != 5000)
    found = values(read(data, "x_iops.1.log"))
    assert found["read.iops"] == pytest.approx(90)
    assert found["read.iops.min"] == 0
    old = read(data.replace(b", 0, 0, 0\n", b", 0, 0\n"), "x_iops.1.log")
    assert values(old)["read.iops"] == pytest.approx(90)
    assert "fio-log-gaps" in doubts(old)


@pytest.mark.parametrize("end", [b", 0, 0, 0", b", 0, 0", b", 0"], ids=["3.18", "2.10", "2.1"])
def test_a_window_is_nothing_done_though_the_other_direction_had_one(end: bytes) -> None:
    """Reads in one window of four, writes in each: fio says 100 reads a second in that one."""
    data = b"".join(
        (b"%d, 100, 0%s\n" % (n, end[3:]) if n % 4000 == 0 else b"")
        + b"%d, 50, 1%s\n" % (n, end[3:])
        for n in range(1000, 21000, 1000)
    )
    found = values(read(data, "x_iops.1.log"))
    assert found["write.iops"] == pytest.approx(50)
    assert found["read.iops"] == pytest.approx(25, rel=0.21)
    assert found["read.iops.min"] == 0


def test_before_a_window_was_each_directions_own_the_first_of_the_second_came_late() -> None:
    data = b"1000, 50, 0, 0\n2000, 50, 0, 0\n2000, 30, 1, 0\n3000, 50, 0, 0\n3000, 30, 1, 0\n"
    found = values(read(data, "x_iops.1.log"))
    assert (found["read.iops"], found["write.iops"]) == (50, 30)


@pytest.mark.parametrize(("apart", "reads"), [(0, 25), (100, 100)], ids=["sampled", "since"])
def test_a_sample_before_2_10_is_of_the_time_since_the_sample_before(
    apart: int, reads: float
) -> None:
    """Of any direction where both are sampled at once (2.0.4), else of its own."""
    data = b"".join(
        (b"%d, 100, 0, 4096\n" % n if n % 4000 == 0 else b"") + b"%d, 50, 1, 4096\n" % (n + apart)
        for n in range(1000, 21000, 1000)
    )
    found = values(read(data, "x_iops.log"))
    assert found["read.iops"] == pytest.approx(reads, rel=0.01)
    assert found["write.iops"] == pytest.approx(50, rel=0.01)


@pytest.mark.parametrize(
    ("value", "apart", "tick", "doubted"),
    [
        (80, 1, 1e-6, True),  # a log of 1,000 I/Os a second of 80 µs
        (30, 1, 1e-6, False),  # nothing takes 30 ns
        (8_000_000, 1, 1e-9, False),  # 8 s in the first millisecond
        (20_000, 20, 1e-6, True),
    ],
)
def test_micro_and_nanoseconds_are_told_apart(
    value: int, apart: int, tick: float, *, doubted: bool
) -> None:
    data = lines(5000, apart=apart, value=value).replace(b", 4096, 0\n", b", 4096\n")
    run = read(data)
    assert values(run)["read.clat.mean"] == pytest.approx(value * tick)
    assert ("fio-log-unit" in doubts(run)) is doubted


def test_bins_are_those_of_fio() -> None:
    def plain(value: int) -> int:
        if value < 128:
            return value
        drop = value.bit_length() - 7
        return min(((drop + 1) << 6) + ((value >> drop) & 63), MOST - 1)

    numbers = [*range(5000), *(2**k + d for k in range(7, 53) for d in (-1, 0, 1))]
    assert bins_of(np.array(numbers)).tolist() == [plain(n) for n in numbers]
    assert all(a < b for a, b in pairwise(edge(index) for index in range(MOST)))
    assert (middle(MOST - 1), middle(19 * 64 - 1)) == (17_112_760_320, 16_711_680)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "file is empty"),
        (b"\n\n", "line 1: no line is whole"),
        (b"1, 2, 0, 4096, 0", "line 1: no line is whole"),
        (b"1, 2\n", "line 1: '1, 2' is not what fio logs"),
        (lines(9) + b"1, 2, 7, 4096, 0\n", "line 10: '1, 2, 7, 4096, 0' is not what fio logs"),
    ],
)
def test_what_is_no_log_is_an_error(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=re.escape(said)):
        read(data)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"1, 2, 0, 4096\n", "4 fields, not 5"),
        (b"1, x, 0, 4096, 0\n", "'x' is not a whole number"),
        (b"1, -2, 0, 4096, 0\n", "'-2' is not a whole number"),
        (b"1, , 0, 4096, 0\n", "'' is not a whole number"),
        (b"\n", "1 fields"),
        (b"1, %d, 0, 4096, 0\n" % 2**60, "1152921504606846976 is larger"),
    ],
)
@pytest.mark.parametrize("before", [9, 300_000], ids=["in the head", "in a later block"])
def test_a_malformed_line_is_an_error_with_its_number(bad: bytes, said: str, before: int) -> None:
    with pytest.raises(FormatError, match=re.escape(f"line {before + 1}: {said}")):
        read(lines(before) + bad + lines(3))


def test_a_direction_that_fio_does_not_log_is_an_error_wherever_it_is() -> None:
    with pytest.raises(FormatError, match="line 300001: direction 7: fio writes 0 to 2"):
        read(lines(300_000) + b"300001, 2, 7, 4096, 0\n")


def test_a_time_that_cannot_be_is_an_error_or_doubted() -> None:
    good = lines(20_000)
    with pytest.raises(FormatError, match="line 15001: the time goes back to 15001 ms"):
        read(good.replace(b"\n15000, ", b"\n150000, "))
    assert "fio-log-pause" in doubts(read(good.replace(b"\n20000, ", b"\n200000, ")))
    averages = good.replace(b" 4096, 0\n", b" 0, 0\n").replace(b"\n15000, ", b"\n150000, ")
    with pytest.raises(FormatError, match="line 15001: the time goes back from 150000 to 15001"):
        read(averages)


@pytest.mark.parametrize(
    "bad",
    [
        b"0x10, 2, 0, 4096, 0\n",
        b'"1", 2, 0, 4096, 0\n',
        b"1\r2, 3, 0, 4096, 0\n",
        b"1, 2, 0, 4096, 3\n",
        b"1 2, 2, 0, 4096, 0\n",
    ],
)
def test_what_a_reader_of_csv_would_take_is_no_line_of_fio(bad: bytes) -> None:
    with pytest.raises(FormatError, match="line 300001: "):
        read(lines(300_000) + bad + lines(5))


def test_a_torn_last_line_is_left_out_and_doubted() -> None:
    run = read(lines(100) + b"101, 80")
    assert values(run)["read.ios"] == 100
    assert "fio-log-torn" in doubts(run)
    assert "fio-log-torn" not in doubts(read(lines(100)))


def test_line_ends_of_another_system_and_no_spaces_change_nothing() -> None:
    data = lines(200_000, apart=2)
    plain = values(read(data))
    assert values(read(data.replace(b"\n", b"\r\n"))) == plain
    assert values(read(data.replace(b", ", b","))) == plain


def test_a_name_that_says_nothing_is_an_error() -> None:
    with pytest.raises(FormatError, match=r"bw, iops, lat, clat or slat"):
        read(lines(10), "results.txt")


def test_values_beyond_the_last_bin_are_censored() -> None:
    data = b"".join(LINE % (20_000 + n, 2 * 10**10) for n in range(1000))
    (found,) = (m for m in read(data).measurements if m.metric == "read.clat.p50")
    assert found.censored == "high"


def test_a_mapped_file_is_read_in_flat_memory(tmp_path: Path, way: str) -> None:
    """A log is four times as long: the process grows by less than half of what is more.

    What grew with the log's length would grow by all of it.  The shorter one is long enough for
    everything that is read at a time; blocks in flight make some difference from run to run.
    """
    path = tmp_path / "x_clat.1.log"
    block = lines(250_000)
    with path.open("wb") as file:
        for _ in range(40):
            file.write(block)
    more = 30 * len(block)
    assert more > 130 * 2**20
    code = """
import mmap, sys
from pathlib import Path
from iotrial.formats import formats
from iotrial_import.formats import fio_log_ios as log_kernel
if sys.argv[2] == "compiled":
    log_kernel.load()
def peak():
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0])
small = Path(sys.argv[1]).with_name("y_clat.1.log")
for path in (small, Path(sys.argv[1])):
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        (run,) = formats()["fio-log"].read(data, path.name)
    print(peak(), int(run.measurements[0].value))
"""
    path.with_name("y_clat.1.log").write_bytes(block * 10)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), way], capture_output=True, text=True, check=True
    )
    (before, few), (after, many) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert (few, many) == (2_500_000, 10_000_000)
    assert after - before < more / 2 / 1024


def test_an_error_leaves_a_mapped_file_closable(tmp_path: Path) -> None:
    path = tmp_path / "x_clat.1.log"
    path.write_bytes(lines(300_000) + b"x\n")
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with pytest.raises(FormatError, match="line 300001"), data:
            fio_log.FORMAT.read(data, "x_clat.1.log")


def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    path = DATA / "3.42_clat.1.log"
    whole = read(path.read_bytes(), path.name)
    for size in (60, 100, 1000):
        monkeypatch.setattr(fio_log_rows, "_BLOCK", size)
        assert read(path.read_bytes(), path.name) == whole


@st.composite
def mutations(draw: st.DrawFn) -> tuple[bytes, str]:
    path = draw(st.sampled_from(LOGS))
    data = path.read_bytes()
    rows = data.splitlines(keepends=True)
    how = draw(st.sampled_from(["bytes", "lines", "shuffle", "cut", "join", "garbage"]))
    if how == "bytes":
        changed = bytearray(data)
        for _ in range(draw(st.integers(1, 4))):
            at = draw(st.integers(0, len(changed)))
            end = at + draw(st.integers(0, 6))
            changed[at:end] = draw(
                st.binary(max_size=6) | st.sampled_from([b",", b"\n", b"9", b"0x", b"\r", b" "])
            )
        data = bytes(changed)
    elif how == "lines":
        at = draw(st.integers(0, len(rows) - 1))
        data = b"".join([*rows[:at], rows[at] * draw(st.integers(0, 3)), *rows[at + 1 :]])
    elif how == "shuffle":
        random.Random(draw(st.integers())).shuffle(rows)
        data = b"".join(rows)
    elif how == "cut":
        data = data[draw(st.integers(0, len(data))) : draw(st.integers(0, len(data)))]
    elif how == "join":
        data += draw(st.sampled_from(LOGS)).read_bytes()
    else:
        data = draw(st.binary(max_size=300))
    return data, path.name


@settings(max_examples=400, deadline=None)
@given(mutations())
def test_a_mutated_log_gives_sound_numbers_or_a_format_error(mutated: tuple[bytes, str]) -> None:
    data, name = mutated
    for each in (fio_log.FORMAT, fio_hist_log.FORMAT):
        each.recognises(data[:65536], name)
        try:
            (run,) = each.read(data, name)
        except FormatError:
            continue
        for measurement in run.measurements:
            assert math.isfinite(measurement.value)
            assert measurement.value >= 0
            assert metric(measurement.metric).unit == measurement.unit


def said_of(data: bytes, name: str) -> list[object]:
    said: list[object] = []
    for each in (fio_log.FORMAT, fio_hist_log.FORMAT):
        try:
            said.append(each.read(data, name))
        except FormatError:
            said.append("error")
    return said


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(mutations())
def test_without_pyarrow_the_same_is_read_and_refused(
    monkeypatch: pytest.MonkeyPatch, mutated: tuple[bytes, str]
) -> None:
    usual = said_of(*mutated)
    with monkeypatch.context() as patch:
        patch.setattr(fio_log_rows, "_reader", lambda: log_rows.columns_by_numpy)
        assert said_of(*mutated) == usual


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_without_pyarrow_a_log_says_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = said_of(path.read_bytes(), path.name)
    assert usual != ["error", "error"]
    monkeypatch.setattr(fio_log_rows, "_reader", lambda: log_rows.columns_by_numpy)
    assert said_of(path.read_bytes(), path.name) == usual


def test_the_histograms_of_a_run_give_the_percentiles_of_its_ios() -> None:
    """By the bins of the log of every I/O that would have been there: counts and places."""
    for name, tick, stride in (
        ("2.16-coarse_clat_hist.1.log", 1e-6, 64),
        ("3.42-h3_clat_hist.1.log", 1e-9, 8),
    ):
        data = (DATA / name).read_bytes()
        assert fio_hist_log.FORMAT.recognises(data[:65536], name) == 3
        assert fio_log.FORMAT.recognises(data[:65536], name) == 0
        found = histograms(data, name)
        assert (found.tick, found.stride) == (tick, stride)
        rows = [[int(word) for word in line.split(b",")] for line in data.splitlines()]
        reads = [sum(column) for column in zip(*(r[3:] for r in rows if r[1] == 0), strict=True)]
        assert found.counts[0].tolist() == reads
        (run,) = fio_hist_log.FORMAT.read(data, name)
        assert values(run)["read.ios"] == sum(reads)


@pytest.mark.parametrize("p", [50.0, 90.0, 95.0, 99.0])
def test_percentiles_of_histograms_are_those_of_fiologparser_hist(p: float) -> None:
    """It interpolates between the upper ends of bins, at the middle of each bin's count."""
    name = "3.42-h3_clat_hist.1.log"
    data = (DATA / name).read_bytes()
    found = histograms(data, name)
    (run,) = fio_hist_log.FORMAT.read(data, name)
    counts, stride = found.counts[0], found.stride
    places = [(edge(i * stride) + edge(min((i + 1) * stride + 1, MOST - 1))) / 2
              for i in range(counts.size)]  # fmt: skip
    share = 100 * (counts.cumsum() - counts / 2) / counts.sum()
    theirs = float(np.interp(p, share, places))
    ours = values(run)[f"read.clat.p{p:g}"] * 1e9
    # Where a rank falls between two I/Os far apart, they draw a line and fio takes the upper one.
    held = np.flatnonzero(counts)
    above = next(i for i in held if counts[: i + 1].sum() >= p / 100 * counts.sum())
    below = max((i for i in held if i < above), default=above)
    least, most = edge(int(below) * stride), edge((int(above) + 2) * stride)
    assert least <= theirs <= most
    assert edge(int(above) * stride) <= ours <= edge((int(above) + 1) * stride)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "file is empty"),
        (b"1, 0, 4096, 5\n", "line 1: 4 fields; 3 and the bins"),
        (b"1, 0, 4096" + b", 1" * 29 + b"\n1, 0\n", "line 2: 2 fields, not 32"),
        (b"1, 4, 4096" + b", 1" * 29 + b"\n", "line 1: direction 4"),
        (b"1, 0, 4096" + b", %d" % 2**52 * 2000 + b"\n", "line 1: 2003 fields"),
    ],
)
def test_a_malformed_histogram_log_is_an_error_with_its_line(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=re.escape(said)):
        fio_hist_log.FORMAT.read(data, "x_clat_hist.1.log")
