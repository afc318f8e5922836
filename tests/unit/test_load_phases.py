"""Phases are found where there are some, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from iotrial_record.phases import MOST, phases


def test_a_load_of_one_kind_has_one_phase_however_bursty() -> None:
    """At most one in a hundred of each kind has another."""
    chance = np.random.default_rng(26)
    wrong = 0
    for _ in range(50):
        steady = {"read": chance.poisson(50, 300), "write": chance.poisson(8, 300)}
        bursty = {"read": chance.poisson(chance.gamma(2, 25, 300))}
        wrong += sum(len(phases(each, 1.0)) > 1 for each in (steady, bursty))
    assert wrong <= 1


@pytest.mark.parametrize("step", [1.0, 0.5])
def test_phases_begin_where_the_load_changes(step: float) -> None:
    chance = np.random.default_rng(7)
    off = []
    for _ in range(30):
        reads = chance.poisson(np.repeat([50, 80, 50], 100))
        writes = chance.poisson(np.repeat([20, 20, 35], 100))
        found = phases({"read": reads, "write": writes}, step)
        assert len(found) == 3
        off += [abs(each.end / step - 100 * n) for n, each in enumerate(found, 1)]
        assert found[1].rates["read"] * step == pytest.approx(80, rel=0.06)
        assert found[2].rates["write"] * step == pytest.approx(35, rel=0.08)
    assert np.mean(off) < 1


def test_a_change_of_the_mix_alone_is_a_phase() -> None:
    chance = np.random.default_rng(9)
    reads, writes = (chance.poisson(np.repeat(each, 60)) for each in ([70, 30], [30, 70]))
    found = phases({"read": reads, "write": writes}, 1.0)
    assert [each.end for each in found] == [pytest.approx(60, abs=1), 120.0]


def test_of_a_load_that_changes_all_the_time_there_are_not_too_many() -> None:
    """A day of seconds, too."""
    chance = np.random.default_rng(5)
    rates = np.exp(np.cumsum(chance.normal(0, 0.2, 3000)) / 4 + 5)
    assert 1 < len(phases({"read": chance.poisson(rates)}, 1.0)) <= MOST
    day = phases({"write": chance.poisson(np.repeat([3, 9], 43_200))}, 1.0)
    assert [each.end for each in day] == [
        pytest.approx(43_200, rel=0.01),
        pytest.approx(86_400, rel=0.01),
    ]


def test_nothing_and_too_little_have_none() -> None:
    assert phases({}, 1.0) == ()
    assert phases({"read": np.array([5, 5])}, 1.0) == ()
    (only,) = phases({"read": np.array([5, 5, 5, 5]), "write": np.zeros(4, np.int64)}, 1.0)
    assert dict(only.rates) == {"read": 5.0}
