"""For honesty.py: what is simulated, each design judged by the functions that judge real studies.

Treatments are alike wherever nothing else is said.  Where a claim cannot be false of equals (a knee
that is too small, a level that is dropped although it is within the margin), the truth lies just
where the claim begins to be false, which is where it is false most often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from iotrial.model.finding import CarriedLevels, StageProgress
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.target import Target
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.model.workload import Workload
from iotrial.plan.load import parse_study
from iotrial.plan.stages import begin, course_of, trials_of
from iotrial.stats import unequal
from iotrial.stats.blocks import BlockLayout, ContrastFit, Floats, fit, whole_plots
from iotrial.stats.ceiling import as_good, load_points, loss
from iotrial.stats.critical import ONCE, Look
from iotrial.stats.effects import main_effects
from iotrial.stats.judge import ComparisonQuestion, answer, questions
from iotrial.stats.levels import PairwiseGains, race_knees, steps
from iotrial.stats.race import ExactRace, Race, mean_interval, raced
from iotrial.stats.race_findings import races_of, second_family
from iotrial.stats.ranks import by_ranks
from iotrial.stats.responses import Responses

PERCENT, ALLOWED, SD = 0.02, 0.05, 0.05
MARGIN = math.log1p(PERCENT)
BEYOND = 1.001 * MARGIN
"""A difference that only just matters."""
RATIOS = (1.5, 2.0, 3.0, 5.0)
NOISES = (
    "equal",
    *(f"{who} × {ratio:g}" for who in ("baseline", "other") for ratio in RATIOS),
    "Student's t (3 df)",
    "2 % of trials 10 × as far off",
    "1 trial in 5 slower by half",
)
MOST_BLOCKS = 40
"""A race that is open after so many blocks ends."""
QUIET = 0.2
"""Of the noise, where claims are about the margin: with more hardly any is made."""
OF_SEARCH, MARGIN_OF_SEARCH = 6, 0.03
"""The deciding race of a search: its blocks and its margin."""
SET_UP = 2.0
"""Set-ups of a hard factor differ by so many times the noise of a trial."""
LOAD, RATE, LATE = "load", "read.iops", "read.clat.p99"
Family: TypeAlias = tuple[unequal.Kind, int, Floats]
"""Kind, treatments, and contrasts of the treatments' means."""
Simulation: TypeAlias = Callable[[str, int, np.random.Generator], Mapping[str, int]]
"""How many of so many studies in this noise are wrong, by what is added to the design's name."""


def drawn(noise: str, blocks: int, size: int, studies: int, rng: np.random.Generator) -> Floats:
    """Logs of (blocks, treatments, studies) trials."""
    shape = (blocks, size, studies)
    if noise.startswith("Student"):
        return SD * rng.standard_t(3, shape)
    values = rng.standard_normal(shape) * SD
    if noise.startswith("2 %"):
        values *= np.where(rng.random(shape) < 0.02, 10.0, 1.0)
    elif noise.startswith("1 trial"):
        values = 0.2 * values - math.log(1.5) * (rng.random(shape) < 0.2)
    elif noise != "equal":
        who, _, ratio = noise.partition(" × ")
        values[:, 0 if who == "baseline" else 1] *= float(ratio)
    return values


def centre(noise: str) -> float:
    """The mean of what is drawn."""
    return -0.2 * math.log(1.5) if noise.startswith("1 trial") else 0.0


# -- one look, or one after every block: contrasts of all studies at once -------------------------


def against_one(size: int) -> Floats:
    return np.asarray(np.eye(size)[1:] - np.eye(size)[0])


def all_pairs(size: int) -> Floats:
    first, second = np.triu_indices(size, 1)
    return np.asarray(np.eye(size)[second] - np.eye(size)[first])


