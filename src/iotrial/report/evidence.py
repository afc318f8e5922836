"""What stands beside the numbers: machine, settings in force, exact commands, doubts.

What many trials or hosts say alike is said once: a report has one line of it, and not one for each.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iotrial.model.hostlist import folded
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
    Row,
    RowGroup,
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
from iotrial.tunables import written
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
    lines = {_versioned(name, str(version)) for name, version in named if version}
    added = itertools.chain.from_iterable(
        _mapping(facts.get("plugins")).items() for facts in results.facts.values()
    )
    lines |= {visible(f"plugin {name} ({origin})") for name, origin in added}
    return tuple(sorted(lines))


_COMPLAINT = re.compile(r"(invalid|unrecognized|unsupported|unknown) option", re.IGNORECASE)


def _versioned(name: str, version: str) -> str:
    """``fio-3.39``; the name alone of a program that has no ``--version`` and said so."""
    if _COMPLAINT.search(version):
        return visible(name)
    return visible(version if name in version else f"{name} {version}")


def settings(results: Results) -> ObservedSettings:
    """What was read back before the load began, over all records, by treatment."""
    seen: dict[Treatment, dict[_Key, set[str]]] = defaultdict(lambda: defaultdict(set))
    for treatment, triples in {(r.trial.treatment, r.before) for r in results.records}:
        for device, tunable, value in triples:
            seen[treatment][device, tunable].add(value)
    levels = [level for factor in results.study.factors for level in factor.levels]
    asked = {written(name) for level in levels for name, _ in level.settings}
    keys = sorted(
        {key for observed in seen.values() for key in observed},
        key=lambda key: (key[1] not in asked, key),
    )
    start = _at_start(results)
    rows = [(treatment, seen[treatment]) for treatment in ordered(results, set(seen))]
    lines: dict[_Line, list[str]] = defaultdict(list)  # each with its hosts
    for key in keys:
        host, device = _parted(key[0], results.facts)
        values = tuple(_values(observed, key) for _, observed in rows)
        constant = _constant(key, start, [observed for _, observed in rows])
        lines[_Line(key[1], device, start.get(key, ""), values, constant)].append(host)
    names, device = _names(list(lines.items()), results.facts)
    told = list(zip(names, lines, strict=True))
    varied = [(name, line) for name, line in told if not line.constant]
    return ObservedSettings(
        device,
        _VariedSettings(
            tuple(name for name, _ in varied),
            tuple(visible(line.start) for _, line in varied),
            tuple(
                (visible(treatment_text(treatment)), tuple(line.values[at] for _, line in varied))
                for at, (treatment, _) in enumerate(rows)
            ),
        ),
        tuple((name, line.values[0]) for name, line in told if line.constant),
    )


_Key = tuple[str, str]  # device, tunable


@dataclass(frozen=True, slots=True)
class _Line:
    """What was seen of a setting, on each host where it was alike: ``values`` by treatment."""

    tunable: str
    device: str
    start: str
    values: tuple[str, ...]
    constant: bool


def _parted(device: str, hosts: Collection[str]) -> tuple[str, str]:
    """``box1:sda`` of several hosts → the host and its device."""
    host, colon, own = device.partition(":")
    return (host, own) if colon and len(hosts) > 1 and host in hosts else ("", device)


def _names(
    lines: Sequence[tuple[_Line, Sequence[str]]], every: Collection[str]
) -> tuple[list[str], str]:
    """What each line is called; and whose all of them are, where all are of one place."""
    places = [_place(line.device, [host for host in on if host], every) for line, on in lines]
    if len(set(places)) == 1:
        return [visible(line.tunable) for line, _ in lines], visible(places[0])
    told = zip(lines, places, strict=True)
    return [
        visible(f"{line.tunable} on {place}" if place else line.tunable)
        for (line, _), place in told
    ], ""


def _place(device: str, hosts: Sequence[str], every: Collection[str]) -> str:
    """``sda of box[1-3]``; of all hosts only how many they are."""
    return " of ".join(filter(None, (device, among(hosts, every) if hosts else "")))


_LONG = 80  # characters


def among(hosts: Sequence[str], every: Collection[str]) -> str:
    """``box[1-3,7]``; of several that are all there are ``all 50 hosts``."""
    if len(hosts) == len(every) > 1:
        return "both hosts" if len(hosts) == 2 else f"all {len(hosts)} hosts"  # noqa: PLR2004
    said = folded(hosts)
    return said if len(said) <= _LONG else words.some(hosts, _EXAMPLES)


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
    several = len(results.facts) > 1
    return {
        (f"{host}:{device}" if several else device, tunable): _CHOSEN.sub(r"\1", str(value))
        for host, facts in results.facts.items()
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
    advice = "read the trial's stdout and stderr, fix the cause, and run the study again"
    unknown = "no reason recorded"
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
    return Callout(group.check, tuple(said), "EXCLUDED" if group.invalid else "")


def settings_section(found: ObservedSettings) -> Section:
    """What was in force in each treatment, and before the study."""
    blocks: list[Block] = [Text("No setting differed between treatments.", "note")]
    if found.varied.columns:
        on = f", on {found.device}" if found.device else ""
        read = f"Read back before and after each load{on}; a trial with a difference is INVALID."
        blocks = [Text(read, "note"), _varied(found.varied)]
    if found.constant:
        same = _facts(found.constant, "Constant settings")
        blocks += [Heading("Constant settings", 3), same]
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
    """What each host is; of several, what they are alike and what each has of its own."""
    if len(every) > 1:
        return Section("Machines", tuple(_hosts(every)), "machine")
    blocks: list[Block] = []
    for each in every:
        blocks += [Heading(each.host, 3), _facts(each.facts, f"Facts of {each.host}")]
        if each.queues:
            queues = _facts(each.queues, f"Settings of {each.host} before the study")
            blocks.append(Collapsible(_QUEUES_OF.format("its"), (queues,)))
    none = Text("No facts recorded about the host.", "note")
    return Section("Machine", tuple(blocks) or (none,), "machine")


_QUEUES_OF = "All settings of {} devices before the study"
_COLUMNS = 4
"""Hosts up to which each has a column of what differs."""
_APART = 6
"""Values of a fact up to which each has a line with its hosts; what has more is each host's own."""


