from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from stats_studies import Floats

from iotrial.stats.blocks import BlockLayout, fit
from iotrial.stats.critical import (
    _coverage,
    _directions,
    _drawn,
    average_over_sd,
    bound,
    critical_value,
    root,
    single,
    workload_confidence,
)


def half(size: int) -> Floats:
    return np.full((size, size), 0.5) + np.eye(size) / 2


# C. W. Dunnett (1964), New tables for multiple comparisons with a control, Biometrics 20, 482-491,
# table II (two-sided, 0.95) and table III (0.99): 1 to 9 treatments besides the control.
DUNNETT = {
    (0.95, 5): (2.57, 3.03, 3.29, 3.48, 3.62, 3.73, 3.82, 3.90, 3.97),
    (0.95, 10): (2.23, 2.57, 2.76, 2.89, 2.99, 3.07, 3.14, 3.19, 3.24),
    (0.95, 12): (2.18, 2.50, 2.68, 2.81, 2.90, 2.98, 3.04, 3.09, 3.14),
    (0.95, 20): (2.09, 2.38, 2.54, 2.65, 2.73, 2.80, 2.86, 2.90, 2.95),
    (0.95, 60): (2.00, 2.27, 2.41, 2.51, 2.58, 2.64, 2.69, 2.73, 2.77),
    (0.99, 10): (3.17, 3.53, 3.74, 3.88, 3.99, 4.08, 4.16, 4.22, 4.28),
}


@pytest.mark.parametrize(("confidence", "df"), DUNNETT)
def test_dunnetts_published_tables(confidence: float, df: int) -> None:
    for treatments, published in enumerate(DUNNETT[confidence, df], 1):
        got = critical_value(half(treatments), df, confidence)
        assert got.value == pytest.approx(published, abs=0.0061), treatments
        assert got.method == ("t" if treatments == 1 else "Dunnett")


def test_scipys_dunnett_interval_has_the_same_critical_value() -> None:
    rng = np.random.default_rng(3)
    control, *others = rng.normal(size=(4, 6))
    oracle = stats.dunnett(*others, control=control, rng=np.random.default_rng(0))
    pooled = math.sqrt(np.mean([np.var(group, ddof=1) for group in (control, *others)]))
    got = critical_value(half(3), 20, 0.95).value
    means = np.array([group.mean() for group in others]) - control.mean()
    ends = oracle.confidence_interval(0.95)
    assert ends.high - means == pytest.approx(got * pooled * math.sqrt(2 / 6), rel=0.003)


@pytest.mark.parametrize("df", [2, 6, 15])
@pytest.mark.parametrize(
    "correlation",
    [
        half(3),
        np.array([[1, 0.3, 0], [0.3, 1, 0], [0, 0, 1.0]]),
        np.outer([0.9, -0.5, 0.2], [0.9, -0.5, 0.2]) + np.diag([0.19, 0.75, 0.96]),
        np.eye(4),
    ],
    ids=["one baseline", "two groups", "unequal, with signs", "independent"],
)
def test_the_coverage_is_that_of_scipys_multivariate_t(correlation: Floats, df: int) -> None:
    got = critical_value(correlation, df, 0.9)
    c = np.full(len(correlation), got.value)
    t = stats.multivariate_t(shape=correlation, df=df)
    inside = t.cdf(c, lower_limit=-c, maxpts=200_000, random_state=np.random.default_rng(1))
    assert got.method == "Dunnett"
    assert float(inside) == pytest.approx(0.9, abs=3e-4)


def test_other_correlations_cover_what_they_must_and_hardly_more() -> None:
    ar1 = 0.6 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    got = critical_value(ar1, 9, 0.95)
    c = np.full(4, got.value)
    t = stats.multivariate_t(shape=ar1, df=9)
    inside = t.cdf(c, lower_limit=-c, maxpts=200_000, random_state=np.random.default_rng(1))
    assert got.method == "multivariate t"
    assert 0.95 < float(inside) < 0.9515
    assert got.value < 0.99 * bound(4, 9, 0.95)


def pairs(levels: int) -> Floats:
    """Which level less which other: all pairs."""
    rows = [np.eye(levels)[a] - np.eye(levels)[b] for a in range(levels) for b in range(a)]
    return np.array(rows)


def interactions(one: int, other: int) -> Floats:
    """Of each level and each of another factor, against both baselines; cells as in a table."""
    steps = [np.eye(count)[1:] - np.eye(count)[0] for count in (one, other)]
    return np.kron(*steps)


def correlation_of(rows: Floats) -> Floats:
    """With all cells measured equally often."""
    unit = rows @ rows.T
    return np.asarray(unit / np.sqrt(np.outer(np.diag(unit), np.diag(unit))))


@pytest.mark.parametrize("levels", [3, 4, 8])
@pytest.mark.parametrize("df", [3, 20, 1_000_000])
def test_all_pairs_get_tukeys_studentized_range_never_less(levels: int, df: int) -> None:
    got = critical_value(correlation_of(pairs(levels)), df, 0.95)
    tukey = float(stats.studentized_range.ppf(0.95, levels, min(df, 100_000))) / math.sqrt(2)
    assert got.method == "multivariate t"
    assert tukey < got.value < 1.005 * tukey


