"""Values of a study file: sizes, durations, shares and levels, and how each becomes base units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from iotrial.model.chore import Chore, ChoreKind, Each
from iotrial.units import parse_bytes, parse_fraction, parse_seconds


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f'{value!r} is not a size such as "1GiB", "64k" or 4096')
    try:
        return parse_bytes(value)
    except OverflowError:
        raise ValueError(f"{value!r} is more than any device has") from None


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is not a duration such as "10s" or "30m"')
    seconds = parse_seconds(value)
    if not math.isfinite(seconds):
        raise ValueError(f"{value!r} never ends")
    return seconds


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is not a share such as "2%" or 0.02')
    return parse_fraction(value)


def _scalar(value: object) -> str | int | float | bool:
    if not isinstance(value, str | int | float | bool):
        names: dict[type, str] = {list: "an array", dict: "a table"}
        kind = names.get(type(value), "a date")
        raise ValueError(f"one value is meant here: text, a number, true or false; not {kind}")
    return value


def _shape(value: object) -> str:
    """Which of the three ways to write levels this is; the tags never look like a key."""
    tags: dict[type, str] = {dict: "=groups", str: "=word"}
    return tags.get(type(value), "=list")


def _one_of(value: object) -> str:
    return "=first" if isinstance(value, list) else "=one"


def _number(value: object) -> str:
    return "=list" if isinstance(value, list) else "=one"


_WAYS = '"trim", "lay out", { fill = "80%" }, { precondition = "2x" } or { command = ["…"] }'
_EACH = get_args(Each)
_MOST_TIMES = 100.0


def chore(value: object) -> Chore:
    """One chore as the file has it.  Left out, ``each`` is "trial" for a command and "study" for
    all that takes long."""
    if isinstance(value, Chore):
        return value
    said: dict[str, object] = {value: True} if isinstance(value, str) else {}
    if isinstance(value, Mapping):
        said = dict(value)
    each = said.pop("each", "trial" if "command" in said else "study")
    if each not in _EACH:
        raise ValueError(f"each is {' or '.join(map(repr, _EACH))}, not {each!r}")
    kind, what = next(iter(said.items()), ("", None))
    kinds = get_args(ChoreKind)
    if len(said) != 1 or kind not in kinds or (isinstance(value, str) and kind in kinds[1:3]):
        raise ValueError(f'a chore is one of {_WAYS}; with each = "…" if need be')
    return Chore(kind, each, **_amount(kind, what))  # type: ignore[arg-type]  # both checked


def _amount(kind: str, what: object) -> dict[str, object]:
    match kind:
        case "fill":
            share = _share(what)
            if not 0 < share <= 1:
                raise ValueError(f"{what!r} is no share of a capacity: above 0, at most 100%")
            return {"share": share}
        case "precondition":
            return {"times": _times(what)}
        case "command":
            if not isinstance(what, list) or not what or not all(_word(word) for word in what):
                raise ValueError(f"{what!r} is no command: an array of its words is meant")
            return {"argv": tuple(what)}
    if what is not True:
        raise ValueError(f'{kind} takes nothing: "{kind}" or {{ "{kind}" = true, each = "…" }}')
    return {}


def _word(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _times(value: object) -> float:
    text = value.strip().removesuffix("x") if isinstance(value, str) else value
    try:
        times = float(text) if isinstance(text, str | int | float) else math.nan
    except ValueError:
        times = math.nan
    if isinstance(value, bool) or not 0 < times <= _MOST_TIMES:
        raise ValueError(f'{value!r} is not how often the capacity is written, such as "2x"')
    return times


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^\s*[0-9.]+\s*[A-Za-z]*\s*$"}),
]
Duration = Annotated[
    float, BeforeValidator(_duration), WithJsonSchema({"type": ["string", "number"]})
]
Share = Annotated[float, BeforeValidator(_share), WithJsonSchema({"type": ["string", "number"]})]
Scalar = Annotated[
    str | int | float | bool,
    BeforeValidator(_scalar),
    WithJsonSchema({"type": ["string", "integer", "number", "boolean"]}),
]
OneOf = Annotated[
    Annotated[list[Scalar], Field(min_length=1), Tag("=first")] | Annotated[Scalar, Tag("=one")],
    Discriminator(_one_of),
]
"""A value, or several of which the first that is available counts."""
Levels = Annotated[
    Annotated[list[OneOf], Field(min_length=1), Tag("=list")]
    | Annotated[dict[str, dict[str, OneOf]], Field(min_length=1), Tag("=groups")]
    | Annotated[Literal["available"], Tag("=word")],
    Discriminator(_shape),
]
OneOrMore = Annotated[
    Annotated[list[Scalar], Field(min_length=1), Tag("=list")] | Annotated[Scalar, Tag("=one")],
    Discriminator(_number),
]
Argv = list[str]
_EACH_SCHEMA = {"type": "string", "enum": list(_EACH)}
ChoreValue = Annotated[
    Chore,
    BeforeValidator(chore),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": ["trim", "lay out"]},
                {
                    "type": "object",
                    "properties": {
                        "trim": {"const": True},
                        "lay out": {"const": True},
                        "fill": {"type": ["string", "number"]},
                        "precondition": {"type": ["string", "number"]},
                        "command": {"type": "array", "items": {"type": "string"}},
                        "each": _EACH_SCHEMA,
                    },
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
