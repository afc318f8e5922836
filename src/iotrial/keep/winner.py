"""Which settings a study came to, as a profile.

What is kept of a factor is the level that its findings carry: better than the baseline for some
workload, worse for none, within every guardrail; of a race what it kept, once that is decided; of
stages what they chose; of a search for the best levels that only where it was confirmed.  A person
may name other levels, and is then told what was found of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from iotrial.errors import RefusedError, UsageError
from iotrial.judgement import Judged
from iotrial.judgement.stages import proved
from iotrial.keep.entry import KeptSetting, of_study, problem, way_problem
from iotrial.keep.profile import Profile, named, plain
from iotrial.model.finding import Comparison, Finding
from iotrial.model.results import Results
from iotrial.model.study import Factor, Study, StudyHost
from iotrial.model.trial import TrialRecord
from iotrial.plan.parts import needed_by
from iotrial.stats.recommend import risk
from iotrial.tunables import catalogue_of, written
from iotrial.tunables.boot import KERNEL, UNSET, is_boot, takes_boot
from iotrial.units import format_change

SETTINGS = ("tunable", "group")


def profile(
    judged: Judged,
    chosen: Mapping[str, str] | None = None,
    name: str = "",
) -> Profile:
    """The settings to be kept.  ``chosen`` (factor → level) takes the place of the findings.

    Where the study was not on this machine, the profile names the hosts on which there is something
    to keep.

    Raises UsageError for a factor or level that is not there, and RefusedError where there is
    nothing to keep, and for pretended results.
    """
    results, comparison = judged.results, judged.comparison
    if results.pretended:
        raise RefusedError(
            f"{results.folder}: these results are pretended: no host was measured, so no setting"
            " can be kept",
            advice="Run the study without --pretend, and keep its settings.",
        )
    levels = dict(chosen or {}) or winners(results, comparison)
    for varied, label in levels.items():
        _known(results, varied, label)
    entries: dict[tuple[str, str, str], KeptSetting] = {}
    for factor in results.study.factors:
        if factor.name in levels and factor.kind in SETTINGS:
            because = _because(comparison, factor.name, levels[factor.name])
            for host in _hosts(results):
                for entry in _entries(results, factor, levels[factor.name], host):
                    key = (host, entry.tunable, entry.device)
                    entries[key] = replace(entry, because=because)
    apart = tuple(dict.fromkeys(str(e) for e in entries.values() if of_study(e)))
    entries = {key: entry for key, entry in entries.items() if not of_study(entry)}
    if not entries:
        own = f"; set only by commands of the study: {plain(', '.join(apart))}" if apart else ""
        raise RefusedError(
            f"{results.folder}: no setting to keep: {_nothing(results, levels, comparison)}{own}",
            advice="To keep a level anyway: --finding FACTOR=LEVEL.",
        )
    _refuse_kernel(results, entries.values())
    named_hosts = {entry.host for entry in entries.values() if entry.host}
    places = (place for place in results.study.places if place.name in named_hosts)
    hosts = tuple(StudyHost(each.name, each.ssh, via=each.via) for each in places)
    _vet(results, entries.values(), hosts)
    return Profile(
        named(name or results.study.name),
        tuple(entries.values()),
        results.study.question,
        results.folder.name,
        hosts,
        apart,
    )


def _refuse_kernel(results: Results, entries: Iterable[KeptSetting]) -> None:
    for entry in entries:
        if entry.tunable == KERNEL and (found := problem(entry)):
            raise RefusedError(
                f"{results.folder}: the winner has kernel {plain(entry.value)}: {plain(found[1])}",
                advice="To keep the other factors alone: --finding FACTOR=LEVEL, for each of them.",
            )


def _vet(results: Results, entries: Iterable[KeptSetting], hosts: Iterable[StudyHost]) -> None:
    """The folder may be somebody else's."""
    for entry in entries:
        if found := problem(entry):
            raise RefusedError(
                f"{results.folder}: {plain(entry.tunable)} in trials/*/before.json or"
                f" hosts/*.json: {plain(found[1])}",
                advice="No setting was kept: write your own profile (iotrial keep --help).",
            )
    for place in hosts:
        if why := way_problem(place.ssh):
            raise RefusedError(
                f"{results.folder}/study.toml: hosts.{plain(place.name)}: {plain(why)}",
                advice="Configure the host in your ssh_config, or write your own profile.",
            )


def _nothing(results: Results, levels: Mapping[str, str], comparison: Comparison) -> str:
    if levels:
        told = ", ".join(f"{factor}={label}" for factor, label in levels.items())
        factors = (factor for factor in results.study.factors if factor.name in levels)
        if any(takes_boot(factor.levels) for factor in factors):
            return f"{told} leaves the host's own boot as it is"
        return f"{told} is an option of the load or target, not a setting of the host"
    return comparison.recommendation


def winners(results: Results, comparison: Comparison) -> dict[str, str]:
    """Factor → the level to change to; nothing where the baseline stays."""
    if comparison.choices:
        found = {choice.factor: choice.new for choice in comparison.choices if choice.stage}
        if results.study.design.kind == "tune" and not proved(comparison.stages):
            found = {}
    elif comparison.races:
        found = _raced(results, comparison)
    else:
        found = {
            factor.name: level
            for factor in results.study.factors
            if (level := _best(results.study, comparison, factor.name))
        }
    return {f: level for f, level in found.items() if level != results.baselines.get(f)}


