"""Candidates: which knobs ``iotrial tune`` varies, at which levels and why; and why not others.

Pure: from what lies below the target, what the load is to storage, and what is in force.  A knob is
a candidate where a rule (:mod:`iotrial.plan.candidate_rules`) has levels worth trying for it, the
target has what it belongs to, this host can set them, and the load can notice it.  It is none where
a level may cost data when the power fails, where it says what happens when something fails, where
it is there to hold a load back, or where it cannot be changed while the machine runs; a person may
still name it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from iotrial.errors import SettingRefused, UsageError
from iotrial.model.study import UNSET
from iotrial.model.target import Topology
from iotrial.model.tool import (
    SupportsCaching,
    SupportsCharacter,
    SupportsQueueing,
    WorkloadCharacter,
)
from iotrial.model.tunable import Domain, Tunable
from iotrial.model.workload import Workload
from iotrial.plan.candidate_rules import (
    EXCLUDED,
    REQUESTS,
    RULES,
    SCHEDULER,
    CandidateCase,
    CandidateFacts,
)
from iotrial.plan.problem import choices
from iotrial.tools import tool
from iotrial.tunables import CATALOGUE, all_tunables

_NONE = ("none", "noop")
_COMING = ("cgroup.", "mount.")
"""Families that are there only once the run has made what they belong to."""


@dataclass(frozen=True, slots=True)
class KnobReading:
    """What a device says of a knob: the ``value`` in force, its ``domain``, and ``why`` it cannot
    be read or set here ('': it can).  ``likely``: the value is that of a device which stands in for
    one that is not made yet."""

    device: str
    value: str
    domain: Domain = field(default_factory=Domain)
    why: str = ""
    likely: bool = False


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """What a person wants of the choice: knobs ``named`` with their levels ((): those of its
    rule), ``only`` these; patterns of knobs ``removed``."""

    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    only: bool = False
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A knob to vary.  ``levels``: the baseline first, which is the value ``in_force`` or, where
    devices differ or are not made yet, :data:`iotrial.model.study.UNSET`."""

    knob: str
    levels: tuple[str, ...]
    reason: str
    in_force: str


@dataclass(frozen=True, slots=True)
class CandidateChoice:
    """The knobs ``taken``, and why each of the others that the target has was not: knob →
    reason."""

    taken: tuple[Candidate, ...]
    missing: Mapping[str, str]


def character_of(workload: Workload, facts: Mapping[str, float]) -> WorkloadCharacter:
    """What a load is to storage, as far as its tool knows.  Raises as the tool."""
    driver = tool(workload.tool)
    if isinstance(driver, SupportsCharacter):
        return driver.character(workload, facts)
    reach = driver.reach(workload)
    return WorkloadCharacter(
        reach.reads,
        reach.writes,
        buffered=not isinstance(driver, SupportsCaching) or bool(driver.buffered(workload)),
        depth=driver.depth(workload, facts) if isinstance(driver, SupportsQueueing) else 0,
    )


_PRECEDES = "queue.iosched."
_BY_KNOB = {rule.knob: rule for rule in RULES}

_BOOTS = "each level takes a boot, and a search changes levels in every trial"
_UNKNOWN = "which levels would be worth trying is not known"


def looked_at(below: Topology, wish: CandidateRequest) -> tuple[str, ...]:
    """The knobs that must be read for :func:`choose`: those with a rule or a name that the target
    has, and those that rules ask for."""
    asked = ("cpu.idle.state1.disable", "scsi.host.can_queue", SCHEDULER)
    names = dict.fromkeys([*_BY_KNOB, *asked, *wish.named])
    return tuple(n for n in names if below.names(CATALOGUE.tunable(n).scope))


def without(found: Candidate, level: str) -> Candidate | None:
    """The candidate without a level that the kernel rejected; None where the baseline is rejected,
    or no other level is left."""
    levels = tuple(each for each in found.levels if each != level)
    if level == found.levels[0] or levels == found.levels or len(levels) < 2:  # noqa: PLR2004
        return None
    return replace(found, levels=levels)


def check_names(wish: CandidateRequest) -> None:
    """Raises UsageError for a name or pattern of no knob, with the nearest ones."""
    known = [knob.name for knob in all_tunables()]
    for name in wish.named:
        knob = CATALOGUE.tunable(name)
        if name in wish.removed:
            raise UsageError(f"{name} is in --knobs and in --not", advice="Remove one of them.")
        if knob.reload:
            raise UsageError(f"{name} cannot be varied: {knob.reload}", advice="Remove it.")
        if knob.boot:
            advice = "Remove it, and compare boots in a study: iotrial knobs boot"
            raise UsageError(f"{name} cannot be varied: {_BOOTS}", advice=advice)
    for pattern in wish.removed:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in (*known, *wish.named)):
            CATALOGUE.tunable(pattern)
            if not pattern.startswith("sysctl."):
                advice = choices(pattern, known, "knobs")
                raise UsageError(f"--not {pattern} is the name of no knob", advice=advice)


