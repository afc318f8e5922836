"""Prior results of the same target order the work of a race, and decide nothing.

A race of more treatments than a block holds measures some of them first
(:mod:`iotrial.plan.race`).  Earlier results may say which: those that did best there.  No
number of theirs enters an interval, a verdict, or what a look may spend; every treatment is still
measured, and a prior that is wrong costs trials and no error.

What the earlier study varied beside is averaged over; what it did not know comes after what it
knew to be good, as neighbours do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.model.study import PriorResults, Study, TargetSignature
from iotrial.model.trial import Doubt, Treatment
from iotrial.plan.design import cells, open_factors

_PASSING = ("backing_file", "backing_inode")
"""Of a loop device, which is made anew each time."""
_ADVICE = "A prior only sets the order of trials; remove --prior if the target was another."
_SWEEPS = 20


def with_prior(study: Study, results: Results) -> Study:
    """A study whose race measures first what did best in ``results``.

    Raises UsageError where that can order nothing: the study is no race, or the results share no
    workload, metric and factor with it.
    """
    if study.stages or study.aa or study.design.kind != "race":
        raise UsageError(
            "a prior sets the order of a race, but this study is not a race",
            advice='Remove --prior, or set [design] kind = "race".',
        )
    if study.pretended != results.pretended:
        holds, asked = ("pretended", "real") if results.pretended else ("real", "pretended")
        raise UsageError(
            f"{results.folder} holds {holds} results, but this run is {asked}",
            advice="Remove --prior.",
        )
    if unknown := open_factors(study):
        raise UsageError(
            f"factor {unknown[0].name}: its levels are unknown until the kernel is asked",
            advice="With --prior, list its levels instead of `available`.",
        )
    ranked = _ranked(study, results)
    if not any(known for _, known in ranked):
        raise UsageError(
            f"{results.folder} shares no workload, metric and factor with this study",
            advice="A prior needs workloads and factors of the same names. Remove --prior.",
        )
    prior = PriorResults(results.folder.name, ranked, tuple(_sightings(results.facts)))
    return replace(study, design=replace(study.design, prior=prior))


def _ranked(study: Study, results: Results) -> tuple[tuple[str, tuple[Treatment, ...]], ...]:
    """By workload, the study's own treatments, best first; those that are not known left out."""
    found = []
    for workload in study.judged:
        metric = study.decide.leading.get(workload.name, "")
        means = _means(results, workload.name, metric)
        names = {name for treatment in means for name, _ in treatment}
        shared = names & {factor.name for factor in study.factors}
        scores: dict[Treatment, list[float]] = defaultdict(list)
        for treatment, mean in means.items():
            scores[_only(treatment, shared)].append(mean)
        way = 1.0 if study.metrics.higher(metric) is False else -1.0
        known = {
            cell: way * math.fsum(own) / len(own)
            for cell in cells(study, workload.name)
            if shared and (own := scores.get(_only(cell, shared)))
        }
        found.append((workload.name, tuple(sorted(known, key=known.__getitem__))))
    return tuple(found)


def _only(treatment: Treatment, names: set[str]) -> Treatment:
    return tuple(sorted(pair for pair in treatment if pair[0] in names))


def _means(results: Results, workload: str, metric: str) -> dict[Treatment, float]:
    """The mean log response of each treatment, less that of its block's trials: drift, and blocks
    that held the good ones only, would put them out of order."""
    logs: dict[int, dict[Treatment, float]] = defaultdict(dict)
    for record in results.valid:
        value = record.value(metric) if metric else None
        if record.trial.workload == workload and value and 0 < value < math.inf:
            logs[record.trial.block][record.trial.treatment] = math.log(value)
    effect: dict[Treatment, float] = dict.fromkeys((t for own in logs.values() for t in own), 0.0)
    for _ in range(_SWEEPS):  # block and treatment in turn: least squares, near enough for an order
        level = {b: _mean([v - effect[t] for t, v in own.items()]) for b, own in logs.items()}
        effect = {
            treatment: _mean(
                [own[treatment] - level[b] for b, own in logs.items() if treatment in own]
            )
            for treatment in effect
        }
    return effect


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


# Whether it is the same target.


def _sightings(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[TargetSignature]:
    for each in facts.values():
        yield from sightings(each).values()


def sightings(facts: Mapping[str, Any]) -> dict[str, TargetSignature]:
    """The targets of a machine's facts, by name."""
    return {
        name: TargetSignature(
            str(about.get("kind", "")),
            str(about.get("path", "")) if about.get("kind") in ("file", "directory") else "",
            str(facts.get("machine_id", "")),
            tuple(
                (kind, str(value))
                for kind, value in ((about.get("identity") or {}).get("ids") or {}).items()
                if kind not in _PASSING
            ),
        )
        for name, about in facts.get("targets", {}).items()
    }


def target_doubts(prior: PriorResults | None, facts: Mapping[str, Any]) -> Iterator[Doubt]:
    """What may be wrong with a prior on this machine; raises UsageError where it was measured on
    another target."""
    if prior is None:
        return
    for name, now in sightings(facts).items():
        kin = [then for then in prior.targets if then.kind == now.kind]
        if now.ids and any(then.ids == now.ids for then in kin):
            continue
        told = ", ".join(f"{kind} {value}" for kind, value in now.ids) or now.path or now.kind
        if not kin or all(_other(then, now) for then in kin):
            raise UsageError(
                f"the prior {prior.folder} was measured on another target than {name} ({told})",
                advice="Name results of the same target, or remove --prior.",
            )
        if now.path and any((t.path, t.machine) == (now.path, now.machine) for t in kin):
            continue
        what = f"no evidence that the prior {prior.folder} was measured on target {name} ({told})"
        yield Doubt("prior", what, _ADVICE)


def _other(then: TargetSignature, now: TargetSignature) -> bool:
    """Whether two sightings are surely two things."""
    if then.ids and now.ids:
        return then.ids != now.ids
    return bool(then.path and now.path and then.path != now.path)


# On disk.


def noted(study: Study) -> dict[str, Any]:
    """A prior for JSON, as ``prior``; empty for a study without."""
    prior = study.design.prior
    if prior is None:
        return {}
    order = {name: [dict(treatment) for treatment in known] for name, known in prior.order}
    return {"prior": {"folder": prior.folder, "order": order}}


def restored(study: Study, said: Mapping[str, Any] | None) -> Study:
    """The study with what :func:`noted` said."""
    if not said:
        return study
    order = tuple(
        (name, tuple(tuple(treatment.items()) for treatment in known))
        for name, known in said["order"].items()
    )
    return replace(study, design=replace(study.design, prior=PriorResults(said["folder"], order)))
