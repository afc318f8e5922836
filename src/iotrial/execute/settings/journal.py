"""The journal: what a host is owed, written durably *before* the change that causes the debt.

One file a session (one ``iotrial run``) on the host that is changed.  Its lines have fields
separated by ``|``; in a field, a backslash, ``|`` and control characters are ``\\0`` with three
octal digits, as printf(1) ``%b`` reads them; every line ends with the field ``.``::

    open|3|TOKEN|BOOT_ID|AT|RESULTS|STUDY|.
    device|sda|IDENTITY|PATH|CONTENT|…|.
    value|DEVICE|TUNABLE|VALUE|PATH|PICK|KEY|ABSENT|N|ARGV…|N|KIND|PATH|DATA|N|ARGV…|…|.
    durable|… as value …|.
    made|WHAT|NAME=VALUE|…|.
    whole|SHA-256 of all lines before|.

It is read in two languages: here, and in ``guard.sh``, which must restore without Python.  So
everything that restoring needs is in it, as data: a *value* says how it is read (a probe: file or
N words of a command, pick, key) and what gives it back (N acts); a *device* line which files must
read the same (``PATH`` as ``CONTENT``, blanks normalised) for the disk of that name to be the one
that was changed; IDENTITY is the same for people and for the finer comparison made here (JSON).

A *durable* value is one that a reboot does not forget.

The values hold the whole group: what will be written and everything those writes move.  Only the
first line that names a value counts, since later ones saw our own changes.  A session that owes
nothing has no file: the unlink is the receipt.

The file is replaced as a whole each time something is owed, and its last line says so: one that is
empty, cut short or altered is damaged, whatever did it, and owes what nobody knows any more
(``docs/decisions/0026``).  The session that writes it has all of it in memory, looks at each trial
whether the file is still what it wrote, and pays from memory.

Entries of a journal: each debt as a line, there and back.  Pure;
:mod:`iotrial.execute.settings.journal` says which lines there are.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from iotrial.errors import FileRefused, OwedError, RefusedError
from iotrial.hosts.places import need_trusted
from iotrial.hosts.steps import beside
from iotrial.model.host import Host
from iotrial.model.step import Change, Pick, Probe, Read, StepResult
from iotrial.model.target import DeviceIdentity
from iotrial.model.tunable import FormerValue, Setting

__all__ = [
    "FORMAT",
    "REPORT",
    "SUFFIX",
    "Journal",
    "JournalFile",
    "ResourceUndo",
    "SettingsUndo",
    "fields",
    "journal_path",
    "line",
    "made_name",
    "numbered",
    "open_journal",
    "read_session",
    "sealed",
    "sessions",
    "sweep",
]

FORMAT = "3"
SUFFIX = ".journal"
REPORT = ".restored"
"""Beside a journal's place: what the guard restored, for whoever comes next to read."""

_UNSEALED = "2"
"""The format before: appended to, so that a torn last line is a change that never happened."""


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One journal file read back.  ``damage`` says what of it cannot be read."""

    path: str
    boot_id: str
    study: str
    results: str
    token: str
    opened: float
    settings: tuple[SettingsUndo, ...] = ()
    made: tuple[ResourceUndo, ...] = ()
    damage: tuple[str, ...] = ()

    def describe(self) -> tuple[str, ...]:
        """Every debt in words, one line each."""
        rows = [
            f"{_called(debt)}: {owed.setting.tunable} = {owed.setting.value}"
            for debt in self.settings
            for owed in debt.values
        ]
        rows += [f"made: {debt.what} {made_name(debt)}".rstrip() for debt in self.made]
        return (*rows, *self.damage)


def _called(debt: SettingsUndo) -> str:
    """The device, and by which id it is known, since its name may be another's by now."""
    ids = debt.identity.ids if debt.identity else ()
    return f"{debt.device} ({ids[0][0]} {ids[0][1]})" if ids else debt.device or "host"