def choose(
    load: WorkloadCharacter,
    below: Topology,
    seen: Mapping[str, Sequence[KnobReading]],
    facts: CandidateFacts,
    wish: CandidateRequest,
) -> CandidateChoice:
    """What is varied.  ``seen``: what each device says of the knobs of :func:`looked_at`.

    Raises UsageError for a named level outside the domain, and for a named knob without levels;
    SettingRefused for a named knob that the target does not have, or that cannot be set here.
    """
    known = {name: each[0].value for name, each in seen.items() if each and not each[0].why}
    ask = _asker(load, below, facts, known, _schedulers(seen.get(SCHEDULER, ()), wish))
    taken: list[Candidate] = []
    missing: dict[str, str] = {}
    for name in dict.fromkeys([*wish.named, *_BY_KNOB]):
        knob = CATALOGUE.tunable(name)
        if _removed(name, wish):
            missing[name] = "removed by --not"
        elif name in wish.named:
            taken.append(_named(knob, seen.get(name, ()), ask, wish))
        elif wish.only:
            missing[name] = "not named, and --only takes named knobs only"
        elif seen.get(name):
            found = _own(knob, seen[name], ask)
            if isinstance(found, Candidate):
                taken.append(found)
            else:
                missing[name] = found
    left, clashes = _compatible(taken, wish.named, facts)
    missing |= clashes
    missing |= {
        knob.name: _reason(knob, below, wish)
        for knob in all_tunables()
        if knob.name not in _BY_KNOB and knob.name not in wish.named and below.names(knob.scope)
    }
    return CandidateChoice(_in_order(left), missing)


_Asker = Callable[[str, tuple[str, ...]], CandidateCase]


def _asker(
    load: WorkloadCharacter,
    below: Topology,
    facts: CandidateFacts,
    known: Mapping[str, str],
    schedulers: tuple[str, ...],
) -> _Asker:
    return lambda value, offered: CandidateCase(
        value, offered, load, facts, below, known, schedulers
    )


def _schedulers(said: Sequence[KnobReading], wish: CandidateRequest) -> tuple[str, ...]:
    """The schedulers that the disk will have in some trial."""
    if not said or said[0].why:
        return ()
    varied = SCHEDULER in wish.named or not (wish.only or _removed(SCHEDULER, wish))
    return wish.named.get(SCHEDULER) or said[0].domain.choices if varied else (said[0].value,)


def _removed(name: str, wish: CandidateRequest) -> bool:
    """A name goes before a pattern."""
    return name not in wish.named and any(
        fnmatch.fnmatchcase(name, pattern) for pattern in wish.removed
    )


