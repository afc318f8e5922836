"""The search for the highest value: a few single trials, chosen one by one, then a race; and the
study that ``iotrial saturate TARGET…`` makes for it, as the text of a study file.

A study of the kind ``saturate`` has two workloads.  With the first, whose trials may be short, it
searches the grid of all treatments: a few that are spread over it, then one by one the treatment
that promises most (:mod:`iotrial.stats.ceiling`), each once.  With the second it decides: the best
few of the search race on fresh trials (:mod:`iotrial.stats.race`), in randomised blocks, until
none of them can be better than the kept one by more than the margin.

Pure, as all of the plan.  Nothing is stored but the trials: where a search stands follows from
them, so that one that was killed goes on.

Of TARGET, ``/dev/sdb`` is here; ``root@box1:/dev/sdb`` is there, and ``box[1-4]:/dev/sdb`` on four
hosts.  As of scp(1), what stands before the first colon is a host, but where the word begins with a
slash or a dot.  ``here:/dev/sdb`` says of a target that it is on this machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from iotrial.model.hostlist import expanded
from iotrial.model.study import Factor, Study
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.model.workload import OptionValue
from iotrial.plan.problem import StudyProblem, inline
from iotrial.plan.race import Wanted
from iotrial.units import parse_bytes

if TYPE_CHECKING:
    from iotrial.stats.ceiling import CellGrid, MeasuredCell


MOST_FINALS = 6
"""Blocks of the race of a search that does not say how many."""
MOST_SEARCHED = 34
"""Trials of the search, the first ones among them."""
LEAST_FINALS = 4
"""Blocks of a race of one, to know how sure its numbers are."""
FEWEST = 2
_IN_FLIGHT = ("numjobs", "iodepth")
"""Options of fio whose product is how many I/Os are under way: an axis of its own, since a device
sees little else of them."""
_MOST_RACING = 4
"""As :data:`iotrial.stats.ceiling.MOST_FINALISTS`, which is slow to import."""
HERE = "here"
ALONE = "target"
"""The name of the only target."""
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
SEARCH, FINAL = "search", "final"
"""The names of the two workloads."""
TOGETHER = "together"
"""The name of several targets as one."""
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BATCHES = (1, 4, 16)
"""I/Os submitted and waited for at a time."""
MOST_JOBS = 32
PER_CPU = 4
BLOCK_SIZES = {"iops": ("4k",), "bandwidth": ("64k", "256k", "1m")}


def workloads(study: Study) -> tuple[str, str]:
    """The names of the workload that searches and of the one that decides."""
    return study.judged[0].name, study.judged[1].name


def unsearchable(study: Study) -> Iterator[StudyProblem]:
    """Why a study cannot be a search for the highest value."""
    if len(study.judged) != FEWEST:
        message = "a search needs two workloads: one for the search, one for the decision"
        yield StudyProblem(
            ("workloads",), message, "Copy the first, possibly with a longer runtime."
        )
        return
    if study.stages:
        message = "a search for the highest value has no stages"
        yield StudyProblem(("stage", 0), message, 'Remove them, or use kind = "race".')
    for factor in study.factors:
        if factor.workload:
            message = "both workloads of a search have the same factors"
            yield StudyProblem(("factors", factor.name, "workload"), message, "Remove it.")
        if factor.hard:
            message = "a search changes levels in every trial, but this factor is hard to change"
            yield StudyProblem(("factors", factor.name, "hard"), message, "Remove it.")
    if not any(len(factor.levels) > 1 or not factor.levels for factor in study.factors):
        yield StudyProblem(("factors",), "no factor is varied", "Add a factor with two levels.")
    metrics = study.decide.leading
    one, other = (metrics.get(name, "") for name in workloads(study))
    if (
        len(study.decide.primary) > len(metrics)
        or one != other
        or study.metrics.higher(one) is not True
    ):
        message = "a search needs one primary metric for which more is better"
        yield StudyProblem(("decide", "primary"), message, 'For example primary = "read.iops"')
    if len(study.decide.limits) > 1:
        message = "a search has one limit at most"
        yield StudyProblem(("decide", "limits"), message, "Remove the others.")


def value(factor: Factor, label: str) -> float:
    """What a level is as a number above 0; not a number where it is none."""
    try:
        found = float(parse_bytes(label))
    except ValueError:
        return math.nan
    return found if found > 0 and factor.kind == "option" else math.nan


def grid(study: Study, cells: Sequence[Treatment]) -> CellGrid:
    """The treatments as places: octaves where all levels of a factor are numbers."""
    import numpy as np  # noqa: PLC0415  slow to import

    from iotrial.stats.ceiling import CellGrid  # noqa: PLC0415  SciPy, as above

    columns, ordered = [], []
    for at, factor in enumerate(study.factors):
        sizes = {level.label: value(factor, level.label) for level in factor.levels}
        numbers = not any(map(math.isnan, sizes.values()))
        places = {label: float(place) for place, label in enumerate(sizes)}
        if numbers:
            places = {label: math.log2(size) for label, size in sizes.items()}
        columns.append([places[cell[at][1]] for cell in cells])
        ordered.append(numbers)
    flying = [at for at, each in enumerate(study.factors) if each.subject in _IN_FLIGHT]
    if len(flying) == len(_IN_FLIGHT) and all(ordered[at] for at in flying):
        columns.append(
            [sum(octaves) for octaves in zip(*(columns[at] for at in flying), strict=True)]
        )
        ordered.append(True)
    bound = next((limit for _, limit in study.decide.limits), math.inf)
    return CellGrid(np.array(columns, dtype=np.float64).T, tuple(ordered), bound)


def searched(
    study: Study, cells: Sequence[Treatment], done: Sequence[TrialRecord]
) -> dict[int, MeasuredCell]:
    """What the search has seen so far, by the treatment's place among ``cells``: the latest
    attempt at each.  A trial that gave no number counts as nothing."""
    from iotrial.stats.ceiling import MeasuredCell  # noqa: PLC0415  SciPy is slow to import

    name, _ = workloads(study)
    metric = study.decide.leading[name]
    limit = next((each for each, _ in study.decide.limits), "")
    place = {cell: number for number, cell in enumerate(cells)}
    found: dict[int, MeasuredCell] = {}
    for record in sorted(done, key=lambda each: (each.trial.attempt, each.trial.number)):
        if record.trial.workload == name and record.trial.treatment in place:
            rate = record.value(metric) or 0.0
            late = (record.value(limit) or math.inf) if limit else 0.0
            seen = (
                MeasuredCell(rate, late)
                if record.state == "valid" and rate > 0
                else MeasuredCell(0.0)
            )
            found[place[record.trial.treatment]] = seen
    return found


def finalists(study: Study, planned: Sequence[Trial]) -> tuple[Treatment, ...]:
    """The treatments of the race, in the order of the study; none before it is planned."""
    _, name = workloads(study)
    racing = {trial.treatment for trial in planned if trial.workload == name}
    return tuple(cell for cell in study.treatments(name) if cell in racing)


def wanted(
    study: Study,
    cells: Mapping[str, Sequence[Treatment]],
    planned: Sequence[Trial],
    done: Sequence[TrialRecord],
) -> Wanted:
    """The next block: of the search, or of the race; nothing while planned trials wait.

    The parameters are those of :func:`iotrial.plan.race.wanted`.
    """
    if {trial.number for trial in planned} - {record.trial.number for record in done}:
        return {}
    search, final = workloads(study)
    everything = cells[search]
    last = max((trial.block for trial in planned), default=0)
    racing = finalists(study, planned)
    if racing and len({trial.block for trial in planned if trial.workload == final}) > 1:
        more = _race(study, racing, planned, done)
        return {last + 1: [(final, more)]} if more else {}
    from iotrial.stats import ceiling  # noqa: PLC0415  SciPy is slow to import

    where = grid(study, everything)
    tried = {trial.treatment for trial in planned}
    first = tuple(everything[number] for number in ceiling.start(where))
    if not tried >= set(first):
        return {1: [(search, tuple(cell for cell in first if cell not in tried))]}
    seen = searched(study, everything, done)
    following = None
    if len(seen) < MOST_SEARCHED and not racing:
        following = ceiling.next_cell(where, seen)
    if following is not None:
        return {last + 1: [(search, (everything[following],))]}
    best = tuple(everything[number] for number in sorted(ceiling.finalists(where, seen)))
    if racing and set(racing) >= set(best):
        more = _race(study, racing, planned, done)
        return {last + 1: [(final, more)]} if more else {}
    # The end of a plan may be lost in a crash: what is missing of the first block comes into it.
    block = last if racing else last + 1
    missing = tuple(cell for cell in best if cell not in racing)
    return {block: [(final, missing)]} if missing else {}


def _race(
    study: Study,
    racing: tuple[Treatment, ...],
    planned: Sequence[Trial],
    done: Sequence[TrialRecord],
) -> tuple[Treatment, ...]:
    """Who is measured in the next block of the race; none where it is decided."""
    _, final = workloads(study)
    blocks = len({trial.block for trial in planned if trial.workload == final})
    if blocks >= study.design.blocks:
        return ()
    if len(racing) == 1:
        return racing if blocks < LEAST_FINALS else ()
    from iotrial.stats.ceiling import as_good  # noqa: PLC0415  SciPy is slow to import
    from iotrial.stats.race import raced  # noqa: PLC0415

    (each,) = raced(study, {final: racing}, done)
    if each.race.decided or as_good(each):
        return ()
    return tuple(racing[number] for number in each.race.active)


def at_most(study: Study, first: Sequence[Trial]) -> tuple[Trial, ...]:
    """As many trials as a search may take; those after the ``first`` stand for whatever will be
    chosen then."""
    _, final = workloads(study)
    more = [replace(first[0], block=block + 2) for block in range(MOST_SEARCHED - len(first))]
    blocks = range(MOST_SEARCHED + 2, MOST_SEARCHED + 2 + study.design.blocks)
    finals = [
        replace(trial, block=block, workload=final)
        for block in blocks
        for trial in first[:_MOST_RACING]
    ]
    return (*first, *more, *finals)


def most_left(study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]) -> int:
    """How many trials may still come at most, those that are planned and not done included."""
    search, final = workloads(study)
    finished = {record.trial.number for record in done}
    pending = sum(trial.number not in finished for trial in planned)
    if not pending:
        return 0
    blocks = len({trial.block for trial in planned if trial.workload == final})
    racing = [trial for trial in planned if trial.workload == final]
    size = len({trial.treatment for trial in racing if trial.block == racing[-1].block})
    to_race = (size or _MOST_RACING) * max(study.design.blocks - blocks, 0)
    searched_so_far = sum(trial.workload == search for trial in planned)
    to_search = 0 if racing else max(MOST_SEARCHED - searched_so_far, 0)
    return pending + to_race + to_search


@dataclass(frozen=True, slots=True)
class SaturationTarget:
    """One target: ``path`` on the ``host``, by the name it has in the study, that ssh(1) reaches
    by ``ssh`` ('': this machine); ``name`` is the target's in the study."""

    host: str
    ssh: str
    path: str
    name: str = ALONE


