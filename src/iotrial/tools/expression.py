"""Option values that depend on the host: ``"2*cpus"`` → a number.

Only numbers, names of facts, ``+ - * /`` and parentheses.  The text is parsed by :mod:`ast` and
walked through a whitelist; nothing is ever evaluated as Python.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Callable, Mapping

from iotrial.errors import UsageError

_LONGEST = 200
_LARGEST = 1e30
_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[float], float]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def evaluate(text: str, facts: Mapping[str, float]) -> float:
    """The value of ``text`` with the names in ``facts``.

    Raises :class:`~iotrial.errors.UsageError` for anything but arithmetic, naming an unknown
    name and the nearest one there is.
    """
    if len(text) > _LONGEST:
        raise UsageError(f"an expression of {len(text)} characters", advice="keep it below 200")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = _value(tree.body, text, facts)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{text!r} is neither a number nor an expression") from error
    except (ZeroDivisionError, OverflowError) as error:
        raise UsageError(f"{text!r} has no value: {error}") from error
    return value


def _value(node: ast.expr, text: str, facts: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number, text)
        case ast.Name(id=name):
            return _fact(name, text, facts)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            one, other = _value(left, text, facts), _value(right, text, facts)
            return _bounded(_BINARY[type(op)](one, other), text)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, text, facts))
    raise UsageError(f"{text!r}: only numbers, names and + - * / ( ) are allowed in an expression")


def _bounded(number: float, text: str) -> float:
    if not math.isfinite(number) or abs(number) > _LARGEST:
        raise UsageError(f"{text!r} is too large")
    return number


def _fact(name: str, text: str, facts: Mapping[str, float]) -> float:
    if name in facts:
        return _bounded(facts[name], text)
    near = difflib.get_close_matches(name, facts, n=1, cutoff=0.5)
    known = ", ".join(sorted(facts)) or "none"
    hint = f"did you mean {near[0]!r}?  " if near else ""
    message = f"{text!r} is neither a number such as 32 nor a size such as 4k"
    raise UsageError(
        f"{message}; as an expression it holds the unknown name {name!r}",
        advice=f"{hint}expressions may use {known}",
    )
