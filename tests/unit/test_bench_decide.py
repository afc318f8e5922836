"""Every benchmark can be started.  The yardsticks of ``./dev bench decide``: bounds against closed
forms, the grid by simulation."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def scripts() -> Iterator[None]:
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize("script", sorted(path.stem for path in BENCHMARKS.glob("[a-z]*.py")))
def test_every_benchmark_can_be_started(script: str) -> None:
    assert (importlib.import_module(script).__doc__ or "").count(f"./dev bench {script}")


@pytest.fixture(scope="module")
def bound(scripts: None) -> ModuleType:
    return importlib.import_module("_decide_bound")


@pytest.fixture(scope="module")
def truths(scripts: None) -> ModuleType:
    return importlib.import_module("_decide_truths")


@pytest.fixture(scope="module")
def decide(scripts: None) -> ModuleType:
    return importlib.import_module("decide")


@pytest.mark.parametrize("gap", [0.01, 0.3])
def test_two_treatments_take_eight_over_the_squared_gap(bound: ModuleType, gap: float) -> None:
    """Half the trials each; a pair a block loses nothing."""
    assert bound.free((gap,)) == pytest.approx(8 / gap**2, rel=1e-6)
    assert bound.blocked((gap,)) == pytest.approx(8 / gap**2, rel=1e-3)


@pytest.mark.parametrize("size", [3, 4, 8, 16])
def test_equal_gaps_have_a_closed_form(bound: ModuleType, size: int) -> None:
    """(1 + sqrt(K-1))² · 2/Δ²: Garivier and Kaufmann (2016), section 2.2."""
    expected = (1 + math.sqrt(size - 1)) ** 2 * 2 / 0.02**2
    assert bound.free((0.02,) * (size - 1)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("distances", [(0.02, 0.03), (0.02, 0.02, 0.02), (0.02, 0.03, 0.04)])
def test_the_bound_of_blocks_is_that_of_the_best_design_over_all_subsets(
    bound: ModuleType, distances: tuple[float, ...]
) -> None:
    """Against a search of the whole simplex: never above it, and within 3 %."""
    size = len(distances) + 1
    chosen = [s for count in range(2, size + 1) for s in combinations(range(size), count)]
    parts = []
    for subset in chosen:
        part = np.zeros((size, size))
        part[np.ix_(subset, subset)] = np.eye(len(subset)) - 1 / len(subset)
        parts.append(part / len(subset))

    def needed(logs: np.ndarray, power: float) -> float:
        shares = np.exp(logs - logs.max())
        inverse = np.linalg.inv(
            np.tensordot(shares / shares.sum(), parts, 1) + np.full((size, size), 1 / size)
        )
        variances = inverse[0, 0] + np.diag(inverse)[1:] - 2 * inverse[0, 1:]
        trials = np.log(2 * variances / np.array(distances) ** 2)
        return float(logsumexp(power * trials) / power)

    logs = np.zeros(len(chosen))
    for power in (8, 64, 512):  # towards the largest, smoothly
        logs = minimize(needed, logs, (power,), method="BFGS").x
    best = math.exp(needed(logs, 1e6))
    found = bound.blocked(distances)
    assert found <= best * (1 + 1e-6)
    assert found >= best / 1.03
    assert found >= bound.free(distances) * 0.999


def test_between_two_right_answers_the_farther_counts(
    bound: ModuleType, truths: ModuleType
) -> None:
    """A gap of a quarter of the margin is called the same at a distance of three quarters."""
    room = math.log1p(0.02)
    pair = truths.Case((0.0, -room / 4), 0.02, 0.02, "plain")
    known, unknown = bound.least_trials(pair)
    expected = 8 / (0.75 * room) ** 2 * 0.02**2 * 3.3073
    assert known == pytest.approx(expected, rel=1e-3)
    assert unknown > known


def test_no_bound_is_below_one_block(bound: ModuleType, truths: ModuleType) -> None:
    case = truths.Case((0.0, -1.0, -1.0, -2.0), 0.02, 0.005, "plain")
    assert bound.least_trials(case) == (4, 4)


def test_the_fixed_grid_has_the_power_that_is_said_and_no_block_more(bound: ModuleType) -> None:
    size, noise, room = 4, 0.02, 0.0198
    blocks = bound.fixed_blocks(size, noise, room)
    rng, studies, powers = np.random.default_rng(1), 20_000, []
    for count in (blocks, blocks - 4):
        df = (count - 1) * (size - 1)
        half = bound.dunnett(size, df) * np.sqrt(
            rng.chisquare(df, studies) / df * 2 / count
        ) * noise  # fmt: skip
        away = rng.normal(0, noise * math.sqrt(2 / count), studies)
        powers.append((np.mean(np.abs(away) + half < room), np.mean(away + room > half)))
    assert min(powers[0]) >= 0.95 - 0.005
    assert min(powers[1]) < 0.95


def test_every_group_is_a_quartet_and_each_class_what_it_says(truths: ModuleType) -> None:
    groups = truths.groups()
    assert len(groups) == 258  # 68 + 102 + 70 + 18: docs/five-studies.md
    assert all(len(each) == 4 for each in groups)
    rng = np.random.default_rng(1)
    for name in truths.CLASSES:
        for number in range(10):
            case = truths.draw(name, number, groups, rng)
            rising = sorted(case.truth)
            assert (rising[-1] - rising[-2] > 2 * case.room) == (name == "clear")
            assert (rising[-1] - rising[0] < case.room / 2) == (name == "tie")
            assert len(case.truth) == (4, 4, 4, 8, 16)[number % 5]


@pytest.mark.parametrize("kind", ["plain", "drift", "heavy"])
def test_a_machine_is_as_noisy_as_it_is_told(truths: ModuleType, kind: str) -> None:
    """Differences within a block have no level in them; a drift adds little."""
    case = truths.Case((0.0, 0.5), 0.02, 0.02, kind)
    machine = truths.Machine(case, np.random.default_rng(2))
    blocks = np.array([machine.block((0, 1)) for _ in range(20_000)])
    differences = blocks[:, 1] - blocks[:, 0]
    assert differences.mean() == pytest.approx(0.5, abs=0.001)
    assert differences.std() == pytest.approx(0.02 * math.sqrt(2), rel=0.08)
    assert blocks.mean(axis=1).std() > 0.018


def test_a_study_is_the_same_again_from_its_numbers(decide: ModuleType) -> None:
    one, other = (decide.replayed("clear", 3, 7) for _ in range(2))
    assert one == other
    assert one != decide.replayed("clear", 8, 7)
    assert one.decided
    assert not one.wrong


def test_wrong_claims_of_a_race_are_seen(decide: ModuleType, truths: ModuleType) -> None:
    """The same race, judged by truths that make its claims wrong."""
    case = truths.Case((0.0, -0.3, -0.3, 0.001), 0.02, 0.002, "plain")
    race = decide.raced(case, np.random.default_rng(1), 400)
    kept = race.kept
    assert decide.mistake(race, case) == ""
    dropped = [*case.truth]
    dropped[1] = 0.5
    assert decide.mistake(race, truths.Case(tuple(dropped), 0.02, 0.002, "plain")) == "worse"
    settled = [*case.truth]
    settled[3 - kept] = -0.2
    assert decide.mistake(race, truths.Case(tuple(settled), 0.02, 0.002, "plain")) == "same"


def test_peers_name_a_clear_winner_and_count_their_trials(truths: ModuleType) -> None:
    peers = importlib.import_module("_decide_peers")
    case = truths.Case((0.0, 0.5, -0.5, 0.1), 0.02, 0.01, "plain")
    assert peers.halving(case, 24, np.random.default_rng(1)) == (1, 24)
    assert peers.until_steady(case, np.random.default_rng(1)) == (1, 12)