def targets_named(words: Sequence[str]) -> tuple[SaturationTarget, ...]:
    """Every target that ``words`` name, each once, in their order.

    Raises ValueError for a word that says no host or no target, and for one that is there twice.
    """
    found = [pair for word in words for pair in _pairs(word)]
    for pair in found:
        if found.count(pair) > 1:
            raise ValueError(f"{':'.join(filter(None, pair))} occurs twice")
    hosts: dict[str, str] = {}
    for ssh, _ in found:
        if ssh not in hosts:
            hosts[ssh] = _unused(_short(ssh), hosts.values())
    names: list[str] = []
    for _, path in found:
        stem = _ODD.sub("-", PurePosixPath(path).name).strip("-.") or ALONE
        names.append(_unused(stem, names) if len(found) > 1 else ALONE)
    return tuple(
        SaturationTarget(hosts[ssh], ssh, path, name)
        for (ssh, path), name in zip(found, names, strict=True)
    )


def _pairs(word: str) -> Iterator[tuple[str, str]]:
    """(ssh, path) of each host that a word names."""
    host, colon, path = "", "", word
    if not word.startswith(("/", ".")):
        host, colon, path = word.rpartition(":")
        if ":/" in word:
            host, colon, path = word.partition(":/")
            path = f"/{path}"
    if not path or (colon and not host.strip()):
        raise ValueError(f"{word!r} names no {'target' if host else 'host'}")
    if not colon:
        yield "", word
        return
    for each in expanded([host]):
        yield ("" if each == HERE else each), path


