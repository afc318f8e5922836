"""Two numeric factors that are crossed, often each cell once: grid, curve and best cell."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import f as fisher

from iotrial.cli.main import status
from iotrial.judgement import judge
from iotrial.report.study import html, markdown
from iotrial.report.text import verdict_table
from iotrial.report.view import ReportView, view
from iotrial.stats.grid import additivity
from iotrial.stats.paired import RESAMPLES, bootstrap
from iotrial.stats.pairs import RunCell
from iotrial.store import open_results

DEPTHS, JOBS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32)
Rate = Callable[[int, int], float]


def saturating(depth: int, jobs: int) -> float:
    """What a disk does: more in flight gives more, until it is full; too many jobs cost."""
    flying = depth * jobs
    return 430_000 * flying / (flying + 40) * 0.96 ** max(0, math.log2(flying / 256))


def multiplying(depth: int, jobs: int) -> float:
    return 3000 * depth**0.5 * jobs**0.4


def run(rw: str, depth: int, jobs: int, iops: float, size: int = 4096) -> str:
    """fio's JSON of one run, with what it says of rates and latencies."""
    mean = 0.98e9 * depth * jobs / iops
    done = {
        "io_bytes": int(iops * size * 30), "io_kbytes": int(iops * size * 30 / 1024),
        "bw_bytes": int(iops * size), "iops": iops, "runtime": 30000, "total_ios": int(iops * 30),
        "clat_ns": {
            "min": int(mean / 5), "max": int(mean * 9), "mean": mean, "stddev": mean / 4,
            "N": int(iops * 30), "percentile": {"99.000000": int(mean * 3)},
        },
    }  # fmt: skip
    options = {
        "rw": rw, "bs": f"{size // 1024}k", "iodepth": str(depth), "numjobs": str(jobs),
        "ioengine": "libaio", "direct": "1", "group_reporting": "1", "filename": "/dev/nvme0n1",
    }  # fmt: skip
    job = {"jobname": "j", "groupid": 0, "error": 0, "elapsed": 31, "job options": options}
    job["write" if "write" in rw else "read"] = done
    return json.dumps({"fio version": "fio-3.36", "timestamp": 1700000000, "jobs": [job]})


