"""Legend: what a person knows about files that the files do not say.  ``import --map FILE``.

::

    question = "Does the clustered array cost anything?"
    files = "{array}-10G-{op}.txt"        # names in the files' names become factors; or a list;
                                          # {repeat} numbers repeats, * is passed over
    primary = "read.bw"                   # or one per workload, as in a study
    margin = "2%"
    confidence = 0.95
    session = "array"                     # what parts runs into sessions, or a list
    [labels]                              # a factor that no file says: one label a run, in order
    scheduler = ["cfq", "deadline", "anticipatory", "noop"]
    [baselines]
    scheduler = "cfq"
    [limits]                              # what nothing can exceed: more is a doubt
    in_flight = 3200                      # I/Os, by the job file
    link = "1Gbit/s"                      # of the network, or "125MB/s"
    decimal = ","                         # of the numbers of a table: "," or "."
    [pivot]                               # of a wide table: columns that are levels of a factor
    factor = "scheduler"
    columns = ["noop", "cfq"]
    metric = "bw"
    unit = "KiB/s"
    [columns]                             # of a table
    op = "workload"

Original: a file as it was given, and what it says.  Run: a recording in its place, and what a file
and a legend say of it.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.recording import Recording
from iotrial.model.trial import UNKNOWN, Doubt, Treatment
from iotrial.plan.problem import choices
from iotrial.units import parse_bytes, parse_fraction
from iotrial_import.formats.table_columns import TableColumns, columns_from

_SHAPES: dict[str, tuple[type, ...]] = {
    "question": (str,),
    "files": (str, list),
    "primary": (str, dict),
    "margin": (str, float),
    "confidence": (float,),
    "session": (str, list),
    "labels": (dict,),
    "baselines": (dict,),
    "limits": (dict,),
    "columns": (dict,),
    "pivot": (dict,),
    "decimal": (str,),
}
_BITS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)(?:bits?/s|bps|b/s)\s*")
_STEPS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SESSION = "session"
"""The property that says which runs were taken together: it is no factor."""
REPEAT = "repeat"
"""The field of a pattern that numbers repeats: it is no factor."""
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class ImportMap:
    """``files`` are patterns of file names, the first that fits counts; ``labels`` a factor's
    label for each run in order, or one for all of them; ``primary`` metric by workload ('' all).
    ``in_flight`` (I/Os) and ``link`` (bytes/s) are limits, 0 unknown.  Runs that are alike in the
    properties ``session`` were taken together, where these say it.  ``file`` is where it was
    read, '' nowhere."""

    question: str = ""
    files: tuple[str, ...] = ()
    primary: tuple[tuple[str, str], ...] = ()
    margin: float = 0.02
    confidence: float = 0.95
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    baselines: tuple[tuple[str, str], ...] = ()
    in_flight: float = 0.0
    link: float = 0.0
    columns: TableColumns | None = None
    session: tuple[str, ...] = (SESSION,)
    file: str = ""

    @property
    def of_each(self) -> bool:
        """Whether a person says of each file, or run by run, what it is."""
        return bool(self.files) or any(len(labels) > 1 for _, labels in self.labels)

    def named(self, file: str) -> tuple[tuple[str, str], ...]:
        """What a file's name says, by the pattern.  Raises UsageError where it does not match."""
        for each in self.files:
            parts = re.split(r"(\{\w+\}|\*)", each)
            pattern = "".join(
                "[^/]*?" if part == "*" else "(.+?)" if at % 2 else re.escape(part)
                for at, part in enumerate(parts)
            )
            if found := re.search(rf"(?:^|/){pattern}$", file):
                told = zip(_FIELD.findall(each), found.groups(), strict=True)
                return tuple((name, label) for name, label in told if name != REPEAT)
        if self.files:
            raise UsageError(
                f"{file}: its name is not of the pattern {' or '.join(map(repr, self.files))}",
                advice="Change `files` of the map, or import this file apart.",
            )
        return ()


def said_twice(legend: ImportMap) -> Iterator[Doubt]:
    """A doubt for each factor whose labels, or baseline, are said twice alike.  Raises UsageError
    where they are said differently: nobody knows which is meant."""
    for what, pairs in (("labels", legend.labels), ("baseline", legend.baselines)):
        first: dict[str, str] = {}
        for name, said in pairs:
            text = said if isinstance(said, str) else ",".join(said)
            if name not in first:
                first[name] = text
            elif first[name] != text:
                raise UsageError(
                    f"{name}: {what} said twice, and differently: {first[name]}; {text}",
                    advice=f"Remove one; several runs take --label {name}=A,B,… in their order.",
                )
            else:
                told = f"{name}: {what} said twice, alike: {text}"
                yield Doubt("said-twice", told, "Remove one, or was another factor meant?")


def with_decimal(legend: ImportMap, mark: str) -> ImportMap:
    """With this decimal mark of tables instead of the map's; '' keeps that."""
    if mark not in (".", ","):
        return legend
    said = legend.columns or TableColumns(())
    return replace(legend, columns=replace(said, decimal="," if mark == "," else "."))


def parse(text: str, file: str) -> ImportMap:
    """The legend that a TOML text says.  Raises UsageError, naming file and key."""
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
        raise UsageError(f"{file}: not TOML: {error}") from None
    for key, value in table.items():
        if key not in _SHAPES:
            raise UsageError(
                f"{file}: {key}: no such key", advice=choices(key, list(_SHAPES), "there are")
            )
        if not isinstance(value, _SHAPES[key]):
            wanted = " or ".join(each.__name__ for each in _SHAPES[key])
            raise UsageError(f"{file}: {key}: {value!r} is no {wanted}")
    try:
        return replace(_legend(table), file=file)
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from None