def decided(families: Sequence[Family], noise: Floats, look: Look) -> tuple[Floats, Floats]:
    """Of each study: whether all comparisons are decided, and whether one claims a difference.
    ``noise`` is (blocks, treatments, studies)."""
    blocks, size, studies = noise.shape
    all_told, claims = np.ones(studies, bool), np.zeros(studies, bool)
    level = -math.expm1(math.log(1 - ALLOWED) / len(families))
    for kind, treatments, rows in families:
        got: ContrastFit = fit(layout(blocks, size), noise.reshape(blocks * size, -1), rows)
        value = unequal.critical_at(look, kind, treatments, got.own_df, level)
        half = value[:, None] * got.standard_error
        same = (np.abs(got.estimate) + half) <= MARGIN
        differs = (np.abs(got.estimate) > half) & ~same
        claims |= differs.any(axis=0)
        all_told &= (same | differs).all(axis=0)
    return all_told, claims


def layout(blocks: int, size: int) -> BlockLayout:
    return BlockLayout(np.repeat(np.arange(blocks), size), np.tile(np.arange(size), blocks))


def one(size: int) -> list[Family]:
    return [("one", size, against_one(size))]


def factorial() -> list[Family]:
    """3 × 2: the main effects; treatment 0 holds both baselines."""
    first = np.kron(against_one(3), np.full((1, 2), 0.5))
    second = np.kron(np.full((1, 3), 1 / 3), against_one(2))
    return [("one", 3, first), ("one", 2, second)]


def fixed(blocks: int, families: list[Family]) -> Simulation:
    size = families[0][2].shape[1]

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        values = drawn(noise, blocks, size, studies, rng)
        return {"": int(decided(families, values, ONCE)[1].sum())}

    return wrong


def ranked(blocks: int, size: int) -> Simulation:
    """What ranks say beside the intervals of a study."""
    factor = Factor("level", "option", tuple(Level(str(each)) for each in range(size)))
    cells = tuple(((factor.name, level.label),) for level in factor.levels)
    rule = DecisionRule(((LOAD, RATE),))
    study = Study("", "", (), (), (factor,), Design(blocks=blocks), rule)
    rows = main_effects(cells, (factor,), {factor.name: "0"})

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        claims = 0
        for logs in drawn(noise, blocks, size, studies, rng).reshape(-1, studies).T:
            data = Responses(RATE, (), cells, layout(blocks, size), logs)
            found = by_ranks(study, [(LOAD, data, rows)], len(rows))
            claims += any(each.verdict != "cannot-tell" for each in found.values())
        return {"": claims}

    return wrong


def until_decided(blocks: int, size: int) -> Simulation:
    """``stop = "decided"``: looked at after every block from the third, until nothing is open."""

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        values, claims = drawn(noise, blocks, size, studies, rng), np.zeros(studies, bool)
        open_ = np.ones(studies, bool)
        for block in range(3, blocks + 1):
            told, differs = decided(one(size), values[:block], Look(block, blocks))
            claims |= differs & open_
            open_ &= ~told
        return {"": int(claims.sum())}

    return wrong


# -- the questions of a study, answered for all studies at once -----------------------------------


def made(factors: Mapping[str, int], blocks: int, rule: DecisionRule, hard: str = "") -> Study:
    """A study of one load; ``factors`` have so many levels."""
    return Study(
        "Which is best?",
        "simulated",
        (Target("disk", "loop"),),
        (Workload(LOAD, "fio"),),
        tuple(
            Factor(
                name,
                "option",
                tuple(Level(str(number)) for number in range(1, size + 1)),
                baseline="1",
                hard=name == hard,
            )
            for name, size in factors.items()
        ),
        Design(blocks=blocks),
        rule,
    )


