"""The runner: a study becomes trial folders.

Read :func:`execute_study` first; it is the whole story.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from iotrial import store as stores
from iotrial.execute import cgroups
from iotrial.execute.bench import Bench, open_bench
from iotrial.execute.facts import gather, numbers
from iotrial.execute.guard import locked
from iotrial.execute.hands import Hands
from iotrial.execute.interruption import Interruption
from iotrial.execute.machine import same_kernel
from iotrial.execute.offer import offer, wants
from iotrial.execute.preflight import (
    check_levels,
    check_machine,
    check_options,
    check_resume,
    rehearse,
)
from iotrial.execute.restore import Payment, read_reports, restore
from iotrial.execute.trial import Limits, execute_trial
from iotrial.execute.upkeep import Upkeep
from iotrial.hosts.places import journal_folder
from iotrial.model.doubt import Doubt
from iotrial.model.host import Host
from iotrial.model.results import Results
from iotrial.model.sample import Sample
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.tunable import Setting
from iotrial.plan.aa import at_baseline, with_levels
from iotrial.plan.ahead import most_left, standing
from iotrial.plan.available import with_available
from iotrial.plan.design import baselines, next_trials
from iotrial.plan.prior import target_doubts
from iotrial.plan.stages import stage_words
from iotrial.tools import executed
from iotrial.tunables import group, tunable

_RENAMED = "It is the same value by the name it has here."
_ABSENT = "The rest of the level is applied. Mend the name if it is misspelt; compare with care."


class Watcher(Protocol):
    """Who is told how a run goes on.  Nothing here prints.

    ``planned`` is said whenever trials were planned: ``pending`` of them, and ``most`` until the
    study ends at the latest (more than ``pending`` where it ends as soon as it knows).  ``held``
    are the settings read back just before the load, ``sampled`` what the kernel of one host
    counted, once a second while a load goes on.  ``known`` is everything that was measured so
    far, said before the first trial, after each block and at the end, while no load goes on.
    """

    def said(self, text: str) -> None: ...
    def planned(self, pending: int, most: int, results: Path) -> None: ...
    def began(self, trial: Trial, seconds: float) -> None: ...
    def held(self, trial: Trial, host: str, settings: Sequence[Setting]) -> None: ...
    def sampled(self, trial: Trial, sample: Sample) -> None: ...
    def ticked(self, trial: Trial, elapsed: float) -> None: ...
    def ended(self, record: TrialRecord) -> None: ...
    def known(self, results: Results) -> None: ...

    def attended(self) -> bool:
        """Whether there is a person who can be asked to do something."""
        ...

    def asked(self, what: str, interruption: Interruption) -> None:
        """Ask a person to do ``what``; gives back when it is said to be done, or at a signal."""
        ...


class Unwatched:
    """A watcher that looks away."""

    def said(self, text: str) -> None: ...
    def planned(self, pending: int, most: int, results: Path) -> None: ...
    def began(self, trial: Trial, seconds: float) -> None: ...
    def held(self, trial: Trial, host: str, settings: Sequence[Setting]) -> None: ...
    def sampled(self, trial: Trial, sample: Sample) -> None: ...
    def ticked(self, trial: Trial, elapsed: float) -> None: ...
    def ended(self, record: TrialRecord) -> None: ...
    def known(self, results: Results) -> None: ...

    def attended(self) -> bool:
        return False

    def asked(self, what: str, interruption: Interruption) -> None:
        """Never: nobody is there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.  ``stopped`` says why it ended before its plan did ('' if it did not)."""

    results: Results
    payment: Payment
    stopped: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


def execute_study(
    study: Study, host: Host, folder: Path, *, watcher: Watcher, interruption: Interruption
) -> Outcome:
    """Execute what is missing of ``study`` into the results ``folder``; called again, it resumes.

    Raises RefusedError before anything is changed, Interrupted after everything was put back, and
    OwedError when something could not be.  A trial that fails is recorded, and the study goes on.
    """
    check_machine(host, study)
    stores.check(folder, study)
    payment = Payment()
    stopped = ""
    with locked(host):
        for line in read_reports(host, journal_folder(host)):
            watcher.said(line)
        for line in restore(host, journal_folder(host)).done:
            watcher.said(f"owed from an earlier run: {line}")
        with open_bench(host, study, results=folder, payment=payment) as bench:
            interruption.check()
            hands = Hands(bench, watcher, interruption)
            hands.begin()
            store, facts = _prepare(bench, folder)
            for doubt in bench.doubts:
                if doubt.check in ("name-here", "not-here"):
                    watcher.said(doubt.what)
            upkeep = Upkeep(bench, folder, interruption, facts, watcher.said)
            stopped = _execute_all(
                bench, store, Limits(watcher, interruption, facts, hands, upkeep)
            )
            for problem in upkeep.finish():
                watcher.said(problem)
            hands.give_back()
    return Outcome(store.results(), payment, stopped, count(store.records))


def _prepare(bench: Bench, folder: Path) -> tuple[stores.Store, dict[str, float]]:
    """Facts, levels, journalled groups, a rehearsal: everything that must be known, or refused,
    before there is a results folder."""
    offered = offer(bench.host, bench.study, bench.topologies)
    written = bench.study
    bench.study = with_available(written, offered)
    check_levels(bench)
    tuned = _tuned(bench)
    bench.group = cgroups.own(bench.host, bench.journal, [n for ns in tuned.values() for n in ns])
    bench.own_groups(tuned)
    bench.doubts += [Doubt("name-here", what, _RENAMED) for what in offered.renamed(written)]
    bench.doubts += [Doubt("not-here", what, _ABSENT) for what in offered.absent()]
    if same_kernel(bench.host):
        what = f"{bench.host.name} is this very machine, or a namespace of it: one kernel, one CPU"
        advice = "The controller takes a share of it; measure without [hosts] instead."
        bench.doubts.append(Doubt("same-kernel", what, advice))
    programs = sorted({executed(w).program for w in bench.study.workloads})
    facts: dict[str, Any] = gather(bench.host, tuple(bench.aims.values()), programs)
    check_options(bench.study, numbers(facts))
    check_resume(folder, bench, facts)
    bench.doubts += target_doubts(bench.study.design.prior, facts)
    standing = baselines(bench.study, bench.in_force(), bench.topologies)
    bench.study = at_baseline(bench.study, standing)
    rehearse(bench)
    store = stores.create(folder, with_levels(written, standing), offered)
    bench.study = store.study
    facts["baselines"] = baselines(bench.study, bench.in_force(), bench.topologies)
    if bench.study.aa:
        facts["aa"] = {"arms": bench.study.aa.arms, "levels": dict(bench.study.aa.levels)}
    facts["doubts"] = [{"check": d.check, "what": d.what, "advice": d.advice} for d in bench.doubts]
    store.write_facts(bench.host.name, facts)
    bench.study = store.study = store.results().study
    store.begin_session(
        {
            "started": time.time(),
            "token": bench.journal.token,
            "boot_id": facts["boot_id"],
            "targets": facts["targets"],
        }
    )
    return store, numbers(facts)


def _tuned(bench: Bench) -> dict[str, list[str]]:
    """Device → names of the tunables that any factor sets on it ('' for the host's own), and of
    those that they move on another layer (the ports behind a map); what moves others first,
    because it goes back first."""
    found: dict[tuple[str, str], int] = {}
    for each in wants(bench.study, bench.topologies):
        found |= {(device, each.name): tunable(each.name).rank for device in each.devices}
        for row in group([each.name]):
            if any(row.device_problem(device) for device in each.devices):
                below = (t.names(row.scope) for t in bench.topologies.values())
                found |= {(device, row.name): row.rank for device in chain(*below)}
    names: dict[str, list[str]] = {}
    for device, name in sorted(found, key=lambda pair: (found[pair], pair)):
        names.setdefault(device, []).append(name)
    return names


def _execute_all(bench: Bench, store: stores.Store, limits: Limits) -> str:
    """Execute what is planned and not done, then ask again; gives back why it stopped early."""
    watcher, told = limits.watcher, set[str]()
    while pending := _pending(bench.study, store):
        for line in stage_words(bench.study, store.planned, store.records):
            watcher.said(line)
        left = _told(bench.study, store, watcher, told)
        watcher.planned(len(pending), left, store.folder)
        block = 0
        for trial in pending:
            if _spent(bench.study, store, trial):
                return f"the budget of {bench.study.design.budget:.0f} s is spent"
            if trial.block != block:
                watcher.known(store.results())
                block = trial.block
            watcher.began(trial, _typical(store, trial))
            watcher.ended(execute_trial(bench, store, trial, limits))
            limits.interruption.check()
    _told(bench.study, store, watcher, told)
    watcher.known(store.results())
    return ""


def _told(study: Study, store: stores.Store, watcher: Watcher, told: set[str]) -> int:
    """Say how races stand, where that was not said yet; gives back how many trials may come."""
    stands = standing(study, store.planned, store.records)
    for line in (each.told for each in stands):
        if line not in told:
            watcher.said(line)
    told |= {each.told for each in stands}
    return most_left(study, store.planned, store.records, stands)


def _pending(study: Study, store: stores.Store) -> list[Trial]:
    done = {record.trial.number for record in store.records}
    pending = [trial for trial in store.planned if trial.number not in done]
    if not pending:
        added = next_trials(study, store.planned, store.records)
        store.append_plan(added)
        pending = list(added)
    return pending


def _spent(study: Study, store: stores.Store, trial: Trial) -> bool:
    if not study.design.budget:
        return False
    used = sum(record.seconds + record.prepared for record in store.records)
    return used + _typical(store, trial) > study.design.budget


def _typical(store: stores.Store, trial: Trial) -> float:
    """What a trial of this workload has taken so far, in seconds (0: none yet)."""
    for record in reversed(store.records):
        if record.trial.workload == trial.workload:
            return record.seconds
    return 0.0


def count(records: Iterable[TrialRecord]) -> dict[str, int]:
    """How many trials became what."""
    counts = {"valid": 0, "invalid": 0, "failed": 0}
    for record in records:
        counts[record.state] += 1
    return counts