@dataclass
class Journal:
    """The open journal of this session.  Every method is durable when it returns.

    ``lost`` says how the file was found not to be what was written ('': never).
    """

    host: Host
    path: str
    token: str
    lost: str = ""
    _known: set[tuple[str, str]] = field(default_factory=set)
    _lines: bytes = b""
    _there: tuple[bytes, ...] = ()

    def session(self) -> JournalFile:
        """What this session owes, from memory."""
        return read_session(self.path, sealed(self._lines))

    def describe(self) -> tuple[str, ...]:
        """Every debt of this session in words, without asking the host."""
        return self.session().describe()

    @property
    def look(self) -> Read:
        """What :meth:`check` wants the answer to."""
        return Read(Probe(self.path, pick="whole"))

    def check(self, answer: StepResult) -> None:
        """Raise OwedError where the file is not what was written: another program removed or
        changed it, or the disk lost it.  Who comes after a death of ours would know nothing."""
        if answer.errno or answer.raw not in self._there:
            self.lost = self.lost or _how_lost(answer, self._there)
        if self.lost:
            raise OwedError(
                f"{self.host.name}: {self.path} {self.lost} during this run",
                owed=self.describe(),
                advice="The run ends, and restores the settings listed above from memory.",
            )

    def owe_settings(self, debt: SettingsUndo) -> None:
        """Record former values; those already recorded in this session are left as they are."""
        self.owe_all((debt,))

    def owe_all(self, debts: Iterable[SettingsUndo]) -> None:
        """The same for several devices, in one write."""
        lines = []
        for debt in debts:
            fresh = [o for o in debt.values if (debt.device, o.setting.tunable) not in self._known]
            if fresh:
                lines += [device_out(debt), *map(owed_out, fresh)]
                self._known.update((debt.device, o.setting.tunable) for o in fresh)
        if lines:
            self.add(b"".join(lines))

    def owe_made(self, debt: ResourceUndo) -> None:
        fields = [f"{name}={value}" for name, value in debt.plan.items()]
        self.add(line("made", debt.what, *fields))

    def add(self, lines: bytes) -> None:
        """Replace the file by one with more lines.  Raises RefusedError where that fails: without
        its line there is no change; OwedError as :meth:`check`."""
        if self._lines:
            self.check(*self.host.batch([self.look]))
        self._lines += lines  # first: a link that is lost now may have taken it across
        whole = sealed(self._lines)
        self._there = (*self._there, whole)
        try:
            self.host.save(self.path, whole)
        except FileRefused as refused:
            raise RefusedError(
                f"the journal cannot be written ({refused}); iotrial changes no setting without it",
                advice=f"Free space, or make {self.path.rpartition('/')[0]} writable, on"
                f" {self.host.name}.",
            ) from refused
        self._there = (whole,)


def _how_lost(answer: StepResult, there: tuple[bytes, ...]) -> str:
    if answer.errno == errno.ENOENT:
        return "was removed"
    if answer.errno:
        return f"is no longer readable ({answer.complaint})"
    if not answer.raw:
        return "was emptied"
    short = any(whole.startswith(answer.raw) for whole in there)
    return "was truncated" if short else "was changed by another program"


def sealed(lines: bytes) -> bytes:
    """The lines as a whole file: one that is empty, cut or altered is told by its last line."""
    return lines + line("whole", hashlib.sha256(lines).hexdigest())


def journal_path(folder: str, token: str) -> str:
    """Where the journal of the session ``token`` lies."""
    return f"{folder}/{token}{SUFFIX}"


def open_journal(host: Host, folder: str, header: Mapping[str, Any]) -> Journal:
    """Start a session's journal in ``folder``.  ``header`` needs ``boot_id`` and ``token``.

    Raises RefusedError where it cannot be written, or others could."""
    token = str(header["token"])
    path = journal_path(folder, token)
    said = [str(header.get(name, "")) for name in ("boot_id", "at", "results", "study")]
    journal = Journal(host, path, token)
    try:
        journal.add(line("open", FORMAT, token, *said))
    except RefusedError:
        with suppress(FileRefused):
            host.remove(path)  # it owes nothing
        raise
    need_trusted(host, (folder,), (path,))  # only now is it there
    return journal


def sessions(host: Host, folder: str) -> tuple[JournalFile, ...]:
    """Every session that still owes something, oldest first.

    Raises OwedError where the folder cannot be read: better to owe than to guess; RefusedError
    where others could have written what is in it.
    """
    paths = [f"{folder}/{name}" for name in _names(host, folder, SUFFIX)]
    need_trusted(host, (folder,), paths)
    return tuple(_read(host, path) for path in paths)