def _short(ssh: str) -> str:
    """A name for the host that ssh(1) reaches by these words: ``-p 2222 root@box7`` is box7."""
    if not ssh:
        return HERE
    return _ODD.sub("-", ssh.rsplit(maxsplit=1)[-1].rpartition("@")[2]).strip("-.") or "host"


def _unused(name: str, taken: Iterable[str]) -> str:
    known = set(taken)
    numbered = (f"{name}-{number}" for number in range(2, len(known) + 3))
    return next(each for each in (name, *numbered) if each not in known)


@dataclass(frozen=True, slots=True)
class SaturationRequest:
    """What is searched.  ``targets`` are their names and tables, ``hosts`` their names and how
    ssh(1) reaches them (none: this machine); ``engines`` their names and options; ``seconds`` of
    a deciding trial; ``p99`` in seconds (0: no bound)."""

    targets: Mapping[str, Mapping[str, object]]
    goal: str
    rw: str
    engines: Mapping[str, Sequence[tuple[str, OptionValue]]]
    blocks: tuple[str, ...]
    cpus: int
    seconds: float
    p99: float = 0.0
    margin: float = 0.03
    budget: float = 0.0
    size: int = 0
    hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        operation = "write" if "write" in self.rw else "read"
        return f"{operation}.{'iops' if self.goal == 'iops' else 'bw'}"


