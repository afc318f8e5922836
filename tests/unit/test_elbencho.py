"""elbencho: what its CSV, JSON and text say, in every version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.formats.elbencho import FORMAT, parse
from iotrial.model.measurement import Measurement, metric
from iotrial.model.recording import Recording
from iotrial.plan.sense import known_metric
from iotrial.units import parse_bytes
from mutants import mutants

DATA = Path(__file__).parent.parent / "data" / "elbencho"
RECORDED = sorted(DATA.glob("[0-9]*.*"))
MIB = 2.0**20


def read(name: str) -> tuple[Recording, ...]:
    return FORMAT.read((DATA / name).read_bytes(), name)


def values(recording: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements}


def changed(name: str, old: str, new: str) -> bytes:
    text = (DATA / name).read_text()
    assert old in text
    return text.replace(old, new, 1).encode()


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_every_recording_is_recognised_and_read_with_known_metrics(path: Path) -> None:
    data = path.read_bytes()
    sure = {each.name: each.recognises(data[: 2**16], path.name) for each in formats().values()}
    assert sure.pop("elbencho") == 3
    assert max(sure.values()) < 3
    found = FORMAT.read(data, "f")
    assert len(found) == (2 if path.name.startswith(("1.0", "1.4")) else 3)
    for recording in found:
        assert recording.tool == recording.workload == "elbencho"
        assert recording.version in ("", path.stem)
        for each in recording.measurements:
            assert known_metric(each.metric), each
            assert (each.unit, each.raw, each.job) == (metric(each.metric).unit, "f", "all")


@pytest.mark.parametrize("version", sorted({path.stem for path in RECORDED}))
def test_csv_json_and_text_of_a_run_say_the_same(version: str) -> None:
    """The text rounds latencies to three digits, and JSON does not cut bytes."""
    texts = read(f"{version}.txt")
    for suffix in (".csv", ".json"):
        if not (DATA / f"{version}{suffix}").exists():
            continue
        for ours, theirs in zip(read(f"{version}{suffix}"), texts, strict=True):
            told, text = values(ours), values(theirs)
            shared = {
                name for name in told.keys() & text.keys() if not name.endswith((".cpu", ".bw"))
            }
            assert len(shared) > 5
            for name in shared:
                assert told[name] == pytest.approx(text[name], rel=0.006, abs=1e-9), name
            for name in told.keys() & text.keys():
                if name.endswith(".bw"):
                    assert told[name] == pytest.approx(text[name], abs=MIB), name


def test_a_run_with_several_phases_is_one_recording_in_base_units() -> None:
    run = read("2.0-9.csv")[0]
    row = dict(
        zip(
            *(line.split(",") for line in (DATA / "2.0-9.csv").read_text().splitlines()[:3:2]),
            strict=True,
        )
    )
    assert row["operation"] == "WRITE"
    found = values(run)
    assert found["create.rate"] == float(row["entries/s [last]"])
    assert found["write.iops"] == float(row["IOPS [last]"])
    assert found["write.bw"] == float(row["MiB/s [last]"]) * MIB
    assert found["write.lat.mean"] == float(row["IO lat us [avg]"]) / 1e6
    assert found["create.lat.max"] == float(row["Ent lat us [max]"]) / 1e6
    assert found["write.seconds"] == float(row["time ms [last]"]) / 1e3
    assert found["write.cpu"] == float(row["CPU% [last]"]) / 100
    assert {
        "create.dir.rate", "stat.rate", "read.rate", "read.file.lat.mean", "delete.rate",
        "delete.dir.rate", "read.bw",
    } <= found.keys()  # fmt: skip
    assert {("block", "16384"), ("threads", "2"), ("files", "200"), ("direct", "0")} <= set(
        run.treatment
    )
    assert {("iodepth", "4"), ("direct", "1"), ("rand", "1"), ("size", "16777216")} <= set(
        read("2.0-9.csv")[1].treatment
    )


def test_json_keeps_all_digits_of_bandwidth_and_its_start() -> None:
    first = json.loads((DATA / "3.0-37.json").read_text().splitlines()[1])
    run = read("3.0-37.json")[0]
    assert values(run)["write.bw"] == float(first["last_done"]["bytes/s"])
    assert run.started > 1.7e9
    assert read("2.0-9.csv")[0].started == 0.0  # the date there is that of the row


def test_percentiles_are_upper_bounds() -> None:
    found = {each.metric: each for each in read("3.0-37.txt")[0].measurements}
    ours = {each.metric: each for each in read("3.0-37.json")[0].measurements}
    for name in ("write.lat.p50", "write.lat.p99", "delete.lat.p75"):
        assert found[name].censored == ours[name].censored == "low"
        assert ours[name].value == pytest.approx(found[name].value)
    assert found["write.lat.mean"].censored == ""


def test_reads_and_writes_of_a_mix_are_apart() -> None:
    for name in ("2.0-9.csv", "3.0-37.json", "3.0-37.txt"):
        mix = read(name)[2]
        found = values(mix)
        share = found["read.iops"] / (found["read.iops"] + found["write.iops"])
        assert share == pytest.approx(0.3, abs=0.01)
        assert ("rwmixpct", "30") in mix.treatment


def test_what_1_x_counts_together_is_called_total() -> None:
    text = (
        "OPERATION RESULT TYPE        FIRST DONE  LAST DONE\n"
        "========= ================   ==========  =========\n"
        "RWMIX30   Elapsed ms       :       1000       1000\n"
        "          IOPS             :       1000       1000\n"
        "          IOPS read        :        300        300\n"
        "          Throughput MiB/s :       1000       1000\n"
        "          Read MiB/s       :        300        300\n"
        "          Total MiB        :       1000       1000\n"
        "          Read MiB         :        300        300\n"
        "---\n"
    )
    (run,) = FORMAT.read(text.encode(), "f")
    found = values(run)
    assert found["total.bw"] == 1000 * MIB
    assert found["read.bw"] == 300 * MIB
    assert (found["total.iops"], found["read.iops"]) == (1000, 300)
    assert "write.bw" not in found


def test_a_rate_cut_to_nothing_is_at_least_that() -> None:
    text = (
        "WRITE       Elapsed time     :     1m0.000s     1m2.500s\n"
        "            IOPS             :          16          16\n"
        "            Throughput MiB/s :           0           0\n"
        "            Total MiB        :           3           4\n"
        "---\n"
    )
    (run,) = FORMAT.read(text.encode(), "f")
    assert Measurement("write.bw", 0.0, "bytes/s", "all", "f", "high") in run.measurements
    assert values(run)["write.seconds"] == 62.5
    assert [doubt.check for doubt in run.doubts] == ["elbencho-cut"]


def test_iterations_in_one_file_are_recordings_of_their_own() -> None:
    lines = (DATA / "1.4-1.csv").read_text().splitlines()
    twice = "\n".join([*lines, *lines]) + "\n"  # with the names of the columns again
    assert len(FORMAT.read(twice.encode(), "f")) == 4
    with pytest.raises(FormatError, match="4 runs of elbencho; one is wanted"):
        parse(twice.encode(), "f")


def test_syncs_and_dropped_caches_between_phases_are_left_out() -> None:
    text = (DATA / "1.4-1.txt").read_text()
    row = "{}      Elapsed ms       :          3          4\n---\n"
    at = text.index("STAT ")
    more = text[:at] + row.format("SYNC") + row.format("DROPCACHE") + text[at:]
    assert [values(each) for each in FORMAT.read(more.encode(), "f")] == [
        values(each) for each in read("1.4-1.txt")
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("2.0-9.csv", ",WRITE,", ",WR1TE!,", "is not an operation"),
        ("2.0-9.csv", ",dir,1,", ",dir,", "fields; .* are named"),
        ("2.0-9.csv", "IOPS [first],IOPS [last]", "IOPS [last],IOPS [last]", "named twice"),
        ("3.0-37.json", '"elapsed_time_ms":"', '"elapsed_time_ms":"x', "is not a whole number"),
        ("3.0-37.json", '"phase_type"', '"phase_type":"READ","phase_type"', "occurs twice"),
        ("3.0-37.txt", "Throughput MiB/s :", "Throughput MiB/s : 9", "first and last are due"),
        ("3.0-37.txt", "[ min=", "[ mid=", "no minimum, mean and maximum"),
    ],
)
def test_what_is_not_whole_is_an_error(name: str, old: str, new: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        FORMAT.read(changed(name, old, new), "f")


def test_numbers_that_cannot_all_be_right_are_an_error() -> None:
    table = (
        "WRITE       Elapsed time     :      1.000s      2.000s\n"
        "            IOPS             :        200        {iops}\n"
        "            Throughput MiB/s :        200        {rate}\n"
        "            Total MiB        :        200        {total}\n"
        "            IO latency       : [ min=1us avg={mean} max=9.00ms ]\n"
        "---\n"
    )
    right = {"iops": 300, "rate": 300, "total": 600, "mean": "1.00ms"}
    command = 'COMMAND LINE: "elbencho" "-w" "-b" "1048576" "f" \n'
    assert FORMAT.read((command + table.format(**right)).encode(), "f")
    for name, value, message in (
        ("rate", 310, "are not"), ("rate", 30, "are not"), ("total", 199, "were done of 208"),
        ("mean", "90.0ms", "a mean of"), ("iops", 30, "bytes in 30 I/Os"),
    ):  # fmt: skip
        with pytest.raises(FormatError, match=f"line 2: WRITE.*{message}"):
            FORMAT.read((command + table.format(**{**right, name: value})).encode(), "f")


def test_a_text_that_ends_within_a_phase_is_an_error() -> None:
    text = (DATA / "3.0-37.txt").read_text()
    with pytest.raises(FormatError, match="ends within a phase"):
        FORMAT.read(text[: text.rindex("IOPS read") + 44].encode(), "f")


def test_the_live_log_is_told_from_the_result() -> None:
    live = b"ISO Date,Label,Phase,RuntimeMS,Rank,MixType,Done%,DoneBytes,MiB/s,IOPS\n"
    assert FORMAT.recognises(live, "f") == 3
    with pytest.raises(FormatError, match="live log") as caught:
        FORMAT.read(live, "f")
    assert "--csvfile" in str(caught.value)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)  # fmt: skip
@given(pair=mutants([path.read_bytes() for path in RECORDED]))
def test_damaged_recordings_are_read_or_refused_and_nothing_else(
    pair: tuple[bytes, bytes],
) -> None:
    _, hurt = pair
    try:
        found = FORMAT.read(hurt, "f")
    except FormatError:
        return
    for recording in found:
        assert recording.measurements
        for each in recording.measurements:
            assert 0 <= each.value < 1e19
            assert metric(each.metric).unit == each.unit


PHASE = """\
{said}
OPERATION   RESULT TYPE         FIRST DONE   LAST DONE
=========== ================    ==========   =========
WRITE       Elapsed time     :      1.000s      1.000s
            IOPS             :  {iops}  {iops}
            Throughput MiB/s :  {mib}  {mib}
            Total MiB        :  {mib}  {mib}
