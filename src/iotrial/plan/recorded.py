"""The study of imported results: what was varied, found in them, and how it is to be judged.

``study.toml`` of such a folder is written by :func:`text` and may be edited: question, baselines,
and ``[decide]``.  It cannot be run; there is nothing left to do.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iotrial.errors import StudyError
from iotrial.model.measurement import Measurement
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study, digest
from iotrial.model.workload import Workload
from iotrial.plan.problem import choices, nearest

_SHOWN = 12


@dataclass(frozen=True, slots=True)
class FileKey:
    """Where something is said: a file and a key in it."""

    file: str
    key: str


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _WorkloadTable(_Table):
    tool: str = ""
    options: dict[str, str] = Field(default_factory=dict)


class _FactorTable(_Table):
    levels: list[str] = Field(min_length=1)
    baseline: str = ""


class _DecideTable(_Table):
    primary: str | list[str] | dict[str, str | list[str]] = Field(default_factory=dict)
    margin: float = Field(0.02, gt=0, lt=1)
    confidence: float = Field(0.95, ge=0.5, lt=1)


class _File(_Table):
    question: str = ""
    recorded: bool
    workloads: dict[str, _WorkloadTable]
    factors: dict[str, _FactorTable] = Field(default_factory=dict)
    decide: _DecideTable = Field(default_factory=lambda: _DecideTable(margin=0.02, confidence=0.95))


def text(
    *,
    question: str,
    workloads: Sequence[tuple[str, str, Mapping[str, str]]],
    factors: Sequence[tuple[str, Sequence[str]]],
    baselines: dict[str, str],
    decide: DecisionRule,
) -> str:
    """The study file of imported results.  ``workloads`` are (name, tool, what is alike
    in all its runs)."""
    lines = [
        "# Written by `iotrial import`.  Question, baselines and [decide] may be edited.",
        f"question = {_quoted(question)}",
        "recorded = true",
    ]
    for name, tool, options in workloads:
        lines += ["", f"[workloads.{_quoted(name)}]", f"tool = {_quoted(tool)}"]
        pairs = ", ".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in options.items())
        lines += [f"options = {{ {pairs} }}"] if pairs else []
    for name, labels in factors:
        lines += ["", f"[factors.{_quoted(name)}]"]
        lines += [f"levels = [{', '.join(map(_quoted, labels))}]"]
        lines += [f"baseline = {_quoted(baselines[name])}"] if name in baselines else []
    lines += ["", "[decide]"]
    chosen: dict[str, list[str]] = {}
    for name, metric in decide.primary:
        chosen.setdefault(name, []).append(metric)
    if set(chosen) == {""}:
        lines.append(f"primary = {_one_or_more(chosen[''])}")
    elif chosen:
        pairs = ", ".join(f"{_quoted(name)} = {_one_or_more(own)}" for name, own in chosen.items())
        lines.append(f"primary = {{ {pairs} }}")
    lines += [f"margin = {decide.margin!r}", f"confidence = {decide.confidence!r}", ""]
    return "\n".join(lines)


def parse(content: str, file: str) -> Study:
    """The study of imported results.  Raises StudyError with the key."""
    try:
        found = _File.model_validate(tomllib.loads(content))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise StudyError(first["msg"], file=file, key=key) from None
    except RecursionError:
        raise StudyError("not TOML: nested too deeply", file=file) from None
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
        raise StudyError(f"not TOML: {error}", file=file) from None
    for name, table in found.factors.items():
        if table.baseline and table.baseline not in table.levels:
            message = f"{table.baseline!r} is not one of its levels"
            raise StudyError(message, file=file, key=f"factors.{name}.baseline")
    decide = found.decide
    chosen = decide.primary
    named = chosen if isinstance(chosen, dict) else {"": chosen}
    primary = tuple(
        (workload, metric)
        for workload, names in named.items()
        for metric in dict.fromkeys([names] if isinstance(names, str) else names)
    )
    return Study(
        question=found.question,
        name=found.question,
        targets=(),
        workloads=tuple(
            Workload(name, table.tool, tuple(table.options.items()))
            for name, table in found.workloads.items()
        ),
        factors=tuple(
            Factor(name, "recorded", tuple(map(Level, table.levels)), baseline=table.baseline)
            for name, table in found.factors.items()
        ),
        design=Design("recorded", blocks=1),
        decide=DecisionRule(primary, decide.margin, decide.confidence),
        text=content,
        digest=digest(content),
    )


def check_primary(
    primary: Sequence[tuple[str, str]],
    runs: Iterable[tuple[str, Iterable[Measurement]]],
    where: FileKey,
) -> None:
    """That each metric that is to answer (by workload, '' all) is one of the ``runs``: workloads
    with their measurements.  Raises StudyError with the nearest names."""
    found: dict[str, dict[str, None]] = {}
    for workload, measurements in runs:
        mine = found.setdefault(workload, {})
        mine.update((each.metric, None) for each in measurements if each.job == "all")
    every = dict.fromkeys(name for names in found.values() for name in names)
    for workload, name in primary:
        key = f"{where.key}.{workload}" if workload else where.key
        if workload and workload not in found:
            advice = choices(workload, list(found), "there are")
            raise StudyError("unknown workload", file=where.file, key=key, advice=advice)
        known = list(found[workload] if workload else every)
        if name not in known:
            message = f"no run {f'of {workload} ' if workload else ''}has the metric {name!r}"
            more = ", …" if len(known) > _SHOWN else ""
            advice = f"{nearest(name, known)}Known: {', '.join(known[:_SHOWN])}{more}"
            raise StudyError(message, file=where.file, key=key, advice=advice)


def _one_or_more(values: Sequence[str]) -> str:
    return _quoted(values[0]) if len(values) == 1 else f"[{', '.join(map(_quoted, values))}]"


def _quoted(value: str) -> str:
    """A TOML basic string: JSON's are, but for DEL."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