def job_counts(cpus: int) -> tuple[int, ...]:
    """Numbers of jobs: 1, 2, 4 … up to :data:`PER_CPU` a CPU, :data:`MOST_JOBS` at least."""
    most = max(MOST_JOBS, PER_CPU * cpus)
    return tuple(2**power for power in range(int(math.log2(most)) + 1))


def study_text(asked: SaturationRequest) -> str:
    """The study file.  The same answer for the same question, so that a run can be resumed."""
    return "\n".join(_lines(asked)) + "\n"


def _lines(asked: SaturationRequest) -> Iterator[str]:
    goal = "most IOPS" if asked.goal == "iops" else "highest bandwidth"
    within = f" with a p99 of {asked.p99 * 1e3:g} ms at most" if asked.p99 else ""
    yield f"question = {inline(f'Which load reaches the {goal}{within}?')}"
    yield from _where(asked)
    for name, ramp, runtime in (
        (SEARCH, asked.seconds / 5, asked.seconds / 2),
        (FINAL, asked.seconds / 4, asked.seconds),
    ):
        yield f"[workloads.{name}]"
        yield 'tool = "fio"'
        yield f"[workloads.{name}.options]"
        yield f"rw = {inline(asked.rw)}"
        yield "direct = 1"
        yield "group_reporting = 1"
        if asked.size:
            yield f"size = {asked.size}"
        yield f'ramp_time = "{ramp * 1e3:.0f}ms"'
        yield f'runtime = "{runtime * 1e3:.0f}ms"'
    yield "[factors.engine]"
    yield f"options = {inline({name: dict(each) for name, each in asked.engines.items()})}"
    yield "[factors.block]"
    yield 'option = "bs"'
    yield f"levels = {inline(asked.blocks)}"
    yield "[factors.jobs]"
    yield 'option = "numjobs"'
    yield f"levels = {inline(job_counts(asked.cpus))}"
    yield "[factors.depth]"
    yield 'option = "iodepth"'
    yield f"levels = {inline(DEPTHS)}"
    yield "[factors.batch]"
    yield f"options = {inline({str(size): _batch(size) for size in BATCHES})}"
    for size in BATCHES:
        if below := [depth for depth in DEPTHS if depth < size]:
            yield "[[exclude]]"
            yield f"batch = {size}"
            yield f"depth = {inline(below)}"
    yield "[design]"
    yield 'kind = "saturate"'
    yield 'settle = "0s"'
    if asked.budget:
        yield f'budget = "{asked.budget:g}s"'
    yield "[decide]"
    yield f"primary = {inline(asked.metric)}"
    yield f"margin = {asked.margin:g}"
    if asked.p99:
        name = f"{asked.metric.partition('.')[0]}.clat.p99"
        yield f'limits = {{ {inline(name)} = "{asked.p99 * 1e6:g}us" }}'


