"""The runs of one treatment → its latencies over all of them, where each has its histogram.  Pure.

A percentile over repeats is that of all their I/Os: histograms are added up bin by bin.  Where one
run has none, or has other bins, there is no such percentile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from iotrial.formats import histogram
from iotrial.model.results import Latency, Percentile
from iotrial.model.trial import Treatment
from iotrial_import.run import Run


def latencies(runs: Sequence[Run]) -> Iterator[Latency]:
    """Of every workload and treatment in order; ``runs`` are those that count."""
    cells: dict[tuple[str, Treatment], list[Run]] = defaultdict(list)
    for run in runs:
        cells[run.workload, run.treatment].append(run)
    for (workload, treatment), mine in cells.items():
        for name in dict.fromkeys(name for run in mine for name in run.recording.bins):
            found = [run.recording.bins.get(name) for run in mine]
            known = [each for each in found if each is not None]
            scales = {(each.tick, each.last) for each in known}
            if len(known) < len(found) or len(scales) > 1:
                continue
            ((tick, last),) = scales
            counts = histogram.merged(each.counts for each in known)
            percentiles = tuple(
                Percentile(p, value * tick, value >= last)
                for p, value in histogram.percentiles(counts).items()
            )
            if percentiles:
                ios = sum(counts.values())
                yield Latency(workload, treatment, name, len(mine), ios, percentiles)
