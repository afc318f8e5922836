"""Chore: something done to a target before or after its trials, as the study declares it; and how
the page cache is met.

What a trial starts from is part of what is measured: a fresh SSD is faster than a full one, and a
file that was just written is read from memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iotrial.model.target import Target

Cache = Literal["keep", "drop", "remount", "direct"]
"""Before each load: nothing is done; caches are dropped, and that is verified; the file system is
mounted anew; nothing, since the tool goes past the cache (which is checked)."""

ChoreKind = Literal["trim", "fill", "precondition", "lay out", "command"]
Each = Literal["study", "block", "trial"]


@dataclass(frozen=True, slots=True)
class Chore:
    """One declared chore, done once for ``each`` study (in every session anew), block or trial.

    ``trim``: tell the device that nothing on it is needed (of a file system: what is free).
    ``fill``: write until ``share`` (a fraction) of the capacity is used.  ``precondition``: write
    ``times`` the capacity, from the beginning to the end.  ``lay out``: write what a load will
    read.  ``command``: execute ``argv``.
    """

    kind: ChoreKind
    each: Each
    share: float = 0.0
    times: float = 0.0
    argv: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """For people: ``fill 80 %``."""
        match self.kind:
            case "fill":
                return f"fill to {self.share * 100:g} %"
            case "precondition":
                return f"precondition {self.times:g}x"
            case "command":
                return f"command `{' '.join(self.argv)}`"
        return self.kind

    def destroys(self, target: Target) -> bool:
        """Whether it changes what the target holds: then it must be armed as for a load that
        writes.  A file beside others, and trimming what is free, harm nothing."""
        if self.kind == "command":
            return False
        if target.under_load == "device":
            return True
        return self.kind in ("precondition", "lay out")
