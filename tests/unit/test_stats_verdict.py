from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.model.finding import Verdict
from iotrial.stats.verdict import guardrail, verdict


@pytest.mark.parametrize(
    ("low", "high", "higher", "expected"),
    [
        (0.99, 1.01, True, "same"),
        (1.001, 1.019, True, "same"),  # excludes 1, but no difference that matters
        (1 / 1.02, 1.02, True, "same"),  # the margin belongs to it
        (1.01, 1.03, True, "better"),
        (1.01, 1.03, False, "worse"),
        (0.90, 0.97, True, "worse"),
        (0.90, 0.97, False, "better"),
        (0.97, 1.01, True, "cannot-tell"),
        (1.0, 1.5, True, "cannot-tell"),  # 1 itself is not excluded
        (0.5, 0.6, None, "cannot-tell"),
        (0.99, 1.01, None, "same"),
    ],
)
def test_verdicts(low: float, high: float, higher: bool | None, expected: Verdict) -> None:  # noqa: FBT001
    assert verdict(low, high, 0.02, higher_is_better=higher) == expected


ENDS = st.tuples(st.floats(0.3, 3), st.floats(0.3, 3)).map(sorted)


@given(ENDS, st.floats(0, 0.5))
def test_the_inverse_ratio_of_the_inverse_metric_gets_the_same_verdict(
    ends: list[float], margin: float
) -> None:
    low, high = ends
    there = verdict(low, high, margin, higher_is_better=True)
    back = verdict(1 / high, 1 / low, margin, higher_is_better=False)
    near = min(abs(x - y) for x in (1 / (1 + margin), 1, 1 + margin) for y in ends) < 1e-9
    assert there == back or near


@given(ENDS, st.floats(0.01, 0.5))
def test_a_wider_interval_never_says_the_opposite(ends: list[float], margin: float) -> None:
    low, high = ends
    tight = verdict(low, high, margin, higher_is_better=True)
    wide = verdict(low * 0.9, high * 1.1, margin, higher_is_better=True)
    assert {tight, wide} != {"better", "worse"}


@pytest.mark.parametrize(
    ("low", "high", "tolerance", "higher", "expected"),
    [
        (0.80, 1.09, 0.1, False, "same"),
        (1.05, 1.09, 0.1, False, "same"),  # higher, and tolerated
        (1.11, 1.20, 0.1, False, "worse"),
        (1.05, 1.15, 0.1, False, "cannot-tell"),
        (0.40, 0.50, 0.1, False, "same"),  # much better is not the guardrail's concern
        (0.96, 1.20, -0.05, True, "same"),
        (0.90, 0.94, -0.05, True, "worse"),
        (0.90, 0.97, -0.05, True, "cannot-tell"),
        (1.01, 1.05, 0.0, False, "worse"),
        (1.01, 1.05, 0.0, True, "same"),
    ],
)
def test_guardrails(
    low: float,
    high: float,
    tolerance: float,
    higher: bool,  # noqa: FBT001
    expected: Verdict,
) -> None:
    assert guardrail(low, high, tolerance, higher_is_better=higher) == expected
