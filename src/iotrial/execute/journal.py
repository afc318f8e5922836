"""The journal: what a host is owed, written durably *before* the change that causes the debt.

One file a session (one ``iotrial run``) on the host that is changed.  Its lines have fields
separated by ``|``; in a field, a backslash, ``|`` and control characters are ``\\0`` with three
octal digits, as printf(1) ``%b`` reads them; every line ends with the field ``.``::

    open|2|TOKEN|BOOT_ID|AT|RESULTS|STUDY|.
    device|sda|IDENTITY|PATH|CONTENT|…|.
    value|DEVICE|TUNABLE|VALUE|PATH|PICK|KEY|ABSENT|N|ARGV…|N|KIND|PATH|DATA|N|ARGV…|…|.
    durable|… as value …|.
    made|WHAT|NAME=VALUE|…|.

It is read in two languages: here, and in ``guard.sh``, which must restore without Python.  So
everything that restoring needs is in it, as data: a *value* says how it is read (a probe: file or
N words of a command, pick, key) and what gives it back (N acts); a *device* line which files must
read the same (``PATH`` as ``CONTENT``, blanks normalised) for the disk of that name to be the one
that was changed; IDENTITY is the same for people and for the finer comparison made here (JSON).

A *durable* value is one that a reboot does not forget.

The values hold the whole group: what will be written and everything those writes move.  Only the
first line that names a value counts, since later ones saw our own changes.  A torn last line is a
change that never happened, because the change comes after its line.  A session that owes nothing
has no file: the unlink is the receipt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from iotrial.errors import FileRefused, OwedError, RefusedError
from iotrial.model.host import Host
from iotrial.model.step import Act, Pick, Probe
from iotrial.model.target import Identity
from iotrial.model.tunable import Owed, Setting

FORMAT = "2"
SUFFIX = ".journal"
REPORT = ".restored"
"""Beside a journal's place: what the guard restored, for whoever comes next to read."""

