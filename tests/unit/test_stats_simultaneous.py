from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from stats_studies import Floats

from iotrial.stats.critical import (
    _coverage,
    average_over_sd,
    bound,
    critical_value,
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


def test_other_correlations_get_a_bound_that_covers_at_least() -> None:
    ar1 = 0.6 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    got = critical_value(ar1, 9, 0.95)
    c = np.full(4, got.value)
    t = stats.multivariate_t(shape=ar1, df=9)
    inside = t.cdf(c, lower_limit=-c, maxpts=200_000, random_state=np.random.default_rng(1))
    assert got.method == "Šidák"
    assert 0.95 < float(inside) < 0.965
    assert got.value == pytest.approx(bound(4, 9, 0.95))


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
