"""command: anything at all, with metrics found in its output by regular expression or JSON path.

The workload says ``argv`` and ``metrics``; its options fill in ``{NAME}`` in ``argv``, so that a
factor can vary them, and ``{target}`` is the target's path.  Two options are iotrial's own:
``seconds``, how long it takes (600 unless said: a time-out follows from it), and ``reads_only``.
What a command touches cannot be known: unless ``reads_only = true`` it counts as writing, and its
target must be armed.  Devices that ``argv`` names beside the target, itself or through its options,
are refused; of files that it names, only where they are, or lead to, such a device.  What it
spells in other ways the kernel refuses, where it can (:mod:`iotrial.execute.load.sealed`).

Only a number that is found exactly once is believed, unless ``take`` says first, last or sum.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from posixpath import normpath
from typing import Any

from iotrial.errors import FormatError, UsageError
from iotrial.formats import text_of
from iotrial.formats.cells import parse_number
from iotrial.model.measurement import Measurement, metric
from iotrial.model.tool import Load, LoadAccess, ParsedOutput, ToolTarget
from iotrial.model.workload import CustomMetric, Workload
from iotrial.units import parse_seconds, parse_unit

_OWN = ("seconds", "reads_only")
_SECONDS = 600.0
_SPEC = "iotrial-metrics.json"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PATH = re.compile(r"(?:\{target\}|\.{1,2}/|/)[^\s=,:;'\"()<>|&`$]*")
_HARMLESS = re.compile(
    r"/dev/(?:null|zero|full|u?random|stdin|stdout|stderr|tty|(?:fd|shm)/.*|shm|fd)"
)
_RELATIVE = re.compile(r"\A(?:\.{1,2}/)+(?=dev/)")
_STEP = re.compile(r'\["([^"]*)"\]|\[(\d{1,9})\]|\.?([^.\[\]"]+)')
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_FILE = re.compile(r"[A-Za-z0-9_][\w.-]*")
_AGAIN = "check what it printed, beside this; then fix pattern, json or file of the metric"


class CommandTool:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "command"
    summary = "any command, with metrics by regular expression or JSON path"
    program = "env"
    package = "coreutils"

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (a command's options are its own)
    ) -> list[tuple[str, str]]:
        return [*_problems(workload), *(p for each in workload.metrics for p in _wrong(each))]

    def reach(self, workload: Workload) -> LoadAccess:
        writes = workload.option("reads_only", default=False) is not True
        named = [each for word in _words(workload) for each in _paths(word)]
        devices = [each for each in named if each.startswith("/dev/")]
        return LoadAccess(
            reads=True,
            writes=writes,
            paths=tuple(dict.fromkeys(each for each in devices if not _HARMLESS.fullmatch(each))),
            mentions=tuple(
                dict.fromkeys(each for each in named if each not in (*devices, "{target}"))
            ),
            opaque=True,
        )

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """Raises UsageError with the first problem :meth:`check` finds."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        argv = _words(workload, aimed.path)
        spec = json.dumps([asdict(each) for each in workload.metrics], indent=1)
        return Load(argv, ((_SPEC, spec.encode()),))

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        del aimed
        try:
            return parse_seconds(str(workload.option("seconds", _SECONDS)))
        except ValueError:
            return _SECONDS

    def version_problem(self, version: str) -> str:
        del version
        return ""

    def parse(self, folder: Path) -> ParsedOutput:
        try:
            spec = json.loads((folder / _SPEC).read_bytes())
            metrics = [CustomMetric(**each) for each in spec]
        except (OSError, ValueError, TypeError) as error:
            raise FormatError(f"{folder / _SPEC}: not what iotrial put there: {error}") from None
        return ParsedOutput(tuple(_measured(folder, each) for each in metrics))


TOOL = CommandTool()


def _words(workload: Workload, target: str = "") -> tuple[str, ...]:
    """``argv`` with the options, and the target, filled in."""
    values = {name: _text(value) for name, value in workload.options}
    values |= {"target": target} if target else {}
    return tuple(
        _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word)
        for word in workload.argv
    )


def _paths(word: str) -> list[str]:
    """Everything in a word that may be a path; one that climbs to ``dev/`` counts as in /dev."""
    found = (normpath(_RELATIVE.sub("/", each)) for each in _PATH.findall(word))
    return ["/" + each.lstrip("/") if each.startswith("//") else each for each in found]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problems(workload: Workload) -> Iterator[tuple[str, str]]:
    if workload.jobfile:
        yield "jobfile", "a command has none: name the file in argv"
    if not workload.argv:
        yield "argv", 'set the command, for example argv = ["mytest", "{target}"]'
    if not workload.metrics:
        yield "metrics", ('set at least one, for example score = { pattern = "score: ([0-9.]+)" }')
    if any("\0" in word for word in workload.argv):
        yield "argv", "a NUL byte cannot be passed to a program"
    said = {name for word in workload.argv for name in _PLACEHOLDER.findall(word)}
    for name, value in workload.options:
        if name == "target":
            yield name, "{target} is the target's path: name the option otherwise"
        elif name == "reads_only" and not isinstance(value, bool):
            yield name, "it is true or false"
        elif name == "seconds" and _no_time(value):
            yield name, f'{value!r} is not a duration such as "10m"'
        elif name not in _OWN and name not in said:
            yield name, f"argv has no {{{name}}}: put it where the value belongs"


