"""``docs/study-file.md``: keys, defaults, values and examples come from the schema.

The words around the tables are in ``study_file.md.in``, where ``<!-- keys: targets.* -->`` stands
for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from iotrial.plan.problem import inline
from iotrial.plan.validate import TABLES

_PLACE = re.compile(r"^<!-- keys: (\S*) -->$", re.MULTILINE)


def reference() -> str:
    """The whole page as Markdown.  Pure; the same for the same version of iotrial."""
    page = Path(__file__).with_name("study_file.md.in").read_text("utf-8")
    return _PLACE.sub(lambda found: _keys(_table_of(found[1])), page)


def _table_of(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")) if text != "study" else ()


def _keys(table: tuple[str, ...]) -> str:
    """The rows of one of :data:`~iotrial.plan.validate.TABLES`."""
    head = ["| key | what it says | left out | for example |", "|---|---|---|---|"]
    fields = TABLES[table].model_fields.items()
    rows = [_row(field.alias or name, field) for name, field in fields]
    return "\n".join([*head, *rows])


def _row(key: str, field: FieldInfo) -> str:
    what = " ".join([field.description or "", *_allowed(field)])
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


def _allowed(field: FieldInfo) -> Iterator[str]:
    """The words a key may be; nothing where it may be anything else."""
    kinds: list[Any] = [field.annotation, *get_args(field.annotation)]
    for words in [get_args(kind) for kind in kinds if get_origin(kind) is Literal][:1]:
        yield f"One of {', '.join(_code(inline(str(word))) for word in words)}."