def _raced(results: Results, comparison: Comparison) -> dict[str, str]:
    """What every workload's race kept, where that is one and the same, and decided."""
    kept = {story.kept for story in comparison.races}
    if len(kept) != 1 or not all(story.decided for story in comparison.races):
        return {}
    (label,) = kept
    factors = [factor for factor in results.study.factors if _varied(results, factor)]
    if len(factors) == 1:
        return {factors[0].name: label.removeprefix(f"{factors[0].name}=")}
    for record in results.records:
        words = " ".join(f"{factor}={level}" for factor, level in record.trial.treatment)
        if words == label:
            return dict(record.trial.treatment)
    return {}


def _varied(results: Results, factor: Factor) -> bool:
    labels = {dict(record.trial.treatment).get(factor.name) for record in results.records}
    return len(labels - {None}) > 1


def _best(study: Study, comparison: Comparison, factor: str) -> str:
    """The level that gains most, and of which no load loses or may lose more than the margin."""
    own = [finding for finding in comparison.findings if finding.factor == factor]
    bad = {f.level for f in own if f.verdict == "worse" or (f.primary and risk(study, f))}
    gain: dict[str, float] = {}
    for finding in own:
        if finding.primary and finding.verdict == "better" and finding.level not in bad:
            size = abs(math.log(finding.ratio))
            gain[finding.level] = gain.get(finding.level, 0.0) + size
    return max(gain, key=lambda level: gain[level]) if gain else ""


def _known(results: Results, factor: str, label: str) -> None:
    names = {each.name: each for each in results.study.factors}
    if factor not in names:
        raise UsageError(
            f"the study has no factor {factor!r}",
            advice=(f"Its factors: {', '.join(names) or 'none'}"),
        )
    labels = [level.label for level in names[factor].levels]
    if label not in labels:
        raise UsageError(
            f"{factor} has no level {label!r}", advice=(f"Its levels: {', '.join(labels)}")
        )


def _hosts(results: Results) -> tuple[str, ...]:
    """The study's hosts; ('',) of one on this machine."""
    places = results.study.places
    return tuple(place.name for place in places) if places[1:] or places[0].way else ("",)


def _entries(results: Results, factor: Factor, label: str, host: str) -> Iterable[KeptSetting]:
    base = results.baselines.get(factor.name, "")
    several = len(results.study.places) > 1
    facts = {host: results.facts.get(host, {})} if several else results.facts
    known = catalogue_of(results.study)
    wanted = dict(factor.level(label).settings)
    held = _held(results, factor.name, label, host)
    former = _held(results, factor.name, base, host)
    kept = ((written(each), value) for each, value in wanted.items())
    # Of a parameter that is unset the host's own counts, which stands there anyway.
    for name, value in (pair for pair in kept if not is_boot(pair[0]) or pair[1] != UNSET):
        devices = [device for device, knob in held if knob == name]
        # Of several hosts only those that had it set: what one kernel's namespaces share is one's.
        if not devices and known.tunable(name).scope == "host" and not several:
            devices = [""]
        for device in devices:
            yield KeptSetting(
                name,
                value if is_boot(name) else held.get((device, name), value),
                device,
                ids_of(facts, known.tunable(name).scope, device),
                former.get((device, name), ""),
                host=host,
            )


def _held(results: Results, factor: str, label: str, host: str) -> dict[tuple[str, str], str]:
    """(device, tunable) → what was read back on the host in trials at this level that needed it:
    where it took no part, it stood as before."""
    return {
        (device.removeprefix(start), name): value
        for record in results.valid
        if dict(record.trial.treatment).get(factor) == label
        and (start := _mark(results, record, host)) is not None
        for device, name, value in record.before
        if device.startswith(start)
    }


def _mark(results: Results, record: TrialRecord, host: str) -> str | None:
    """What devices of the host begin with in a record; None: it had no part in that trial."""
    if len(results.study.places) == 1:
        return ""
    if record.trial.host:
        return "" if record.trial.host == host else None
    return f"{host}:" if host in needed_by(results.study, record.trial) else None


def _because(comparison: Comparison, factor: str, label: str) -> str:
    told = [
        _claim(finding)
        for finding in comparison.findings
        if finding.primary and finding.factor == factor and finding.level == label
    ]
    return "; ".join(told) or "chosen by the operator, or by a race or stages"


def _claim(finding: Finding) -> str:
    if finding.low is None or finding.high is None:
        size = f"{format_change(finding.ratio)}, no interval"
    else:
        ends = f"{format_change(finding.low)} … {format_change(finding.high)}"
        size = f"{format_change(finding.ratio)} (interval {ends})"
    against = f"against {finding.baseline}, {finding.verdict}"
    return f"{finding.workload}: {finding.metric} {size} {against}"


def ids_of(
    facts: Mapping[str, Mapping[str, Any]], scope: str, device: str
) -> tuple[tuple[str, str], ...]:
    """What a device is known by after a boot, from the facts of the study's hosts."""
    found: dict[str, str] = {}
    for host in facts.values():
        for target in host.get("targets", {}).values():
            identity = target.get("identity") or {}
            if identity.get("kernel_name") == device:
                found |= {kind: str(value) for kind, value in identity.get("ids", {}).items()}
            mount = target.get("mount") or {}
            if scope == "mount" and mount.get("point") == device:
                found["options"] = ",".join(map(str, mount.get("options", ())))
        about = host.get("devices", {}).get(device, {})
        found |= {kind: str(about[kind]) for kind in ("vendor", "model") if about.get(kind)}
        found |= {kind: str(value) for kind, value in about.get("ids", {}).items()}
        nic = host.get("interfaces", {}).get(device.partition("/")[0], {})
        if scope in ("nic", "rx", "tx") and nic.get("address"):
            found["address"] = str(nic["address"])
        asked = host.get("interrupts", {}).get(device) if scope == "irq" else None
        if asked:
            found["of"] = str(asked)
    return tuple(sorted(found.items()))
