"""Strain: what one thing on the way of the I/O bore while a load was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Kind = Literal["cpu", "core", "nic", "adapter", "device", "path"]


@dataclass(frozen=True, slots=True)
class Strain:
    """One thing of one ``host``.  ``of`` is the part that it serves (``box1/disk``; '': several).

    ``busy`` is a share of the time: a CPU's that was not idle, a device's with I/O in flight; of a
    link, what it carried of its speed in the direction with more (None: not known).
    ``interrupts`` and ``stolen`` are shares of a CPU's time.  ``ios`` are done a second, both ways
    together, ``came`` and ``went`` are bytes a second read or received, written or sent;
    ``latency`` is the mean of the I/Os in seconds, ``depth`` how many
    were in flight on average and ``limit`` how many could be (0: not known).
    """

    host: str
    kind: Kind
    name: str
    of: str = ""
    busy: float | None = None
    interrupts: float = 0.0
    stolen: float = 0.0
    ios: float = 0.0
    came: float = 0.0
    went: float = 0.0
    latency: float = 0.0
    depth: float = 0.0
    limit: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without what says nothing."""
        return {name: value for name, value in asdict(self).items() if value not in ("", 0, None)}


def strain_of(row: Mapping[str, Any]) -> Strain:
    """The opposite of :meth:`Strain.as_dict`.  Raises KeyError, TypeError for anything else."""
    known = {each.name for each in fields(Strain)}
    if not {"host", "kind", "name"} <= row.keys():
        raise KeyError("host, kind, name")
    return Strain(**{name: value for name, value in row.items() if name in known})
