"""Uneven hosts: of several hosts that were loaded alike, one did much more or less than the others.

Their sum is then no measure of n hosts, and how it scales is a question about the one.  Only hosts
that load targets of the same names are held against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotrial.model.doubt import Doubt
from iotrial.model.measurement import split
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord, treatment_text
from iotrial.model.validity import Check
from iotrial.stats.causes import UNEVEN, apart
from iotrial.validity import trials

_ADD_UP = ("iops", "bw", "rate")


def study(results: Results) -> Iterator[Doubt]:
    for workload in results.study.workloads:
        name = trials.primary(results, workload.name)
        if "." not in name or split(name)[1] not in _ADD_UP:
            continue
        found = []
        for treatment, records in trials.grouped(results, workload.name).items():
            found += [
                (abs(most[1] - 1), treatment, most, len(did))
                for did in _alike(records, name)
                if (most := apart(did))
            ]
        if not found:
            continue
        _, treatment, (host, ratio), hosts = max(found, key=lambda each: each[0])
        more = f"; {len(found) - 1} more like it" if len(found) > 1 else ""
        yield CHECK.doubt(
            f"{workload.name} at {treatment_text(treatment)}: {host} did {ratio:.0%} of what the"
            f" {hosts} hosts did on average{more}"
        )


def _alike(records: Sequence[TrialRecord], name: str) -> Iterator[dict[str, float]]:
    """What hosts with targets of the same names did, each over all trials."""
    did: dict[str, float] = {}
    names: dict[str, set[str]] = {}
    for record in records:
        values = record.by_job(name)
        for part in record.parts:
            host, _, target = part.partition("/")
            did[host] = did.get(host, 0.0) + (values.get(part) or 0.0)
            names.setdefault(host, set()).add(target)
    for targets in {frozenset(each) for each in names.values()}:
        yield {host: did[host] for host, each in names.items() if each == targets}


CHECK = Check(
    name="uneven-hosts",
    title="one of several hosts did much more or less than the others",
    looks_at="the study's results: the primary metric of each host of a treatment, over all its"
    " trials, where it adds up (IOPS, bandwidth)",
    limit=f"{UNEVEN:.0%} above or below the mean of the hosts that load targets of the same names",
    remedy="Look at `Where the load went` in the report for that host: its CPU, adapter, paths."
    " Where it is another kind of machine, measure it by itself.",
    source="what the study measured",
    study=study,
)