@pytest.mark.parametrize(
    ("rows", "blocks", "gone"),
    [
        (pairs(4), 5, ()),
        (pairs(4), 4, (1, 6, 8)),
        (interactions(3, 3), 3, ()),
        (interactions(4, 3), 3, (2, 7, 20)),
        (np.eye(6)[1:] - np.eye(6)[0], 4, (1, 8, 13, 23)),
    ],
    ids=["pairs", "pairs, some failed", "3x3", "4x3, some failed", "one baseline, some failed"],
)
def test_of_20000_studies_95_percent_have_all_intervals_right_and_they_are_narrower(
    rows: Floats, blocks: int, gone: tuple[int, ...]
) -> None:
    cells = rows.shape[1]
    kept = np.setdiff1d(np.arange(blocks * cells), gone)
    layout = BlockLayout(kept // cells, kept % cells)
    noise = np.random.default_rng(5).normal(size=(len(kept), 20_000))
    got = fit(layout, noise, rows)
    critical = critical_value(got.correlation, got.df, 0.95)
    assert critical.method == "multivariate t"
    assert critical.value < 0.99 * bound(len(rows), got.df, 0.95)
    right = (np.abs(got.estimate) <= critical.value * got.standard_error).all(axis=0).mean()
    assert 0.95 - 3 * 0.00154 < right < 0.958  # 0.00154: the standard deviation of the share


def test_what_is_drawn_is_drawn_alike_and_more_than_200_contrasts_are_not() -> None:
    crossed = correlation_of(interactions(3, 4))
    first = critical_value(crossed, 7, 0.9)
    for known in (_drawn, _directions):
        known.cache_clear()
    assert critical_value(crossed, 7, 0.9) == first
    many = critical_value(correlation_of(pairs(21)), 7, 0.9)
    assert (many.method, many.value) == ("Šidák", bound(210, 7, 0.9))


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_no_critical_value_is_above_that_of_independent_contrasts(confidence: float) -> None:
    nearly = np.eye(3) + 1e-4 * np.array([[0, 1, 1], [1, 0, -1], [1, -1, 0]])
    alike = np.array([[1, 0.99, 0.5], [0.99, 1, 0.6], [0.5, 0.6, 1]])
    for crossed in (nearly, alike, correlation_of(pairs(5))):
        got = critical_value(crossed, 5, confidence).value
        assert single(5, confidence) < got <= bound(len(crossed), 5, confidence)


def test_one_comparison_is_students_t() -> None:
    assert critical_value(np.eye(1), 7, 0.95).value == pytest.approx(stats.t.ppf(0.975, 7))
    assert bound(1, 7, 0.95) == single(7, 0.95)


@pytest.mark.parametrize(("df", "confidence"), [(1, 0.999), (2, 0.95), (12, 0.99), (5000, 0.95)])
def test_the_quadrature_alone_gives_students_t(df: int, confidence: float) -> None:
    c = float(stats.t.ppf((1 + confidence) / 2, df))
    assert _coverage(c, ((0.0,),), df) == pytest.approx(confidence, abs=1e-9)
    assert _coverage(c, ((0.6,),), df) == pytest.approx(confidence, abs=1e-9)


@pytest.mark.parametrize("df", [1, 2, 12, 400])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_more_comparisons_never_lower_the_value_and_bonferroni_bounds_it(
    df: int, confidence: float
) -> None:
    found = [critical_value(half(size), df, confidence).value for size in range(1, 8)]
    assert found == sorted(found)
    for size, value in enumerate(found, 1):
        assert value <= bound(size, df, confidence) + 1e-6
        assert bound(size, df, confidence) <= single(df, 1 - (1 - confidence) / size) + 1e-6


@pytest.mark.parametrize("df", [1, 3, 30, 3000])
def test_the_average_over_sd_knows_the_moments_of_chi(df: int) -> None:
    s, weights = average_over_sd(df)
    assert weights @ s**2 == pytest.approx(1.0)
    assert weights @ s == pytest.approx(float(stats.chi.mean(df)) / math.sqrt(df))


def test_the_workloads_confidences_multiply_to_the_studys() -> None:
    shares = [workload_confidence(0.95, m, 9) for m in (3, 2, 4)]
    assert math.prod(shares) == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("of", "low", "high", "where"),
    [
        (lambda x: x**3 - 2, 0.0, 5.0, 2 ** (1 / 3)),
        (lambda x: math.exp(x) - 1e5, 0.0, 50.0, math.log(1e5)),
        (lambda x: math.tanh(x - 3.3), -50.0, 50.0, 3.3),
        (lambda x: 1.0 if x < 7 else -1.0, 0.0, 50.0, 7.0),
        (lambda x: x, 0.0, 1.0, 0.0),
    ],
)
def test_a_root_is_found_however_the_curve_bends(
    of: Callable[[float], float], low: float, high: float, where: float
) -> None:
    assert root(of, low, high, within=1e-11) == pytest.approx(where, abs=1e-10)


def test_where_the_sign_does_not_change_there_is_no_root() -> None:
    with pytest.raises(ValueError, match="no change of sign"):
        root(lambda x: x * x + 1, -1.0, 1.0)


def test_nothing_that_takes_long_to_import_is_asked_to_judge() -> None:
    code = (
        "import sys, iotrial.judgement, iotrial.cli.main, iotrial.cli.verdicts, iotrial.cli.plan;"
        "print([name for name in ('scipy.optimize', 'scipy.stats') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
