"""Option values that depend on the host."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import UsageError
from iotrial.tools.expression import evaluate

FACTS = {"cpus": 8, "memory": 16 * 2**30}


@pytest.mark.parametrize(
    ("text", "value"),
    [("2*cpus", 16), (" cpus ", 8), ("(cpus+1)/2", 4.5), ("-cpus + 10", 2), ("memory/32", 2**29),
     ("1.5*cpus", 12), ("+3", 3), ("-" * 190 + "1", 1), ("2*(cpus-(1+1))", 12)],
)  # fmt: skip
def test_arithmetic_over_facts_has_its_value(text: str, value: float) -> None:
    assert evaluate(text, FACTS) == value


@pytest.mark.parametrize(
    "text",
    ["", "cpus**2", "cpus//2", "cpus%2", "__import__('os')", "cpus()", "cpus.real", "cpus[0]",
     "1 if cpus else 2", "cpus > 1", "True", "'a'*3", "1j", "lambda: 1", "[1]", "cpus = 1", "1;2",
     "2*", "((", "(" * 150, "1e999", "9" * 199, "1/0", "cpus/(1-1)",
     "1" * 201, "1e29*1e29", "cpus\n+1\n", "\x00"],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        evaluate(text, FACTS)


def test_an_unknown_name_is_named_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown name 'cpu'\n.*did you mean 'cpus'\?"):
        evaluate("2*cpu", FACTS)


@given(st.text(max_size=40) | st.text("0123456789+-*/(). cpusmeory", max_size=40))
def test_any_text_is_a_number_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert abs(evaluate(text, FACTS)) <= 1e30