def recorded(study: Study, responses: Sequence[Mapping[str, Mapping[Treatment, float]]]) -> Results:
    """``responses``: of each block, by metric, the log of each treatment that was measured."""
    trials: list[Trial] = []
    records: list[TrialRecord] = []
    for block, by_metric in enumerate(responses, 1):
        for cell in next(iter(by_metric.values())):
            trial = Trial(len(trials) + 1, f"{len(trials):06x}", block, LOAD, cell, "disk")
            values = {name: 1000 * math.exp(logs[cell]) for name, logs in by_metric.items()}
            units = {RATE: "1/s"}
            told = tuple(Measurement(n, v, units.get(n, "s")) for n, v in values.items())
            trials.append(trial)
            records.append(TrialRecord(trial, "valid", 0.0, 1.0, measurements=told))
    return Results(Path("results"), study, tuple(trials), tuple(records))


def whole(study: Study, *metrics: str) -> Results:
    """Results in which each treatment was measured in each block."""
    logs = dict.fromkeys(study.treatments(LOAD), 0.0)
    return recorded(study, [dict.fromkeys(metrics, logs)] * study.design.blocks)


def claimed(question: ComparisonQuestion, logs: Floats) -> Floats:
    """Which studies claim something: a difference that is not within the margin; of a guardrail
    that it is kept or that it is broken."""
    got = answer(question, logs)
    low, high = np.asarray(got.low), np.asarray(got.high)
    if question.tolerance is not None:
        found = (low > 1 + question.tolerance) | (high <= 1 + question.tolerance)
    else:
        within = (low >= 1 / (1 + PERCENT)) & (high <= 1 + PERCENT)
        found = ((low > 1) | (high < 1)) & ~within
    return np.asarray(found.any(axis=0))


def split_plot(blocks: int) -> Simulation:
    """2 × 3, the first factor hard to change: its levels are set up once a block."""
    rule = DecisionRule(((LOAD, RATE),), PERCENT)
    of = whole(made({"array": 2, "depth": 3}, blocks, rule, "array"), RATE)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        asked = questions(of)
        data = asked[0].responses
        plots = np.asarray(whole_plots(of.study, data.cells))
        where = data.layout.block, data.layout.cell
        logs = drawn(noise, blocks, len(data.cells), studies, rng)[where]
        set_ups = drawn(noise, blocks, plots.max() + 1, studies, rng)
        logs = logs + SET_UP * set_ups[data.layout.block, plots[data.layout.cell]]
        told = {each.stratum: claimed(each, logs) for each in asked}
        every = np.any([*told.values()], axis=0)
        return {"": int(every.sum()), ", hard factor": int(told["whole"].sum())}

    return wrong


def metrics(blocks: int, family: str) -> Simulation:
    """Four treatments and two metrics, in the first or in the second family."""
    pairs = ((LOAD, RATE), (LOAD, LATE))
    rule = DecisionRule(pairs, PERCENT)
    if family == "secondary":
        # A second family is judged as if the study had asked for it alone.
        told = DecisionRule(((LOAD, "read.bw"),), PERCENT, secondary=pairs)
        rule = replace(told, primary=told.secondary, secondary=())
    of = whole(made({"level": 4}, blocks, rule), RATE, LATE)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        claims = np.zeros(studies, bool)
        for question in questions(of):
            at = question.responses.layout
            claims |= claimed(question, drawn(noise, blocks, 4, studies, rng)[at.block, at.cell])
        return {"": int(claims.sum())}

    return wrong


def damaged(factors: Mapping[str, int], blocks: int, lost: int) -> Simulation:
    """So many of the trials are lost, others in every layout; no treatment loses all of its own."""
    size, layouts = math.prod(factors.values()), 50
    study = made(factors, blocks, DecisionRule(((LOAD, RATE),), PERCENT))
    cells = study.treatments(LOAD)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        claims = 0
        for part in range(layouts):
            there = np.zeros((blocks, size), bool)
            while not there.any(axis=0).all():
                there = np.ones((blocks, size), bool)
                there.flat[rng.permutation(blocks * size)[:lost]] = False
            some = recorded(study, [
                {RATE: {cell: 0.0 for cell, seen in zip(cells, row, strict=True) if seen}}
                for row in there
            ])  # fmt: skip
            many = len(range(part, studies, layouts))
            logs, found = drawn(noise, blocks, size, many, rng), np.zeros(many, bool)
            for asked in questions(some):
                data = asked.responses
                seen = np.array([cells.index(cell) for cell in data.cells])[data.layout.cell]
                found |= claimed(asked, logs[data.layout.block, seen])
            claims += int(found.sum())
        return {"": claims}

    return wrong


