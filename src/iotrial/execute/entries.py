"""Entries of a journal: each debt as a line, there and back.  Pure; :mod:`iotrial.execute.journal`
says which lines there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from iotrial.model.step import Act, Pick, Probe
from iotrial.model.target import Identity
from iotrial.model.tunable import Owed, Setting

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


def made_name(debt: MadeDebt) -> str:
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


def device_out(debt: SettingsDebt) -> bytes:
    words = [word for pair in debt.witnesses for word in pair]
    return line("device", debt.device, _identity_out(debt.identity), *words)


def device_in(entry: list[str]) -> SettingsDebt:
    paths, contents = entry[3::2], entry[4::2]
    pairs = tuple(zip(paths, contents, strict=True))
    return SettingsDebt(entry[1], _identity_in(entry[2]), (), pairs)


def owed_out(owed: Owed) -> bytes:
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


def owed_in(entry: list[str]) -> Owed:
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


def made_in(entry: list[str]) -> MadeDebt:
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