def files(
    folder: Path,
    rate: Rate,
    loads: Sequence[str] = ("randread",),
    sizes: Sequence[int] = (4096,),
    repeats: int = 1,
    noise: float = 0.01,
) -> Path:
    """A folder as bench-fio leaves it, imported; gives back the results folder."""
    dice = random.Random(5)
    made = folder / "runs"
    made.mkdir()
    for load in loads:
        for size in sizes:
            for depth in DEPTHS:
                for jobs in JOBS:
                    for repeat in range(repeats):
                        iops = rate(depth, jobs) * 4096 / size * math.exp(dice.gauss(0, noise))
                        block = f"-{size // 1024}k" if len(sizes) > 1 else ""
                        again = f"-run{repeat + 1}" if repeats > 1 else ""
                        name = f"{load}{block}-{depth}-{jobs}{again}.json"
                        (made / name).write_text(run(load, depth, jobs, iops, size))
    assert status(["import", str(made), "--out", str(folder / "r"), "-q"]) == 0
    return folder / "r"


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    capsys.readouterr()
    assert status(["compare", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def seen(folder: Path) -> ReportView:
    return view(judge(open_results(folder)))


def on_terminal(shown: ReportView, width: int = 80) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(verdict_table(shown))
    return capture.get()


def test_where_depth_depends_on_jobs_the_first_line_is_the_best_cell_and_no_average(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = compared(capsys, str(files(tmp_path, saturating)))
    (grid,) = answer["grids"]
    assert (grid["down"], grid["across"]) == ("iodepth", "numjobs")
    assert grid["rows"] == grid["columns"] == ["1", "2", "4", "8", "16", "32"]
    assert len(grid["cells"]) == 36
    assert {cell["n"] for cell in grid["cells"]} == {1}
    assert grid["test"] == "Tukey"
    assert grid["p"] < 1e-6
    assert grid["depends"]
    best = max(grid["cells"], key=lambda cell: cell["value"])
    assert grid["best"] == {name: best[name] for name in ("iodepth", "numjobs")}
    near = [c for c in grid["cells"] if c["value"] >= 0.95 * best["value"]]
    asked = min(int(c["iodepth"]) * int(c["numjobs"]) for c in near)
    assert int(grid["near"]["iodepth"]) * int(grid["near"]["numjobs"]) == asked
    assert asked < int(best["iodepth"]) * int(best["numjobs"])
    said = answer["recommendation"]
    assert re.match(
        r"Best: iodepth \d+ × numjobs \d+, \d{3},\d00 IOPS; the effect of iodepth depends on"
        r" numjobs\. The smallest within 5 % of it: iodepth \d+ × numjobs \d+\. They are 36",
        said,
    )
    assert "against" not in said
    assert "better" not in said


@pytest.mark.parametrize("factor", ["iodepth", "numjobs"])
def test_asked_for_one_factor_alone_no_average_is_told_either(
    factor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = compared(capsys, str(files(tmp_path, saturating)), "--factor", factor)
    assert answer["recommendation"].startswith("Best: iodepth ")
    assert "against" not in answer["recommendation"]


def test_effects_that_multiply_keep_their_averages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = compared(capsys, str(files(tmp_path, multiplying)))
    (grid,) = answer["grids"]
    assert not grid["depends"]
    assert answer["recommendation"].startswith("Best: iodepth 32 × numjobs 32, ")
    assert "depends" not in answer["recommendation"]
    assert "iodepth against 1: 2 +43.5 %" in answer["recommendation"]


@pytest.mark.charts
def test_every_shape_has_the_grid_and_the_page_its_curves(tmp_path: Path) -> None:
    shown = seen(files(tmp_path, saturating))
    (panel,) = shown.panels
    value = panel.grid.cells["1", "1"].value
    cell = f"{value / 1000:.1f} kIOPS"
    page, note, line = html(shown), markdown(shown), on_terminal(shown)
    assert f'<td class="n">{cell}</td>' in page
    assert f"| **1** | {cell} | " in note
    assert re.search(rf"^iodepth 1 +{value / 1000:.1f} ", line, re.MULTILINE)
    assert page.count('<figure class="curve">') == 1
    picture = page.partition('<figure class="curve">')[2].partition("</figure>")[0]
    assert "total IOPS (kIOPS)" in picture
    assert "<title" in picture
    assert len(re.findall(r'stroke-width="1\.8"', picture)) == len(JOBS)
    for text in (page, note, line):
        assert "est: iodepth " in text
        assert "Tukey" in text
        assert "the average hides an interaction" in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 100, 40])
def test_nothing_on_a_terminal_is_wider_than_it(width: int, tmp_path: Path) -> None:
    for name, rate, repeats in (("one", saturating, 1), ("more", saturating, 2)):
        (tmp_path / name).mkdir()
        shown = seen(files(tmp_path / name, rate, repeats=repeats))
        lines = on_terminal(shown, width).splitlines()
        assert max(map(len, lines)) <= width
        assert any("iodepth 32 × numjobs" in line for line in lines)


def test_repeats_are_shown_as_a_spread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = files(tmp_path, saturating, repeats=3)
    (grid,) = compared(capsys, str(folder))["grids"]
    assert grid["test"] == "Tukey", "one session says nothing of how far cells are apart"
    assert grid["depends"]
    assert {cell["n"] for cell in grid["cells"]} == {3}
    assert all(cell["low"] < cell["value"] < cell["high"] for cell in grid["cells"])
    assert re.search(r"kIOPS \([0-9.]+ … [0-9.]+\)", markdown(seen(folder)))


@pytest.mark.charts
def test_of_many_grids_some_of_each_workload_are_shown_and_the_others_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [4096 * 2**power for power in range(8)]
    folder = files(tmp_path, saturating, ("randread", "randwrite"), sizes)
    answer = compared(capsys, str(folder))
    assert len(answer["grids"]) == 16
    first, second = answer["recommendation"].split(". ")[:2]
    assert re.fullmatch(
        r"Best iodepth × numjobs: randread \d+ × \d+ \(bs=\d+k, [0-9.]+ GiB/s\),"
        r" randwrite \d+ × \d+ \(bs=\d+k, [0-9.]+ GiB/s\)",
        first,
    )
    assert "iodepth depends on numjobs in 16 of 16 grids" in second
    assert "iodepth against" not in answer["recommendation"]
    shown = seen(folder)
    page = html(shown)
    assert page.count('<figure class="curve">') == 12
    assert "<h2>randread, bs=4k</h2>" in page
    assert "<h2>randwrite, bs=4k</h2>" in page
    assert re.search(r"4 grids more \(.*\): all are in `.* report FOLDER --as json`", page)
    told = on_terminal(shown)
    assert "10 grids more" in told
    assert "randwrite, bs=4k  total bandwidth" in told


def table(folder: Path, *rows: str) -> Path:
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    assert status(["import", str(folder / "t.csv"), "--out", str(folder / "r"), "-q"]) == 0
    return folder / "r"


def test_where_less_is_better_the_best_cell_is_the_smallest_and_holes_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"scan,{depth},{threads},{depth * threads + 5 * (depth == threads)}"
        for depth in (2, 4, 8)
        for threads in (2, 3, 4)
        if (depth, threads) != (8, 3)
    ]
    folder = table(tmp_path, "op,iodepth,threads,latency_ms", *rows)
    (grid,) = compared(capsys, str(folder))["grids"]
    assert grid["best"] == grid["near"] == {"iodepth": "2", "threads": "3"}
    assert len(grid["cells"]) == 8
    assert "no smaller cell is within 5 % of it" in grid["words"][0]
    assert re.search(r"\| \*\*8\*\* \| [^|]+ \| – \| ", markdown(seen(folder)))


def test_names_are_answered_before_amounts_and_their_comparisons_stand_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"read,{scheduler},{depth},{threads},{saturating(depth, threads) * gain:.1f}"
        for scheduler, gain in (("none", 1.0), ("bfq", 0.7))
        for depth in (1, 4, 16, 64)
        for threads in (1, 2, 4, 8)
    ]
    folder = table(tmp_path, "op,scheduler,iodepth,threads,iops", *rows)
    answer = compared(capsys, str(folder))
    assert [grid["fixed"] for grid in answer["grids"]] == [
        {"scheduler": "none"},
        {"scheduler": "bfq"},
    ]
    assert answer["recommendation"].startswith("scheduler against none: bfq −30.0 %. Best iodepth")
    page = html(seen(folder))
    assert page.index('<section id="verdicts"') < page.index('<section id="grids"')