def guardrail(blocks: int) -> Simulation:
    """One level whose latency is just what is tolerated: that it is within or beyond is wrong."""
    tolerated = 0.1
    rule = DecisionRule(((LOAD, RATE),), PERCENT, guardrails=((LATE, tolerated),))
    of = whole(made({"level": 2}, blocks, rule), RATE, LATE)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        (asked,) = (each for each in questions(of) if not each.primary)
        at = asked.responses.layout
        logs = drawn(noise, blocks, 2, studies, rng)[at.block, at.cell]
        beyond = math.log1p(tolerated) * (at.cell == 1)
        return {"": int(claimed(asked, logs + beyond[:, None]).sum())}

    return wrong


# -- knees ----------------------------------------------------------------------------------------


def knee(blocks: int, size: int, best: int) -> Simulation:
    """All levels but the one in the place ``best`` from the top are worse by just more than the
    margin: wrong is a study that calls one of them as good as the best.  The noise of the baseline
    is that of the largest level."""
    labels = tuple(str(size - number) for number in range(size))
    truth = np.where(np.arange(size) == best, 0.0, -BEYOND)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        logs = QUIET * drawn(noise, blocks, size, studies, rng) + truth[None, :, None]
        got = fit(layout(blocks, size), logs.reshape(blocks * size, -1), all_pairs(size))
        first, second = np.triu_indices(size, 1)
        gain, error = np.zeros((size, size, studies)), np.zeros((size, size, studies))
        gain[second, first], gain[first, second] = got.estimate, -got.estimate
        error[second, first] = error[first, second] = got.standard_error
        df = np.full((size, size), blocks - 1.0)
        count = 0
        for study in range(studies):
            pairs = PairwiseGains(labels, gain[..., study], error[..., study], df, blocks)
            told = steps(pairs, labels[::-1], PERCENT, 1 - ALLOWED)
            count += any(each.as_good and each.level != labels[best] for each in told)
        return {"": count}

    return wrong


def race_knee(size: int) -> Simulation:
    """A race in which all but the largest level are worse by just more than the margin."""
    study = made({"level": size}, MOST_BLOCKS, DecisionRule(((LOAD, RATE),), PERCENT))
    truth = np.where(np.arange(size) == size - 1, 0.0, -BEYOND)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        count = 0
        for _ in range(studies):
            # The noise of the baseline is that of the largest level.
            logs = truth + QUIET * drawn(noise, MOST_BLOCKS, size, 1, rng)[:, ::-1, 0]
            of, _ = run(study, {RATE: logs})
            told = race_knees(of, races_of(of))
            count += any(
                level.as_good and level.label != str(size) for each in told for level in each.levels
            )
        return {"": count}

    return wrong


# -- races ----------------------------------------------------------------------------------------


def race(size: int, kind: type[Race] = Race) -> Simulation:
    """Studies that drop one that is as good as the best, and those that ever show an interval that
    does not hold the truth."""

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        dropped = missed = 0
        for _ in range(studies):
            own = kind(size, PERCENT, 1 - ALLOWED, favourite=0)
            for block in drawn(noise, MOST_BLOCKS, size, 1, rng)[:, :, 0]:
                own.add({each: float(block[each]) for each in own.active})
                if own.decided:
                    break
            dropped += any(own.standing(each).dropped for each in range(size))
            missed += shown_wrong(own, np.zeros(size))
        return {"": dropped, ", any interval shown": missed}

    return wrong