---

"""


@pytest.mark.parametrize(
    "said",
    [
        'COMMAND LINE: "elbencho" "-w" "-b" "{size}k" "-t" "2" "/dev/x"',
        "COMMAND LINE: elbencho -w -b{size}k -t2 /dev/x",
        "$ sudo ./bin/elbencho -w -b {size}k -t 2 /dev/x",
        "+ elbencho --write --block={size}k -t 2 /dev/x",
        "",
    ],
)
def test_block_sizes_of_runs_in_one_file_are_told_apart(said: str) -> None:
    sizes = [4 << n for n in range(10)]
    rates = {size: 200_000 // (size // 4) for size in sizes}
    text = "".join(
        PHASE.format(said=said.format(size=size), iops=iops, mib=iops * size // 1024)
        for size, iops in rates.items()
    )
    found = FORMAT.read(text.encode(), "f")
    blocks = [parse_bytes(dict(each.treatment)["block"]) for each in found]
    assert blocks == [size * 1024 for size in sizes]


def test_a_block_size_that_rates_do_not_tell_is_not_said() -> None:
    (odd,) = FORMAT.read(PHASE.format(said="", iops=1000, mib=5).encode(), "f")
    (coarse,) = FORMAT.read(PHASE.format(said="", iops=1, mib=1).encode(), "f")
    assert "block" not in dict(odd.treatment) | dict(coarse.treatment)