def test_grids_of_several_metrics_are_told_apart_by_their_titles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"db,{size},{threads},{size * threads * 10},{900 - size * threads * 5}"
        for size in (1, 2, 4, 8)
        for threads in (1, 2, 4)
    ]
    folder = table(tmp_path, "op,depth,threads,read.iops,write.iops", *rows)
    answer = compared(capsys, str(folder))
    assert [grid["metric"] for grid in answer["grids"]] == ["read.iops", "write.iops"]
    page = html(seen(folder))
    assert "<h2>db, read IOPS</h2>" in page
    assert "<h2>db, write IOPS</h2>" in page


def test_two_factors_that_move_together_are_no_grid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"read,{n},{threads},{n * 100}" for n, threads in ((1, 1), (2, 2), (4, 3), (8, 9))]
    rows += ["read,2,1,210", "read,4,2,390"]
    assert "grids" not in compared(capsys, str(table(tmp_path, "op,iodepth,threads,iops", *rows)))


# -- the test of additivity --------------------------------------------------------------------


def cells(logs: np.ndarray) -> dict[tuple[str, str], RunCell]:
    """Of an array (rows, columns, sessions)."""
    names = [f"day {n}" for n in range(logs.shape[2])]
    return {
        (f"{row}", f"{column}"): RunCell(logs=list(logs[row, column]), sessions=names)
        for row in range(logs.shape[0])
        for column in range(logs.shape[1])
    }


EFFECTS = st.lists(st.floats(-2, 2), min_size=3, max_size=7)


@given(EFFECTS, EFFECTS)
def test_what_adds_up_exactly_never_depends(down: list[float], across: list[float]) -> None:
    found = additivity(cells(np.add.outer(down, across)[:, :, None]))
    assert found.p == pytest.approx(1.0)
    assert found.off == pytest.approx(1.0)