def shown_wrong(of: Race, truth: Floats) -> bool:
    """Whether an interval that some look showed does not hold the truth."""
    return any(
        math.isfinite(half) and abs(seen - (truth[number] - truth[look.kept])) > half
        for look in of.looks
        for number, (seen, half) in enumerate(zip(look.estimate, look.half, strict=True))
    )


def run(study: Study, logs: Mapping[str, Floats]) -> tuple[Results, Race]:
    """A race by the first of the metrics; ``logs`` (blocks, treatments) of each."""
    cells = study.treatments(LOAD)
    own, blocks = Race(len(cells), PERCENT, 1 - ALLOWED, favourite=0), []
    first = next(iter(logs.values()))
    for number, block in enumerate(first):
        here = own.active
        blocks.append({
            name: {cells[each]: float(of[number, each]) for each in here}
            for name, of in logs.items()
        })  # fmt: skip
        own.add({each: float(block[each]) for each in here})
        if own.decided:
            break
    return recorded(study, blocks), own


def second_of_race(size: int) -> Simulation:
    """What a race says of another metric, whose noise is half that of the first."""
    rule = DecisionRule(((LOAD, RATE),), PERCENT, secondary=((LOAD, LATE),))
    study = made({"level": size}, MOST_BLOCKS, rule)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        count = 0
        for _ in range(studies):
            both = drawn(noise, MOST_BLOCKS, size, 2, rng)
            of, _ = run(study, {RATE: both[..., 0], LATE: both.sum(axis=2) / math.sqrt(2)})
            count += any(each.verdict in {"better", "worse"} for each in second_family(of))
        return {"": count}

    return wrong


def guarded_race() -> Simulation:
    """A race that drops a level for a guardrail, at any look, whose latency is just tolerated."""
    tolerated, blocks = 0.1, 20
    rule = DecisionRule(((LOAD, RATE),), PERCENT, guardrails=((LATE, tolerated),))
    study = made({"level": 2}, blocks, rule)
    cells = study.treatments(LOAD)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        count = 0
        for _ in range(studies):
            late = drawn(noise, blocks, 2, 1, rng)[:, :, 0] + [0.0, math.log1p(tolerated)]
            told = [
                {RATE: dict.fromkeys(cells, 0.0), LATE: dict(zip(cells, row, strict=True))}
                for row in late.tolist()
            ]
            (each,) = raced(study, {LOAD: cells}, recorded(study, told).records, {"level": "1"})
            count += bool(each.broken[1])
        return {"": count}

    return wrong


# -- searches -------------------------------------------------------------------------------------


def search(truth: Sequence[float]) -> Simulation:
    """The race of finalists: one that is as good as the best is dropped; an interval that some look
    shows; "no other is better by more than"; the interval of the best rate."""
    study = made({"load": len(truth)}, OF_SEARCH, DecisionRule(((LOAD, RATE),), MARGIN_OF_SEARCH))
    cells, real = study.treatments(LOAD), np.asarray(truth)
    names = ("", ", any interval shown", ", none better by more", ", rate of the best")

    def one_of(noise: str, rng: np.random.Generator) -> tuple[bool, bool, bool, bool]:
        logs = real + QUIET * drawn(noise, OF_SEARCH, len(cells), 1, rng)[:, :, 0]
        here, told, more = tuple(range(len(cells))), [], False
        for block in logs.tolist():
            told.append({RATE: {cells[number]: block[number] for number in here}})
            of = recorded(study, told)
            (each,) = raced(study, {LOAD: cells}, of.records)
            bound = loss(each)
            missing = float(real.max() - real[each.race.kept])
            more |= bound is not None and math.log1p(bound) < missing - 1e-9
            if each.race.decided or as_good(each):
                break
            here = each.race.active
        points = load_points(of.records, RATE, LOAD, 1 - ALLOWED)
        kept = next(p for p in points if p.treatment == cells[each.race.kept])
        rate = 1000 * math.exp(float(real[each.race.kept]) + QUIET * centre(noise))
        off = kept.rates is not None and not kept.rates[0] <= rate <= kept.rates[1]
        best = [number for number in range(len(cells)) if real[number] == real.max()]
        dropped = any(each.race.standing(number).dropped for number in best)
        return dropped, shown_wrong(each.race, real), more, off

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        found = np.sum([one_of(noise, rng) for _ in range(studies)], axis=0)
        return dict(zip(names, found.tolist(), strict=True))

    return wrong


