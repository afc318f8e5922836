"""A benchmark whose limit is missed ends with exit code 1: each of them by its limits alone."""

from __future__ import annotations

import ast
import importlib
import math
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
Found = float | tuple[float, tuple[float, float]]
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("[a-z]*.py"))


@pytest.fixture(scope="module", autouse=True)
def scripts() -> Iterator[None]:
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def limits(scripts: None) -> ModuleType:
    return importlib.import_module("_limits")


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_exit_code_of_every_benchmark_is_that_of_its_limits(script: str) -> None:
    tree = ast.parse((BENCHMARKS / f"{script}.py").read_text())
    (main,) = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "main"]
    ends = [ast.unparse(n.value or n) for n in ast.walk(main) if isinstance(n, ast.Return)]
    assert set(ends) == {"limits.status()"}
    calls = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    assert calls & {"limits.at_most", "limits.at_least"}
    assert "run_main(main)" in {
        ast.unparse(n) for n in ast.walk(tree.body[-1]) if isinstance(n, ast.Call)
    }


ENDED = """
import sys, time
sys.path.insert(0, {benchmarks!r})
from _limits import run_main

def main():
    try:
        print("began", flush=True)
        time.sleep(60)
    finally:
        time.sleep(0.2)
        print("removed", flush=True)
    return 0

run_main(main)
"""


