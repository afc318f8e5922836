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

A profile of several hosts names them, each with how ssh(1) reaches it (without: this machine), and
each entry is of one of them, of several (``box[1-4]``), or of all where it names none::

    [hosts.box1]
    ssh = "root@box1"
    [hosts.box2]
    ssh = "root@box2"

    [[keep]]
    tunable = "queue.scheduler"
    value = "bfq"
    host = "box[1-2]"
    on = "sda"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iotrial.errors import StudyError
from iotrial.hosts.via import problem_of
from iotrial.keep.entry import KeptSetting, problem
from iotrial.model.hostlist import expanded
from iotrial.model.study import StudyHost
from iotrial.plan.problem import inline, locate

FORMAT = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
_KEYS = {"tunable", "value", "host", "on", "ids", "former", "because"}
_HEAD = {"format", "name", "question", "source", "hosts", "keep"}
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)
_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Profile:
    """``name`` names its files; ``question`` and ``source`` (a results folder) are for people.
    Where it names ``hosts``, each entry is of one of them.  ``apart`` are settings, in words, that
    a study makes by files and commands of its own: they are shown, and never kept."""

    name: str
    entries: tuple[KeptSetting, ...]
    question: str = ""
    source: str = ""
    hosts: tuple[StudyHost, ...] = ()
    apart: tuple[str, ...] = ()

    def only(self, entries: Iterable[KeptSetting]) -> Profile:
        return replace(self, entries=tuple(entries))

    def share(self, host: str) -> Profile:
        """What of it is one host's, as a profile of one machine."""
        own = (replace(each, host="") for each in self.entries if each.host == host)
        return replace(self, entries=tuple(own), hosts=())

    @property
    def shares(self) -> dict[StudyHost, Profile]:
        """The share of each of its hosts that has one; of this machine where it names none."""
        if not self.hosts:
            return {StudyHost("local"): self}
        shares = {place: self.share(place.name) for place in self.hosts}
        return {place: share for place, share in shares.items() if share.entries}


def plain(text: str) -> str:
    """``text`` on one line, for a comment: what ends a line in any of the formats, or is not
    seen, becomes a blank."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def named(text: str) -> str:
    """A name for files, made from any text; ``kept`` where nothing of it can be used."""
    short = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48].strip("-")
    return short or "kept"


def load(path: Path) -> Profile:
    """The profile in a file.  Raises StudyError with file, line and key for anything wrong."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        advice = "Check its name, owner and mode."
        raise StudyError(f"cannot be read: {error.strerror}", file=file, advice=advice) from None
    if len(raw) > _MOST_BYTES:
        advice = "`iotrial keep --help` describes profiles."
        raise StudyError("is larger than 1 MiB", file=file, advice=advice)
    try:
        return parse(raw.decode("utf-8"), file)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        advice = "Save it as UTF-8 text."
        raise StudyError("is not UTF-8", file=file, line=line, advice=advice) from None


def parse(text: str, file: str) -> Profile:
    """A profile from its TOML.  Raises StudyError with file, line and key for anything wrong."""
    found = _toml(text, file)
    read = _Reader(text, file)
    read.known(found, _HEAD, ())
    if found.get("format") != FORMAT:
        what = f"format {found.get('format')!r} is not known"
        raise read.problem(("format",), what, f"Write format = {FORMAT}")
    name = read.text(found, "name", ())
    if not _NAME.fullmatch(name):
        advice = f"Use small letters, digits and hyphens, at most 48: {named(name)}"
        raise read.problem(("name",), f"name {name!r} is not a valid file name", advice)
    rows = found.get("keep")
    if not isinstance(rows, list) or not rows:
        raise read.problem(("keep",), "the profile has no setting to keep", "Add a [[keep]] table.")
    hosts = _hosts(read, found.get("hosts", {}))
    kept = [(at, each) for at, row in enumerate(rows) for each in _of_row(read, row, at, hosts)]
    _no_twins(read, kept)
    return Profile(
        name,
        tuple(entry for _, entry in kept),
        read.text(found, "question", (), needed=False),
        read.text(found, "source", (), needed=False),
        hosts,
    )


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
        place = _PLACE.fullmatch(str(error))
        line = int(place[2] or text.count("\n") + 1) if place else 0
        what = place[1] if place else str(error)
        message = f"not TOML: {what}"
        raise StudyError(message, file=file, line=line, advice="Fix the TOML syntax.") from None
    except RecursionError:
        what = "not a profile: nested too deeply"
        raise StudyError(what, file=file, advice="Fix the TOML syntax.") from None