def limit() -> Simulation:
    """A finalist whose latency is just the limit, among four: that it is kept or exceeded, at any
    look."""

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        logs, count = drawn(noise, OF_SEARCH, 4, studies, rng) - centre(noise), 0
        for study in range(studies):
            every = logs[..., study].T.tolist()
            ends = (
                mean_interval(every[0][:n], [each[:n] for each in every], ALLOWED)
                for n in range(2, OF_SEARCH + 1)
            )
            count += any(found is not None and not found[0] <= 0 <= found[1] for found in ends)
        return {"": count}

    return wrong


# -- stages ---------------------------------------------------------------------------------------

STAGED = """
question = "Which settings suit it?"
[targets.disk]
loop.size = "64MiB"
[workloads.load]
tool = "fio"
options = { rw = "randread", runtime = 1 }
[factors.jobs]
option = "numjobs"
levels = [1, 2, 3, 4]
baseline = 1
[factors.depth]
option = "iodepth"
levels = [1, 2, 3, 4]
baseline = 1
[factors.batch]
option = "iodepth_batch"
levels = [1, 2, 3]
baseline = 1
[design]
blocks = BLOCKS
[decide]
primary = "read.iops"
margin = "2%"
[[stage]]
vary = ["jobs"]
then = "narrow"
[[stage]]
vary = ["depth"]
then = "knee"
[[stage]]
vary = ["batch"]
then = "best"
[[stage]]
then = "confirm"
"""


def staged(blocks: int) -> Simulation:
    """A whole staged study.  The largest ``jobs`` is better than the others by just less than the
    margin, the largest ``depth`` by just more, and ``batch`` does nothing.  Wrong is a study that
    drops a number of jobs, calls a smaller depth as good, leaves the baseline of batch, or says of
    the confirmation what is not so."""
    study = parse_study(STAGED.replace("BLOCKS", str(blocks)), "simulated.toml", str)

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> dict[str, int]:
        count = 0
        for _ in range(studies):
            count += any(stage_is_wrong(each) for each in stages_of(study, noise, rng))
        return {"": count}

    return wrong


def truth_of(treatment: Treatment) -> float:
    at = dict(treatment)
    return (at["jobs"] == "4") * 0.999 * MARGIN + (at["depth"] == "4") * BEYOND


def stages_of(study: Study, noise: str, rng: np.random.Generator) -> list[StageProgress]:
    """Every stage with its results."""
    so_far: CarriedLevels = begin(study)
    before, found = 0, []
    for stage in study.stages:
        course = course_of(study, stage, so_far, ((), (), before))
        trials = () if course.decided else trials_of(study, course, 0)
        # The largest level has the noise of the baseline: it is the one that others are held to.
        cells = sorted({trial.treatment for trial in trials}, reverse=True)
        values = drawn(noise, course.study.design.blocks, max(len(cells), 2), 1, rng)[..., 0]
        records = []
        for trial in trials:
            log = truth_of(trial.treatment)
            log += QUIET * float(values[trial.block - before - 1, cells.index(trial.treatment)])
            rate = Measurement(RATE, 1000 * math.exp(log), "1/s")
            records.append(TrialRecord(trial, "valid", 0.0, 1.0, measurements=(rate,)))
        course = course_of(study, stage, so_far, (trials, records, before))
        found.append(course)
        so_far = so_far.after(course.kept)
        before = max((trial.block for trial in trials), default=before)
    return found