@pytest.mark.parametrize("signals", [(signal.SIGTERM,), (signal.SIGHUP, signal.SIGHUP)])
def test_a_benchmark_that_is_ended_removes_what_it_made(
    signals: tuple[signal.Signals, ...],
) -> None:
    argv = [sys.executable, "-c", ENDED.format(benchmarks=str(BENCHMARKS))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "began\n"
        for number in signals:
            process.send_signal(number)
            time.sleep(0.05)
        assert process.stdout.read() == "removed\n"
    assert process.returncode == 128 + signals[0]


@pytest.mark.parametrize("code", [0, 1])
def test_a_benchmark_ends_with_its_own_exit_code(limits: ModuleType, code: int) -> None:
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with pytest.raises(SystemExit) as ended:
            limits.run_main(lambda: code)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert ended.value.code == code


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (1.0, 0),
        (1.01, 1),
        ((1.2, (1.1, 1.3)), 1),
        ((1.2, (0.9, 1.5)), 1),
        ((0.8, (0.7, 1.2)), 0),
        ((5.0, (-math.inf, math.inf)), 1),
        ((0.5, (-math.inf, math.inf)), 0),
    ],
)
def test_a_limit_is_missed_where_the_number_lies_beyond_it(
    limits: ModuleType, found: Found, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    most = limits.Limits()
    most.at_most("time", found, 1.0)
    assert most.status() == code
    said = capsys.readouterr().out
    assert "<= 1" in said
    assert ("MISSED" in said) == bool(code)
    assert ("holds the limit" in said) == (
        isinstance(found, tuple) and found[1][0] < 1.0 < found[1][1]
    )
    negative = (
        (-found[0], (-found[1][1], -found[1][0])) if isinstance(found, tuple) else -found
    )  # fmt: skip
    least = limits.Limits()
    least.at_least("rate", negative, -1.0)
    assert least.status() == code


def test_what_has_no_limit_misses_none_and_what_was_not_measured_does(
    limits: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    some = limits.Limits()
    some.tell("a number", 1e9)
    assert some.status() == 0
    some.unmeasured("tuned", "it is not here")
    assert some.status() == 1
    assert "limit missed: tuned" in capsys.readouterr().out


def test_intervals_are_those_of_the_books(limits: ModuleType) -> None:
    values = [1.0, 2.0, 4.0, 4.5, 7.0]
    mean, ends = limits.mean_of(values)
    wanted = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (mean, *ends) == pytest.approx((np.mean(values), *wanted))
    ratio, ends = limits.ratio_of(values, [2.0] * 5)
    logs = np.log(values) - math.log(2.0)
    wanted = np.exp(stats.t.interval(0.95, 4, logs.mean(), stats.sem(logs)))
    assert (ratio, *ends) == pytest.approx((math.exp(logs.mean()), *wanted))
    assert limits.median_of([3.0, 1.0, 2.0]) == (2.0, (-math.inf, math.inf))
    # The table of the sign test: of 10 values the second and the ninth.
    assert limits.median_of(list(map(float, range(1, 11)))) == (5.5, (2.0, 9.0))


# -- each with numbers that keep its limits, and with one that does not -------------------------


def status(limits: ModuleType, script: str, *given: object) -> int:
    made = limits.Limits()
    importlib.import_module(script).judged(made, *given)
    return int(made.status())


def replays(trials: int, wrong: str = "") -> list[Any]:
    decide = importlib.import_module("decide")
    case = importlib.import_module("_decide_truths").Case((0.0, -0.5), 0.02, 0.02, "plain")
    return [
        decide.Replay(case, wrong, decided=True, trials=trials + seed, grid=100, bound=20.0,
                      unknown=22.0, peers={}, seed=seed)
        for seed in range(1, 11)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "code", "aim"),
    [
        ((30, ""), 0, "1.75: reached"),
        ((37, ""), 0, "1.75: NOT REACHED"),
        ((60, ""), 1, "NOT REACHED"),
        ((30, "worse"), 1, "1.75: reached"),
    ],
)
def test_decide(
    limits: ModuleType,
    capsys: pytest.CaptureFixture[str],
    found: tuple[int, str],
    code: int,
    aim: str,
) -> None:
    made = limits.Limits()
    decide = importlib.import_module("decide")
    decide.LIMITS = {"all": {"clear": (None, 2.25)}}
    try:
        decide.report(made, "clear", replays(found[0] - 5, found[1]), "all")
    finally:
        importlib.reload(decide)
    assert made.status() == code
    assert aim in capsys.readouterr().out


@pytest.mark.parametrize(
    ("skew", "full", "share", "piece", "code"),
    [
        (0.004, 1.0, 0.02, 0.41, 0),
        (0.2, 1.0, 0.02, 0.41, 1),
        (0.004, 0.9, 0.02, 0.41, 1),
        (0.004, 1.0, 0.2, 0.41, 1),
        (0.004, 1.0, 0.1, 0.9, 0),
    ],
    ids=["all kept", "skew", "IOPS", "controller", "slow core"],
)
def test_hosts(
    limits: ModuleType, skew: float, full: float, share: float, piece: float, code: int
) -> None:
    hosts = importlib.import_module("hosts")
    found = {}
    for way in hosts.WAYS:
        for job in hosts.JOBS:
            ours = way != "client"
            rates = [(full if ours and job == "full" else 1.0) * (1000 + n) for n in range(20)]
            late = skew if ours else 0.01
            found[f"{way} {job}"] = hosts.Seen(
                [late + n / 1e5 for n in range(20)], rates, *([[0.01] * 20] * 3),
                [share] * 20, [share] * 20,
            )  # fmt: skip
    assert status(limits, "hosts", found, [piece] * 20, {1: 0.001}) == code


@pytest.mark.parametrize(
    ("seconds", "gigabytes", "code"), [(7.0, 0.5, 0), (9.5, 0.5, 1), (7.0, 1.5, 1)]
)
def test_ingest(limits: ModuleType, seconds: float, gigabytes: float, code: int) -> None:
    ingest = importlib.import_module("ingest")

    def took(wall: float) -> list[Any]:
        return [ingest.Took(wall + n / 100, wall, int(gigabytes * 2**30), "") for n in range(5)]

    parts = {"start": 0.5, "reading": 0.3, "deriving, and the end": 0.1, "writing": 0.1}
    small = 3_000_000, {"ours": took(1.0), "pandas": took(2.0), "loop": took(2.0)}, parts
    large = 86_000_000, took(seconds), parts
    assert status(limits, "ingest", small, large) == code


@pytest.mark.parametrize(
    ("adm", "bus", "code"), [(0.8, 0.008, 0), (0.1, 0.008, 1), (0.8, 0.001, 1)]
)
def test_settings(limits: ModuleType, adm: float, bus: float, code: int) -> None:
    settings = importlib.import_module("settings")
    made = limits.Limits()
    took = {"tuned-adm": [adm] * 14, "d-bus": [bus] * 14}
    ours = {"all": [30.0 + n / 10 for n in range(20)], "held": [9.0 + n / 10 for n in range(20)]}
    settings.beside_tuned(made, ours, took)
    assert made.status() == code


@pytest.mark.parametrize(
    ("wrong", "failed", "seen", "code"),
    [(0, 0, 10, 0), (9, 0, 10, 1), (0, 1, 10, 1), (0, 0, 9, 1)],
)
def test_truth(limits: ModuleType, wrong: int, failed: int, seen: int, code: int) -> None:
    truth = importlib.import_module("truth")
    verdicts = {"twenty": Counter(worse=seen, same=10 - seen)}
    counts = truth.Counts(verdicts, wrong, failed, [60] * 10, [90.0] * 10, [0.001] * 10)
    assert status(limits, "truth", counts) == code


def test_truth_of_no_study_is_no_success(limits: ModuleType) -> None:
    truth = importlib.import_module("truth")
    assert status(limits, "truth", truth.Counts(failed=0)) == 1


@pytest.mark.parametrize(
    ("wall", "cpu", "lines", "code"),
    [(9.0, 8.0, 40, 0), (14.0, 8.0, 40, 1), (9.0, 13.0, 40, 1), (9.0, 8.0, 999, 1)],
)
def test_thousand(limits: ModuleType, wall: float, cpu: float, lines: int, code: int) -> None:
    thousand = importlib.import_module("thousand")
    verbs = ("plan", "dry run", "report", "compare")
    told = {verb: thousand.Took(wall, cpu, 3e8, lines) for verb in verbs}
    pieces = [thousand.Took(0.5 + n / 1000, 0.5, 1e7, 0) for n in range(5)]
    assert status(limits, "thousand", "together", told, pieces) == code


@pytest.mark.parametrize(
    ("bound", "search", "p99", "seconds", "code"),
    [
        (math.inf, 1.0, 1e-3, 50.0, 0),
        (math.inf, 0.9, 1e-3, 50.0, 1),
        (math.inf, 1.0, 1e-3, 500.0, 1),
        (1e-4, 1.0, 9e-5, 50.0, 0),
        (1e-4, 0.9, 9e-5, 50.0, 1),
        (1e-4, 1.0, 2e-4, 50.0, 1),
    ],
)
def test_saturate(
    limits: ModuleType, bound: float, search: float, p99: float, seconds: float, code: int
) -> None:
    saturate = importlib.import_module("saturate")

    def points(iops: float) -> list[Any]:
        return [saturate.Point(iops * (1 + n / 1000), p99) for n in range(32)]

    values = {"grid": points(1e5), "search": points(search * 1e5), "by hand": points(5e4)}
    found = {"best": {"treatment": {"jobs": "4"}}, "searched": 34, "racing": 3}
    made = saturate.Comparison(bound, found, (seconds, 1000.0), {"a": points(1e5)}, values)
    assert status(limits, "saturate", made) == code


def test_saturate_where_the_search_found_no_load_within_the_bound(limits: ModuleType) -> None:
    saturate = importlib.import_module("saturate")
    values = {"grid": [saturate.Point(1e5, 1e-5)] * 2}
    made = saturate.Comparison(1e-4, None, (50.0, 1000.0), values, values)
    assert status(limits, "saturate", made) == 1


def test_the_best_of_a_grid_keeps_the_bound_where_one_does(scripts: None) -> None:
    saturate = importlib.import_module("saturate")
    chosen = {"fast": [saturate.Point(2e5, 3e-4)] * 3, "prompt": [saturate.Point(1e5, 9e-5)] * 3}
    assert saturate.strongest(chosen, 1e-4) == "prompt"
    assert saturate.strongest(chosen, math.inf) == "fast"
    assert saturate.strongest(chosen, 1e-6) == "fast"
