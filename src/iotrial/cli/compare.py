"""``iotrial compare``: findings of one results folder, or one folder against another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iotrial.cli.extending import SHARE
from iotrial.cli.output import Output, common
from iotrial.cli.verdicts import say_noise
from iotrial.cli.writing import write
from iotrial.errors import UsageError
from iotrial.model.finding import Comparison
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord
from iotrial.store import open_results

if TYPE_CHECKING:
    from iotrial.report.view import View

REGRESSION = 1
_WORKLOAD = "workload"


def _deviation(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        said = f"{value:.0%} is no deviation of sessions; such as 2%"
        raise click.BadParameter(said, param=option)
    return value


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("other", required=False, type=click.Path(path_type=Path))
@click.option("--factor", metavar="NAME", help="Of one folder: only the findings of this factor.")
@click.option("--where", multiple=True, metavar="FACTOR=LEVEL", help="Only these trials.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write JUnit XML there too: what is worse in OTHER fails.",
)
@click.option(
    "--before",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="With OTHER: one more like FOLDER, of another session. Several may be given.",
)
@click.option(
    "--after",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="With OTHER: one more like OTHER, of another session.",
)
@click.option(
    "--between",
    type=SHARE,
    callback=_deviation,
    metavar="SHARE",
    help="With OTHER: how far sessions of this machine are apart (standard deviation, such as 2%).",
)
@click.option(
    "--paired",
    type=click.IntRange(min=2),
    metavar="NUMBER",
    help="With OTHER: run both studies again, in turn, so many times, and compare those.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="With --paired: where the new results go; the same again goes on.",
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
    """Judge the trials in FOLDER; with OTHER, say where OTHER is better or worse than FOLDER.

    Two folders are two sessions, and how far sessions are apart is in neither of them: something
    is claimed with --before and --after (more sessions of each), with --between, or with --paired.
    The exit code is 1 when anything in OTHER is worse.

    \b
    Example:
      iotrial compare results/2026-11-20-scheduler
      iotrial compare results/before results/after --before results/before-2
      iotrial compare results/before results/after --between 2% --junit verdicts.xml
      sudo IOTRIAL compare results/before results/after --paired 4
    """
    from iotrial.judgement import completed, judge
    from iotrial.report.document import document
    from iotrial.report.text import verdict_table
    from iotrial.report.view import view

    results = latest = _where(open_results(folder), where)
    if other is None:
        if before or after or between or paired or out:
            raise click.UsageError(
                "--before, --after, --between, --paired and --out compare two: name OTHER too"
            )
        judged = judge(results)
    else:
        from iotrial.cli.two import Sides, compared

        if out and not paired:
            raise click.UsageError("--out is where --paired puts its results")
        if paired and (before or after or between):
            raise click.UsageError(
                "--paired measures both again, and takes neither --before, --after nor --between"
            )
        if factor:
            raise click.UsageError(
                "--factor chooses among the findings of one folder; of two, each treatment is"
                " held against itself: --where FACTOR=LEVEL chooses among those"
            )
        _different((folder, *before, other, *after))
        first = [_where(open_results(each), where) for each in before]
        last = [_where(open_results(each), where) for each in after]
        latest = _where(open_results(other), where)
        sides = Sides((results, *first), (latest, *last))
        if paired:
            from iotrial.cli.paired import measured_in_turn

            compared(replace(sides, paired=True), 0.0)  # what would else be said after hours
            made = measured_in_turn(output, folder, other, paired, out)
            again, anew = (tuple(_where(each, where) for each in side) for side in made)
            sides = Sides(again, anew, paired=True)
            latest = sides.latter[0]
        judged = completed(*compared(sides, between or 0.0))
    if factor:
        judged = completed(judged.results, _only(judged.comparison, factor, judged.results))
    seen = view(judged)
    floor = say_noise(output, judged) if other is None else {}
    output.document({**document(judged), **floor})
    output.answer(verdict_table(seen))
    if junit:
        _file(junit, seen, latest, regressions=other is not None)
    worse = any(finding.verdict == "worse" for finding in judged.comparison.findings)
    return REGRESSION if other is not None and worse else 0


def _file(path: Path, seen: View, latest: Results, *, regressions: bool) -> None:
    """As JUnit XML; of two folders the failed trials of the latter alone are errors."""
    from iotrial.report.evidence import failures
    from iotrial.report.junit import REGRESSION, junit

    told = replace(seen, failures=failures(latest))
    text = junit(told, failing=REGRESSION if regressions else ())
    write(path, text.encode("utf-8", "backslashreplace"), option="--junit")


def _different(folders: tuple[Path, ...]) -> None:
    """Raises UsageError where one is named twice."""
    for place, folder in enumerate(folders):
        for other in folders[:place]:
            if folder.exists() and other.exists() and folder.samefile(other):
                raise UsageError(
                    f"{other} and {folder} are the same folder",
                    advice="Name each once: FOLDER, OTHER, more like FOLDER with --before and more"
                    f" like OTHER with --after; or judge the one: iotrial compare {folder}",
                )


def _where(results: Results, pairs: tuple[str, ...]) -> Results:
    """Only the records whose treatment has all of these levels."""
    wanted: dict[str, str] = {}
    for name, level in (_pair(results, text) for text in pairs):
        if wanted.setdefault(name, level) != level:
            raise UsageError(
                f"--where {name}={wanted[name]} and {name}={level} contradict each other:"
                " no trial has both",
                advice=f"Leave one out; without both, every level of {name} is compared.",
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
    return f"With {first}={level} there are: {'; '.join(there) if alike else 'none'}."


def _level(record: TrialRecord, name: str) -> str:
    trial = record.trial
    return {_WORKLOAD: trial.workload, **dict(trial.treatment)}.get(name, "")


def _pair(results: Results, text: str) -> tuple[str, str]:
    name, _, label = text.partition("=")
    factors = {factor.name: factor for factor in results.study.factors}
    if name == _WORKLOAD and name not in factors:
        known = [workload.name for workload in results.study.workloads]
        if label not in known:
            raise UsageError(f"--where {text}: no such workload", advice=f"There are: {known}")
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
        from iotrial.stats.opposites import opposites
        from iotrial.stats.paired import answer

        grids = tuple(each for each in comparison.grids if factor in (each.down, each.across))
        said = answer(results, kept, grids, tuple(opposites(results)))
        return replace(comparison, findings=kept, recommendation=said, grids=grids)
    return replace(comparison, findings=kept)
