"""What a study says of where its servers listen.  A part of :mod:`iotrial.plan.check`."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.listen import parse
from iotrial.plan.problem import Problem
from iotrial.plan.schema import StudyFile


def listening(spec: StudyFile) -> Iterator[Problem]:
    """Addresses that are none, that are too wide, or that nobody connects to."""
    served = any(each.start == "server" for each in spec.workloads.values())
    for name, table in spec.hosts.items():
        if "listen" not in table.model_fields_set:
            continue
        path = ("hosts", name, "listen")
        try:
            place = parse(table.listen)
        except ValueError as error:
            yield Problem(path, str(error))
            continue
        if place.loopback and table.ssh:
            message = f"only {name} itself reaches {place.address}"
            yield Problem(path, message, "Leave listen out for the tunnel through its connection.")
        if not served:
            advice = 'Leave it out, or say start = "server" there.'
            yield Problem(path, 'no workload has start = "server": nothing listens', advice)
