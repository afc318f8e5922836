"""The latencies of a treatment are those of all I/Os of its runs, and the reports show them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from iotrial.cli.main import status
from iotrial.model.recording import LatencyHistogram, Recording
from iotrial.model.results import LatencyDistribution
from iotrial.rows import latency_in, latency_out
from iotrial.store import open_results
from iotrial_import.folder import latencies
from iotrial_import.formats import fio_log
from iotrial_import.legend import ImportedRun

RECORDED = Path(__file__).parent.parent / "data" / "fio"


def lines(values: np.ndarray) -> bytes:
    """A log of every I/O: ms, ns, reads, 4 KiB."""
    rows = (f"{at}, {value}, 0, 4096, 0\n" for at, value in enumerate(values, 1))
    return "".join(rows).encode()


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``noop`` was run twice, once much slower and much longer than the other; ``cfq`` once."""
    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(5)
    for name, middle, count in (
        ("noop-run1", 1e5, 300),
        ("noop-run2", 9e6, 2000),
        ("cfq", 2e5, 99),
    ):
        values = chance.lognormal(np.log(middle), 0.5, count).astype(int)
        (tmp_path / f"{name}_clat.1.log").write_bytes(lines(values))
    files = sorted(path.name for path in tmp_path.glob("*.log"))
    assert status(["import", *files, "--out", "r", "-q"]) == 0
    return tmp_path


def percentiles(data: bytes) -> dict[float, float]:
    (whole,) = fio_log.FORMAT.read(data, "x_clat.1.log")
    head = "read.clat.p"
    return {
        float(each.metric.removeprefix(head)): each.value
        for each in whole.measurements
        if each.metric.startswith(head)
    }


def test_a_percentile_over_repeats_is_that_of_all_their_ios(imported: Path) -> None:
    found = {each.treatment[0][1]: each for each in open_results(imported / "r").latencies}
    both = [(imported / f"noop-run{n}_clat.1.log").read_bytes() for n in (1, 2)]
    apart = [percentiles(each) for each in both]
    told = {one.p: one.value for one in found["noop"].percentiles}
    assert told == pytest.approx(percentiles(lines(_values(both))))
    assert told[50] != pytest.approx(sum(each[50] for each in apart) / 2, rel=0.2)
    assert (found["noop"].runs, found["noop"].ios) == (2, 2300)
    assert (found["cfq"].runs, found["cfq"].ios) == (1, 99)


def _values(logs: list[bytes]) -> np.ndarray:
    rows = b"".join(logs).decode().splitlines()
    return np.array([int(row.split(",")[1]) for row in rows])


@pytest.mark.parametrize("kind", ["html", "md"])
def test_a_report_shows_them_by_treatment(imported: Path, kind: str) -> None:
    assert status(["report", "r", "--as", kind]) == 0
    page = (imported / f"r/report.{kind}").read_text()
    page = page[page.index("Latencies over all runs of a treatment") :]
    text = re.sub(r"[<|][^>|]*?>|\|", " ", page) if kind == "html" else page.replace("|", " ")
    rows = [line.split() for line in text.splitlines() if "file=noop" in line]
    assert rows[0][2:5] == ["read.clat", "2", "2,300"]
    assert "percentiles are never averaged" in page


@pytest.mark.charts
def test_dated_runs_are_drawn_as_runs_without_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, case in (("noop", "text-and-json"), ("cfq", "randread")):
        shutil.copy(RECORDED / case / "fio.json", tmp_path / f"{name}.json")
    assert status(["import", "noop.json", "cfq.json", "--out", "r", "-q"]) == 0
    assert status(["report", "r"]) == 0
    page = (tmp_path / "r/report.html").read_text()
    page = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL).replace("iotrial", "")
    assert "Every run, in order of execution" in page
    assert "trial" not in re.sub(r"<[^>]*>", " ", page)
    assert "a new block begins" not in page


def test_they_are_in_the_report_as_json_too(
    imported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert status(["report", "r", "--as", "json", "--out", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (noop,) = [each for each in answer["latencies"] if each["treatment"] == {"file": "noop"}]
    assert (noop["latency"], noop["runs"]) == ("read.clat", 2)
    assert noop["percentiles"]["99.9"]["value"] > noop["percentiles"]["50"]["value"] > 0


def run(**bins: LatencyHistogram) -> ImportedRun:
    named = {name.replace("_", "."): each for name, each in bins.items()}
    return ImportedRun("x", Recording("fio", "read", (), bins=named), {})


def test_where_one_run_has_no_histogram_or_another_s_bins_there_is_no_percentile() -> None:
    fine, coarse = LatencyHistogram(1e-9, 2**34, {100: 5}), LatencyHistogram(1e-6, 2**24, {1: 5})
    assert list(latencies([run(read_clat=fine), run()])) == []
    assert list(latencies([run(read_clat=fine), run(read_clat=coarse)])) == []
    (both,) = latencies([run(read_clat=fine), run(read_clat=fine, write_clat=fine)])
    assert (both.name, both.ios) == ("read.clat", 10)


def test_a_percentile_in_the_last_bin_stays_a_bound_on_disk() -> None:
    (one,) = latencies([run(read_clat=LatencyHistogram(1e-6, 1000, {10: 98, 1000: 2}))])
    assert [each.beyond for each in one.percentiles] == [False, False, False, True, True, True]
    kept: LatencyDistribution = latency_in(json.loads(json.dumps(latency_out(one))))
    assert kept == one
