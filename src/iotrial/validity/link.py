"""Link: all treatments are as fast as the link, and so cannot differ.

A study over a network that has an iperf3 workload knows the ceiling.  Where every treatment of
another workload comes within 1 % of it, the link was measured and not the setting: ``same`` is
then no answer about the setting.  iperf3 counts payload, as a load does; a load that needs a few
percent of the link for its protocol does not come that near, and is not doubted.
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.results import Results
from iotrial.model.validity import Check
from iotrial.units import format_value
from iotrial.validity import trials

NEAR = 0.99
_TOOL = "iperf3"
_RECEIVED = {"read": ("read.bw",), "write": ("write.bw.received", "write.bw")}


def study(results: Results) -> Iterator[Doubt]:
    for operation in ("read", "write"):
        ceiling = _ceiling(results, operation)
        metric = f"{operation}.bw"
        for workload in results.study.workloads if ceiling else ():
            if workload.tool == _TOOL:
                continue
            groups = trials.grouped(results, workload.name).values()
            rates = [trials.mean(records, metric) for records in groups]
            if rates and min(rates) >= NEAR * ceiling:
                most = format_value(ceiling, "bytes/s")
                yield CHECK.doubt(
                    f"{workload.name} fills the link at every treatment: {metric} is"
                    f" {min(rates) / ceiling:.1%} and more of the {most} that"
                    " iperf3 reaches. It cannot show a difference"
                )


def _ceiling(results: Results, operation: str) -> float:
    """What iperf3 reaches in this direction at its best treatment; 0 not known."""
    found = [0.0]
    for workload in results.study.workloads:
        if workload.tool == _TOOL:
            for records in trials.grouped(results, workload.name).values():
                means = (trials.mean(records, metric) for metric in _RECEIVED[operation])
                found.append(next(filter(None, means), 0.0))
    return max(found)


CHECK = Check(
    name="link",
    title="the link is full, whatever the treatment",
    looks_at="the study's results: iperf3 workloads against the bandwidth of all others",
    limit="all treatments within 1 % of what iperf3 reaches",
    remedy="Use smaller blocks or fewer jobs, look at latency and CPU per I/O instead, or take a"
    " faster link.",
    source="iperf3(1): payload, as received",
    study=study,
)
