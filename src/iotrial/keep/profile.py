"""Profile: the settings to be kept, on which devices, and why.

A profile is what a study came to, or what a person wrote (``PROFILE.toml``)::

    format = 1
    name = "bfq-for-reads"
    question = "Which scheduler suits small random reads here?"

    [[keep]]
    tunable = "queue.scheduler"
    value = "bfq"
    on = "sda"
    ids = { wwid = "naa.600508b1001c" }
    former = "mq-deadline"
    because = "reads: read.iops +12.3 % (interval +9.1 … +15.6)"

``on`` is the kernel's name of a device when the study ran; names move, so what is written for a
device goes by ``ids`` where there are any.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from iotrial.errors import StudyError, UsageError
from iotrial.plan.locate import inline, locate
from iotrial.tunables import tunable

FORMAT = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
_KEYS = {"tunable", "value", "on", "ids", "former", "because"}
_HEAD = {"format", "name", "question", "source", "keep"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting to be kept.  ``device`` is the kernel's name at the time ('': the host's),
    ``ids`` are (kind, value) pairs that the device is known by after a boot; ``former`` is what it
    was ('': not known); ``because`` says why in words."""

    tunable: str
    value: str
    device: str = ""
    ids: tuple[tuple[str, str], ...] = ()
    former: str = ""
    because: str = ""

    def __str__(self) -> str:
        where = f" on {self.device}" if self.device else ""
        return f"{self.tunable}={self.value}{where}"


@dataclass(frozen=True, slots=True)
class Profile:
    """``name`` names its files; ``question`` and ``source`` (a results folder) are for people."""

    name: str
    entries: tuple[Entry, ...]
    question: str = ""
    source: str = ""

    def only(self, entries: Iterable[Entry]) -> Profile:
        return Profile(self.name, tuple(entries), self.question, self.source)


def plain(text: str) -> str:
    """``text`` on one line, for a comment: what ends a line in any of the formats becomes a
    blank."""
    return " ".join(_CONTROL.sub(" ", text).split())


def named(text: str) -> str:
    """A name for files, made from any text; ``kept`` where nothing of it can be used."""
    short = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48].strip("-")
    return short or "kept"


def parse(text: str, file: str) -> Profile:
    """A profile from its TOML.  Raises StudyError with file, line and key for anything wrong."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(str(error), file=file, advice="Mend the TOML.") from None
    read = _Reader(text, file)
    read.known(found, _HEAD, ())
    if found.get("format") != FORMAT:
        what = f"format {found.get('format')!r} is not known"
        raise read.problem(("format",), what, f"Write format = {FORMAT}")
    name = read.text(found, "name", ())
    if not _NAME.fullmatch(name):
        advice = f"Use small letters, digits and hyphens, at most 48: {named(name)}"
        raise read.problem(("name",), f"name {name!r} cannot name files", advice)
    rows = found.get("keep")
    if not isinstance(rows, list) or not rows:
        raise read.problem(("keep",), "there is nothing to keep", "Add a [[keep]] table.")
    entries = tuple(_entry(read, row, at) for at, row in enumerate(rows))
    _no_twins(read, entries)
    return Profile(
        name,
        entries,
        read.text(found, "question", (), needed=False),
        read.text(found, "source", (), needed=False),
    )


def to_toml(profile: Profile) -> str:
    """The profile as :func:`parse` reads it."""
    lines = [f"format = {FORMAT}", f"name = {inline(profile.name)}"]
    lines += [f"question = {inline(profile.question)}"] if profile.question else []
    lines += [f"source = {inline(profile.source)}"] if profile.source else []
    for entry in profile.entries:
        lines += ["", "[[keep]]", f"tunable = {inline(entry.tunable)}"]
        lines += [f"value = {inline(entry.value)}"]
        lines += [f"on = {inline(entry.device)}"] if entry.device else []
        if entry.ids:
            pairs = ", ".join(f"{kind} = {inline(value)}" for kind, value in entry.ids)
            lines.append(f"ids = {{ {pairs} }}")
        lines += [f"former = {inline(entry.former)}"] if entry.former else []
        lines += [f"because = {inline(entry.because)}"] if entry.because else []
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Reader:
    source: str
    file: str

    def problem(self, path: tuple[str | int, ...], what: str, advice: str) -> StudyError:
        spans, key = locate(self.source), ".".join(map(str, path))
        while path and path not in spans:
            path = path[:-1]
        line = spans[path].line if path in spans else 1
        return StudyError(what, file=self.file, line=line, key=key, advice=advice)

    def known(self, table: Mapping[str, Any], keys: set[str], path: tuple[str | int, ...]) -> None:
        for key in table:
            if key not in keys:
                advice = f"Known here: {', '.join(sorted(keys))}"
                raise self.problem((*path, key), f"there is no key {key!r}", advice)

    def text(
        self,
        table: Mapping[str, Any],
        key: str,
        path: tuple[str | int, ...],
        *,
        needed: bool = True,
    ) -> str:
        value = table.get(key, None if needed else "")
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)  # value = 64
        if not isinstance(value, str) or (needed and not value):
            raise self.problem((*path, key), f"{key} must be a text", f'Write {key} = "…"')
        return value


def _entry(read: _Reader, row: object, at: int) -> Entry:
    path: tuple[str | int, ...] = ("keep", at)
    if not isinstance(row, dict):
        raise read.problem(path, "keep is not a table", "Write [[keep]].")
    read.known(row, _KEYS, path)
    name = read.text(row, "tunable", path)
    ids = row.get("ids", {})
    if not isinstance(ids, dict) or not all(isinstance(each, str) for each in ids.values()):
        raise read.problem((*path, "ids"), "ids must be a table of texts", 'Write { wwid = "…" }')
    entry = Entry(
        name,
        read.text(row, "value", path),
        read.text(row, "on", path, needed=False),
        tuple(sorted(ids.items())),
        read.text(row, "former", path, needed=False),
        read.text(row, "because", path, needed=False),
    )
    try:
        knob = tunable(name)
    except UsageError as error:
        raise read.problem((*path, "tunable"), str(error), error.advice) from None
    if knob.scope != "host" and not entry.device:
        raise read.problem(path, f"{name} belongs to a {knob.scope}", 'Name it: on = "…"')
    if problem := knob.device_problem(entry.device):
        raise read.problem((*path, "on"), f"{name}: {problem}", "Name it as the kernel does.")
    for key, text in (("value", entry.value), *entry.ids):
        if _CONTROL.search(text):
            raise read.problem(path, f"{key} holds a control character", "Take it out.")
    return entry


def _no_twins(read: _Reader, entries: tuple[Entry, ...]) -> None:
    seen: set[tuple[str, str]] = set()
    for at, entry in enumerate(entries):
        if (entry.tunable, entry.device) in seen:
            what = f"{entry.tunable} on {entry.device or 'the host'} is kept twice"
            raise read.problem(("keep", at), what, "Leave one of them out.")
        seen.add((entry.tunable, entry.device))
