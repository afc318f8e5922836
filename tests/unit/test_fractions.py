"""Fractions of factorials: the published ones, what they mix, and what they find."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stats_studies import results

from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.model.trial import Trial
from iotrial.stats.designs import (
    MOST_FACTORS,
    Alias,
    aliases,
    coded,
    columns,
    estimable,
    model,
    parameters,
    rows,
    smallest,
    strength,
    subset,
    words,
)
from iotrial.stats.designs import confounded as told_with
from iotrial.stats.judge import judge

KNOWN = [
    (factors, runs)
    for runs in (4, 8, 16, 32, 64, 128)
    for factors in range(runs.bit_length(), min(MOST_FACTORS, runs - 1) + 1)
]


def pair(*places: int) -> frozenset[int]:
    return frozenset(places)


def test_every_size_is_there() -> None:
    for factors, runs in KNOWN:
        assert len(columns(factors, runs)) == factors
        assert strength(columns(factors, runs)) >= 3


def test_half_of_four_factors_pairs_the_interactions() -> None:
    # Box, Hunter and Hunter, table 6.1: 2^(4-1), I = ABCD.
    design = columns(4, 8)
    assert words(design, 4) == (pair(0, 1, 2, 3),)
    assert strength(design) == 4
    assert told_with(design, pair(0, 1)) == (pair(2, 3),)
    assert told_with(design, pair(0, 2)) == (pair(1, 3),)
    assert told_with(design, pair(0)) == ()


def test_seven_factors_in_eight_runs_mix_each_with_three_interactions() -> None:
    # Box, Hunter and Hunter, 6.5: 2^(7-4) III, D = AB, E = AC, F = BC, G = ABC.
    design = columns(7, 8)
    assert strength(design) == 3
    assert (len(words(design, 3)), len(words(design, 4))) == (7, 7)
    assert told_with(design, pair(0)) == (pair(1, 3), pair(2, 4), pair(5, 6))
    assert all(len(told_with(design, pair(place))) == 3 for place in range(7))


def test_eight_factors_in_sixteen_runs_keep_main_effects_clear() -> None:
    # Box, Hunter and Hunter, 6.7: 2^(8-4) IV, fourteen words of four letters.
    design = columns(8, 16)
    assert strength(design) == 4
    assert len(words(design, 4)) == 14
    assert all(told_with(design, pair(place)) == () for place in range(8))
    chains = {
        frozenset((pair(*two), *told_with(design, pair(*two))))
        for two in itertools.combinations(range(8), 2)
    }
    assert sorted(map(len, chains)) == [4] * 7


@pytest.mark.parametrize(
    ("factors", "runs", "counts"),
    [
        # Words of 3, 4 and 5 letters, as in Wu and Hamada, tables 5A.2 to 5A.5.
        (6, 16, (0, 3, 0)),
        (9, 16, (4, 14, 8)),
        (7, 32, (0, 1, 2)),
        (8, 32, (0, 3, 4)),
        (9, 32, (0, 6, 8)),
        (10, 32, (0, 10, 16)),
        (8, 64, (0, 0, 2)),
        (9, 64, (0, 1, 4)),
        (10, 64, (0, 2, 8)),
        (11, 64, (0, 4, 14)),
        (9, 128, (0, 0, 0)),
        (10, 128, (0, 0, 3)),
        (11, 128, (0, 0, 6)),
    ],
)
def test_the_words_are_as_many_as_published(
    factors: int, runs: int, counts: tuple[int, int, int]
) -> None:
    design = columns(factors, runs)
    assert tuple(len(words(design, length)) for length in (3, 4, 5)) == counts


@pytest.mark.parametrize(("factors", "runs"), [(5, 8), (6, 8), (6, 16), (7, 16), (8, 16), (9, 16)])
def test_no_other_generators_have_fewer_short_words(factors: int, runs: int) -> None:
    basic = [1 << bit for bit in range(runs.bit_length() - 1)]
    others = [column for column in range(1, runs) if column not in basic]

    def pattern(design: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(len(words(design, length)) for length in range(3, factors + 1))

    best = min(
        pattern((*basic, *chosen))
        for chosen in itertools.combinations(others, factors - len(basic))
    )
    assert pattern(columns(factors, runs)) == best


def test_the_smallest_of_a_resolution() -> None:
    assert [smallest(k, 5) for k in (2, 3, 4, 5, 6, 7, 8, 11, 12)] == [
        4, 8, 16, 16, 32, 64, 64, 128, None,
    ]  # fmt: skip
    assert [smallest(k, 4) for k in (3, 4, 5, 8, 9, 15)] == [8, 8, 16, 16, 32, 32]
    assert [smallest(k, 3) for k in (3, 7, 8, 15)] == [4, 8, 16, 16]


def test_a_size_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match="no regular fraction of 12"):
        columns(5, 12)
    with pytest.raises(UsageError, match="16 factors"):
        columns(16, 32)


@given(st.sampled_from(KNOWN))
def test_columns_are_balanced_and_orthogonal(size: tuple[int, int]) -> None:
    table = 2 * np.array(list(rows(columns(*size)))) - 1
    assert len({tuple(row) for row in table}) == size[1]
    assert (table.T @ table == size[1] * np.eye(size[0])).all()


@given(st.sampled_from([each for each in KNOWN if each[1] <= 32]))
@settings(max_examples=30, deadline=None)
def test_the_alias_matrix_says_what_the_words_say(size: tuple[int, int]) -> None:
    """Two ways to the same: sums modulo 2, and linear algebra."""
    design = columns(*size)
    found = {each.term: each for each in aliases(list(rows(design)), [2] * size[0])}
    assert not any(each.partly for each in found.values())
    for place in range(size[0]):
        expected = {tuple(sorted(other)) for other in told_with(design, pair(place))}
        assert set(found.get((place,), Alias((place,))).wholly) == expected


def test_a_fraction_of_resolution_five_mixes_nothing() -> None:
    assert aliases(list(rows(columns(6, 32))), [2] * 6) == ()
    assert strength(columns(3, 8)) == math.inf


# -- several levels -------------------------------------------------------------------------


@given(st.integers(2, 9))
def test_codes_are_orthogonal_and_as_long_for_any_number_of_levels(levels: int) -> None:
    table = coded(levels)
    assert np.allclose(table.sum(axis=0), 0)
    assert np.allclose(table.T @ table, levels * np.eye(levels - 1))


def everything(levels: list[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, levels)))


def test_nine_runs_of_four_factors_with_three_levels_are_found_orthogonal() -> None:
    """Taguchi's L9 exists: the exchange finds one as good."""
    cells = everything([3, 3, 3, 3])
    found = subset(model(cells, [3] * 4, 1), 9)
    assert found is not None
    chosen = [cells[at] for at in found]
    for one, other in itertools.combinations(range(4), 2):
        assert set(Counter((cell[one], cell[other]) for cell in chosen).values()) == {1}


