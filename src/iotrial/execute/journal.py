"""The journal: what a host is owed, written durably *before* the change that causes the debt.

One file a session (one ``iotrial run``) on the host that is changed, one JSON object a line::

    {"kind": "open", "format": 1, "boot_id": …, "namespaces": …, "study": …, "token": …}
    {"kind": "settings", "device": "sda", "identity": {…}, "values": [[tunable, value], …]}
    {"kind": "made", "what": "loop", "plan": {…}}

A settings line holds the whole group: what will be written and everything those writes move.
Only the first line that names a value counts, since later ones saw our own changes.  A torn last
line is a change that never happened, because the change comes after its line.  A session that
owes nothing has no file: the unlink is the receipt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iotrial.errors import FileRefused, OwedError
from iotrial.model.host import Host
from iotrial.model.target import Identity
from iotrial.model.tunable import Setting

FORMAT = 1


@dataclass(frozen=True, slots=True)
class SettingsDebt:
    """The former values of one device's group (``device`` empty: host-wide)."""

    device: str
    identity: Identity | None
    values: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class MadeDebt:
    """Something iotrial makes: ``what`` (``loop``, ``file``) and the plan that says how to undo
    it, written before it exists."""

    what: str
    plan: dict[str, Any]


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
            f"{debt.device or 'host'}: {setting.tunable} = {setting.value}"
            for debt in self.settings
            for setting in debt.values
        ]
        rows += [f"made: {debt.what} {debt.plan.get('file', '')}".rstrip() for debt in self.made]
        return (*rows, *self.damage)


@dataclass
class Journal:
    """The open journal of this session.  Every method is durable when it returns."""

    host: Host
    path: str
    token: str
    _known: set[tuple[str, str]] = field(default_factory=set)

    def owe_settings(self, debt: SettingsDebt) -> None:
        """Record former values; those already recorded in this session are left as they are."""
        fresh = [s for s in debt.values if (s.device, s.tunable) not in self._known]
        if not fresh:
            return
        self._append(
            {
                "kind": "settings",
                "device": debt.device,
                "identity": _identity_out(debt.identity),
                "values": [[s.tunable, s.value] for s in fresh],
            }
        )
        self._known.update((s.device, s.tunable) for s in fresh)

    def owe_made(self, debt: MadeDebt) -> None:
        self._append({"kind": "made", "what": debt.what, "plan": debt.plan})

    def _append(self, entry: Mapping[str, Any]) -> None:
        self.host.append(self.path, _line(entry))


def open_journal(host: Host, folder: str, header: Mapping[str, Any]) -> Journal:
    """Start a session's journal in ``folder``.  ``header`` needs ``boot_id`` and ``token``."""
    token = str(header["token"])
    path = f"{folder}/{token}.jsonl"
    host.append(path, _line({"kind": "open", "format": FORMAT, **header}))
    return Journal(host, path, token)


def sessions(host: Host, folder: str) -> tuple[Session, ...]:
    """Every session that still owes something, oldest first.

    Raises OwedError for a journal of a later format: better to owe than to guess.
    """
    try:
        names = host.list(folder)
    except FileRefused:
        return ()
    paths = [f"{folder}/{name}" for name in names if name.endswith(".jsonl")]
    return tuple(read_session(path, host.read(path)) for path in paths)


def read_session(path: str, data: bytes) -> Session:
    """Read one journal file back.  Pure."""
    whole, _, torn = data.rpartition(b"\n")
    del torn  # a change that never happened
    entries: list[dict[str, Any]] = []
    damage: list[str] = []
    for number, line in enumerate(whole.split(b"\n"), start=1):
        entry = _entry(line)
        if entry is not None:
            entries.append(entry)
        elif line.strip():
            damage.append(f"{path}:{number}: line cannot be read; something may still be owed")
    head = entries[0] if entries and entries[0].get("kind") == "open" else {}
    if head.get("format", FORMAT) != FORMAT:
        raise OwedError(
            f"{path}: journal format {head['format']} is not known to this version",
            advice="Restore with the version of iotrial that wrote it.",
        )
    return Session(
        path=path,
        boot_id=str(head.get("boot_id", "")),
        study=str(head.get("study", "")),
        results=str(head.get("results", "")),
        token=str(head.get("token", "")),
        opened=float(head.get("at", 0.0)),
        settings=_settings(entries),
        made=tuple(
            MadeDebt(str(e["what"]), dict(e["plan"])) for e in entries if e.get("kind") == "made"
        ),
        damage=tuple(damage),
    )


def _settings(entries: list[dict[str, Any]]) -> tuple[SettingsDebt, ...]:
    """First sighting of each value, by device in the order of first mention."""
    values: dict[str, dict[str, str]] = {}
    identities: dict[str, Identity | None] = {}
    for entry in entries:
        if entry.get("kind") != "settings":
            continue
        device = str(entry["device"])
        identities.setdefault(device, _identity_in(entry.get("identity")))
        group = values.setdefault(device, {})
        for tunable, value in entry["values"]:
            group.setdefault(tunable, value)
    return tuple(
        SettingsDebt(
            device,
            identities[device],
            tuple(Setting(device, tunable, value) for tunable, value in group.items()),
        )
        for device, group in values.items()
    )


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _identity_out(identity: Identity | None) -> dict[str, Any] | None:
    if identity is None:
        return None
    return {
        "kernel_name": identity.kernel_name,
        "devno": identity.devno,
        "size": identity.size,
        "ids": [list(pair) for pair in identity.ids],
    }


def _identity_in(entry: dict[str, Any] | None) -> Identity | None:
    if entry is None:
        return None
    return Identity(
        kernel_name=str(entry["kernel_name"]),
        devno=str(entry["devno"]),
        size=int(entry["size"]),
        ids=tuple((str(kind), str(value)) for kind, value in entry["ids"]),
    )
