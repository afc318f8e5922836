"""Blocks spread over hosts: what each host did, and whether treatments compare alike on all.

The model of a study with blocks takes the host out with them: log response = block (and so host)
+ treatment + error.  That holds where treatments compare alike on every host.  Whether they do is
asked by an F test of the host-by-treatment interaction: the model with treatment effects of each
host's own against the model above.  Its error is what varies between the blocks of one host, so
that hosts need two blocks to be asked at all.  All workloads of a study share the level 0.01
(Bonferroni), so that a study on hosts that are alike is doubted in about 1 % of cases.

References:
    H. Scheffé (1959), *The Analysis of Variance*, 4.5 (tests of nested linear models).
    G. A. Milliken and D. E. Johnson (2009), *Analysis of Messy Data* I, 2nd ed., chapter 4
    (treatment by block interaction, and what a blocked analysis means where there is one).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from iotrial.model.hostlist import folded
from iotrial.model.results import Results
from iotrial.model.trial import Doubt, Treatment, treatment_text
from iotrial.stats.blocks import ARITHMETIC, BlockLayout, fit
from iotrial.stats.responses import Responses, primary_responses
from iotrial.units import format_change

LEVEL = 0.01
NAMED = 4
_CHECK = "hosts-differ"


@dataclass(frozen=True, slots=True)
class HostEffect:
    """One host under one workload.  ``blocks`` are the numbers of those that have every treatment,
    ``broken`` of those that have not; ``ratio`` is the host's mean over its whole blocks, as a
    ratio to the mean of all hosts (nan: it has none); ``best`` the treatment that is best there,
    and ``lead`` how far it is ahead of the next, as a ratio above 1 (None, 1: not known)."""

    workload: str
    metric: str
    host: str
    blocks: tuple[int, ...]
    broken: tuple[int, ...]
    ratio: float
    best: Treatment | None
    lead: float


def host_effects(results: Results) -> tuple[HostEffect, ...]:
    """Every host under every workload, in the study's order; none where blocks are not spread."""
    return tuple(each for name, data in _primary(results) for each in _effects(results, name, data))


def host_doubts(results: Results) -> Iterator[Doubt]:
    """One for each workload whose treatments do not compare alike on all hosts; and one where
    that cannot be asked."""
    asked = list(_primary(results))
    for workload, data in asked:
        name = results.study.decide.named(workload, data.metric)
        found = interaction(data)
        if found is None:
            if len({trial.host for trial in data.trials}) > 1 and len(data.cells) > 1:
                yield _unasked(name)
            continue
        f, p = found
        if p >= LEVEL / len(asked):
            continue
        effects = _effects(results, workload, data)
        yield Doubt(
            _CHECK,
            f"{name}: treatment effects differ between hosts (F = {f:.1f}, p = {p:.1g}): "
            f"{_winners(effects)}",
            "the result over all hosts is an average that may be wrong for each host; find how"
            " the hosts differ (device, firmware, path, other load), or decide per host",
        )


def interaction(data: Responses) -> tuple[float, float] | None:
    """F and p of the host-by-treatment interaction; None where no host has two blocks that could
    tell, or there is nothing to compare."""
    everything = fit(data.layout, data.logs, np.zeros((0, len(data.cells))))
    if not everything.df:
        return None
    hosts = np.array([trial.host for trial in data.trials])
    own = [_within(data, hosts == host) for host in np.unique(hosts)]
    df = sum(free for _, free in own)
    more = everything.df - df
    if not df or not more:
        return None
    rest = sum(squares for squares, _ in own)
    total = float(everything.sd) ** 2 * everything.df
    error = max(rest / df, ARITHMETIC**2)
    f = max(total - rest, 0.0) / more / error
    return f, float(fdtrc(more, df, f))


def _within(data: Responses, mine: np.ndarray) -> tuple[float, int]:
    """Residual sum of squares and degrees of freedom of one host by itself."""
    _, block = np.unique(data.layout.block[mine], return_inverse=True)
    _, cell = np.unique(data.layout.cell[mine], return_inverse=True)
    if len(cell) == 1 + max(block.max(), cell.max()):
        return 0.0, 0  # as many effects as numbers: a block a host, of a thousand hosts
    layout = BlockLayout(block.astype(np.intp), cell.astype(np.intp))
    fitted = fit(layout, data.logs[mine], np.zeros((0, int(cell.max()) + 1)))
    return (float(fitted.sd) ** 2 * fitted.df if fitted.df else 0.0), fitted.df


def _primary(results: Results) -> Iterator[tuple[str, Responses]]:
    if results.study.spread:
        yield from primary_responses(results)


def _effects(results: Results, workload: str, data: Responses) -> tuple[HostEffect, ...]:
    by_host: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for trial, cell, log in zip(data.trials, data.layout.cell, data.logs, strict=True):
        by_host[trial.host][trial.block][int(cell)] = float(log)
    size = len(data.cells)
    order = [place.name for place in results.study.places]
    whole = {
        host: np.array(
            [[block[c] for c in range(size)] for block in blocks.values() if len(block) == size]
        )
        for host, blocks in by_host.items()
    }
    means = {host: float(values.mean()) for host, values in whole.items() if len(values)}
    middle = math.fsum(means.values()) / len(means) if means else 0.0
    sign = -1.0 if results.study.metrics.higher(data.metric) is False else 1.0
    found = []
    for host in sorted(by_host, key=lambda name: order.index(name) if name in order else -1):
        blocks = by_host[host]
        best, lead = _best(sign * whole[host].mean(axis=0)) if host in means else (None, 1.0)
        found.append(
            HostEffect(
                workload,
                data.metric,
                host,
                tuple(sorted(number for number, block in blocks.items() if len(block) == size)),
                tuple(sorted(number for number, block in blocks.items() if len(block) < size)),
                math.exp(means[host] - middle) if host in means else math.nan,
                None if best is None else data.cells[best],
                lead,
            )
        )
    return tuple(found)


def _best(means: np.ndarray) -> tuple[int | None, float]:
    if len(means) < 2:  # noqa: PLR2004 (nothing to be ahead of)
        return None, 1.0
    order = np.argsort(means)
    return int(order[-1]), math.exp(float(means[order[-1]] - means[order[-2]]))


def _winners(effects: Sequence[HostEffect]) -> str:
    """Which treatment is best on which hosts."""
    by_best: dict[Treatment, list[HostEffect]] = defaultdict(list)
    for each in effects:
        if each.best is not None:
            by_best[each.best].append(each)
    if len(by_best) == 1:
        best, every = next(iter(by_best.items()))
        leads = sorted(each.lead for each in every)
        return (
            f"{treatment_text(best)} is best on each host, ahead of the next by"
            f" {format_change(leads[0])} to {format_change(leads[-1])}"
        )
    ranked = sorted(by_best.items(), key=lambda pair: -len(pair[1]))
    said = [
        f"{treatment_text(best)} is best on {folded([each.host for each in every])}"
        for best, every in ranked[:NAMED]
    ]
    more = [f"{len(ranked) - NAMED} others elsewhere"] if len(ranked) > NAMED else []
    return ", ".join([*said, *more])


def _unasked(workload: str) -> Doubt:
    return Doubt(
        _CHECK,
        f"{workload}: no host has measured two blocks: a host-by-treatment interaction cannot be"
        " tested",
        "the intervals hold for the average of these hosts; run at least two blocks per host to"
        " test the interaction",
    )