def _hosts(every: Sequence[HostFacts]) -> Iterator[Block]:
    names = [each.host for each in every]
    yield from _alike({each.host: each.facts for each in every}, names, "facts")
    queues = {each.host: each.queues for each in every if each.queues}
    if queues:
        yield Collapsible(_QUEUES_OF.format("their"), tuple(_alike(queues, names, "settings")))


def _alike(
    told: Mapping[str, Sequence[tuple[str, str]]], hosts: Sequence[str], what: str
) -> Iterator[Block]:
    """Facts of hosts, each said once: those all have alike, those that differ, each host's own."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host, pairs in told.items():
        for name, value in pairs:
            found[name][value].append(host)
    same = {n for n, by in found.items() if [len(those) for those in by.values()] == [len(hosts)]}
    common = [(name, next(iter(found[name]))) for name in found if name in same]
    few = len(hosts) <= _COLUMNS
    apart = {n: by for n, by in found.items() if n not in same and (few or len(by) <= _APART)}
    own = [name for name in found if name not in same and name not in apart]
    if common:
        yield Heading(f"The same on {among(hosts, hosts)}", 3)
        yield Text(folded(hosts), "note")
        yield _facts(common, f"Common {what}")
    if apart:
        yield Heading("What differs", 3)
        yield _by_host(apart, hosts) if few else _by_value(apart, hosts)
    if own:
        rows = [(host, [pair for pair in pairs if pair[0] in own]) for host, pairs in told.items()]
        groups: list[Row | RowGroup] = []
        for host, pairs in rows:
            groups += [RowGroup(host), *pairs]
        table = Table((Column("", "head"), Column("")), tuple(groups), f"Own {what}", look="facts")
        yield Collapsible(f"Each host's own: {words.some(own, _EXAMPLES)}", (table,))


def _by_host(apart: Mapping[str, Mapping[str, Sequence[str]]], hosts: Sequence[str]) -> Table:
    """A column a host."""
    rows = []
    for name, by in apart.items():
        of = {host: value for value, those in by.items() for host in those}
        rows.append((name, *(of.get(host, "–") for host in hosts)))
    head = (Column("", "head"), *map(Column, hosts))
    return Table(head, tuple(rows), "What differs between hosts")


def _by_value(apart: Mapping[str, Mapping[str, Sequence[str]]], hosts: Sequence[str]) -> Table:
    """A line a value, the most frequent first; where some say nothing, one more."""
    rows = []
    for name, by in apart.items():
        silent = set(hosts).difference(*by.values())
        values = {**by, "–": [host for host in hosts if host in silent]} if silent else by
        ranked = sorted(values.items(), key=lambda pair: -len(pair[1]))
        rows += [
            ("" if at else name, value, f"{len(those):,}", among(those, hosts))
            for at, (value, those) in enumerate(ranked)
        ]
    head = (Column("", "head"), Column("value"), Column("hosts", "n"), Column(""))
    return Table(head, tuple(rows), "What differs between hosts")


def commands_blocks(every: Sequence[RecordedCommand], more: int) -> Iterator[Block]:
    """The command lines, as they were executed."""
    yield Heading("Executed commands")
    for each in every:
        yield Preformatted(each.line)
        many = words.count(len(each.trials), "trial")
        yield Text(f"{many}: {words.some(each.trials, 4)}", "note")
    if not every:
        yield Text("No command executed.", "note")
    if more:
        own = "; each trial's own command is in its folder, in the file "
        yield Text(
            (words.count(more, "more command line"), own, TextSpan("command", "code"), "."), "note"
        )
