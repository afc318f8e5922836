"""The runner: a study becomes trial folders.

Read :func:`execute_on` first; it is the whole story.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from iotrial import store as stores
from iotrial.execute.hosts import Hosts, open_hosts
from iotrial.execute.interruption import Interruption
from iotrial.execute.manual import ManualLevels, TrialLimits
from iotrial.execute.prepare import prepare
from iotrial.execute.settings.restore import RestoreReport
from iotrial.execute.spread import execute_over
from iotrial.execute.trial import execute_trial
from iotrial.model.event import (
    Ask,
    Event,
    Message,
    ResultsUpdated,
    Tell,
    TrialBegan,
    TrialEnded,
    TrialsPlanned,
    ignore,
)
from iotrial.model.host import Connect, Host
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.ahead import all_failed, most_left, standing
from iotrial.plan.stages import next_trials, stage_words


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run came to.  ``stopped`` says why it ended before its plan did ('' if it did not)."""

    results: Results
    payment: RestoreReport
    stopped: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


def execute_study(
    study: Study, host: Host, folder: Path, *, interruption: Interruption, tell: Tell = ignore
) -> RunOutcome:
    """:func:`execute_on` of a study on one host, which is at hand."""
    return execute_on(
        study, lambda _place: nullcontext(host), folder, interruption=interruption, tell=tell
    )


def execute_on(  # noqa: PLR0913 (each has its name)
    study: Study,
    reach: Connect,
    folder: Path,
    *,
    interruption: Interruption,
    tell: Tell = ignore,
    ask: Ask | None = None,
    in_turn: bool = False,
) -> RunOutcome:
    """Execute what is missing of ``study`` into the results ``folder``; called again, it resumes.
    ``reach`` gets at each of its hosts; pretended ones are worked on ``in_turn``.  What goes on is
    told to ``tell``; ``ask`` asks a person to set what only a person can (None: nobody is there).

    Raises RefusedError before anything is changed, Interrupted after everything was put back, and
    OwedError when something could not be.  A trial that fails is recorded, and the study goes on.
    """
    stores.check(folder, study)
    tell = _one_at_a_time(tell)

    def said(text: str) -> None:
        tell(Message(text))

    payment = RestoreReport()
    with open_hosts(
        study,
        reach,
        results=folder,
        payment=payment,
        said=said,
        in_turn=in_turn,
        interruption=interruption,
    ) as hosts:
        interruption.check()
        if rootless := [e.name for e in hosts.sessions.values() if e.host.unprivileged]:
            said(f"not root on {', '.join(rootless)}: no setting is changed there")
        hands = ManualLevels(hosts.first, tell, ask, interruption)
        hands.begin()
        store = prepare(hosts, folder, interruption)
        for doubt in hosts.doubts:
            if doubt.check in ("name-here", "not-here"):
                said(doubt.what)
        execute = execute_over if study.spread else _execute_all
        stopped = execute(hosts, store, TrialLimits(tell, interruption, hands))
        for problem in hosts.finish():
            said(problem)
        hands.give_back()
    return RunOutcome(store.results(), payment, stopped, count(store.records))


def _one_at_a_time(tell: Tell) -> Tell:
    """Whichever thread an event comes from, the one before it has been told."""
    lock = threading.RLock()

    def told(event: Event) -> None:
        with lock:
            tell(event)

    return told


def _execute_all(hosts: Hosts, store: stores.Store, limits: TrialLimits) -> str:
    """Execute what is planned and not done, then ask again; gives back why it stopped early."""
    tell, told, begun = limits.tell, set[str](), False
    while pending := _pending(hosts.study, store):
        for line in stage_words(hosts.study, store.planned, store.records):
            tell(Message(line))
        left = _told(hosts.study, store, tell, told)
        tell(TrialsPlanned(len(pending), left, store.folder))
        block = 0
        for trial in pending:
            if _spent(hosts.study, store, trial):
                return f"the budget of {hosts.study.design.budget:.0f} s is spent"
            if trial.block != block:
                tell(ResultsUpdated(store.results()))
                if begun and (why := all_failed(hosts.study, store.records)):
                    return why
                block = trial.block
            tell(TrialBegan(trial, _typical(store, trial)))
            tell(TrialEnded(execute_trial(hosts, store, trial, limits)))
            begun = True
            limits.interruption.check()
    _told(hosts.study, store, tell, told)
    tell(ResultsUpdated(store.results()))
    return ""


def _told(study: Study, store: stores.Store, tell: Tell, told: set[str]) -> int:
    """Say how races stand, where that was not said yet; gives back how many trials may come."""
    stands = standing(study, store.planned, store.records)
    for line in (each.told for each in stands):
        if line not in told:
            tell(Message(line))
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