def _no_time(value: object) -> bool:
    try:
        return isinstance(value, bool) or parse_seconds(str(value)) <= 0
    except ValueError:
        return True


def _wrong(each: CustomMetric) -> Iterator[tuple[str, str]]:
    """What cannot work with one metric."""
    place = f"metrics.{each.name}"
    if not _NAME.fullmatch(each.name):
        yield place, "a metric's name is words apart by points, such as db.rate"
    if bool(each.pattern) == bool(each.json):
        yield place, "it needs a pattern, or json, and not both"
    if not _FILE.fullmatch(each.source):
        yield place, f"file {each.source!r} is not a name of a file in the trial's folder"
    if each.pattern and (problem := _bad_pattern(each.pattern)):
        yield place, problem
    if each.json and not re.fullmatch(f"(?:{_STEP.pattern})+", each.json):
        yield place, f"json {each.json!r} is not a path such as jobs[0].read.bw"
    if each.json and each.take != "only":
        yield place, "a path leads to one number: take is for patterns"
    for problem in _unlike(each):
        yield place, problem


def _unlike(each: CustomMetric) -> Iterator[str]:
    """What a metric is said to be, and is not."""
    try:
        base = parse_unit(each.unit)[1]
        own = metric(each.name)
    except ValueError as error:
        yield str(error)
        return
    except KeyError:
        return
    if each.unit and base != own.unit:
        yield f"{each.name} is in {own.unit or 'plain numbers'}, {each.unit!r} is not"
    if each.higher is not None and own.higher is not None and each.higher != own.higher:
        yield f"of {each.name}, {'more' if own.higher else 'less'} is better: rename it"


def _bad_pattern(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        return f"pattern {pattern!r} is not a regular expression: {error}"
    return "" if groups == 1 else f"pattern {pattern!r} has {groups} groups; one is the number"


def _measured(folder: Path, wanted: CustomMetric) -> Measurement:
    place = f"{wanted.source}: {wanted.name}"
    try:
        data = (folder / wanted.source).read_bytes()
    except OSError as error:
        what = f"{folder / wanted.source}: {wanted.name}: {error.strerror}"
        raise FormatError(what, advice=_AGAIN) from None
    if wanted.json:
        found = [_at(data, wanted.json, place)]
    else:
        text = text_of(data, wanted.source)
        found = [m[1] or "" for m in re.finditer(wanted.pattern, text, re.MULTILINE)]
    if not found:
        raise FormatError(f"{place}: nothing matches {wanted.pattern!r}", advice=_AGAIN)
    if len(found) > 1 and wanted.take == "only":
        advice = 'make the pattern stricter, or say take = "first", "last" or "sum"'
        what = f"{place}: {wanted.pattern!r} is found {len(found)} times"
        raise FormatError(what, advice=advice)
    chosen = {"first": found[:1], "last": found[-1:]}.get(wanted.take, found)
    unit = wanted.metric.unit
    value = math.fsum(_number(each, wanted, unit, place) for each in chosen)
    return Measurement(wanted.name, value, unit, "all", wanted.source)


def _number(text: str, wanted: CustomMetric, unit: str, place: str) -> float:
    try:
        number = parse_number(text, ".")
        if number is None or not math.isfinite(number.value) or number.censored:
            raise ValueError("is not a number")  # noqa: TRY301 (one place tells them all)
        scale, base = parse_unit(number.unit or wanted.unit)
    except ValueError as error:
        raise FormatError(f"{place}: {text[:40]!r} {error}", advice=_AGAIN) from None
    if base != unit:
        what = f"{place}: {text[:40]!r} is in {number.unit or 'no unit'}; it is to be in {unit}"
        advice = 'set its unit, for example unit = "MiB/s"'
        raise FormatError(what, advice=advice)
    if not math.isfinite(number.value * scale):
        raise FormatError(f"{place}: {text[:40]!r} is beyond any number", advice=_AGAIN)
    return number.value * scale


def _at(data: bytes, path: str, place: str) -> str:
    try:
        node: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{place}: no JSON: {error}", advice=_AGAIN) from None
    for key, index, name in _STEP.findall(path):
        step: str | int = int(index) if index else key or name
        try:
            node = node[step]
        except (KeyError, IndexError, TypeError):
            what = f"{place}: {path!r} leads nowhere: there is no {step!r}"
            raise FormatError(what, advice=_AGAIN) from None
    if isinstance(node, bool) or not isinstance(node, str | int | float):
        kind = type(node).__name__
        raise FormatError(f"{place}: {path!r} leads to a {kind}, not to a number", advice=_AGAIN)
    try:
        return node if isinstance(node, str) else repr(node)
    except ValueError:  # an integer of more digits than Python prints
        raise FormatError(f"{place}: {path!r} is beyond any number", advice=_AGAIN) from None
