"""Looking after every block: no more is spent than was allowed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from iotrial.stats.critical import FIRST, spent, tails
from iotrial.stats.verdict import first_look

LOOKS = 200


def test_all_of_it_is_spent_in_the_end_and_never_more() -> None:
    shares = [spent(n) for n in range(1, 2049)]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert 0.97 < shares[-1] < 1


def test_nothing_is_asked_before_the_first_look() -> None:
    assert (tails(0.025)[:FIRST] == 0).all()
    assert (tails(0.025)[FIRST:] > 0).all()


def test_the_first_look_asks_for_what_may_be_spent_by_then() -> None:
    assert tails(0.025)[FIRST] == pytest.approx(0.025 * spent(FIRST), rel=1e-3)


@pytest.mark.parametrize("level", [0.05, 0.01])
def test_a_walk_without_drift_crosses_as_often_as_was_spent(level: float) -> None:
    rng, studies = np.random.default_rng(1), 20_000
    walk = rng.normal(size=(studies, LOOKS)).cumsum(axis=1)
    counts = np.arange(1, LOOKS + 1)
    critical = -ndtri(tails(level)[counts])
    crossed = (walk / np.sqrt(counts) > critical).any(axis=1).mean()
    allowed = level * spent(LOOKS)
    assert crossed == pytest.approx(allowed, abs=4 * (allowed / studies) ** 0.5)


def test_a_race_of_two_is_first_looked_at_after_four_blocks() -> None:
    assert [first_look(k) for k in (2, 3, 4, 5, 16)] == [4, 3, 3, 3, 3]
