"""Values of a study file: sizes, durations, shares and levels, and how each becomes base units."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

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
