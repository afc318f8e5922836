"""From what TOML gave to the models of the schema, or to problems in plain words.

pydantic finds the problems; its sentences are for programmers, so each kind gets one of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from iotrial.plan import schema
from iotrial.plan.problem import KeyPath, StudyProblem, choices, inline, key_text, nearest

TABLES: dict[tuple[str, ...], type[BaseModel]] = {
    (): schema.StudyFile,
    ("hosts", "*"): schema.HostTable,
    ("inventory",): schema.InventoryTable,
    ("targets", "*"): schema.TargetTable,
    ("targets", "*", "loop"): schema.LoopTable,
    ("targets", "*", "mount"): schema.MountTable,
    ("workloads", "*"): schema.WorkloadTable,
    ("workloads", "*", "metrics", "*"): schema.MetricTable,
    ("workloads", "*", "offered"): schema.OfferedTable,
    ("workloads", "*", "recorded"): schema.RecordedTable,
    ("factors", "*"): schema.FactorTable,
    ("factors", "*", "range"): schema.RangeTable,
    ("knobs", "*"): schema.KnobTable,
    ("design",): schema.DesignTable,
    ("stage", "*"): schema.StageTable,
    ("stage", "*", "range"): schema.SweepTable,
    ("decide",): schema.DecideTable,
}
"""Which model a table of the file is; ``*`` is a name that the study's author chose."""

_TYPES = {
    "string_type": "expected text in quotes",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "list_type": "expected an array [ … ]",
    "dict_type": "expected a table { … }",
    "model_type": "expected a table",
    "too_short": "at least one is required",
}
_QUOTE = 'Write the tunable\'s whole name in quotes: "queue.nr_requests" = 64'
_BOUNDS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def validate(data: Mapping[str, Any]) -> tuple[schema.StudyFile | None, list[StudyProblem]]:
    """The study file as a model, or None and what is wrong with its keys and types."""
    try:
        return schema.StudyFile.model_validate(data), []
    except pydantic.ValidationError as failure:
        errors = failure.errors(include_url=False)
    found: dict[KeyPath, StudyProblem] = {}
    for error in errors:
        path = _path(error["loc"], data)
        found.setdefault(path, _problem(path, error, data))
    return None, list(found.values())


def allowed(path: KeyPath) -> list[str]:
    """The keys that may stand in the table at ``path``; empty where names are free."""
    model = TABLES.get(_pattern(path))
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _pattern(path: KeyPath) -> tuple[str, ...]:
    """A path with its free names starred, as in :data:`TABLES`."""
    free = path[:1] != () and (path[0], "*") in TABLES
    named = {1, 3} if path[2:3] == ("metrics",) else {1}
    return tuple("*" if free and at in named else str(part) for at, part in enumerate(path))


def _path(location: tuple[int | str, ...], data: object) -> KeyPath:
    """pydantic's location without the tags it inserts for unions."""
    path: list[str | int] = []
    node = data
    for part in location:
        if _holds(node, part):
            node = node[part]  # type: ignore[index]  # as `_holds` just saw
        elif part != location[-1] or not isinstance(node, Mapping) or str(part)[0] == "=":
            continue
        path.append(part)
    return tuple(path)


def _holds(node: object, part: int | str) -> bool:
    if isinstance(node, list):
        return isinstance(part, int) and part < len(node)
    return isinstance(node, Mapping) and part in node


def _problem(path: KeyPath, error: ErrorDetails, data: Mapping[str, Any]) -> StudyProblem:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(path)
    if kind == "missing":
        return StudyProblem(path, "is missing", _example(path))
    if kind == "literal_error":
        return StudyProblem(
            path, f"{_at(data, path)!r} is not an allowed value", _literal(path, error)
        )
    if kind == "value_error":
        nested = path[0] == "factors" and isinstance(_at(data, path), Mapping)
        return StudyProblem(path, str(context["error"]), _QUOTE if nested else "")
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        message = f"{_at(data, path)!r}: must be {words} {context[name]}"
        return StudyProblem(path, message, _example(path))
    return StudyProblem(path, _TYPES.get(kind, error["msg"]))


def _unknown(path: KeyPath) -> StudyProblem:
    known = allowed(path[:-1])
    here = f"[{key_text(path[:-1])}]" if path[:-1] else "the study"
    return StudyProblem(
        path, f"unknown key {path[-1]!r}", choices(str(path[-1]), known, f"in {here}")
    )


def _example(path: KeyPath) -> str:
    """What the key at ``path`` is for, with an example of it."""
    model = TABLES[_pattern(path[:-1])]
    field = next(f for n, f in model.model_fields.items() if path[-1] in {n, f.alias})
    example = inline((field.examples or [""])[0])
    return f"{field.description}  For example: {path[-1]} = {example}"


def _literal(path: KeyPath, error: ErrorDetails) -> str:
    if path[-1] == "levels":
        return schema.FactorTable.model_fields["levels"].description or ""
    words = [word.strip("'") for word in error["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    return f"{nearest(str(error['input']), words)}allowed: {', '.join(words)}"


def _at(data: object, path: KeyPath) -> object:
    for part in path:
        data = data[part]  # type: ignore[index]  # `path` was walked through `data` before
    return data