def stage_is_wrong(course: StageProgress) -> bool:
    if course.stage.then == "confirm":
        return confirmed_wrong(course)
    (kept,) = course.kept
    if course.stage.then == "narrow":
        return set(kept.kept) != set(kept.levels)
    if course.stage.then == "knee":
        return kept.stands != "4" and "no level was shown" not in kept.why
    return kept.stands != "1"


def confirmed_wrong(course: StageProgress) -> bool:
    if not course.results.planned:
        return False
    real = truth_of(tuple(course.so_far.stands.items())) - truth_of(tuple(course.baselines.items()))
    (asked,) = questions(course.results)
    got = answer(asked, asked.responses.logs)
    low, high = (float(np.log(np.asarray(ends)[0])) for ends in (got.low, got.high))
    if low >= -MARGIN and high <= MARGIN:
        return abs(real) > MARGIN
    return (low > 0 and real <= 0) or (high < 0 and real >= 0)


# -- all of them ----------------------------------------------------------------------------------


def one_best(by: float) -> tuple[float, ...]:
    """The first of four finalists is better by so many margins."""
    return (0.0, *(-by * math.log1p(MARGIN_OF_SEARCH),) * 3)


_RANKED = ((3, 8), (4, 12))
DESIGNS: dict[str, Simulation] = {
    "race of 4": race(4),
    **{
        f"{size} treatments, {blocks} blocks": fixed(blocks, one(size))
        for size in (3, 4, 8)
        for blocks in (3, 5, 8, 12)
    },
    **{f"by ranks, {size}, {blocks} blocks": ranked(blocks, size) for size, blocks in _RANKED},
    "3 × 2 factorial, 5 blocks": fixed(5, factorial()),
    **{
        f"4, {lost} of {4 * blocks} trials lost": damaged({"level": 4}, blocks, lost)
        for blocks, lost in ((3, 1), (3, 5), (5, 3), (5, 8), (8, 10))
    },
    "3 × 2 factorial, 6 of 30 trials lost": damaged({"depth": 3, "level": 2}, 5, 6),
    "all pairs of 4 (knee), 8 blocks": fixed(8, [("pairs", 4, all_pairs(4))]),
    **{f'4, stop = "decided", {blocks} blocks': until_decided(blocks, 4) for blocks in (5, 12, 30)},
    **{f"split-plot 2 × 3, {blocks} blocks": split_plot(blocks) for blocks in (4, 8)},
    **{f"two metrics of 4, {blocks} blocks": metrics(blocks, "primary") for blocks in (5, 8)},
    "second family of 4, 5 blocks": metrics(5, "secondary"),
    "race of 4, second family": second_of_race(4),
    **{f"knee of 6, a plateau, {blocks} blocks": knee(blocks, 6, 0) for blocks in (5, 8)},
    "knee of 6, a peak, 8 blocks": knee(8, 6, 3),
    "race of 4, its knee": race_knee(4),
    **{f"four stages, {blocks} blocks": staged(blocks) for blocks in (5, 8)},
    "search of 4": search((0.0,) * 4),
    "search, best by ½ margin": search(one_best(0.5)),
    "search, best by a margin": search(one_best(1.001)),
    "search of 4, a limit": limit(),
    "guardrail, 8 blocks": guardrail(8),
    "guardrail of a race": guarded_race(),
}
MORE: dict[str, Simulation] = {
    **{f"race of {size}": race(size) for size in (3, 8)},
    "exact race of 4": race(4, ExactRace),
}
"""Those that take longest, and say little more."""
STUDIES = {
    "race": 1000,
    "exact race": 500,
    "search": 1000,
    "guardrail of a race": 1000,
    "four stages": 2000,
    "knee": 2000,
    "": 5000,
}
"""How many are simulated of the designs whose name begins so."""
