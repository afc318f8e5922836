"""Boots: what of a study only a boot changes, which trials share one, and each one's command line.

Pure.  A level that sets tunables of the family ``boot`` (:mod:`iotrial.tunables.boot`) takes one.
Such a factor is hard to change (:mod:`iotrial.plan.design`): all trials of a block at one
combination of such levels follow one another, and are a whole plot.  Every whole plot has a boot of
its own, also where the one before it, of another block, was of the same levels: two plots in one
boot would be one, and what differs between boots would be taken for less than it is (B. Jones and
C. J. Nachtsheim (2009), Split-plot designs: what, why, and how, Journal of Quality Technology 41,
340-361: levels are reset between whole plots).  All levels are booted alike, ``unset`` too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from iotrial.model.study import Factor, Study
from iotrial.model.trial import Trial
from iotrial.plan.design import levels_of
from iotrial.plan.parts import needed_by, parts
from iotrial.tunables.boot import FAMILY, KERNEL, MARK, UNSET, is_boot, takes_boot, word

Changes = tuple[tuple[str, str], ...]
"""(tunable, value) pairs, by name; none: its own kernel and command line, booted as levels are."""
ASSUMED = 120.0
"""Seconds of a boot that nobody has seen yet."""
_WORDS = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_LOADERS = ("BOOT_IMAGE", "initrd")
"""Words that a boot loader adds."""
_PANIC = "panic=60"
"""A level whose kernel panics ends in a boot of the host's own."""


def boot_factors(study: Study) -> tuple[Factor, ...]:
    return tuple(factor for factor in study.factors if takes_boot(factor.levels))


def wanted(study: Study, trial: Trial, host: str) -> Changes:
    """What the host of this name is booted with for a trial."""
    found: dict[str, str] = {}
    for factor, level in levels_of(study, trial.treatment):
        named = {part.host for part in parts(study, factor.target)} if factor.target else {host}
        if host in named:
            asked = ((name, value) for name, value in level.settings if value != UNSET)
            found |= {name: value for name, value in asked if is_boot(name)}
    return tuple(sorted(found.items()))


def plots(study: Study, trials: Iterable[Trial]) -> dict[str, int]:
    """Host → how often it is booted for these trials in their order, the last boot, into its own,
    among them; nothing where no factor takes a boot."""
    if not boot_factors(study):
        return {}
    now: dict[str, tuple[int, Changes]] = {}
    found: dict[str, int] = {}
    for trial in trials:
        for host in needed_by(study, trial):
            plot = (trial.block, wanted(study, trial, host))
            if now.get(host) != plot:
                now[host] = plot
                found[host] = found.get(host, 0) + 1
    return {host: count + 1 for host, count in found.items()}


def seconds(counts: Mapping[str, int], each: float = ASSUMED) -> float:
    """How long so many boots take, hosts booting at the same time."""
    return max(counts.values(), default=0) * each


def kernel(changes: Changes, own: str) -> str:
    """The release of the kernel to boot; ``own`` is that of the host's own boot."""
    return dict(changes).get(KERNEL, own)


def command_line(own: str, changes: Changes, token: str) -> str:
    r"""The command line of a level: the host's own, with its changes and the mark of the boot.

    >>> command_line("BOOT_IMAGE=/v root=/dev/vda quiet", (("boot.quiet", "set"),), "t")
    'root=/dev/vda quiet iotrial.boot=t panic=60'
    """
    words = _WORDS.findall(own)
    end = words.index("--") if "--" in words else len(words)
    given = {name: value for name, value in changes if name != KERNEL}
    names = (name.removeprefix(f"{FAMILY}.") for name in given)
    gone = {_plain(name) for name in (*names, *_LOADERS, MARK)}
    kept = [word for word in words[:end] if _plain(word.partition("=")[0]) not in gone]
    new = [word(name, value) for name, value in given.items()]
    new.append(f"{MARK}={token}")
    if not any(word.startswith("panic=") for word in (*kept, *new)):
        new.append(_PANIC)
    return " ".join([*kept, *new, *words[end:]])


def _plain(name: str) -> str:
    """A dash and an underscore are the same in names of parameters."""
    return name.replace("-", "_")
