"""What stands beside the numbers: machine, settings in force, exact commands, doubts.

What many trials say alike is said once: a report has one line of it, and not one for each trial.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iotrial.model.results import Results
from iotrial.model.trial import Doubt, Treatment, treatment_text
from iotrial.report import words
from iotrial.report.blocks import (
    Block,
    Callout,
    Collapsible,
    Column,
    Heading,
    Preformatted,
    Section,
    Table,
    Text,
    TextSpan,
    Words,
    joined,
    pieces,
)
from iotrial.report.series import ordered
from iotrial.report.words import visible
from iotrial.units import format_bytes

_EXAMPLES = 3
_COMMANDS = 40


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host's ``facts``, flattened: (what, value) pairs in the order they were written down;
    ``queues`` likewise, every setting of its devices before the study."""

    host: str
    facts: tuple[tuple[str, str], ...]
    queues: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _VariedSettings:
    """The settings observed in force, a line per treatment under ``columns``; ``start`` is what
    the same settings were before the study (empty text: not known)."""

    columns: tuple[str, ...]
    start: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class ObservedSettings:
    """``varied`` differ between treatments or from the start; ``constant`` (name, value) never.
    ``device`` is whose they are where all are one device's; else each name says it."""

    device: str
    varied: _VariedSettings
    constant: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RecordedCommand:
    """A command line as it was told to the tool, and the trials that used it."""

    line: str
    trials: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DoubtGroup:
    """Doubts of one check that ask for the same remedy.  ``what`` holds a few of them in their
    own words, those that trials say alike once; ``said`` is how many there are; ``trials`` the
    folders (empty: the whole study)."""

    check: str
    invalid: bool
    advice: str
    what: tuple[str, ...]
    said: int
    trials: tuple[str, ...]


# Said elsewhere in a report, or of the file and not of the machine.
_ELSEWHERE = frozenset({"format", "name", "baselines", "doubts", "plugins"})
_QUEUES = ("queue", "iosched")


def machines(results: Results) -> tuple[HostFacts, ...]:
    """Every host's facts; the settings of its devices at the start apart from the others."""
    return tuple(_machine(host, facts) for host, facts in sorted(results.facts.items()))


def _machine(host: str, facts: Mapping[str, object]) -> HostFacts:
    devices = {
        name: {key: value for key, value in _mapping(device).items() if key not in _QUEUES}
        for name, device in _mapping(facts.get("devices")).items()
    }
    said = {key: value for key, value in facts.items() if key not in _ELSEWHERE}
    if devices:
        said["devices"] = devices
    return HostFacts(visible(host), tuple(_flat(said)), tuple(_flat(_queues(facts), "", " ")))


