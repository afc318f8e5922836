"""An average over groups whose effects are opposite is doubted, and the groups are named."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import f_oneway

from iotrial.cli.main import status
from iotrial.stats.paired import GroupEffect, heterogeneity

SIZES = ("4k", "8k", "16k", "64k", "128k", "256k")


def doubts(
    folder: Path, effects: Mapping[str, Sequence[float]], capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """The doubts on opposites of runs in which ``cfq`` makes these ratios of ``noop``, one for
    each size."""
    rows = ["op,scheduler,size,bw_mb_s"]
    for op, ratios in effects.items():
        for place, (size, ratio) in enumerate(zip(SIZES, ratios, strict=False)):
            base = 100 + place
            rows += [f"{op},noop,{size},{base}", f"{op},cfq,{size},{base * ratio:.6f}"]
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    assert status(["import", str(folder / "t.csv"), "--out", str(folder / "r"), "-q"]) == 0
    capsys.readouterr()
    assert status(["compare", str(folder / "r"), "--json", "--factor", "scheduler"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert all(not d["invalid"] for d in answer["doubts"])
    told = [d["what"] for d in answer["doubts"] if d["check"] == "opposites"]
    return [each for each in told if "scheduler=cfq" in each]


def test_an_average_of_opposites_names_both_and_the_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up, down = (1.19, 1.2, 1.21, 1.2, 1.19, 1.21), (0.79, 0.8, 0.81, 0.8, 0.79, 0.81)
    (said,) = doubts(tmp_path, {"read": up, "write": down}, capsys)
    assert "all, bw: scheduler=cfq against noop is +20.0 % for read, but −20.0 % for write" in said
    assert "−2.0 % is their average" in said
    assert "Welch's test of equal effects, p = " in said


def test_effects_of_one_direction_are_no_opposites_however_much_they_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up, more = (1.04, 1.05, 1.06, 1.05, 1.04, 1.06), (1.5, 1.51, 1.49, 1.5, 1.5, 1.51)
    assert doubts(tmp_path, {"read": up, "write": more}, capsys) == []


def test_noise_about_nothing_is_no_opposite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = np.random.default_rng(7).normal(0, 0.05, (2, 6))
    effects = {op: [math.exp(x) for x in row] for op, row in zip("ab", noise, strict=True)}
    assert doubts(tmp_path, {"read": effects["a"], "write": effects["b"]}, capsys) == []


def test_differences_within_the_margin_are_no_opposites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up, down = (1.010, 1.011, 1.009, 1.010, 1.011, 1.009), (0.99, 0.991, 0.989, 0.99, 0.991, 0.989)
    assert doubts(tmp_path, {"read": up, "write": down}, capsys) == []


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_where_no_test_is_possible_the_doubt_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    """One pair has no spread, and neither have the very same ratios."""
    said = doubts(tmp_path, {"read": [1.2] * count, "write": [0.8] * count}, capsys)
    about_all = [each for each in said if each.startswith("all, bw")]
    assert about_all
    assert "too few pairs in each for a significance test" in about_all[0]


def test_two_pairs_that_differ_a_little_hide_no_opposites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (said,) = doubts(tmp_path, {"read": (0.66, 0.68), "write": (1.49, 1.51)}, capsys)
    assert "−33.0 % for read" in said
    assert "too few pairs in each for a significance test" in said


def test_repeats_in_a_row_prove_no_opposites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No effect; each cell is 4 % off by itself, and steady while it is run three times."""
    luck = np.random.default_rng(2)
    rows = ["op,scheduler,bw_mb_s"]
    for op, scheduler in product(("read", "write", "mix"), ("noop", "cfq")):
        off = math.exp(luck.normal(0, 0.04))
        rows += [
            f"{op},{scheduler},{100 * off * math.exp(luck.normal(0, 0.001)):.6f}" for _ in range(3)
        ]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    assert status(["import", str(tmp_path / "t.csv"), "--out", str(tmp_path / "r"), "-q"]) == 0
    capsys.readouterr()
    status(["compare", str(tmp_path / "r"), "--json"])
    answer = json.loads(capsys.readouterr().out)
    for each in answer["doubts"]:
        assert "given the scatter" not in each["what"]
    assert "No claim" in answer["recommendation"]


def test_levels_of_another_factor_can_be_opposite_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["op,scheduler,threads,size,bw_mb_s"]
    for place, size in enumerate(SIZES):
        for threads, ratio in (("1", 1.3), ("64", 0.7)):
            base, off = 100 + place, 1 + place / 1000
            rows += [f"read,noop,{threads},{size},{base}",
                     f"read,cfq,{threads},{size},{base * ratio * off}"]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    assert status(["import", str(tmp_path / "t.csv"), "--out", str(tmp_path / "r"), "-q"]) == 0
    assert status(["report", str(tmp_path / "r"), "--as", "md"]) == 0
    page = (tmp_path / "r" / "report.md").read_text()
    assert "for threads=1, but" in page
    assert "for threads=64;" in page


def test_the_test_is_that_of_scipy() -> None:
    groups = ([1.0, 2.0, 3.5, 2.2], [2.0, 3.0, 5.0], [5.0, 6.0, 9.0, 7.5, 6.1])
    effects = [
        GroupEffect(str(len(g)), float(np.mean(g)), float(np.var(g, ddof=1)) / len(g), len(g) - 1.0)
        for g in groups
    ]
    assert heterogeneity(effects) == pytest.approx(f_oneway(*groups, equal_var=False).pvalue)


def test_groups_that_are_alike_are_told_apart_no_more_often_than_said() -> None:
    """400 studies of three groups with 4, 6 and 12 pairs and unequal spreads: about 5 % are below
    0.05 (20; 99.9 % of the time less than 38)."""
    chance = np.random.default_rng(3)
    below = 0
    for _ in range(400):
        groups = [chance.normal(0, s, n) for s, n in ((0.1, 4), (0.02, 6), (0.05, 12))]
        effects = [
            GroupEffect("", float(g.mean()), float(g.var(ddof=1)) / len(g), len(g) - 1.0)
            for g in groups
        ]
        below += heterogeneity(effects) < 0.05
    assert 5 < below < 38