def _legend(table: dict[str, Any]) -> ImportMap:
    primary = table.get("primary", {})
    limits = dict(table.get("limits", {}))
    in_flight, link = limits.pop("in_flight", 0), limits.pop("link", "")
    if limits:
        raise ValueError(f"limits: there are in_flight and link, not {', '.join(limits)}")
    if not isinstance(in_flight, int | float) or in_flight < 0:
        raise ValueError(f"limits.in_flight: {in_flight!r} is not a number of I/Os")
    said = table.get("files", [])
    files = tuple(map(str, [said] if isinstance(said, str) else said))
    for pattern in files:
        if not _FIELD.search(pattern):
            raise ValueError(f"files: {pattern!r} has no {{name}} in it")
    confidence = table.get("confidence", 0.95)
    if not 0.5 <= confidence < 1:  # noqa: PLR2004 (as in a study)
        raise ValueError(f"confidence: {confidence!r} is not from 0.5 to below 1")
    return ImportMap(
        question=str(table.get("question", "")),
        files=files,
        primary=(("", primary),) if isinstance(primary, str) else _texts("primary", primary),
        margin=parse_fraction(table.get("margin", 0.02)),
        confidence=confidence,
        labels=tuple(
            (name, _labels(f"labels.{name}", each))
            for name, each in table.get("labels", {}).items()
        ),
        baselines=_texts("baselines", table.get("baselines", {})),
        in_flight=float(in_flight),
        link=_rate(link) if link else 0.0,
        columns=_columns(table),
        session=_labels("session", table.get("session", SESSION)),
    )


def _columns(table: dict[str, Any]) -> TableColumns | None:
    """What is said of a table's columns and numbers.  Raises UsageError."""
    if not table.get("columns") and "pivot" not in table:
        mark = table.get("decimal", "")
        if mark not in ("", ".", ","):
            raise ValueError(f"decimal: {mark!r} is neither a point nor a comma")
        return TableColumns((), mark) if mark else None
    return columns_from(
        {key: table[key] for key in ("columns", "decimal", "pivot") if key in table}
    )


def _texts(key: str, table: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    for name, value in table.items():
        if not isinstance(value, str | int | float):
            raise ValueError(f"{key}.{name}: {value!r} is not a text")
    return tuple((name, str(value)) for name, value in table.items())


def _labels(key: str, value: object) -> tuple[str, ...]:
    every = value if isinstance(value, list) else [value]
    if not every or not all(isinstance(each, str | int | float) for each in every):
        raise ValueError(f"{key}: {value!r} is not a list of texts")
    return tuple(str(each) for each in every)


def _rate(value: object) -> float:
    """``"1Gbit/s"``, ``"125MB/s"`` or a number of bytes/s."""
    if isinstance(value, int | float):
        return float(value)
    text = str(value)
    if match := _BITS.fullmatch(text):
        return float(match[1]) * _STEPS[match[2]] / 8
    return float(parse_bytes(text.strip().removesuffix("/s")))


_NOT_SAID = ("", UNKNOWN, "n/a", "na", "?", "-")
FILE, FOLDER = "file", "folder"
"""The factors of runs that only their files' names, or the folders they are in, tell apart."""
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """A file as it was given: its name (relative, ``/`` between folders), its format's name, and
    its runs.  Of a run in many files ``file`` is the first and ``files`` are all; ``parts`` says
    how many hosts it was put together from.  ``columns`` are those of each table in it, ``doubts``
    are about the file, not about one run."""

    file: str
    format: str
    recordings: tuple[Recording, ...]
    files: tuple[str, ...] = ()
    parts: int = 1
    columns: tuple[TableColumns, ...] = ()
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A recording in its place: ``treatment`` has every factor; ``block`` counts the cell's
    repeats from 1; ``properties`` is all that was said of it, factor or not; ``parts`` is how
    many hosts (or other runs) it was put together from."""

    file: str
    recording: Recording
    properties: Mapping[str, str]
    treatment: Treatment = ()
    block: int = 1
    parts: int = 1

    @property
    def workload(self) -> str:
        return self.recording.workload

    @property
    def id(self) -> str:
        """Six hex digits that name this run of this file."""
        said = f"{self.file}\n{self.recording.line}\n{self.workload}\n{self.treatment}{self.block}"
        return sha256(said.encode()).hexdigest()[:6]

    @property
    def place(self) -> str:
        """Where it was read: ``a.csv:12``."""
        return f"{self.file}:{self.recording.line}" if self.recording.line else self.file

    @property
    def numbers(self) -> tuple[tuple[str, str, float], ...]:
        """The same for copies of one run."""
        return tuple((m.metric, m.job, m.value) for m in self.recording.measurements)

    def label(self, name: str) -> str:
        """What it says of a property."""
        label = self.properties.get(name, "")
        return UNKNOWN if label.lower() in _NOT_SAID else label

    def with_label(self, name: str, label: str) -> ImportedRun:
        return replace(self, properties={**self.properties, name: label})

    def placed(self, names: Iterable[str]) -> ImportedRun:
        """With these properties as its treatment."""
        return replace(self, treatment=tuple((name, self.label(name)) for name in names))


def varied(runs: Sequence[ImportedRun]) -> list[str]:
    """The properties with several known labels within some workload, in order of appearance."""
    names = dict.fromkeys(name for run in runs for name in run.properties)
    labels: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in runs:
        for name in names:
            if (label := run.label(name)) != UNKNOWN:
                labels[run.workload, name].add(label)
    several = {name for (_, name), found in labels.items() if len(found) > 1} - {SESSION}
    return [name for name in names if name in several]


def some(texts: Sequence[str], most: int = _SHOWN, between: str = "; ") -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return between.join(texts[:most]) + more
