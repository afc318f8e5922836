"""``iotrial compare``: findings of one results folder, or one folder against another.

Two sides of a comparison: results folders of before and of after.

``iotrial compare BEFORE AFTER --paired N``: both studies run again, in turn.

Each of the N pairs is two sessions one after the other, so that what wanders over hours is in both.
Which of a pair goes first alternates: ABBA.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iotrial.cli.extending import SHARE
from iotrial.cli.output import Output, common, write
from iotrial.cli.verdicts import say_noise
from iotrial.errors import UsageError
from iotrial.model.finding import Comparison
from iotrial.model.recording import FEW
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Doubt, TrialRecord
from iotrial.plan.inventory import check_ways
from iotrial.store import check, is_finished, open_results, written_study

if TYPE_CHECKING:
    from iotrial.report.view import ReportView


REGRESSION = 1
_WORKLOAD = "workload"


def _deviation(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        said = f"{value:.0%} is not a standard deviation between sessions; for example 2%"
        raise click.BadParameter(said, param=option)
    return value


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("other", required=False, type=click.Path(path_type=Path))
@click.option("--factor", metavar="NAME", help="For one folder: only the findings of this factor.")
@click.option("--where", multiple=True, metavar="FACTOR=LEVEL", help="Only trials with this level.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write JUnit XML to this file; a treatment that is worse in OTHER is a failure.",
)
@click.option(
    "--before",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="With OTHER: another session of FOLDER; repeatable.",
)
@click.option(
    "--after",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="With OTHER: another session of OTHER; repeatable.",
)
@click.option(
    "--between",
    type=SHARE,
    callback=_deviation,
    metavar="SHARE",
    help="With OTHER: standard deviation between sessions on this host, for example 2%.",
)
@click.option(
    "--paired",
    type=click.IntRange(min=2),
    metavar="NUMBER",
    help="With OTHER: run both studies again N times in alternation, and compare the new results.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="With --paired: folder of the new results; an existing one is resumed.",
)
@common
def command(  # noqa: PLR0913, PLR0917 (click hands over every option)
    output: Output,
    folder: Path,
    other: Path | None,
    factor: str | None,
    where: tuple[str, ...],
    junit: Path | None,
    before: tuple[Path, ...],
    after: tuple[Path, ...],
    between: float | None,
    paired: int | None,
    out: Path | None,
) -> int:
    """Judge the trials in FOLDER; with OTHER, test whether OTHER is better or worse than FOLDER,
    and list what else differs between them.

    Two folders are two sessions, which give no estimate of the variation between sessions. For an
    interval add --before and --after (more sessions of each), --between, or --paired.
    Exit code 1: at least one treatment in OTHER is worse.

    \b
    Example:
      iotrial compare results/2026-11-20-scheduler
      iotrial compare results/before results/after --before results/before-2
      iotrial compare results/before results/after --between 2% --junit verdicts.xml
      sudo IOTRIAL compare results/before results/after --paired 4
    """
    from iotrial.judgement import completed, judge
    from iotrial.report.document import document
    from iotrial.report.evidence import failures
    from iotrial.report.text import verdict_table
    from iotrial.report.view import view

    results = latest = _where(open_results(folder), where)
    if other is None:
        if before or after or between or paired or out:
            raise click.UsageError(
                "--before, --after, --between, --paired and --out need a second folder, OTHER"
            )
        judged = judge(results)
    else:
        if out and not paired:
            raise click.UsageError(
                "--out is the folder of the results of --paired, which is missing"
            )
        if paired and (before or after or between):
            raise click.UsageError(
                "--paired measures both folders again; --before, --after and --between do not apply"
            )
        if factor:
            raise click.UsageError(
                "--factor selects findings of one folder; two folders are compared treatment by"
                " treatment: select with --where FACTOR=LEVEL"
            )
        _different((folder, *before, other, *after))
        first = [_where(open_results(each), where) for each in before]
        last = [_where(open_results(each), where) for each in after]
        latest = _where(open_results(other), where)
        sides = ComparisonResults((results, *first), (latest, *last))
        if paired:
            compared(replace(sides, paired=True), 0.0)  # what would else be said after hours
            made = measured_in_turn(output, folder, other, paired, out)
            again, anew = (tuple(_where(each, where) for each in side) for side in made)
            sides = ComparisonResults(again, anew, paired=True)
            latest = sides.latter[0]
        judged = completed(*compared(sides, between or 0.0))
    if factor:
        judged = completed(judged.results, _only(judged.comparison, factor, judged.results))
    seen = view(judged)
    floor = say_noise(output, judged) if other is None else {}
    output.document({**document(judged), **floor})
    output.answer(verdict_table(seen))
    if junit:
        told = replace(seen, failures=failures(latest))
        told = told if other is None or paired else _of_run(told, latest)
        _junit(junit, [told], regressions=other is not None)
    worse = any(finding.verdict == "worse" for finding in judged.comparison.findings)
    return REGRESSION if other is not None and worse else 0


def against(
    output: Output,
    questions: Mapping[str, ComparisonResults],
    files: Mapping[str, Path | None],
) -> int:
    """Compare a run with earlier sessions, or what was measured in turn because of them, and say
    what each of the named questions comes to, also in the ``files`` that ``--junit`` and
    ``--markdown`` name; the exit code.  All their intervals together hold at the study's
    confidence."""
    from iotrial.judgement import completed
    from iotrial.report.document import document
    from iotrial.report.evidence import failures
    from iotrial.report.study import markdown
    from iotrial.report.text import verdict_table
    from iotrial.report.view import view

    views: list[ReportView] = []
    suites: list[ReportView] = []
    worse = False
    for name, sides in questions.items():
        judged = completed(*compared(sides.among(len(questions)), sides.between))
        seen = replace(view(judged), failures=failures(sides.latter[0]))
        views.append(seen)
        suites.append(seen if sides.paired else _of_run(seen, sides.latter[0]))
        output.answer("", verdict_table(seen))
        if Output.pending is not None:
            Output.pending[name] = document(judged)
        worse |= any(each.verdict == "worse" for each in judged.comparison.findings)
    if path := files.get("--junit"):
        _junit(path, suites, regressions=True)
    if path := files.get("--markdown"):
        text = "\n".join(map(markdown, views)).encode("utf-8", "backslashreplace")
        write(path, text, option="--markdown")
    return REGRESSION if worse else 0


def _of_run(seen: ReportView, run: Results) -> ReportView:
    """With the trials and times of this run alone, and not of the sessions that it is compared
    with: what a CI server says of a job."""
    from iotrial.judgement import trial_counts
    from iotrial.report.view import span

    started, seconds = span(run)
    return replace(seen, counts=trial_counts(run), started=started, seconds=seconds)


def _junit(path: Path, views: Sequence[ReportView], *, regressions: bool) -> None:
    """As JUnit XML; of two folders the failed trials of the latter alone are errors."""
    from iotrial.report.junit import REGRESSION, junit

    text = junit(*views, failing=REGRESSION if regressions else ())
    write(path, text.encode("utf-8", "backslashreplace"), option="--junit")


def _different(folders: tuple[Path, ...]) -> None:
    """Raises UsageError where one is named twice."""
    for place, folder in enumerate(folders):
        for other in folders[:place]:
            if folder.exists() and other.exists() and folder.samefile(other):
                raise UsageError(
                    f"{other} and {folder} are the same folder",
                    advice="Name each folder once: FOLDER, OTHER, further sessions of FOLDER"
                    " with --before and of OTHER with --after; or judge one folder:"
                    f" iotrial compare {folder}",
                )


def _where(results: Results, pairs: tuple[str, ...]) -> Results:
    """Only the records whose treatment has all of these levels."""
    wanted: dict[str, str] = {}
    for name, level in (_pair(results, text) for text in pairs):
        if wanted.setdefault(name, level) != level:
            raise UsageError(
                f"--where {name}={wanted[name]} and {name}={level} contradict each other:"
                " no trial has both",
                advice=f"Remove one; without both, all levels of {name} are compared.",
            )
    if not wanted:
        return results
    kept = tuple(
        record
        for record in results.records
        if all(_level(record, name) == level for name, level in wanted.items())
    )
    if not kept:
        told = " and ".join(f"{name}={level}" for name, level in wanted.items())
        raise UsageError(
            f"--where: no trial of {results.folder} has {told}", advice=_nearby(results, wanted)
        )
    return replace(results, records=kept)


def _nearby(results: Results, wanted: Mapping[str, str]) -> str:
    """What the trials have that have the first of what is wanted."""
    (first, level), *others = wanted.items()
    alike = [record for record in results.records if _level(record, first) == level]
    there = [
        f"{name}={', '.join(dict.fromkeys(_level(record, name) for record in alike))}"
        for name, _ in others
    ]
    return f"With {first}={level} the folder has: {'; '.join(there) if alike else 'none'}."


def _level(record: TrialRecord, name: str) -> str:
    trial = record.trial
    return {_WORKLOAD: trial.workload, **dict(trial.treatment)}.get(name, "")


def _pair(results: Results, text: str) -> tuple[str, str]:
    name, _, label = text.partition("=")
    factors = {factor.name: factor for factor in results.study.factors}
    if name == _WORKLOAD and name not in factors:
        known = [workload.name for workload in results.study.judged]
        if label not in known:
            raise UsageError(f"--where {text}: no such workload", advice=f"The folder has: {known}")
        return name, label
    if name not in factors:
        raise UsageError(
            f"--where {text}: no factor {name!r}", advice=f"Factors: {', '.join(factors)}"
        )
    labels = [level.label for level in factors[name].levels]
    if label not in labels:
        raise UsageError(
            f"--where {text}: {name} has no level {label!r}", advice=f"Levels: {', '.join(labels)}"
        )
    return name, label


def _only(comparison: Comparison, factor: str | None, results: Results) -> Comparison:
    if factor is None:
        return comparison
    names = [each.name for each in results.study.factors]
    if factor not in names:
        raise UsageError(f"no factor {factor!r}", advice=f"Factors: {', '.join(names)}")
    kept = tuple(finding for finding in comparison.findings if finding.factor == factor)
    if results.study.design.kind == "recorded":
        from iotrial.stats.paired import answer, opposites

        grids = tuple(each for each in comparison.grids if factor in (each.down, each.across))
        said = answer(results, kept, grids, tuple(opposites(results)))
        return replace(comparison, findings=kept, recommendation=said, grids=grids)
    return replace(comparison, findings=kept)


@dataclass(frozen=True, slots=True)
class ComparisonResults:
    """The results of before and after; ``paired``: measured in turn, the n-th beside the n-th.
    ``between`` is a known standard deviation between sessions (0: none).  What a person can do
    where one session of each side has no interval (``more``), and about sessions of one side that
    are ``near`` each other."""

    former: tuple[Results, ...]
    latter: tuple[Results, ...]
    paired: bool = False
    between: float = 0.0
    more: str = (
        "Add sessions (--before, --after), give that variation (--between), or measure both again"
        " in alternation (--paired)."
    )
    near: str = "Measure sessions on different days, or both sides in alternation: --paired"

    def among(self, many: int) -> ComparisonResults:
        """The same where so many are compared and all of them are to hold together (Bonferroni)."""
        first = self.former[0]
        rule = first.study.decide
        rule = replace(rule, confidence=1 - (1 - rule.confidence) / many)
        study = replace(first.study, decide=rule)
        return replace(self, former=(replace(first, study=study), *self.former[1:]))


def compared(sides: ComparisonResults, between: float) -> tuple[Results, Comparison]:
    """The findings, with the trials and doubts of all folders beside them.  ``between`` is the
    standard deviation between sessions as a relative difference (0: unknown).

    Raises UsageError where nothing is comparable.
    """
    from iotrial.stats.regress import (
        regress,  # SciPy is slow to import
        unlike_loads,
        unlike_machines,
    )

    first, every = sides.former[0], (*sides.former, *sides.latter)
    without: dict[str, str] = {}
    for each in every[1:]:
        _alike(first, each)
        without |= unlike_loads(first.study, each.study)
    if not sides.paired:
        _no_copies(every)
    comparison = regress(
        sides.former, sides.latter, without=without, between=between, paired=sides.paired,
        advice=sides.more,
    )  # fmt: skip
    if not comparison.findings:
        raise UsageError(
            comparison.recommendation,
            advice="Compare two executions of one study, or of studies with treatments in common.",
        )
    told = [*chain.from_iterable(unlike_machines(first, each) for each in every[1:])]
    if not sides.paired:
        told += [each for side in (sides.former, sides.latter) for each in _near(side, sides.near)]
    return (
        replace(
            first,
            planned=tuple(chain.from_iterable(each.planned for each in every)),
            records=tuple(chain.from_iterable(each.records for each in every)),
            doubts=(*told, *chain.from_iterable(each.doubts for each in every)),
        ),
        comparison,
    )


def _near(side: tuple[Results, ...], advice: str) -> list[Doubt]:
    """That sessions of one side followed each other closely."""
    from iotrial.stats.pairs import within_a_night

    near = within_a_night(side)
    if not near:
        return []
    named = ", ".join(f"{one} and {other}" for one, other in near[:3])
    more = f", and {len(near) - 3} pairs more" if len(near) > 3 else ""  # noqa: PLR2004
    return [
        Doubt(
            "near-sessions",
            f"{named}{more} are less than six hours apart: the interval excludes the variation"
            " between days",
            advice,
        )
    ]


def _identity(record: TrialRecord) -> Hashable:
    trial, numbers = record.trial, tuple((m.metric, m.value) for m in record.measurements)
    return (trial.workload, trial.treatment, record.started, numbers)


def _no_copies(every: tuple[Results, ...]) -> None:
    """Raises UsageError where all runs of a folder are in another one too.  Rounded numbers may be
    the same in two sessions: runs that do not say when they were need some to be told by."""
    runs = [
        {_identity(record) for record in each.valid}
        for each in every
        if all(r.started or len(r.measurements) >= FEW for r in each.valid)
    ]
    if len(runs) < len(every):
        return
    for (one, ours), (other, theirs) in combinations(zip(every, runs, strict=True), 2):
        if ours and theirs and (ours <= theirs or theirs <= ours):
            copy, whole = (one, other) if ours < theirs else (other, one)
            raise UsageError(
                f"{copy.folder} holds only runs of {whole.folder}: a copy is not a separate"
                " session",
                advice="Remove it from the command.",
            )


def _alike(former: Results, latter: Results) -> None:
    """That both are real or both pretended.  Raises UsageError."""
    if former.pretended != latter.pretended:
        made_up, real = (former, latter) if former.pretended else (latter, former)
        raise UsageError(
            f"{made_up.folder} holds pretended results and {real.folder} measured ones: they are"
            " not comparable",
            advice="Compare two real folders; `run` without --pretend makes one.",
        )


BEFORE, AFTER = "before", "after"
_SUFFIX = "-paired"


def measured_in_turn(
    output: Output, before: Path, after: Path, times: int, out: Path | None
) -> tuple[tuple[Results, ...], tuple[Results, ...]]:
    """The new results of both, ``times`` of each, below ``out``.  What is there already, of the
    same studies, is kept.  Raises UsageError, before anything runs, for results that nobody can run
    again and for a folder below ``out`` that holds another study."""
    from iotrial.cli.run import execute

    sources = {BEFORE: before, AFTER: after}
    studies = {side: _study(source) for side, source in sources.items()}
    top = out or _top(Path("results"), studies, times)
    turns = _turns(top, times)
    for side, folder in turns:
        check(folder, studies[side])
    made: dict[str, list[Results]] = {BEFORE: [], AFTER: []}
    for place, (side, folder) in enumerate(turns):
        output.note(f"{place // 2 + 1} of {times}: {sources[side]} again, into {folder}")
        if not _done(folder):
            study = studies[side]
            outcome = execute(output, study, folder, pretend=study.pretended)
            if outcome.stopped:
                output.note(f"stopped: {outcome.stopped}")
        made[side].append(open_results(folder))
    return tuple(made[BEFORE]), tuple(made[AFTER])


def _study(source: Path) -> Study:
    """The study in a results folder, extended as it was.  Raises UsageError where it has none that
    could be run again."""
    results = open_results(source)
    if results.study.design.kind == "recorded":
        raise UsageError(
            f"{source} holds imported runs, which iotrial cannot run again",
            advice="Write a study: iotrial init; or import more sessions: --before and --after.",
        )
    if results.study.aa:
        raise UsageError(
            f"{source} holds an A/A study, whose arms are one treatment",
            advice="Name the results of the study.",
        )
    study = written_study(source)
    check_ways((each.name, each.ssh) for each in study.hosts)
    return replace(study, pretended=results.pretended)


def _turns(top: Path, times: int) -> list[tuple[str, Path]]:
    """Which side is measured when, and into which folder."""
    return [
        (side, top / f"{side}-{number}")
        for number in range(1, times + 1)
        for side in ((BEFORE, AFTER) if number % 2 else (AFTER, BEFORE))
    ]


def _top(parent: Path, studies: dict[str, Study], times: int) -> Path:
    """The newest folder of these two studies of which something is left to do, or a new one."""
    for top in sorted(parent.glob(f"*{_SUFFIX}*"), reverse=True):
        turns = _turns(top, times)
        begun = [turn for turn in turns if (turn[1] / "plan.jsonl").exists()]
        ours = begun and all(_is_of(folder, studies[side]) for side, folder in begun)
        if ours and not all(_done(folder) for _, folder in turns):
            return top
    stem = f"{time.strftime('%Y-%m-%d')}{_SUFFIX}"
    names = [stem, *(f"{stem}-{n}" for n in range(2, 10_000))]
    return next(parent / each for each in names if not (parent / each).exists())


def _is_of(folder: Path, study: Study) -> bool:
    try:
        check(folder, study)
    except UsageError:
        return False
    return True


def _done(folder: Path) -> bool:
    return (folder / "plan.jsonl").exists() and is_finished(folder)
