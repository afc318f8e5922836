"""The reference of the study file: every table and key, as ``docs/study-file.md`` shows them.

Keys, defaults, values and examples come from the schema, and what this version does not execute
from :mod:`iotrial.plan.unsupported`, which is asked key by key.  The words around the tables are
in ``reference.md``, where ``<!-- keys: targets.* -->`` stands for a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from iotrial.plan.locate import inline
from iotrial.plan.schema import StudyFile
from iotrial.plan.unsupported import unsupported
from iotrial.plan.validate import TABLES

_PLACE = re.compile(r"^<!-- keys: (\S*) -->$", re.MULTILINE)
_ANY = "any"  # a name for tables whose name is the author's own


def reference() -> str:
    """The whole page as Markdown.  Pure; the same for the same version of iotrial."""
    page = (files(__package__) / "reference.md").read_text("utf-8")
    return _PLACE.sub(lambda found: _keys(_pattern(found[1])), page)


def _pattern(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")) if text != "study" else ()


def _keys(table: tuple[str, ...]) -> str:
    """The rows of one of :data:`~iotrial.plan.validate.TABLES`."""
    head = ["| key | what it says | left out | for example |", "|---|---|---|---|"]
    fields = TABLES[table].model_fields.items()
    rows = [_row(table, field.alias or name, field) for name, field in fields]
    return "\n".join([*head, *rows])


def _row(table: tuple[str, ...], key: str, field: FieldInfo) -> str:
    words = [field.description or "", *_allowed(field), *_missing(table, key, field)]
    what = " ".join(words)
    examples = [_code(inline(each)) for each in field.examples or []]
    return f"| `{key}` | {_cell(what)} | {_default(field)} | {_cell(', '.join(examples))} |"


def _code(text: str) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    """What holds without the key; a dash where its absence means nothing is asked."""
    if field.is_required():
        return "*needed*"
    default = field.get_default(call_default_factory=True)
    empty = default is None or isinstance(default, BaseModel) or default in ("", [], {})
    return "–" if empty else _code(inline(default))


def _words(field: FieldInfo) -> list[str]:
    """The words a key may be; empty where it may be anything else."""
    kinds: list[Any] = [field.annotation, *get_args(field.annotation)]
    words = [get_args(kind) for kind in kinds if get_origin(kind) is Literal]
    return [str(word) for word in words[0]] if words else []


def _allowed(field: FieldInfo) -> Iterator[str]:
    words = _words(field)
    if words:
        yield f"One of {', '.join(_code(inline(word)) for word in words)}."


def _missing(table: tuple[str, ...], key: str, field: FieldInfo) -> Iterator[str]:
    """Whether the key, or some of its words, is refused as not executed."""
    words = _words(field)
    values: Sequence[object] = words or (field.examples or [""])[:1]
    refused = [each for each in values if _is_refused(table, key, each)]
    if refused and len(refused) == len(values):
        yield "**Not executed by this version.**"
    elif refused:
        listed = ", ".join(_code(inline(each)) for each in refused)
        yield f"**Not executed by this version:** {listed}."


def _is_refused(table: tuple[str, ...], key: str, value: object) -> bool:
    """Whether :func:`unsupported` objects to a study with this key."""
    spec = StudyFile.model_validate(_study(table, key, value))
    path = (*table, key)
    for problem in unsupported(spec):
        found = tuple(
            path[at] if path[at:][:1] == ("*",) else part
            for at, part in enumerate(problem.path[: len(path)])
        )
        if found == path[: len(found)]:
            return True
    return False


def _study(table: tuple[str, ...], key: str, value: object) -> dict[str, Any]:
    """The smallest study that the schema takes and that has the key."""
    study: dict[str, Any] = {"targets": {}, "workloads": {}}
    node = study
    for at, part in enumerate(table):
        name = _ANY if part == "*" else part
        if table[at + 1 : at + 2] == ("*",) and part == "stage":
            node[part] = [entry := _needed(TABLES[table[: at + 2]])]
            node = entry
            continue
        if part == "*" and table[at - 1] == "stage":
            continue
        node = node.setdefault(name, _needed(TABLES.get(table[: at + 1])))
    node[key] = value
    return study


def _needed(model: type[BaseModel] | None) -> dict[str, Any]:
    fields = model.model_fields if model else {}
    return {
        field.alias or name: (field.examples or [""])[0]
        for name, field in fields.items()
        if field.is_required()
    }
