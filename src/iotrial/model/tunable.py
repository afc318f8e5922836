"""Tunable: one knob.  Setting: a tunable at a value on a device.

A tunable never calls a host.  It says, as data, which file to read and what to write; packages
that act (``iotrial.execute``) do the rest and can therefore batch, order and journal.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Domain:
    """What a tunable takes here.  ``choices`` (empty: not a choice), ``low``/``high`` inclusive
    bounds (None: unknown), ``aliases`` maps an accepted spelling to what it becomes."""

    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    aliases: tuple[tuple[str, str], ...] = ()

    def refusal(self, value: str) -> str:
        """Why ``value`` is outside, or an empty string."""
        if self.choices and value not in self.choices:
            became = dict(self.aliases).get(value)
            if became:
                return f"this kernel turns {value!r} into {became!r}; ask for {became!r}"
            return f"{value!r} is not one of {', '.join(self.choices)}"
        if self.low is not None or self.high is not None:
            try:
                number = int(value)
            except ValueError:
                return f"{value!r} is not a whole number"
            if self.low is not None and number < self.low:
                return f"{number} is below {self.low}"
            if self.high is not None and number > self.high:
                return f"{number} is above {self.high}"
        return ""


def _anything(_raw: bytes) -> Domain:
    return Domain()


def _plain(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class Tunable:
    """One knob of a family; a row in the family's table.

    ``path`` is a template of the control file: ``{device}`` is the kernel name of the block
    device, empty for host-wide knobs.  ``rank`` orders writes: a lower rank is written first, in
    apply and in restore alike, because what it moves has a higher rank.  ``moves`` are patterns
    (fnmatch) of tunable names whose value a write to this one may change.
    ``observe`` turns the file's bytes into the value in force.
    """

    name: str
    path: str
    summary: str
    unit: str = ""
    layer: str = "block"
    lasts: str = "until the device goes or the machine reboots"
    risk: str = ""
    moot: str = ""
    source: str = ""
    rank: int = 50
    moves: tuple[str, ...] = ()
    scope: Literal["device", "host"] = "device"
    domain: Callable[[bytes], Domain] = field(default=_anything)
    observe: Callable[[bytes], str] = field(default=_plain)

    def file(self, device: str) -> str:
        return self.path.format(device=device)

    def moved_by(self, other: Tunable) -> bool:
        return any(fnmatch.fnmatchcase(self.name, pattern) for pattern in other.moves)


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """A tunable at a value on a device (``device`` empty for host-wide tunables)."""

    device: str
    tunable: str
    value: str

    def __str__(self) -> str:
        where = f" on {self.device}" if self.device else ""
        return f"{self.tunable}={self.value}{where}"