def sweep(host: Host, folder: str) -> None:
    """Remove what deaths in the middle of a write leave beside journals."""
    for name in _names(host, folder, beside(f"/x{SUFFIX}").rpartition(SUFFIX)[2]):
        if SUFFIX in name:
            host.remove(f"{folder}/{name}")


def _names(host: Host, folder: str, suffix: str) -> list[str]:
    try:
        return [name for name in host.list(folder) if name.endswith(suffix)]
    except FileRefused as refused:
        if refused.errno == errno.ENOENT:
            return []
        raise OwedError(
            f"the list of settings to restore cannot be read: {refused.message}",
            advice=f"Repair {folder} on {host.name}, then: iotrial restore",
        ) from refused


def _read(host: Host, path: str) -> JournalFile:
    try:
        return read_session(path, host.read(path))
    except FileRefused as refused:
        return JournalFile(path, "", "", "", "", 0.0, damage=(f"{path}: {refused.message}",))


def read_session(path: str, data: bytes) -> JournalFile:
    """Read one journal file back.  Pure."""
    whole, _, _ = data.rpartition(b"\n")
    entries: list[list[str]] = []
    damage: list[str] = []
    for number, text in enumerate(whole.decode("utf-8", "surrogateescape").split("\n"), start=1):
        try:
            entries += [_checked(fields(text))] if text else []
        except (ValueError, LookupError, TypeError, RuntimeError, StopIteration):
            damage.append(f"{path}:{number}: line cannot be read; a setting may be left to restore")
    head = entries[0] if entries and entries[0][0] == "open" else [""] * 7
    if head[1] not in ("", _UNSEALED, FORMAT):
        what = f"{path}: journal format {head[1]} is not known to this version"
        damage = [f"{what}; restore with the version of iotrial that wrote it"]
        entries = []
    elif not _is_whole(data, head[1], entries):
        what = "is truncated or altered" if data else "is empty"
        where = f"the results of that run ({head[5]})" if head[5] else "the results of that run"
        look = f"check it, and {where}, for settings that may still be changed"
        damage.append(f"{path} {what}: more settings may have to be restored; {look}")
    return JournalFile(
        path=path,
        token=head[2],
        boot_id=head[3],
        opened=float(head[4] or 0.0),
        results=head[5],
        study=head[6],
        settings=_settings(entries),
        made=tuple(made_in(entry) for entry in entries if entry[0] == "made"),
        damage=tuple(damage),
    )


def _is_whole(data: bytes, form: str, entries: Sequence[Sequence[str]]) -> bool:
    if form == _UNSEALED:
        return not any(entry[0] == "whole" for entry in entries)
    lines = data.rstrip(b"\n").rpartition(b"\n")
    return data == sealed(lines[0] + lines[1])


def _checked(entry: list[str]) -> list[str]:
    """The fields of one line.  Raises ValueError, LookupError or TypeError for nonsense."""
    match entry[0]:
        case "open":
            float(entry[4] or 0.0)
            _ = entry[6]
        case "device":
            device_in(entry)
        case "value" | "durable":
            owed_in(entry)
        case "made":
            made_in(entry)
        case "whole":
            _ = entry[1]
        case _:
            raise ValueError(entry[0])
    return entry


def _settings(entries: list[list[str]]) -> tuple[SettingsUndo, ...]:
    """First sighting of each value, by device in the order of first mention."""
    devices: dict[str, SettingsUndo] = {}
    values: dict[str, dict[str, FormerValue]] = {}
    for entry in entries:
        if entry[0] == "device":
            devices.setdefault(entry[1], device_in(entry))
        elif entry[0] in ("value", "durable"):
            owed = owed_in(entry)
            values.setdefault(entry[1], {}).setdefault(owed.setting.tunable, owed)
    return tuple(
        SettingsUndo(name, debt.identity, tuple(values.get(name, {}).values()), debt.witnesses)
        for name, debt in devices.items()
    )


