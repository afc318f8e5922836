"""CPU time in /proc/stat: what several checks read.

Source: proc_stat(5).  ``guest`` is contained in ``user``.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotrial.model.step import Probe
from iotrial.model.validity import Case, Reading

PLACE = "/proc/stat"
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
TICKS = 100.0
"""USER_HZ: what /proc counts CPU time in, a second.  100 on every architecture that Debian has."""


def _kept(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if line.startswith(("cpu ", "btime ")))


STAT = Reading(Probe(PLACE), _kept)


def shares(case: Case) -> Mapping[str, float]:
    """The share of all CPU time between the snapshots by what it went to; {} unknown."""
    first, last = (_times(each.text(PLACE)) for each in (case.before, case.after))
    spent = {name: last[name] - first[name] for name in first if name in last}
    total = sum(spent.values())
    return {name: value / total for name, value in spent.items()} if total > 0 else {}


def _times(text: str) -> dict[str, int]:
    for line in text.splitlines():
        if line.startswith("cpu "):
            return dict(zip(FIELDS, map(int, line.split()[1:]), strict=False))
    return {}
