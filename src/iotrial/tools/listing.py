"""listing: how fast a folder of many entries is listed, by ls or find, or by a storm of stats.

Options: ``entries`` (10000 unless said), which are made in a folder of iotrial's own below the
target, ``iotrial-listing``, and removed with it after each trial; ``what``: ``ls`` or ``find``
(names only: ``list.rate`` in entries/s and ``list.seconds`` for one pass), ``ls-l`` or ``stat``
(every entry is asked for its size: ``stat.rate``, ``stat.seconds``); ``passes`` (3); ``cache``:
``cold``, the kernel's caches are dropped before each pass, or ``warm``, one pass goes before that
does not count.  Making and removing the entries gives ``create.rate`` and ``delete.rate``.

That a cache was emptied is read back from the number of names the kernel keeps
(``/proc/sys/fs/dentry-state``): where less than half of the entries went, the trial is INVALID.
Dropping caches is no setting, and needs root; servers of network storage keep theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from iotrial.errors import FormatError, UsageError
from iotrial.model.measurement import Measurement, metric
from iotrial.model.tool import Leftover, Load, LoadAccess, ParsedOutput, ToolTarget, inside
from iotrial.model.trial import Doubt
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.results import result

_DEFAULTS: dict[str, str | int] = {"entries": 10_000, "passes": 3, "what": "ls", "cache": "cold"}
_WORDS = {"what": ("ls", "find", "ls-l", "stat"), "cache": ("cold", "warm")}
_MOST = {"entries": 10_000_000, "passes": 10_000}
_SCRIPT = "listing.sh"
_SLOW_NAMES, _SLOW_CHANGES, _STARTUP = 2000.0, 500.0, 5.0  # 1/s, 1/s, s
_LIKELY_NAMES, _LIKELY_CHANGES = 50_000.0, 30_000.0  # 1/s; cold, on a loop device
_SHORTEST = 0.05  # seconds of a pass: starting two programs takes some milliseconds of it
_LINE = re.compile(r"(create|pass|delete|drop) (\d{1,15}) (\d{1,18})")
_HEAD = re.compile(r"listing 1 (ls|find|ls-l|stat) (cold|warm) (\d{1,8}) (\d{1,5})")
_AGAIN = "check stderr beside it: the listing ended before its result"


class Listing:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "listing"
    summary = "a folder of many entries, listed or asked for its sizes"
    program = "find"
    package = "findutils"
    usual = "list.rate"
    measures = re.compile(r"[a-z]+\.(rate|seconds)")

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (no option depends on the machine)
    ) -> list[tuple[str, str]]:
        return list(_problems(workload))

    def reach(self, workload: Workload) -> LoadAccess:
        """It makes entries whatever it reads."""
        del workload
        return LoadAccess(reads=True, writes=True)

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """Raises UsageError with the first problem, and for a target that is no directory."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        if aimed.kind != "directory":
            advice = "aim it at a directory, or let the target have a filesystem"
            raise UsageError(f"listing works in a directory; {aimed.path} is none", advice=advice)
        said = [str(_said(workload, name)) for name in ("entries", "what", "cache", "passes")]
        script = (files(__package__) / _SCRIPT).read_bytes()
        return Load(("sh", _SCRIPT, inside(_folder(aimed)), *said), ((_SCRIPT, script),))

    def leaves(
        self,
        workload: Workload,  # noqa: ARG002 (one folder, however many entries)
        aimed: ToolTarget,
        facts: Mapping[str, float],  # noqa: ARG002
    ) -> tuple[Leftover, ...]:
        """See :class:`iotrial.model.tool.SupportsLeftovers`: the entries of one that is killed."""
        return (Leftover(_folder(aimed), "folder", "trial"),)

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """What a slow server needs."""
        del aimed
        return _STARTUP + _lasting(workload, _SLOW_NAMES, _SLOW_CHANGES)

    def likely(self, workload: Workload, aimed: ToolTarget) -> float:
        """See :class:`iotrial.model.tool.SupportsSizedLoads`."""
        del aimed
        return _lasting(workload, _LIKELY_NAMES, _LIKELY_CHANGES)

    def version_problem(self, version: str) -> str:
        if "findutils" in version:
            return ""
        first = version.strip()[:60]
        return f"{first!r} is not GNU find, which alone prints sizes: install findutils"

    def parse(self, folder: Path) -> ParsedOutput:
        text = result(folder, "stdout", "listing").decode("utf-8", "replace")
        return _parsed(text, "stdout")


TOOL = Listing()


def _folder(aimed: ToolTarget) -> str:
    return aimed.own("iotrial-listing")


@dataclass(slots=True)
class _Steps:
    """What one execution printed: (entries, seconds) of each step, and names kept by the kernel
    before and after each drop."""

    create: list[tuple[int, float]] = field(default_factory=list)
    passes: list[tuple[int, float]] = field(default_factory=list)
    delete: list[tuple[int, float]] = field(default_factory=list)
    drops: list[tuple[int, int]] = field(default_factory=list)