_BELOW, _ABOVE, _RATES = 0.25, 1.1, 9
"""Of the ceiling: the rates that are offered, and how many."""
_FEWEST_IOS = 1000
"""At the lowest rate: a p99 needs ten beyond it."""


def comparison_text(
    asked: SaturationRequest, rate: float, block: str, compared: Mapping[str, Sequence[str]]
) -> str:
    """The study file that asks which levels of tunables serve the highest offered rate within the
    bound: ``compared`` are these, ``rate`` (1/s) what the search found with the ``block`` size."""
    low, high = (max(1, int(float(f"{rate * by:.2g}"))) for by in (_BELOW, _ABOVE))
    within = f"{asked.p99 * 1e3:g}ms"
    rates = {"from": low, "to": max(high, low + _RATES), "steps": _RATES}
    options: dict[str, object] = {"rw": asked.rw, "bs": block, "direct": 1}
    options |= {"size": asked.size} if asked.size else {}
    options["runtime"] = f"{max(1, math.ceil(_FEWEST_IOS / low))}s"
    lines = [
        f"question = {inline(f'Which settings serve the most IOPS within {within} at p99?')}",
        *_where(asked),
        "[workloads.open]",
        'tool = "fio"',
        f"offered = {inline({**rates, 'within': {'p99': within}})}",
        f"options = {inline(options)}",
    ]
    for tunable, levels in compared.items():
        lines += [f"[factors.{inline(tunable.rpartition('.')[2])}]"]
        lines += [f"tunable = {inline(tunable)}", f"levels = {inline([*levels])}"]
    lines += ["[design]", 'kind = "full"', "blocks = 6", "[decide]", f"margin = {asked.margin:g}"]
    return "\n".join(lines) + "\n"


def _where(asked: SaturationRequest) -> Iterator[str]:
    for name, ssh in asked.hosts.items():
        yield f"[hosts.{inline(name)}]"
        if ssh:
            yield f"ssh = {inline(ssh)}"
    for name, table in asked.targets.items():
        yield f"[targets.{inline(name)}]"
        yield from (f"{key} = {inline(value)}" for key, value in table.items())
    if len(asked.targets) > 1:
        yield f"[targets.{TOGETHER}]"
        yield f"targets = {inline([*asked.targets])}"


def _batch(size: int) -> dict[str, int]:
    if size == 1:
        return {}
    return {"iodepth_batch_submit": size, "iodepth_batch_complete_max": size}
