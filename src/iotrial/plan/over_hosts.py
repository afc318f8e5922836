"""What a study must and must not say where its blocks are spread over hosts.

A part of :mod:`iotrial.plan.check`.
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.plan.hostlist import expanded
from iotrial.plan.locate import KeyPath
from iotrial.plan.problem import Problem
from iotrial.plan.schema import StudyFile

_KEY: KeyPath = ("design", "blocks_over")


def over_hosts(spec: StudyFile) -> Iterator[Problem]:
    """Every problem of ``blocks_over = "hosts"``."""
    if spec.design.blocks_over != "hosts":
        return
    if spec.design.kind in {"race", "saturate"}:
        what = f"a {spec.design.kind} decides after each block, and these run at the same time"
        yield Problem(_KEY, what, 'Use kind = "full", or leave blocks_over out.')
    if spec.design.stop == "decided":
        what = 'stop = "decided" looks after each block, and these run at the same time'
        yield Problem(_KEY, what, "Leave one of them out.")
    if spec.stage:
        yield Problem(_KEY, "stages follow one another", "Make a study of each, or leave it out.")
    yield from _hosts(spec)
    for name, factor in spec.factors.items():
        path: KeyPath = ("factors", name)
        if factor.count == "hosts":
            what = "each trial is on one host: they are not counted"
            yield Problem((*path, "count"), what, "Leave the factor or blocks_over out.")
        if factor.manual:
            what = "nobody can set levels by hand on several hosts at the same time"
            yield Problem((*path, "manual"), what, "Leave the factor or blocks_over out.")
        if name == "host":
            yield Problem(path, "results name the host of a block so", "Call the factor otherwise.")


def _hosts(spec: StudyFile) -> Iterator[Problem]:
    """Every target is on all of the hosts."""
    said = {}
    for name, table in spec.targets.items():
        try:
            said[name] = () if table.targets else expanded(table.hosts) or (table.host,)
        except ValueError:
            return  # told at its key
    every = list(dict.fromkeys(host for hosts in said.values() for host in hosts if host))
    if len(every) < 2:  # noqa: PLR2004 (one host has its blocks one after the other)
        advice = 'Name several, as in [targets.disk] hosts = "box[1-4]"'
        yield Problem(_KEY, "the targets are not on several hosts", advice)
        return
    for name, hosts in said.items():
        if hosts and (missing := [host for host in every if host not in hosts]):
            shown = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")  # noqa: PLR2004
            what = f"it is not on {shown}; every block needs every target"
            key = "host" if spec.targets[name].host else "hosts"
            yield Problem(("targets", name, key), what, "Name the same hosts at each target.")