@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.integers(1, 2), st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_a_subset_is_what_was_asked_for(levels: list[int], order: int, more: int) -> None:
    cells = everything(levels)
    size = min(len(cells), parameters(levels, order) + more)
    table = model(cells, levels, order)
    found = subset(table, size)
    assert found is not None
    assert found[0] == 0
    assert len(set(found)) == size
    assert np.linalg.matrix_rank(table[list(found)]) == table.shape[1]
    assert found == subset(table, size)


def test_too_few_rows_tell_nothing_apart() -> None:
    cells = [(0, 0), (0, 1), (0, 2)]  # the first factor never changes
    assert subset(model(cells, [2, 3], 1), 3) is None


def test_interactions_join_the_model_only_whole_and_orthogonal() -> None:
    half = estimable(list(rows(columns(4, 8))), [2] * 4)
    assert half.terms == ((0,), (1,), (2,), (3,), (0, 1), (0, 2), (0, 3))
    assert half.given_up == ((1, 2), (1, 3), (2, 3))


# -- what is found ----------------------------------------------------------------------------


def measured(
    cells: list[tuple[int, ...]], names: dict[str, tuple[str, ...]], effects: dict[str, float]
) -> Results:
    """A study of a fraction without noise but what the blocks bring: effects multiply."""
    tried = {
        tuple((name, names[name][place]) for name, place in zip(names, cell, strict=True))
        for cell in cells
    }

    def response(trial: Trial) -> float | None:
        product = 1000.0 * (1 + 0.1 * trial.block)
        for name, level in trial.treatment:
            product *= effects.get(f"{name}={level}", 1.0)
        return product if trial.treatment in tried else None

    of = results(names, ["reads"], 3, response)
    kept = [trial for trial in of.planned if trial.treatment in tried]
    records = tuple(r for r in of.records if r.trial.treatment in tried)
    design = replace(of.study.design, kind="fraction")
    return replace(of, study=replace(of.study, design=design), planned=tuple(kept), records=records)


def test_a_regular_fraction_finds_every_main_effect() -> None:
    names = dict.fromkeys("abcdefg", ("off", "on"))
    effects = {"a=on": 1.1, "c=on": 0.8, "g=on": 1.02}
    found = judge(measured(list(rows(columns(7, 8))), names, effects)).findings
    assert len(found) == 7
    for finding in found:
        assert finding.ratio == pytest.approx(effects.get(f"{finding.factor}=on", 1.0))
        assert finding.n == 3
        assert len(finding.trials) == 24


def test_a_mixed_fraction_finds_every_main_effect() -> None:
    names = {"a": ("0", "1", "2"), "b": ("0", "1"), "c": ("0", "1", "2", "3")}
    cells = everything([3, 2, 4])
    chosen = subset(model(cells, [3, 2, 4], 1), 12)
    assert chosen is not None
    effects = {"a=1": 1.1, "a=2": 1.3, "b=1": 0.7, "c=1": 1.01, "c=3": 2.0}
    found = judge(measured([cells[at] for at in chosen], names, effects)).findings
    assert {(f.factor, f.level): f.ratio for f in found} == {
        (name, level): pytest.approx(effects.get(f"{name}={level}", 1.0))
        for name, levels in names.items()
        for level in levels[1:]
    }


def test_a_lost_treatment_takes_away_what_rested_on_it() -> None:
    """Eight treatments tell seven factors apart; seven do not."""
    names = dict.fromkeys("abcdefg", ("off", "on"))
    cells = list(rows(columns(7, 8)))
    whole = measured(cells, names, {})
    last = whole.planned[-1].treatment
    lost = replace(whole, records=tuple(r for r in whole.records if r.trial.treatment != last))
    said = judge(lost)
    assert len(said.findings) < 7
    assert "No claim possible" in said.recommendation