@given(st.integers(3, 8), st.integers(3, 8), st.integers(0, 2**32 - 1))
def test_tukey_s_test_is_that_of_the_textbook(rows: int, columns: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    y = (
        dice.normal(0, 1, rows)[:, None]
        + dice.normal(0, 1, columns)
        + dice.normal(0, 0.3, (rows, columns))
    )
    a, b = y.mean(axis=1) - y.mean(), y.mean(axis=0) - y.mean()
    one = float((np.outer(a, b) * y).sum()) ** 2 / float((a**2).sum() * (b**2).sum())
    left = float(((y - y.mean() - a[:, None] - b) ** 2).sum())
    df = (rows - 1) * (columns - 1) - 1
    found = additivity(cells(y[:, :, None]))
    assert found.test == "Tukey"
    assert found.p == pytest.approx(float(fisher.sf(one / ((left - one) / df), 1, df)), rel=1e-6)


@given(st.integers(2, 6), st.integers(2, 6), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_with_repeats_it_is_the_two_way_interaction(
    rows: int, columns: int, repeats: int, seed: int
) -> None:
    y = np.random.default_rng(seed).normal(0, 1, (rows, columns, repeats))
    mean = y.mean(axis=2)
    rest = mean - mean.mean(axis=1)[:, None] - mean.mean(axis=0) + mean.mean()
    df, within = (rows - 1) * (columns - 1), rows * columns * (repeats - 1)
    error = float(((y - mean[:, :, None]) ** 2).sum()) / within
    found = additivity(cells(y))
    assert found.test == "interaction"
    wanted = float(fisher.sf(repeats * float((rest**2).sum()) / df / error, df, within))
    assert found.p == pytest.approx(wanted, rel=1e-6, abs=1e-12)


def test_it_is_wrong_as_often_as_it_says() -> None:
    dice = np.random.default_rng(11)
    slopes = np.add.outer(np.linspace(0, 2, 6), np.linspace(0, 1, 4))
    told = [additivity(cells((slopes + dice.normal(0, 0.05, (6, 4)))[:, :, None])).p
            for _ in range(1000)]  # fmt: skip
    assert 0.03 < np.mean([p is not None and p < 0.05 for p in told]) < 0.07


def test_cells_that_wander_do_not_depend_however_steady_their_repeats() -> None:
    """Nothing but sums, each cell off by 3 % and run three times in a row, 0.2 % apart."""
    dice = np.random.default_rng(5)
    slopes = np.add.outer(np.linspace(0, 2, 5), np.linspace(0, 1, 4))
    told = []
    for _ in range(500):
        off = slopes + dice.normal(0, 0.03, slopes.shape)
        runs = off[:, :, None] + dice.normal(0, 0.002, (*slopes.shape, 3))
        in_one = {place: replace(cell, sessions=["one"] * 3) for place, cell in cells(runs).items()}
        told.append(additivity(in_one).p)
    assert np.mean([p is not None and p < 0.05 for p in told]) < 0.07


def test_two_by_two_cells_are_too_few_to_tell() -> None:
    found = additivity(cells(np.array([[1.0, 2.0], [2.0, 5.0]])[:, :, None]))
    assert (found.test, found.p) == ("", None)


def test_a_dependence_within_the_margin_does_not_matter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def nearly(depth: int, jobs: int) -> float:
        return multiplying(depth, jobs) * math.exp(0.002 * math.log2(depth) * math.log2(jobs))

    (grid,) = compared(capsys, str(files(tmp_path, nearly, noise=1e-5)))["grids"]
    assert grid["p"] < 1e-6
    assert grid["off"] < 1.02
    assert not grid["depends"]


# -- thousands of runs -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 100, 700])
def test_the_bootstrap_is_that_of_all_its_resamples(count: int) -> None:
    values = np.random.default_rng(count).normal(1, 0.2, count)
    chance, means = np.random.default_rng(1), []
    step = max(1, 4_000_000 // count)
    for at in range(0, RESAMPLES, step):
        drawn = chance.integers(0, count, (min(step, RESAMPLES - at), count))
        means.append(values[drawn].mean(axis=1))
    wanted = np.quantile(np.concatenate(means), [0.025, 0.975])
    assert bootstrap(values, 0.95) == pytest.approx(tuple(wanted), rel=1e-6)
