from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
from scipy import stats

from iotrial.stats.critical import average_over_sd, root, workload_confidence


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