def _queues(facts: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Device → tunable → what its file said at the start."""
    return {
        device: {
            f"queue.{name}" if folder == "queue" else f"queue.iosched.{name}": value
            for folder in _QUEUES
            for name, value in _mapping(_mapping(about).get(folder)).items()
        }
        for device, about in _mapping(facts.get("devices")).items()
    }


_SIZES = ("memory", "size")


def _flat(value: object, name: str = "", gap: str = "_") -> Iterator[tuple[str, str]]:
    """Nested facts as (name, value) lines; names lose their underscores where they are words."""
    match value:
        case Mapping():
            for key, part in value.items():
                yield from _flat(part, f"{name} {key}".strip().replace(gap, " "), gap)
        case list() | tuple():
            if value:
                yield visible(name), ", ".join(visible(_plain(part)) for part in value)
        case int() if name.endswith(_SIZES) and not isinstance(value, bool):
            yield visible(name), f"{format_bytes(value)} ({value:,} bytes)"
        case None | "":
            return
        case _:
            yield visible(name), visible(str(value))


def _plain(value: object) -> str:
    pairs = _mapping(value).items()
    return " ".join(f"{key}={part}" for key, part in pairs) if pairs else str(value)


def tools(results: Results) -> tuple[str, ...]:
    """Load tools with their versions as the machines named them (``fio-3.39``), and the plugins
    that were used."""
    named = itertools.chain.from_iterable(
        _mapping(facts.get("programs")).items() for facts in results.facts.values()
    )
    lines = {
        visible(str(version) if name in str(version) else f"{name} {version}")
        for name, version in named
        if version
    }
    added = itertools.chain.from_iterable(
        _mapping(facts.get("plugins")).items() for facts in results.facts.values()
    )
    lines |= {visible(f"plugin {name} ({origin})") for name, origin in added}
    return tuple(sorted(lines))


def settings(results: Results) -> ObservedSettings:
    """What was read back before the load began, over all records, by treatment."""
    seen: dict[Treatment, dict[_Key, set[str]]] = defaultdict(lambda: defaultdict(set))
    for treatment, triples in {(r.trial.treatment, r.before) for r in results.records}:
        for device, tunable, value in triples:
            seen[treatment][device, tunable].add(value)
    asked = {n for f in results.study.factors for level in f.levels for n, _ in level.settings}
    keys = sorted(
        {key for observed in seen.values() for key in observed},
        key=lambda key: (key[1] not in asked, key),
    )
    devices = {device for device, _ in keys}
    start = _at_start(results)
    rows = [(treatment, seen[treatment]) for treatment in ordered(results, set(seen))]
    constant = [key for key in keys if _constant(key, start, [row for _, row in rows])]
    varies = set(keys) - set(constant)
    varied = [key for key in keys if key in varies]
    return ObservedSettings(
        visible(next(iter(devices))) if len(devices) == 1 else "",
        _VariedSettings(
            tuple(_name(key, devices) for key in varied),
            tuple(visible(start.get(key, "")) for key in varied),
            tuple(
                (visible(treatment_text(t)), tuple(_values(observed, key) for key in varied))
                for t, observed in rows
            ),
        ),
        tuple((_name(key, devices), _values(rows[0][1], key)) for key in constant),
    )


_Key = tuple[str, str]  # device, tunable


def _name(key: _Key, devices: set[str]) -> str:
    device, tunable = key
    return visible(f"{tunable} on {device}" if device and len(devices) > 1 else tunable)


def _values(observed: Mapping[_Key, set[str]], key: _Key) -> str:
    return visible(" or ".join(sorted(observed.get(key, ()))))


def _constant(
    key: _Key, start: Mapping[_Key, str], rows: Iterable[Mapping[_Key, set[str]]]
) -> bool:
    """The same in every treatment, and at the start where that is known."""
    found = [row.get(key, set()) for row in rows]
    values = set().union(*found)
    return all(found) and len(values | {start.get(key, next(iter(values)))}) == 1


def _at_start(results: Results) -> dict[_Key, str]:
    """What was in force before the study: of ``[none] bfq`` only ``none``, as a setting has it."""
    return {
        (device, tunable): _CHOSEN.sub(r"\1", str(value))
        for facts in results.facts.values()
        for device, values in _queues(facts).items()
        for tunable, value in values.items()
    }


_CHOSEN = re.compile(r"^.*\[([^]]+)\].*$")


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def commands(results: Results) -> tuple[tuple[RecordedCommand, ...], int]:
    """The distinct command lines, most used first, and how many more there are."""
    used: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for record in results.records:
        if record.command:
            used[record.command].append(visible(record.trial.folder))
    every = sorted(used.items(), key=lambda item: -len(item[1]))
    shown = [RecordedCommand(visible(shlex.join(argv)), tuple(trials)) for argv, trials in every]
    return tuple(shown[:_COMMANDS]), max(0, len(shown) - _COMMANDS)


def doubts(results: Results) -> tuple[Doubt, ...]:
    """The study's doubts, then each trial's; every trial's doubt names its folder."""
    of_trials = (
        Doubt(d.check, d.what, d.advice, d.invalid, d.trial or record.trial.folder)
        for record in results.records
        for d in record.doubts
    )
    return tuple(
        Doubt(visible(d.check), visible(d.what), visible(d.advice), d.invalid, visible(d.trial))
        for d in itertools.chain(results.doubts, of_trials)
    )


def failures(results: Results) -> tuple[Doubt, ...]:
    """What failed trials died of, in the shape of doubts."""
    advice = "read the trial's stdout and stderr, put it right, and run the study again"
    unknown = "no reason was kept"
    failed = [record for record in results.records if record.state == "failed"]
    return tuple(
        Doubt("failed", visible(r.error) or unknown, advice, invalid=True, trial=trial)
        for r in failed
        for trial in [visible(r.trial.folder)]
    )


def grouped(every: Iterable[Doubt]) -> tuple[DoubtGroup, ...]:
    """Doubts by check and remedy: those that make trials INVALID first, then the frequent."""
    groups: dict[tuple[str, bool, str], list[Doubt]] = defaultdict(list)
    for doubt in every:
        groups[doubt.check, doubt.invalid, doubt.advice].append(doubt)
    made = [_group(*key, members) for key, members in groups.items()]
    return tuple(sorted(made, key=lambda group: (not group.invalid, -len(group.trials))))


def _group(check: str, invalid: bool, advice: str, members: list[Doubt]) -> DoubtGroup:  # noqa: FBT001
    what = tuple(dict.fromkeys(doubt.what.rstrip(". ") for doubt in members if not doubt.trial))
    what += said_once(doubt.what.rstrip(". ") for doubt in members if doubt.trial)
    trials = tuple(dict.fromkeys(doubt.trial for doubt in members if doubt.trial))
    return DoubtGroup(check, invalid, advice.rstrip(". "), what[:_EXAMPLES], len(what), trials)


_SHARE = re.compile(r"(?<![\w.,])[+−-]?\d+(?:\.\d+)?(?= ?%)")


def said_once(sentences: Iterable[str]) -> tuple[str, ...]:
    """The sentences, alike ones made one, in the order of the first of each.

    Alike are those that differ in shares of a hundred only, up to the first colon.  These become a
    range; of what stands behind the colon (names, places) the sentence with the largest first share
    gives an example.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for each in dict.fromkeys(sentences):
        head, _, tail = each.partition(": ")
        alike[_SHARE.sub("#", head) + (":" if tail else "")].append(each)
    return tuple(_merged(members) for members in alike.values())


def _merged(members: list[str]) -> str:
    if len(members) == 1:
        return members[0]
    parts = [each.partition(": ") for each in members]
    rows = [_SHARE.findall(head) for head, _, _ in parts]
    ranges = iter([_range(column) for column in zip(*rows, strict=True)])
    head = _SHARE.sub(lambda _: next(ranges), parts[0][0])
    tails = {tail for _, _, tail in parts}
    if len(tails) == 1:
        return ": ".join(filter(None, [head, *tails]))
    most = max(range(len(rows)), key=lambda place: abs(_number(rows[place][0])) if rows[0] else 0)
    return f"{head}, such as {parts[most][2]}"


def _range(column: tuple[str, ...]) -> str:
    low, high = min(column, key=_number), max(column, key=_number)
    return low if low == high else f"{low} to {high}"


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


# -- as sections of a report ----------------------------------------------------------------------

_TRIALS = 12
"""Trials of a doubt that are named."""
_WIDE = 6
"""Treatments up to which settings stand in lines and treatments in columns."""


def doubts_section(
    groups: Sequence[DoubtGroup], one: str, anchor: Callable[[str], str]
) -> Section | None:
    """``one`` is what a trial is called, ``anchor`` the place of one on the page, by its folder."""
    if not groups:
        return None
    found = tuple(_callout(group, one, anchor) for group in groups)
    return Section("Doubts", found, "doubts")


def _callout(group: DoubtGroup, one: str, anchor: Callable[[str], str]) -> Callout:
    more = group.said - len(group.what)
    said = [Text(what) for what in group.what]
    said += [Text(f"and {more:,} more like these", "note")] if more else []
    said.append(Text(f"What to do: {group.advice}.", "note"))
    where: Words = "The whole study."
    if group.trials:
        shown = [TextSpan(each, href=f"#{anchor(each)}") for each in group.trials[:_TRIALS]]
        left = len(group.trials) - len(shown)
        many = f"{words.count(len(group.trials), one)}: "
        where = (many, *pieces(joined(shown)), f" and {left:,} more" if left else "")
    said.append(Text(where, "note"))
    return Callout(group.check, tuple(said), "DOES NOT COUNT" if group.invalid else "")


def settings_section(found: ObservedSettings) -> Section:
    """What was in force in each treatment, and before the study."""
    blocks: list[Block] = [Text("No setting differed between treatments.", "note")]
    if found.varied.columns:
        on = f", on {found.device}" if found.device else ""
        read = (
            f"Read back before each load began{on}, and again after it; a trial in which they"
            " differed is INVALID."
        )
        blocks = [Text(read, "note"), _varied(found.varied)]
    if found.constant:
        same = _facts(found.constant, "Settings the same in every trial")
        blocks += [Heading("The same in every trial", 3), same]
    return Section("Settings in force", tuple(blocks), "settings")


def _varied(varied: _VariedSettings) -> Table:
    """As few columns as may be."""
    lines = (("before the study", varied.start), *varied.rows)
    if len(varied.rows) <= _WIDE < len(varied.columns) or len(varied.rows) < len(varied.columns):
        head = (Column("setting", "head"), *(Column(name) for name, _ in lines))
        told = tuple(
            (name, *(values[at] or "–" for _, values in lines))
            for at, name in enumerate(varied.columns)
        )
    else:
        head = (Column("treatment"), *map(Column, varied.columns))
        told = tuple((name, *(value or "–" for value in values)) for name, values in lines)
    return Table(head, told, "Settings by treatment")


def _facts(pairs: Sequence[tuple[str, str]], about: str) -> Table:
    return Table((Column("", "head"), Column("")), tuple(pairs), about, look="facts")


def machines_section(every: Sequence[HostFacts]) -> Section:
    """What each host is."""
    blocks: list[Block] = []
    for each in every:
        blocks += [Heading(each.host, 3), _facts(each.facts, f"Facts of {each.host}")]
        if each.queues:
            queues = _facts(each.queues, f"Settings of {each.host} before the study")
            blocks.append(Collapsible("Every setting of its devices before the study", (queues,)))
    none = Text("No facts were kept about the machine.", "note")
    return Section("Machine", tuple(blocks) or (none,), "machine")


def commands_blocks(every: Sequence[RecordedCommand], more: int) -> Iterator[Block]:
    """The command lines, as they were executed."""
    yield Heading("Commands, as they were executed")
    for each in every:
        yield Preformatted(each.line)
        many = words.count(len(each.trials), "trial")
        yield Text(f"{many}: {words.some(each.trials, 4)}", "note")
    if not every:
        yield Text("No command was executed.", "note")
    if more:
        own = "; each trial's folder holds its own in the file "
        yield Text(
            (words.count(more, "more command line"), own, TextSpan("command", "code"), "."), "note"
        )