_END = "."
_SPECIAL = re.compile(r"[\\|\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class SettingsUndo:
    """The former values of one device's group (``device`` empty: host-wide).  ``witnesses`` are
    files and what they must read (blanks normalised) for the device to be the same."""

    device: str
    identity: DeviceIdentity | None
    values: tuple[FormerValue, ...]
    witnesses: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceUndo:
    """Something iotrial makes: ``what`` (``loop``, ``file``) and the plan that says how to undo
    it, written before it exists.  The plan's values are kept as text."""

    what: str
    plan: dict[str, Any]

    @property
    def argv(self) -> tuple[str, ...]:
        """The command that the plan holds as :func:`numbered` words."""
        words = sorted(int(name) for name in self.plan if name.isdigit())
        return tuple(str(self.plan[str(at)]) for at in words)


def numbered(argv: Sequence[str]) -> dict[str, str]:
    """A command as part of a plan: its words by their number."""
    return {str(at): word for at, word in enumerate(argv)}


def made_name(debt: ResourceUndo) -> str:
    """What a made thing is called, for people."""
    names = ("file", "folder", "tree", "point", "name")
    return next((str(debt.plan[name]) for name in names if debt.plan.get(name)), "")


def line(*words: str) -> bytes:
    """One line of a journal."""
    return ("|".join([*map(_escaped, words), _END]) + "\n").encode("utf-8", "surrogateescape")


def fields(text: str) -> list[str]:
    """The fields of a line without its end.  Raises ValueError for a line that has no end."""
    words = text.split("|")
    if words.pop() != _END:
        raise ValueError(text)
    return list(map(_plain, words))


@lru_cache(maxsize=4096)
def _plain(word: str) -> str:
    """Many lines of a journal are of the same devices and files."""
    return re.sub(r"\\0([0-7]{3})", lambda m: chr(int(m[1], 8)), word)


def _escaped(word: str) -> str:
    return _SPECIAL.sub(lambda match: f"\\0{ord(match[0]):03o}", word)


def device_out(debt: SettingsUndo) -> bytes:
    words = [word for pair in debt.witnesses for word in pair]
    return line("device", debt.device, _identity_out(debt.identity), *words)


def device_in(entry: list[str]) -> SettingsUndo:
    paths, contents = entry[3::2], entry[4::2]
    pairs = tuple(zip(paths, contents, strict=True))
    return SettingsUndo(entry[1], _identity_in(entry[2]), (), pairs)


def owed_out(owed: FormerValue) -> bytes:
    probe, setting = owed.probe, owed.setting
    acts: list[str] = []
    for act in owed.acts:
        acts += [act.kind, act.path, act.data, *_counted(act.argv)]
    return line(
        "durable" if owed.durable else "value",
        setting.device,
        setting.tunable,
        setting.value,
        probe.path,
        probe.pick,
        probe.key,
        probe.absent,
        *_counted(probe.argv),
        str(len(owed.acts)),
        *acts,
    )


def _counted(words: Sequence[str]) -> list[str]:
    return [str(len(words)), *words]


def owed_in(entry: list[str]) -> FormerValue:
    rest = iter(entry[1:])
    setting = Setting(next(rest), next(rest), next(rest))
    path, pick, key, absent = (next(rest) for _ in range(4))
    probe = Probe(path, _taken(rest), cast("Pick", pick), key, absent)
    acts = tuple(_act_in(rest) for _ in range(int(next(rest))))
    if list(rest):
        raise ValueError(entry)
    return FormerValue(setting, probe, acts, entry[0] == "durable")


def _act_in(rest: Iterator[str]) -> Change:
    kind, path, data = next(rest), next(rest), next(rest)
    if kind not in ("write", "save", "remove", "run"):
        raise ValueError(kind)
    return Change(cast("Any", kind), path, data, _taken(rest))


def _taken(rest: Iterator[str]) -> tuple[str, ...]:
    return tuple(next(rest) for _ in range(int(next(rest))))


def made_in(entry: list[str]) -> ResourceUndo:
    pairs = (word.partition("=") for word in entry[2:])
    return ResourceUndo(entry[1], {name: value for name, _, value in pairs})


def _identity_out(identity: DeviceIdentity | None) -> str:
    if identity is None:
        return ""
    return json.dumps(
        {
            "kernel_name": identity.kernel_name,
            "devno": identity.devno,
            "size": identity.size,
            "ids": [list(pair) for pair in identity.ids],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _identity_in(text: str) -> DeviceIdentity | None:
    if not text:
        return None
    entry = json.loads(text)
    return DeviceIdentity(
        kernel_name=str(entry["kernel_name"]),
        devno=str(entry["devno"]),
        size=int(entry["size"]),
        ids=tuple((str(kind), str(value)) for kind, value in entry["ids"]),
    )