_END = "."
_SPECIAL = re.compile(r"[\\|\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class SettingsDebt:
    """The former values of one device's group (``device`` empty: host-wide).  ``witnesses`` are
    files and what they must read (blanks normalised) for the device to be the same."""

    device: str
    identity: Identity | None
    values: tuple[Owed, ...]
    witnesses: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MadeDebt:
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


@dataclass(frozen=True, slots=True)
class Session:
    """One journal file read back.  ``damage`` names lines that cannot be read (never the torn
    last one)."""

    path: str
    boot_id: str
    study: str
    results: str
    token: str
    opened: float
    settings: tuple[SettingsDebt, ...] = ()
    made: tuple[MadeDebt, ...] = ()
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


def _called(debt: SettingsDebt) -> str:
    """The device, and by which id it is known, since its name may be another's by now."""
    ids = debt.identity.ids if debt.identity else ()
    return f"{debt.device} ({ids[0][0]} {ids[0][1]})" if ids else debt.device or "host"


def made_name(debt: MadeDebt) -> str:
    """What a made thing is called, for people."""
    names = ("file", "folder", "tree", "point", "name")
    return next((str(debt.plan[name]) for name in names if debt.plan.get(name)), "")


@dataclass
class Journal:
    """The open journal of this session.  Every method is durable when it returns."""

    host: Host
    path: str
    token: str
    _known: set[tuple[str, str]] = field(default_factory=set)
    _owed: list[bytes] = field(default_factory=list)

    def describe(self) -> tuple[str, ...]:
        """Every debt of this session in words, without asking the host."""
        return read_session(self.path, b"".join(self._owed)).describe()

    def owe_settings(self, debt: SettingsDebt) -> None:
        """Record former values; those already recorded in this session are left as they are."""
        self.owe_all((debt,))

    def owe_all(self, debts: Iterable[SettingsDebt]) -> None:
        """The same for several devices, in one write."""
        lines = []
        for debt in debts:
            fresh = [o for o in debt.values if (debt.device, o.setting.tunable) not in self._known]
            if fresh:
                lines += [_device_out(debt), *map(_owed_out, fresh)]
                self._known.update((debt.device, o.setting.tunable) for o in fresh)
        if lines:
            self._append(b"".join(lines))

    def owe_made(self, debt: MadeDebt) -> None:
        fields = [f"{name}={value}" for name, value in debt.plan.items()]
        self._append(line("made", debt.what, *fields))

    def _append(self, lines: bytes) -> None:
        self._owed.append(lines)  # first: a link that is lost now may have taken it across
        write(self.host, self.path, lines)


def journal_path(folder: str, token: str) -> str:
    """Where the journal of the session ``token`` lies."""
    return f"{folder}/{token}{SUFFIX}"


def open_journal(host: Host, folder: str, header: Mapping[str, Any]) -> Journal:
    """Start a session's journal in ``folder``.  ``header`` needs ``boot_id`` and ``token``."""
    token = str(header["token"])
    path = journal_path(folder, token)
    said = [str(header.get(name, "")) for name in ("boot_id", "at", "results", "study")]
    try:
        write(host, path, line("open", FORMAT, token, *said))
    except RefusedError:
        host.remove(path)  # empty, or torn: it owes nothing
        raise
    return Journal(host, path, token)


def write(host: Host, path: str, lines: bytes) -> None:
    """Append to a journal.  Raises RefusedError where that fails: without its line there is no
    change."""
    try:
        host.append(path, lines)
    except FileRefused as refused:
        raise RefusedError(
            f"the journal cannot be written ({refused}), and nothing is changed without it",
            advice=f"Make room, or make {path.rpartition('/')[0]} writable, on {host.name}.",
        ) from refused


def sessions(host: Host, folder: str) -> tuple[Session, ...]:
    """Every session that still owes something, oldest first.

    Raises OwedError for a journal of a later format: better to owe than to guess.
    """
    try:
        names = host.list(folder)
    except FileRefused:
        return ()
    paths = [f"{folder}/{name}" for name in names if name.endswith(SUFFIX)]
    return tuple(read_session(path, host.read(path)) for path in paths)


def read_session(path: str, data: bytes) -> Session:
    """Read one journal file back.  Pure."""
    whole, _, torn = data.rpartition(b"\n")
    del torn  # a change that never happened
    entries: list[list[str]] = []
    damage: list[str] = []
    for number, text in enumerate(whole.decode("utf-8", "surrogateescape").split("\n"), start=1):
        try:
            entries += [_checked(fields(text))] if text else []
        except (ValueError, LookupError, TypeError, RuntimeError, StopIteration):
            damage.append(f"{path}:{number}: line cannot be read; something may still be owed")
    head = entries[0] if entries and entries[0][0] == "open" else [""] * 7
    if head[0] and head[1] != FORMAT:
        raise OwedError(
            f"{path}: journal format {head[1]} is not known to this version",
            advice="Restore with the version of iotrial that wrote it.",
        )
    return Session(
        path=path,
        token=head[2],
        boot_id=head[3],
        opened=float(head[4] or 0.0),
        results=head[5],
        study=head[6],
        settings=_settings(entries),
        made=tuple(_made_in(entry) for entry in entries if entry[0] == "made"),
        damage=tuple(damage),
    )


def _checked(entry: list[str]) -> list[str]:
    """The fields of one line.  Raises ValueError, LookupError or TypeError for nonsense."""
    match entry[0]:
        case "open":
            float(entry[4] or 0.0)
            _ = entry[6]
        case "device":
            _device_in(entry)
        case "value" | "durable":
            _owed_in(entry)
        case "made":
            _made_in(entry)
        case _:
            raise ValueError(entry[0])
    return entry


def _settings(entries: list[list[str]]) -> tuple[SettingsDebt, ...]:
    """First sighting of each value, by device in the order of first mention."""
    devices: dict[str, SettingsDebt] = {}
    values: dict[str, dict[str, Owed]] = {}
    for entry in entries:
        if entry[0] == "device":
            devices.setdefault(entry[1], _device_in(entry))
        elif entry[0] in ("value", "durable"):
            owed = _owed_in(entry)
            values.setdefault(entry[1], {}).setdefault(owed.setting.tunable, owed)
    return tuple(
        SettingsDebt(name, debt.identity, tuple(values.get(name, {}).values()), debt.witnesses)
        for name, debt in devices.items()
    )


# -- lines ----------------------------------------------------------------------------------------


def line(*words: str) -> bytes:
    """One line of a journal."""
    return ("|".join([*map(_escaped, words), _END]) + "\n").encode("utf-8", "surrogateescape")


def fields(text: str) -> list[str]:
    """The fields of a line without its end.  Raises ValueError for a line that has no end."""
    words = text.split("|")
    if words.pop() != _END:
        raise ValueError(text)
    return [re.sub(r"\\0([0-7]{3})", lambda m: chr(int(m[1], 8)), word) for word in words]


def _escaped(word: str) -> str:
    return _SPECIAL.sub(lambda match: f"\\0{ord(match[0]):03o}", word)


def _device_out(debt: SettingsDebt) -> bytes:
    words = [word for pair in debt.witnesses for word in pair]
    return line("device", debt.device, _identity_out(debt.identity), *words)


def _device_in(entry: list[str]) -> SettingsDebt:
    paths, contents = entry[3::2], entry[4::2]
    pairs = tuple(zip(paths, contents, strict=True))
    return SettingsDebt(entry[1], _identity_in(entry[2]), (), pairs)


def _owed_out(owed: Owed) -> bytes:
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


def _owed_in(entry: list[str]) -> Owed:
    rest = iter(entry[1:])
    setting = Setting(next(rest), next(rest), next(rest))
    path, pick, key, absent = (next(rest) for _ in range(4))
    probe = Probe(path, _taken(rest), cast("Pick", pick), key, absent)
    acts = tuple(_act_in(rest) for _ in range(int(next(rest))))
    if list(rest):
        raise ValueError(entry)
    return Owed(setting, probe, acts, entry[0] == "durable")


def _act_in(rest: Iterator[str]) -> Act:
    kind, path, data = next(rest), next(rest), next(rest)
    if kind not in ("write", "save", "remove", "run"):
        raise ValueError(kind)
    return Act(cast("Any", kind), path, data, _taken(rest))


def _taken(rest: Iterator[str]) -> tuple[str, ...]:
    return tuple(next(rest) for _ in range(int(next(rest))))


def _made_in(entry: list[str]) -> MadeDebt:
    pairs = (word.partition("=") for word in entry[2:])
    return MadeDebt(entry[1], {name: value for name, _, value in pairs})


def _identity_out(identity: Identity | None) -> str:
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


def _identity_in(text: str) -> Identity | None:
    if not text:
        return None
    entry = json.loads(text)
    return Identity(
        kernel_name=str(entry["kernel_name"]),
        devno=str(entry["devno"]),
        size=int(entry["size"]),
        ids=tuple((str(kind), str(value)) for kind, value in entry["ids"]),
    )