def to_toml(profile: Profile) -> str:
    """The profile as :func:`parse` reads it."""
    lines = [f"format = {FORMAT}", f"name = {inline(profile.name)}"]
    lines += [f"question = {inline(profile.question)}"] if profile.question else []
    lines += [f"source = {inline(profile.source)}"] if profile.source else []
    for place in profile.hosts:
        lines += ["", f"[hosts.{_key(place.name)}]"]
        lines += [f"ssh = {inline(place.ssh)}"] if place.ssh else []
        lines += [f"via = {inline(place.via)}"] if place.via else []
    for entry in profile.entries:
        lines += ["", "[[keep]]", f"tunable = {inline(entry.tunable)}"]
        lines += [f"value = {inline(entry.value)}"]
        lines += [f"host = {inline(entry.host)}"] if entry.host else []
        lines += [f"on = {inline(entry.device)}"] if entry.device else []
        if entry.ids:
            pairs = ", ".join(f"{_key(kind)} = {inline(value)}" for kind, value in entry.ids)
            lines.append(f"ids = {{ {pairs} }}")
        lines += [f"former = {inline(entry.former)}"] if entry.former else []
        lines += [f"because = {inline(entry.because)}"] if entry.because else []
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else inline(name)


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
                advice = f"Known keys: {', '.join(sorted(keys))}"
                raise self.problem((*path, key), f"unknown key {key!r}", advice)

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


def _hosts(read: _Reader, tables: object) -> tuple[StudyHost, ...]:
    if not isinstance(tables, dict):
        raise read.problem(("hosts",), "hosts is not a table", "Write [hosts.NAME].")
    found = []
    for name, table in tables.items():
        path = ("hosts", name)
        if not _HOST.fullmatch(name):
            advice = "Use letters, digits, dots, hyphens and underscores."
            raise read.problem(path, f"{name!r} is not a valid host name", advice)
        if not isinstance(table, dict):
            raise read.problem(path, f"{name} is not a table", f"Write [hosts.{name}].")
        read.known(table, {"ssh", "via"}, path)
        ssh, via = (read.text(table, key, path, needed=False) for key in ("ssh", "via"))
        wrong = ("both ssh and via are given", "Remove one.") if ssh else problem_of(via)
        if via and wrong:
            raise read.problem((*path, "via"), *wrong)
        found.append(StudyHost(name, ssh, via=via))
    return tuple(found)


def _of_row(
    read: _Reader, row: object, at: int, hosts: tuple[StudyHost, ...]
) -> tuple[KeptSetting, ...]:
    """An entry for each host that the row is of."""
    path = ("keep", at)
    if not isinstance(row, dict):
        raise read.problem(path, "keep is not a table", "Write [[keep]].")
    read.known(row, _KEYS, path)
    entry, known = _entry(read, row, at), [each.name for each in hosts]
    try:
        named = expanded(read.text(row, "host", path, needed=False)) or tuple(known)
    except ValueError as error:
        raise read.problem((*path, "host"), str(error), 'For example host = "box[1-4]"') from None
    for name in named:
        if name not in known:
            advice = f"Known: {', '.join(known)}" if known else f"Add [hosts.{name}]."
            raise read.problem((*path, "host"), f"unknown host {name!r}", advice)
    return tuple(replace(entry, host=name) for name in named) or (entry,)


def _entry(read: _Reader, row: dict[str, Any], at: int) -> KeptSetting:
    path: tuple[str | int, ...] = ("keep", at)
    name = read.text(row, "tunable", path)
    ids = row.get("ids", {})
    if not isinstance(ids, dict) or not all(isinstance(each, str) for each in ids.values()):
        raise read.problem((*path, "ids"), "ids must be a table of texts", 'Write { wwid = "…" }')
    entry = KeptSetting(
        name,
        read.text(row, "value", path),
        read.text(row, "on", path, needed=False),
        tuple(sorted(ids.items())),
        read.text(row, "former", path, needed=False),
        read.text(row, "because", path, needed=False),
    )
    if found := problem(entry):
        key, what = found
        place = (*path, key) if key in _KEYS else (*path, "ids", key)
        raise read.problem(place, what, "`iotrial keep --help` and `iotrial knobs` show how.")
    return entry


def _no_twins(read: _Reader, entries: Iterable[tuple[int, KeptSetting]]) -> None:
    seen: set[tuple[str, str, str]] = set()
    for at, entry in entries:
        key = (entry.host, entry.tunable, entry.device)
        if key in seen:
            where = ":".join(part for part in (entry.host, entry.device) if part) or "the host"
            what = f"{entry.tunable} on {where} occurs twice"
            raise read.problem(("keep", at), what, "Remove one of them.")
        seen.add(key)
