"""Jobs, hosts and files of one run become one: sums, weighted means, percentiles from bins."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.cli.main import status
from iotrial.formats.fio import json_output
from iotrial.formats.fio.json_output import parse
from iotrial.formats.fio.log import job_of, kind_of, log_name
from iotrial.model.measurement import Measurement
from iotrial.model.recording import LatencyHistogram, Recording
from iotrial.model.trial import Doubt
from iotrial_import import fio_logs, plausible
from iotrial_import.cells import LabelledRecording, cells, merged
from iotrial_import.files import read
from iotrial_import.formats import fio_hist_log, fio_log
from iotrial_import.legend import ImportMap, OriginalFile

DATA = Path(__file__).parent.parent / "data"
HOSTS = DATA / "fio-log" / "two-hosts"
EXACT = re.compile(r"\.(ios|bytes|[sc]?lat\.(max|p[\d.]+))$")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of(run: Recording, job: str = "all") -> dict[str, float]:
    return {each.metric: each.value for each in run.measurements if each.job == job}


def exact(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if EXACT.search(name)}


def checks(doubts: Sequence[Doubt]) -> set[str]:
    return {each.check for each in doubts}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    capsys.readouterr()
    assert status([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# -- logs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("x_clat.1.log", ("", "x", "clat", "1", "")),
        ("a/b/my_run_bw.12.log.box7", ("a/b/", "my_run", "bw", "12", "box7")),
        ("x_clat_hist.1.log.10.0.0.1", ("", "x", "clat_hist", "1", "10.0.0.1")),
        ("x_iops.log", ("", "x", "iops", "", "")),
        ("x_lat.3.log.gz", ("", "x", "lat", "3", "")),
        ("x_lat.3.log.box7.xz", ("", "x", "lat", "3", "box7")),
    ],
)
def test_the_name_of_a_log_says_run_kind_job_and_host(file: str, wanted: tuple[str, ...]) -> None:
    found = log_name(file)
    assert found
    assert (found.folder, found.name, found.kind, found.job, found.host) == wanted


@pytest.mark.parametrize(
    "file", ["clat.1.log", "x_clat.1.txt", "x_bw.one.log", "fio.json", "x.log"]
)
def test_other_names_are_no_names_of_logs(file: str) -> None:
    assert log_name(file) is None


def test_a_host_whose_name_is_a_kind_of_log_changes_nothing() -> None:
    assert kind_of("x_clat.1.log.bw-7") == "clat"
    assert job_of("x_clat.1.log.bw-7") == "x"
    assert kind_of("x_clat_hist.1.log.lat") == ""


def test_the_logs_of_two_hosts_say_what_fio_says_of_all_jobs_together() -> None:
    paths = sorted(HOSTS.glob("x_*"))
    (whole_run,) = fio_logs.together([read(each.name, each, ImportMap()) for each in paths])
    assert whole_run.parts == 2
    (run,) = whole_run.recordings
    told = parse((HOSTS / "out.json").read_bytes(), "out.json").measurements
    whole = {each.metric: each.value for each in told if each.job == "all"}
    same = [name for name in whole if re.search(r"\.(clat\.p[\d.]+|bytes)$", name)]
    assert len(same) == 2 * 7
    found = of(run)
    assert {n: found[n] for n in same} == pytest.approx({n: whole[n] for n in same})
    for operation in ("read", "write"):
        mean = f"{operation}.clat.mean"
        assert found[mean] == pytest.approx(whole[mean], rel=1e-6)
        for rate in ("iops", "bw"):
            name = f"{operation}.{rate}"
            assert found[name] == pytest.approx(whole[name], rel=0.05)
    jobs = {each.job for each in run.measurements} - {"all"}
    assert jobs == {f"127.0.0.{host}#{job}" for host in (1, 2) for job in (1, 2)}
    assert found["read.bw"] == pytest.approx(sum(of(run, job)["read.bw"] for job in jobs))


def test_import_makes_one_run_of_the_logs_of_a_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for repeat in ("run1", "run2"):
        for path in HOSTS.glob("x_*"):
            shutil.copy(path, here / path.name.replace("x_", f"{repeat}_"))
    other = here / "run2_clat.2.log.127.0.0.2"  # else the second would be a copy of the first
    other.write_text(re.sub(r"(?m)^(\d+), \d+", r"\1, 99999", other.read_text()))
    answer = said(capsys, "import", ".", "--out", "r")
    assert len(answer["files"]) == 24
    assert {each["trial"][:4] for each in answer["measurements"]} == {"0001", "0002"}
    assert answer["factors"] == {}  # repeats of one cell
    assert {"all", "127.0.0.1#1"} <= {each["job"] for each in answer["measurements"]}
    assert (here / "r" / answer["measurements"][0]["source"].partition(":")[0]).is_file()


def test_logs_of_other_names_folders_and_hosts_are_other_runs(here: Path) -> None:
    log_of_one = (DATA / "fio-log" / "3.42_clat.1.log").read_bytes()
    names = ["a/x_clat.1.log", "b/x_clat.1.log", "a/y_clat.1.log", "a/x_clat.1.log.h", "a/clat.log"]
    originals = [
        OriginalFile(name, "fio-log", fio_log.FORMAT.read(log_of_one, name)) for name in names
    ]
    assert fio_logs.together(originals) == originals


def test_an_empty_log_is_no_run_and_no_error(here: Path) -> None:
    (here / "x_slat.1.log").touch()
    assert read("x_slat.1.log", here / "x_slat.1.log", ImportMap()).recordings == ()


def lines(*rows: tuple[int, int, int, int]) -> bytes:
    return b"".join(b"%d, %d, %d, %d, 0\n" % row for row in rows)


def logs(files: dict[str, bytes]) -> Recording:
    found = [
        OriginalFile(
            name,
            "fio-hist-log" if "hist" in name else "fio-log",
            (fio_hist_log if "hist" in name else fio_log).FORMAT.read(data, name),
        )
        for name, data in files.items()
    ]
    (whole,) = fio_logs.together(found)
    assert whole.files == tuple(files)
    return whole.recordings[0]


def test_means_of_averages_are_weighted_by_the_ios_of_the_jobs() -> None:
    windows = [(second * 1000, 0) for second in range(1, 5)]

    def average(value: int) -> bytes:
        return lines(*((time, value, op, 0) for time, op in windows))

    run = logs(
        {
            "x_clat.1.log": average(1_000_000),
            "x_clat.2.log": average(4_000_000),
            "x_iops.1.log": average(300),
            "x_iops.2.log": average(100),
        }
    )
    assert of(run)["read.iops"] == pytest.approx(400)
    assert of(run)["read.clat.mean"] == pytest.approx(1.75e-3)
    assert not [name for name in of(run) if ".p" in name]


def test_without_the_number_of_ios_there_is_no_mean_of_means() -> None:
    def average(value: int) -> bytes:
        return lines(*((time * 1000, value, 0, 0) for time in range(1, 5)))

    run = logs({"x_clat.1.log": average(1_000_000), "x_clat.2.log": average(4_000_000)})
    assert of(run) == {}
    assert of(run, "2") == pytest.approx({"read.clat.mean": 4e-3})
    assert "merged-without" in checks(run.doubts)


def test_where_a_job_lacks_a_log_there_is_no_percentile_of_all() -> None:
    ios = lines(*((100 * n, 50_000, 0, 4096) for n in range(1, 30)))
    run = logs({"x_clat.1.log": ios, "x_bw.1.log": ios, "x_bw.2.log": ios})
    assert of(run)["read.ios"] == 2 * 29
    assert "read.clat.p99" not in of(run)
    assert "read.clat.mean" not in of(run)
    assert "read.clat.p99" in of(run, "1")
    assert "merged-without" in checks(run.doubts)


def test_logs_of_one_job_that_count_differently_are_doubted() -> None:
    rows = [(100 * n, 50_000, 0, 4096) for n in range(1, 30)]
    run = logs({"x_clat.1.log": lines(*rows), "x_bw.1.log": lines(*rows[:20])})
    assert "fio-logs-differ" in checks(run.doubts)


def test_jobs_that_read_and_jobs_that_write_do_not_dilute_each_other() -> None:
    reads = lines(*((100 * n, 50_000, 0, 4096) for n in range(1, 30)))
    writes = lines(*((100 * n, 90_000, 1, 8192) for n in range(1, 30)))
    run = logs({"x_clat.1.log": reads, "x_clat.2.log": writes})
    assert run.workload == "read+write"
    assert run.treatment == (("bs", "4k+8k"),)
    assert of(run)["read.clat.mean"] == pytest.approx(50e-6)
    assert of(run)["write.clat.p99"] == of(run, "2")["write.clat.p99"]


def test_the_block_size_of_one_job_is_not_that_of_all() -> None:
    same = lines(*((100 * n, 50_000, 0, 4096) for n in range(1, 30)))
    mixed = lines(*((100 * n, 50_000, 0, 4096 * (1 + n % 2)) for n in range(1, 30)))
    assert logs({"x_bw.1.log": same, "x_bw.2.log": mixed}).treatment == (("bs", "4k+-"),)
    assert logs({"x_bw.1.log": same, "x_clat.2.log": same}).treatment == (("bs", "4k"),)


def test_jobs_of_unlike_length_are_doubted() -> None:
    long = lines(*((100 * n, 50_000, 0, 4096) for n in range(1, 100)))
    short = lines(*((100 * n, 50_000, 0, 4096) for n in range(1, 30)))
    assert "merged-unlike" in checks(logs({"x_bw.1.log": long, "x_bw.2.log": short}).doubts)


def test_histogram_logs_of_several_jobs_are_added_up_bin_by_bin() -> None:
    name = "3.42-h3_clat_hist.1.log"
    rows = (DATA / "fio-log" / name).read_bytes().splitlines(keepends=True)
    (whole,) = fio_hist_log.FORMAT.read(b"".join(rows), name)
    half = len(rows) // 2
    run = logs(
        {"x_clat_hist.1.log.a": b"".join(rows[:half]), "x_clat_hist.1.log.b": b"".join(rows[half:])}
    )
    assert of(run) == of(whole)
    assert len([name for name in of(run) if ".p" in name]) == 12


def test_histogram_logs_of_other_coarseness_have_no_common_percentile() -> None:
    fine, coarse = b"1000, 0, 4096" + b", 1" * 1856, b"1000, 0, 4096" + b", 2" * 928
    run = logs({"x_clat_hist.1.log": fine + b"\n", "x_clat_hist.2.log": coarse + b"\n"})
    assert of(run) == {"read.ios": 2 * 1856.0}


IO = st.tuples(
    st.integers(1, 20_000), st.integers(1, 2**36), st.integers(0, 1), st.sampled_from([512, 4096])
)


def test_bandwidth_is_that_of_the_bandwidth_log_and_iops_that_of_the_log_of_iops() -> None:
    ios = lines(*((100 * n, 50_000, 0, 4096) for n in range(1, 41)))

    def average(value: int) -> bytes:
        return lines(*((time * 1000, value, 0, 0) for time in range(1, 5)))

    found = of(logs({"x_clat.1.log": ios, "x_bw.1.log": average(77), "x_iops.1.log": average(11)}))
    assert found["read.bw"] == 77 * 1024
    assert found["read.iops"] == 11
    assert found["read.ios"] == 40


def test_logs_taken_for_different_units_have_no_latencies_in_common() -> None:
    micro = b"".join(b"%d, 7, 0, 4096\n" % (100 * n) for n in range(1, 30))
    nano = b"".join(b"%d, 90000000, 0, 4096\n" % (100 * n) for n in range(1, 400))
    run = logs({"x_clat.1.log": micro, "x_clat.2.log": nano})
    assert "fio-logs-unit" in checks(run.doubts)
    assert not [name for name in of(run) if "lat" in name]
    assert of(run)["read.ios"] == 29 + 399


@settings(deadline=None)
@given(st.lists(IO, min_size=2, max_size=60), st.data())
def test_the_parts_of_a_log_merged_are_the_log(
    rows: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    rows = sorted(rows)
    place = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    files = [[row for row, to in zip(rows, place, strict=True) if to == n] for n in range(4)]
    (whole,) = fio_log.FORMAT.read(lines(*rows), "x_clat.1.log")
    parts = [
        LabelledRecording(str(n), fio_log.FORMAT.read(lines(*mine), "x_clat.1.log")[0])
        for n, mine in enumerate(files)
        if mine
    ]
    found = merged(parts, "x_*")
    assert exact(of(found)) == exact(of(whole))
    for name in ("read.clat.mean", "write.clat.mean"):
        assert of(found).get(name) == pytest.approx(of(whole).get(name))
    assert {n: b.counts for n, b in found.bins.items()} == {
        n: b.counts for n, b in whole.bins.items()
    }
    twice = merged([LabelledRecording("a", merged(parts[:2], "")), *parts[2:]], "x_*")
    assert exact(of(twice)) == exact(of(whole))


# -- any recordings ----------------------------------------------------------------------------


def recording(*values: Measurement, **more: object) -> Recording:
    return Recording("fio", "randread", values, **more)  # type: ignore[arg-type]


def test_percentiles_without_bins_are_never_averaged() -> None:
    one = recording(Measurement("read.clat.p99", 1.0, "s"), Measurement("read.bw", 5.0, "bytes/s"))
    run = merged([LabelledRecording("a", one), LabelledRecording("b", one)], "")
    assert of(run) == {"read.bw": 10.0}
    assert of(run, "b") == of(one)
    assert "read.clat.p99" in next(d.what for d in run.doubts if d.check == "merged-without")


def test_bins_of_another_scale_are_never_added() -> None:
    parts = [
        recording(
            Measurement("read.bw", 1.0, "bytes/s"),
            bins={"read.clat": LatencyHistogram(tick, 10, {5: 1})},
        )
        for tick in (1e-6, 1e-9)
    ]
    run = merged([LabelledRecording("a", parts[0]), LabelledRecording("b", parts[1])], "")
    assert of(run) == {"read.bw": 2.0}
    assert not run.bins


def test_a_bound_stays_a_bound_and_bounds_of_both_sides_are_nothing() -> None:
    def rate(censored: str) -> Recording:
        return recording(Measurement("read.bw", 1.0, "bytes/s", "all", "", censored))  # type: ignore[arg-type]

    high = merged(
        [LabelledRecording("a", rate("high")), LabelledRecording("b", rate(""))], ""
    ).measurements[0]
    assert (high.value, high.censored) == (2.0, "high")
    assert (
        of(merged([LabelledRecording("a", rate("high")), LabelledRecording("b", rate("low"))], ""))
        == {}
    )


def test_a_percentile_in_the_last_bin_is_a_bound() -> None:
    def one(top: int) -> Recording:
        bins = {"read.clat": LatencyHistogram(1e-9, 1000, {5: 94, 1000: top})}
        return recording(Measurement("read.ios", 94.0 + top, ""), bins=bins)

    run = merged([LabelledRecording("a", one(6)), LabelledRecording("b", one(6))], "")
    found = {each.metric: each for each in run.measurements if each.job == "all"}
    assert (found["read.clat.p50"].value, found["read.clat.p50"].censored) == (5 * 1e-9, "")
    assert (found["read.clat.p95"].value, found["read.clat.p95"].censored) == (1000 * 1e-9, "high")


def test_what_one_part_alone_did_stays_as_it_is() -> None:
    one = recording(Measurement("read.clat.p99", 1.0, "s"), Measurement("read.bw", 5.0, "bytes/s"))
    two = recording(Measurement("write.bw", 7.0, "bytes/s"))
    run = merged([LabelledRecording("a", one), LabelledRecording("b", two)], "")
    assert of(run) == {"read.clat.p99": 1.0, "read.bw": 5.0, "write.bw": 7.0}
    assert not run.doubts


def test_twice_the_hosts_may_have_twice_as_much_in_flight() -> None:
    rates = (Measurement("read.iops", 1000.0, "1/s"), Measurement("read.lat.mean", 3.5e-3, "s"))
    more = {"treatment": (("iodepth", "4"), ("numjobs", "1"))}
    originals = [
        OriginalFile(f"{host}.json", "fio-json", (recording(*rates, **more, weights=weights),))
        for host, weights in (
            ("a", {"read.lat.mean": 10.0}),
            ("b", {"read.lat.mean": 30.0}),
        )
    ]
    (run,) = cells(originals, ImportMap(), "file").runs
    assert of(run.recording) == pytest.approx({"read.iops": 2000.0, "read.lat.mean": 3.5e-3})
    assert not plausible.of_runs([run], ImportMap(), 0.0)
    alone = replace(run, parts=1)
    assert "in-flight" in checks(plausible.of_runs([alone], ImportMap(), 0.0)[alone.id])


def test_what_did_not_run_at_the_same_time_is_doubted() -> None:
    bw = Measurement("read.bw", 1.0, "bytes/s")
    parts = [
        LabelledRecording(str(at), recording(bw, started=at, seconds=60.0))
        for at in (1000.0, 1100.0)
    ]
    assert "merged-apart" in checks(merged(parts, "").doubts)
    parts = [
        LabelledRecording(str(at), recording(bw, started=at, seconds=60.0))
        for at in (1000.0, 1001.0)
    ]
    assert not merged(parts, "").doubts


@given(st.lists(st.dictionaries(st.integers(1, 10**6), st.integers(1, 9), min_size=1), min_size=1))
def test_a_mean_of_all_is_that_of_all_ios(jobs: list[dict[int, int]]) -> None:
    parts = []
    for number, counts in enumerate(jobs):
        ios = sum(counts.values())
        mean = sum(value * count for value, count in counts.items()) / ios
        values = (Measurement("read.lat.mean", mean, "s"), Measurement("read.iops", 1.0, "1/s"))
        bins = {"read.lat": LatencyHistogram(1.0, 10**9, counts)}
        one = recording(*values, bins=bins, weights={"read.lat.mean": float(ios)})
        parts.append(LabelledRecording(str(number), one))
    every = sorted(v for counts in jobs for v, count in counts.items() for _ in range(count))
    found = of(merged(parts, ""))
    assert found["read.lat.mean"] == pytest.approx(sum(every) / len(every))
    assert found["read.lat.p50"] == every[max(0, -(-len(every) // 2) - 1)]


# -- fio's JSON, a file a host -----------------------------------------------------------------


def test_a_json_file_a_host_merged_is_the_run_of_all_hosts(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads((HOSTS / "out.json").read_text())
    for number, entry in enumerate(whole["client_stats"][:2], 1):
        part = {**whole, "client_stats": [entry]}
        (here / f"box{number}-{number}.json").write_text(json.dumps(part))
    (told,) = json_output.FORMAT.read((HOSTS / "out.json").read_bytes(), "out.json")
    answer = said(capsys, "import", "box1-1.json", "box2-2.json", "--merge", "file", "--out", "r")
    found = {m["metric"]: m["value"] for m in answer["measurements"] if m["job"] == "all"}
    assert exact(found) == exact(of(told))
    assert len(exact(found)) == 2 * (1 + 2 * 6 + 3)
    assert found == pytest.approx(of(told))
    assert answer["factors"] == {}
    jobs = {m["job"] for m in answer["measurements"]}
    assert jobs == {"all", "box1", "box1/mix#1", "box2", "box2/mix#1"}
    assert not [d for d in answer["doubts"] if d["check"] in {"in-flight", "merged-without"}]


def of_host(host: str, *, bins: bool = True) -> str:
    whole = json.loads((HOSTS / "out.json").read_text())
    (entry,) = [e for e in whole["client_stats"][:2] if e["hostname"] == host]
    if not bins:
        for operation in ("read", "write"):
            for stage in ("clat_ns", "lat_ns", "slat_ns"):
                entry[operation][stage].pop("bins", None)
    return json.dumps({**whole, "client_stats": [entry]})


def test_a_host_without_bins_leaves_no_percentile(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a.json").write_text(of_host("127.0.0.1"))
    (here / "b.json").write_text(of_host("127.0.0.2", bins=False))
    answer = said(capsys, "import", "a.json", "b.json", "--merge", "file", "--out", "r")
    found = {m["metric"] for m in answer["measurements"] if m["job"] == "all"}
    assert "read.iops" in found
    assert "read.clat.mean" in found
    assert not [name for name in found if ".p" in name and name != "cpu.per_io"]
    assert "merged-without" in {d["check"] for d in answer["doubts"]}


def repeats(host: str, *numbers: int) -> str:
    """Runs of a host, one after another, each with another bandwidth."""
    runs = []
    for number in numbers:
        run = json.loads(of_host(host))
        run["timestamp"] += 100 * number
        run["client_stats"][0]["read"]["bw_bytes"] += number
        runs.append(json.dumps(run))
    return "\n".join(runs) + "\n"


def test_hosts_are_merged_and_other_factors_and_repeats_stay(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for scheduler, first in (("mq", 0), ("none", 2)):
        (here / f"a-{scheduler}.json").write_text(repeats("127.0.0.1", first, first + 1))
        (here / f"b-{scheduler}.json").write_text(repeats("127.0.0.2", first, first + 1))
    (here / "map.toml").write_text('files = "{host}-{scheduler}.json"\n')
    names = [path.name for path in here.glob("*.json")]
    answer = said(capsys, "import", *names, "--map", "map.toml", "--merge", "host", "--out", "r")
    assert answer["factors"] == {"scheduler": ["mq", "none"]}
    assert {m["job"] for m in answer["measurements"]} == {"all", "a", "a/mix#1", "b", "b/mix#1"}
    rates = {
        (m["trial"], m["job"]): m["value"]
        for m in answer["measurements"]
        if m["metric"] == "read.bw" and "/" not in m["job"]
    }
    trials = {trial for trial, _ in rates}
    assert len(trials) == 4
    for trial in trials:  # the first of one host with the first of the other
        assert rates[trial, "all"] == rates[trial, "a"] + rates[trial, "b"]
    assert len({rates[trial, "b"] - rates[trial, "a"] for trial in trials}) == 1
    assert not [d for d in answer["doubts"] if d["check"].startswith("merged")]


def test_a_host_that_is_missing_in_one_cell_is_doubted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, host, number in (("a-mq", 1, 0), ("b-mq", 2, 0), ("a-none", 1, 1)):
        (here / f"{name}.json").write_text(repeats(f"127.0.0.{host}", number))
    (here / "map.toml").write_text('files = "{host}-{scheduler}.json"\n')
    names = [path.name for path in here.glob("*.json")]
    answer = said(capsys, "import", *names, "--map", "map.toml", "--merge", "host", "--out", "r")
    (doubt,) = [d for d in answer["doubts"] if d["check"] == "merged-fewer"]
    assert "a-none.json" in doubt["what"]
    assert "a-mq.json" not in doubt["what"]


def test_what_cannot_be_merged_says_what_the_runs_say(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a.json").write_text(of_host("127.0.0.1"))
    assert status(["import", "a.json", "--merge", "host", "--out", "r"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "no two runs differ in host alone" in error
    assert "iodepth" in error


def test_unequal_numbers_of_runs_are_not_put_together_at_random(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a.json").write_text(repeats("127.0.0.1", 0))
    (here / "b.json").write_text(repeats("127.0.0.2", 0, 1))
    assert status(["import", "a.json", "b.json", "--merge", "file", "--out", "r"]) == 2
    assert "a: 1, b: 2" in capsys.readouterr().err
    assert not (here / "r").exists()


def test_a_copy_of_a_host_is_doubted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.json", "b.json"):
        (here / name).write_text(of_host("127.0.0.1"))
    answer = said(capsys, "import", "a.json", "b.json", "--merge", "file", "--out", "r")
    assert "merged-copies" in {d["check"] for d in answer["doubts"]}


def averages(value: int, rate: int, *, seconds: int = 20) -> dict[str, bytes]:
    """Logs of averages of one run before 3.18: submitted in an eighth of the time."""
    values = {"lat": value, "clat": value - value // 8, "slat": value // 8, "iops": rate}
    return {
        f"x_{kind}.1.log": b"".join(b"%d, %d, 0, 0\n" % (n * 1000, each) for n in range(1, seconds))
        for kind, each in values.items()
        if each
    }


@pytest.mark.parametrize(
    ("value", "rate", "tick"),
    [
        (91_000, 16_000, 1e-9),  # 91 µs: slat alone looks like microseconds
        (91_000, 0, 1e-9),  # no rate is known
        (9_000, 100_000, 1e-9),  # 9 µs: all of them alone look like microseconds
        (900, 4_000, 1e-6),
        (30_000, 2, 1e-6),  # 30 ms: a disk that is busy with something else
    ],
)
def test_all_latencies_of_a_run_are_in_one_unit(value: int, rate: int, tick: float) -> None:
    run = logs(averages(value, rate))
    found = of(run)
    assert found["read.lat.mean"] == pytest.approx(value * tick)
    assert found["read.slat.mean"] == pytest.approx(value // 8 * tick)
    assert found["read.lat.mean"] == pytest.approx(
        found["read.slat.mean"] + found["read.clat.mean"]
    )
    assert [each.check for each in run.doubts].count("fio-log-unit") == 1


def test_a_log_that_can_only_be_in_one_unit_decides_for_the_run() -> None:
    files = averages(30_000, 2)
    files["x_clat.1.log"] = b"".join(b"%d, 7, 0, 4096\n" % (100 * n) for n in range(1, 300))
    run = logs(files)
    assert of(run)["read.lat.mean"] == pytest.approx(0.03)
    assert "fio-log-unit" not in checks(run.doubts)


def test_averages_longer_than_their_windows_decide_for_a_slat_of_any_size() -> None:
    """9.4 ms in windows of half a second can only be nanoseconds; 10 µs could be either."""
    waits = {"slat": 10_460, "clat": 9_364_836, "lat": 9_375_801}
    files = {
        f"x_{kind}.8.log": b"".join(b"%d, %d, 1, 0\n" % (500 * n, each) for n in range(1, 40))
        for kind, each in waits.items()
    }
    run = logs(files)
    assert of(run)["write.slat.mean"] == pytest.approx(10.46e-6)
    assert of(run)["write.lat.mean"] == pytest.approx(9.375801e-3)
    assert not {"fio-log-unit", "impossible"} & set(checks(run.doubts))


def told(name: str, mean: float, **options: str) -> OriginalFile:
    """An output of a run whose reads took ``mean`` seconds."""
    measured = (
        Measurement("read.lat.mean", mean * 1.01, "s", raw=name),
        Measurement("read.slat.mean", mean / 8, "s", raw=name),
        Measurement("read.iops", 2.0, "1/s", raw=name),
    )
    recording = Recording("fio", "read", measured, logs=tuple(options.values()))
    return OriginalFile(name, "fio-json", (recording,))


@pytest.mark.parametrize("mean", [30e-6, 30e-3])
def test_logs_that_an_output_names_are_its_run_and_in_its_unit(mean: float) -> None:
    files = averages(30_000, 2)
    found = [OriginalFile(f"a/{n}", "fio-log", fio_log.FORMAT.read(d, n)) for n, d in files.items()]
    output = told("a/out.json", mean, write_lat_log="/elsewhere/x")
    (run,) = fio_logs.together([*found, output])
    assert run.files == ("a/out.json", *(f"a/{name}" for name in files))
    assert run.recordings == output.recordings, "nothing is doubted"
    other = told("b/out.json", mean, write_lat_log="x")
    assert len(fio_logs.together([*found, other])) == 2, "of another folder"
    assert len(fio_logs.together([*found, output, replace(output, file="a/2.json")])) == 3


def test_logs_of_another_run_than_the_output_that_names_them_are_doubted() -> None:
    found = [
        OriginalFile(n, "fio-log", fio_log.FORMAT.read(d, n))
        for n, d in averages(30_000, 9).items()
    ]
    (run,) = fio_logs.together([*found, told("out.json", 30e-6, write_iops_log="x")])
    (doubt,) = run.recordings[0].doubts
    assert doubt.check == "fio-logs-differ"
    assert "read.iops is 2 by the output of the run, and 9 by the logs" in doubt.what