def _said(workload: Workload, name: str) -> str | int:
    default: OptionValue = _DEFAULTS[name]
    value = workload.option(name, default)
    return value if isinstance(value, int) else str(value)


def _lasting(workload: Workload, names: float, changes: float) -> float:
    if any(True for _ in _problems(workload)):
        return 0.0
    entries, passes = int(_said(workload, "entries")), int(_said(workload, "passes"))
    return entries * ((passes + 1) / names + 2 / changes)


def _problems(workload: Workload) -> Iterator[tuple[str, str]]:
    if workload.jobfile:
        yield "jobfile", "listing has no job files: write options"
    for name, value in workload.options:
        if name in _WORDS:
            if value not in _WORDS[name]:
                yield name, f"{value!r} is none of {', '.join(_WORDS[name])}"
        elif name in _MOST:
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not 1 <= int(value) <= _MOST[name]:
                yield name, f"{value!r} is not a whole number from 1 to {_MOST[name]}"
        else:
            yield name, f"listing has no such option; there are {', '.join(_DEFAULTS)}"


def _parsed(text: str, raw: str) -> ParsedOutput:
    lines = text.split("\n")
    head = _HEAD.fullmatch(lines[0])
    if not head:
        raise FormatError(f"{raw}: line 1: {lines[0][:60]!r} is not a listing", advice=_AGAIN)
    if lines[-2:] != ["end", ""]:
        raise FormatError(f"{raw}: line {len(lines)}: the listing has no end", advice=_AGAIN)
    what, cache, entries, passes = head[1], head[2], int(head[3]), int(head[4])
    steps = _steps(lines[1:-2], raw)
    counted = {"create": steps.create, "pass": steps.passes, "delete": steps.delete}
    for name, wanted in (("create", 1), ("pass", passes), ("delete", 1)):
        if len(counted[name]) != wanted:
            what_is = f"{raw}: {len(counted[name])} lines of {name} where {wanted} belong"
            raise FormatError(what_is, advice=_AGAIN)
        if any(seen != entries for seen, _ in counted[name]):
            raise FormatError(f"{raw}: a {name} that saw other than {entries} entries")
    if len(steps.drops) != (passes if cache == "cold" else 0):
        raise FormatError(f"{raw}: {len(steps.drops)} drops for {passes} passes", advice=_AGAIN)
    operation = "list" if what in ("ls", "find") else "stat"
    return ParsedOutput(tuple(_measured(operation, steps, raw)), tuple(_doubts(steps, entries)))


def _steps(lines: list[str], raw: str) -> _Steps:
    steps = _Steps()
    for at, line in enumerate(lines, 2):
        match = _LINE.fullmatch(line)
        if not match:
            raise FormatError(f"{raw}: line {at}: {line[:60]!r} is not a step", advice=_AGAIN)
        first, second = int(match[2]), int(match[3])
        if match[1] == "drop":
            steps.drops.append((first, second))
        elif not second:
            raise FormatError(f"{raw}: line {at}: a {match[1]} in no time", advice=_AGAIN)
        else:
            kind = {"create": steps.create, "pass": steps.passes, "delete": steps.delete}
            kind[match[1]].append((first, second * 1e-9))
    return steps


def _measured(operation: str, steps: _Steps, raw: str) -> Iterator[Measurement]:
    total = sum(seconds for _, seconds in steps.passes)
    seen = sum(entries for entries, _ in steps.passes)
    yield _of(f"{operation}.rate", seen / total, "all", raw)
    yield _of(f"{operation}.seconds", total / len(steps.passes), "all", raw)
    for name, done in (("create", steps.create), ("delete", steps.delete)):
        yield _of(f"{name}.rate", done[0][0] / done[0][1], "all", raw)
    for at, (entries, seconds) in enumerate(steps.passes, 1):
        yield _of(f"{operation}.rate", entries / seconds, f"pass#{at}", raw)
        yield _of(f"{operation}.seconds", seconds, f"pass#{at}", raw)


def _of(name: str, value: float, job: str, raw: str) -> Measurement:
    return Measurement(name, value, metric(name).unit, job, raw)


def _doubts(steps: _Steps, entries: int) -> Iterator[Doubt]:
    made = steps.drops[0][0] if steps.drops else 0  # ls and find ask for no entry: none comes back
    kept = [made - after for _, after in steps.drops if (made - after) * 2 < entries]
    if kept:
        what = f"the caches were not emptied: {max(kept)} of {entries} names or fewer were let go"
        advice = "Memory file systems keep all names; else see who holds the folder open."
        yield Doubt("cache", what, advice, invalid=True)
    shortest = min(seconds for _, seconds in steps.passes)
    if shortest < _SHORTEST:
        what = f"a pass took {shortest * 1e3:.1f} ms; starting the programs is a part of that"
        yield Doubt("short", what, "Take more entries.")