def _in_order(taken: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """As the rules are, so that the same answers make the same study; named ones at the end."""
    place = {name: at for at, name in enumerate(_BY_KNOB)}
    return tuple(sorted(taken, key=lambda each: place.get(each.knob, len(place))))


def _own(knob: Tunable, said: Sequence[KnobReading], ask: _Asker) -> Candidate | str:
    """A candidate by its rule, or why it is none."""
    rule = _BY_KNOB[knob.name]
    in_force = _value(knob, said[0])
    case = ask(in_force, said[0].domain.choices)
    if why := next(filter(None, (moot(case) for moot in rule.moot)), "") or _unsettable(knob, said):
        return why
    others = [level for level in rule.others(case) if not _outside(level, said)]
    levels = _levels(knob, said, others)
    if len(levels) < 2:  # noqa: PLR2004 (one is no choice)
        return f"no other value than {in_force} is worth trying, or accepted, here"
    return Candidate(knob.name, levels, rule.reason, in_force)


def _named(
    knob: Tunable, said: Sequence[KnobReading], ask: _Asker, wish: CandidateRequest
) -> Candidate:
    name, wanted = knob.name, wish.named[knob.name]
    if not said:
        raise SettingRefused(
            f"{name} belongs to a {knob.scope}, and the target has none",
            tunable=name,
            advice="Remove it from --knobs.",
        )
    if why := _unsettable(knob, said):
        raise SettingRefused(
            f"{name} cannot be varied here: {why}",
            tunable=name,
            device=said[0].device,
            advice="Remove it from --knobs.",
        )
    for level in wanted:
        if why := _outside(level, said):
            raise UsageError(f"--knobs {name}: {why}", advice=f"`iotrial knobs {name}` says more.")
    rule, in_force = _BY_KNOB.get(name), _value(knob, said[0])
    others: Sequence[str] = [_spelled(level, said) for level in wanted]
    if not wanted and rule:
        others = rule.others(ask(in_force, said[0].domain.choices))
    elif not wanted:
        others = said[0].domain.choices
    levels = _levels(knob, said, [each for each in others if not _outside(each, said)])
    if name.startswith("cgroup.") and in_force == knob.absent and in_force in wanted:
        # A group is there in a run only: nothing is in force, and the level named first counts.
        levels = tuple(dict.fromkeys(wanted))
        in_force = levels[0]
    if len(levels) < 2:  # noqa: PLR2004 (one is no choice)
        message = f"{name} has no other level than {in_force} here"
        raise UsageError(message, advice=f"Name its levels: --knobs {name}=LEVEL,LEVEL")
    return Candidate(name, levels, "named by --knobs", in_force)


def _unsettable(knob: Tunable, said: Sequence[KnobReading]) -> str:
    """Why it cannot be set on some device of the target, or ''."""
    if knob.name.startswith(_COMING) and knob.absent:
        return ""
    return next((each.why for each in said if each.why), "")


def _value(knob: Tunable, said: KnobReading) -> str:
    return said.value or knob.absent or UNSET


def _outside(level: str, said: Sequence[KnobReading]) -> str:
    """Why some device does not accept a level, or ''.  Another spelling of one is accepted."""
    return (
        next(filter(None, (each.domain.refusal(_spelled(level, [each])) for each in said)), "")
        if level != UNSET
        else ""
    )


def _spelled(level: str, said: Sequence[KnobReading]) -> str:
    domain = said[0].domain
    return level if level in domain.choices else dict(domain.aliases).get(level, level)


def _levels(knob: Tunable, said: Sequence[KnobReading], others: Iterable[str]) -> tuple[str, ...]:
    """The baseline, then the others without it."""
    values = {_value(knob, each) for each in said}
    known = len(values) == 1 and not said[0].likely
    baseline = values.copy().pop() if known else UNSET
    left = (each for each in others if len(values) > 1 or each not in values)
    return tuple(dict.fromkeys([baseline, *left]))


def _compatible(
    taken: Sequence[Candidate], named: Mapping[str, tuple[str, ...]], facts: CandidateFacts
) -> tuple[list[Candidate], dict[str, str]]:
    """Those that do not change each other, and why the rest is left: a named one stays before
    another, else the one that comes first."""
    missing: dict[str, str] = {}
    order = sorted(taken, key=lambda each: each.knob not in named)
    for one, other in combinations(order, 2):
        if one.knob in missing or other.knob in missing:
            continue
        if why := _conflict(one, other, facts):
            if other.knob in named:
                message = f"--knobs {one.knob} and {other.knob}: {why}"
                raise UsageError(message, advice="Name one of them.")
            missing[other.knob] = why
    return [each for each in taken if each.knob not in missing], missing


def _conflict(one: Candidate, other: Candidate, facts: CandidateFacts) -> str:
    first, second = CATALOGUE.tunable(one.knob), CATALOGUE.tunable(other.knob)
    if first.written == second.written:
        return f"{one.knob} sets the same"
    for mover, moved in ((first, second), (second, first)):
        if moved.moved_by(mover) and (mover.moved_by(moved) or moved.rank <= mover.rank):
            return f"a change of {mover.name} changes {moved.name}"
    both = {one.knob: one, other.knob: other}
    if SCHEDULER in both and any(name.startswith(_PRECEDES) for name in both):
        return f"{SCHEDULER} is varied, and each scheduler has settings of its own"
    if both.keys() == {SCHEDULER, REQUESTS}:
        return _too_deep(both[SCHEDULER], both[REQUESTS], facts)
    return ""


def _too_deep(scheduler: Candidate, requests: Candidate, facts: CandidateFacts) -> str:
    """Without a scheduler the kernel refuses more requests than the disk has tags."""
    none = [level for level in scheduler.levels if level in _NONE]
    deep = [each for each in requests.levels if each.isdecimal() and int(each) > facts.tags]
    if not (none and deep and facts.tags):
        return ""
    return (
        f"the disk has {facts.tags} tags, so that the kernel refuses {deep[0]} requests with the"
        f" level {none[0]} of {SCHEDULER}"
    )


_ABSENT = (
    ("multipath.", "map", "the target is not a multipath map"),
    ("net.", "nic", "the storage is not reached over a network"),
    ("sysctl.net.", "nic", "the storage is not reached over a network"),
    ("nfs.", "nic", "the storage is not reached over a network"),
)
"""Families of the whole host that are about something which a target need not have."""


def _reason(knob: Tunable, below: Topology, wish: CandidateRequest) -> str:
    """Why a knob without a rule is not varied."""
    if _removed(knob.name, wish):
        return "removed by --not"
    if knob.reload:
        return f"it cannot be changed in a trial: {knob.reload}"
    for family, scope, why in _ABSENT:
        if knob.name.startswith(family) and not any(n.scope == scope for n in below.nodes):
            return why
    for pattern, why in EXCLUDED:
        if fnmatch.fnmatchcase(knob.name, pattern):
            return why
    return _BOOTS if knob.boot else _UNKNOWN


def reasons(left: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Reasons, each with its knobs, in their order."""
    for why in dict.fromkeys(left.values()):
        yield why, tuple(name for name, each in left.items() if each == why)
