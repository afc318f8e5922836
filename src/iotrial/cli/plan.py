"""``iotrial plan``: what would be done.  Touches nothing.

What is alike on many hosts, said once: for ``iotrial plan``.

Where a plan takes its noise from: said, piloted, or measured by an A/A study.

How ``iotrial plan`` shows a study in stages: each with its trials and time, at most.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from iotrial.cli.machine import machines
from iotrial.cli.output import Output, common, pretend
from iotrial.errors import FormatError, IotrialError, StudyError, printable
from iotrial.files import read_bytes
from iotrial.hosts.at_once import Pool
from iotrial.look.outline import Outline, outline, outline_of_many
from iotrial.look.topology_words import warnings, words
from iotrial.model.finding import StageProgress
from iotrial.model.hostlist import folded
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import treatment_text
from iotrial.model.tunable import Setting
from iotrial.model.workload import ALONE, BESIDE
from iotrial.plan.ahead import each_study, open_ended, stages_at_most
from iotrial.plan.design import FractionSummary, given_up, levels_of
from iotrial.plan.estimate import Estimate, PlannedChore, RaceExpectation, estimate, own_commands
from iotrial.plan.parts import several
from iotrial.plan.stages import varies
from iotrial.report.layout import TextTable
from iotrial.report.words import count
from iotrial.store import open_results, study_at
from iotrial.units import format_bytes, format_wait, parse_fraction


def alike_hosts(seen: Outline) -> Iterator[tuple[str, str]]:
    """Targets with what is below them, those that are alike on several hosts as one: the name of
    the first, and ``h[1-3]/disk: /dev/sda``."""
    who: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    first: dict[tuple[str, str, tuple[str, ...]], str] = {}
    for name, said in zip(seen.topologies, seen.targets, strict=True):
        host, _, target = name.rpartition("/")
        key = (target, said.removeprefix(f"{name}: "), tuple(words(seen.topologies[name])))
        who.setdefault(key, []).append(host)
        first.setdefault(key, name)
    for key, hosts in who.items():
        place = f"{folded(hosts)}/" if any(hosts) else ""
        yield first[key], f"{place}{key[0]}: {key[1]}"


def together(settings: Sequence[Setting], known: Collection[str]) -> Iterator[str]:
    """Settings as they are said, those of several of the ``known`` hosts as one:
    ``… on h[1-3]:sda``."""
    who: dict[tuple[str, str, str], list[str]] = {}
    for each in settings:
        host, colon, device = each.device.partition(":")
        if not colon or host not in known:  # devices may have colons of their own
            host, device = "", each.device
        who.setdefault((each.tunable, each.value, device), []).append(host)
    for (name, value, device), hosts in who.items():
        many = [host for host in hosts if host]
        yield str(Setting(f"{folded(many)}:{device}" if many else device, name, value))


ASSUMED = 0.05
"""What one trial is taken to vary by when nobody says: seen for 2 s of 4 KiB random reads."""


@dataclass(frozen=True, slots=True)
class NoiseEstimate:
    """``spreads``: what one trial of each workload varies by (standard deviation, log scale).
    ``source`` is where that is from, in words; ``folder`` its results, of ``age`` seconds."""

    spreads: dict[str, float]
    source: str = ""
    folder: Path | None = None
    age: float = 0.0

    @property
    def largest(self) -> float:
        return max(self.spreads.values())

    def document(self) -> dict[str, object]:
        """For JSON."""
        folder = str(self.folder) if self.folder else None
        return {"workloads": self.spreads, "folder": folder, "age": self.age if folder else None}


@dataclass(frozen=True, slots=True)
class NoiseSearch:
    """Where to look for A/A studies nobody named: below ``parent``, of the ``host`` of this
    name."""

    parent: Path
    host: str

    def folders(self) -> list[Path]:
        """Results folders of A/A studies, newest first."""
        heads = {path: _head(path) for path in self.parent.glob("*/plan.jsonl")}
        found = [path for path, head in heads.items() if b'"aa":' in head]
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        return [path.parent for path in found]


def _head(path: Path) -> bytes:
    try:
        return read_bytes(path, path.parent).partition(b"\n")[0]
    except FormatError:
        return b""


def chosen(
    study: Study, noise: str | None, pilot: Path | None, below: NoiseSearch
) -> NoiseEstimate:
    """What to plan with: the spread or the folder said, else the newest A/A study of the same
    targets and workloads, else an assumption."""
    if noise is not None and not Path(noise).is_dir():
        try:
            spread = parse_fraction(noise)
        except ValueError as error:
            raise click.BadParameter(
                f"{error}; it is not a results folder either", param_hint="--noise"
            ) from error
        return _alike(study, spread)
    if noise is not None:
        return _from(study, Path(noise), "--noise")
    if pilot is not None:
        return _from(study, pilot, "--pilot")
    return next(_found(study, below), None) or _alike(study, ASSUMED)


def _alike(study: Study, spread: float) -> NoiseEstimate:
    return NoiseEstimate({workload.name: spread for workload in study.judged})


def _from(study: Study, folder: Path, option: str) -> NoiseEstimate:
    results = open_results(folder)
    if results.pretended and not study.pretended:
        raise click.BadParameter("holds pretended results, not measurements", param_hint=option)
    known = _spreads(results)
    if not known:
        raise click.BadParameter("has no repeated trials", param_hint=option)
    return _noise(study, results, known)


def _spreads(results: Results) -> dict[str, float]:
    """Of an A/A study its floor; of any other the largest spread of a workload's comparisons."""
    if results.study.aa:
        from iotrial.stats.noise import floors

        known: dict[str, float] = {}
        for floor in floors(results):
            known[floor.workload] = max(floor.within.sd, known.get(floor.workload, 0.0))
        return known
    from iotrial.stats.judge import judge

    known = {}
    for finding in judge(results).findings:
        if finding.noise is not None:
            known[finding.workload] = max(finding.noise, known.get(finding.workload, 0.0))
    return known


def _noise(study: Study, results: Results, known: dict[str, float]) -> NoiseEstimate:
    """A workload that was not measured is taken to be as noisy as the noisiest that was."""
    most = max(known.values())
    ended = max(record.started + record.seconds for record in results.records)
    age = max(0.0, time.time() - ended)
    kind = "A/A study" if results.study.aa else "results"
    source = f"{kind} {results.folder}, {format_wait(age)} old"
    if missing := [w.name for w in study.judged if w.name not in known]:
        source += f"; {', '.join(missing)} not measured there: the largest noise is assumed"
    return NoiseEstimate(
        {w.name: known.get(w.name, most) for w in study.judged}, source, results.folder, age
    )


def _found(study: Study, below: NoiseSearch) -> Iterator[NoiseEstimate]:
    """The newest first.  What cannot be read is passed over: nobody asked for it."""
    for folder in below.folders():
        try:
            results = open_results(folder)
            here = below.host in results.facts
            if here and alike(study, results.study) and (known := _spreads(results)):
                yield _noise(study, results, known)
        except IotrialError:
            continue


def alike(study: Study, other: Study) -> bool:
    """Whether the noise of ``other`` is that of ``study``: same machine, targets and workloads, and
    every workload decided by the same number."""
    theirs = {workload.name: workload for workload in other.workloads}
    return (
        study.place == other.place
        and study.pretended == other.pretended
        and set(study.targets) <= set(other.targets)
        and all(theirs.get(workload.name) == workload for workload in study.workloads)
        and set(study.decide.primary) <= set(other.decide.primary)
    )


def rounds(study: Study) -> str:
    """What comes between the number of trials and their time."""
    if study.stages:
        return f"{len(study.stages)} stages at most, up to"
    return f"{count(study.design.blocks, 'block')}, about"


def lines(study: Study) -> Iterator[str]:
    """``stage 2: rsize, narrow; read on client: at most 60 trials in 3 blocks, 2 min``."""
    for course in stages_at_most(study):
        costs, part = _costs(course), course.study
        loads = ", ".join(each.name for each in part.workloads)
        on = f"{loads} on {', '.join(each.name for each in part.whole)}"
        head = f"stage {course.stage.number}: {course.words}; {on}: at most"
        if costs is None:
            yield f"{head} nothing to do"
        else:
            blocks = count(part.design.blocks, "block")
            yield f"{head} {costs.trials} trials in {blocks}, {format_wait(costs.seconds)}"


def document(study: Study) -> dict[str, Any]:
    """The same as data; empty for a study without stages."""
    return {"stages": [_data(each) for each in stages_at_most(study)]} if study.stages else {}


def all_given_up(study: Study) -> list[FractionSummary]:
    """What the design gives up, in every stage."""
    return [each for part in each_study(study) for each in given_up(part) if part.workloads]


def _data(course: StageProgress) -> dict[str, object]:
    costs = _costs(course)
    return {
        "stage": course.stage.number,
        "vary": list(course.stage.vary),
        "then": course.stage.then,
        "targets": [each.name for each in course.study.whole],
        "workloads": [each.name for each in course.study.workloads],
        "blocks": course.study.design.blocks,
        "trials": costs.trials if costs else 0,
        "seconds": costs.seconds if costs else 0.0,
    }


def _costs(course: StageProgress) -> Estimate | None:
    return estimate(course.study) if varies(course.study) else None


SHOWN = 12

_CACHES = {
    "drop": "before each load: all caches are dropped, and checked for data of the target",
    "remount": "before each load: the file system is remounted, and the cache checked for its data",
    "direct": "the load bypasses the page cache",
}


@click.command()
@click.argument("study", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--noise",
    metavar="SHARE|FOLDER",
    help="Assumed standard deviation of one trial, for example 5%, or FOLDER of an A/A study. "
    " [default: the newest A/A study of these targets and workloads below results/]",
)
@click.option(
    "--pilot",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Take the standard deviation from this results folder.",
)
@pretend
@common
def command(
    output: Output, study: Path, noise: str | None, pilot: Path | None, *, pretend: bool
) -> int:
    """Show what STUDY would do here: trials, order, settings, commands, time, bytes, resolution.

    Changes nothing. Exit code 2: this kernel does not accept a level.

    \b
    Example:
      iotrial plan study.toml
      iotrial plan study.toml --noise 5%
      iotrial plan study.toml --noise results/2026-11-20-scheduler-aa
    """
    loaded = replace(study_at(study), pretended=pretend)
    with (
        machines(pretend=pretend, several=len(loaded.places) > 1) as reach,
        Pool(loaded.places, reach, in_turn=pretend) as pool,
    ):
        hosts = pool.open_all()
        if several(loaded):
            seen, name = outline_of_many(hosts, loaded, in_turn=pretend), loaded.place.name
        else:
            (host,) = hosts.values()
            seen, name = outline(host, loaded), host.name
    spread = chosen(loaded, noise, pilot, NoiseSearch(Path("results"), name))
    costs = estimate(seen.study, aims=seen.aimed, noise=spread.spreads)
    _document(output, seen, costs, spread)
    if not output.json:
        _tell(output, seen, costs, spread)
    if seen.refused:
        raise StudyError(
            "\n  ".join(["this kernel does not accept part of the study:", *seen.refused]),
            file=str(study),
            advice="Correct or remove these levels, or name the cells under [[exclude]].",
        )
    return 0


def _document(output: Output, seen: Outline, costs: Estimate, noise: NoiseEstimate) -> None:
    output.document(
        {
            "question": seen.study.question,
            "trials": [
                {
                    "number": trial.number,
                    "id": trial.id,
                    "block": trial.block,
                    "workload": trial.workload,
                    "treatment": dict(trial.treatment),
                    "target": trial.target,
                    **({"stage": trial.stage} if trial.stage else {}),
                    **({"host": trial.host} if trial.host else {}),
                }
                for trial in seen.trials
            ],
            "treatments": [
                {"treatment": dict(treatment), "settings": [str(s) for s in settings]}
                for treatment, settings in seen.settings
            ],
            "given_up": [_given_up(each) for each in all_given_up(seen.study)],
            **document(seen.study),
            "commands": {name: list(argv) for name, argv in seen.commands},
            "topology": {name: below.as_dict() for name, below in seen.topologies.items()},
            "seconds": costs.seconds,
            "bytes_written": costs.bytes_written if math.isfinite(costs.bytes_written) else None,
            "at_most": open_ended(seen.study),
            "most_trials": costs.trials,
            "races": [
                {
                    "workload": each.workload,
                    "blocks_to_drop_two_margins": each.worse,
                    "blocks_to_call_same": each.same,
                }
                for each in costs.races
            ],
            "resolvable": {k: v for k, v in costs.resolvable if math.isfinite(v)},
            "noise": noise.largest,
            "noise_from": noise.document(),
            "chores": [_chore(each) for each in costs.chores],
            "caches": {each.name: each.cache for each in seen.study.workloads},
            "evidence": {
                each.name: [list(a) for a in each.evidence] for each in seen.study.workloads
            },
            "executes": [
                {"where": each.where, "when": each.when, "argv": list(each.argv)}
                for each in own_commands(seen.study)
            ],
            "notes": [*seen.notes, *costs.notes],
            "refused": list(seen.refused),
        }
    )


def _tell(output: Output, seen: Outline, costs: Estimate, noise: NoiseEstimate) -> None:
    output.answer(Text(seen.study.question, style="bold"), "")
    output.answer(
        f"{'at most ' if open_ended(seen.study) else ''}{costs.trials} trials in "
        f"{rounds(seen.study)} {format_wait(costs.seconds)};"
        f" {_written(costs)} written"
    )
    for line in _seen(seen.study, costs, noise):
        output.answer(Text(line))
    for line in (*lines(seen.study), *_given_up_lines(seen.study)):
        output.answer(line)
    output.answer("")
    for name, target in alike_hosts(seen):
        output.answer(Text(f"target {target}"))
        _tree(output, seen, name)
    _treatments(output, seen)
    for name, argv in seen.commands:
        output.answer(f"workload {name}:")
        output.command(f"    {' '.join(argv)}")
        if offered := seen.study.workload(name).offered:
            output.answer(f"    {offered.words}")
        for line in _beside(seen, costs, name):
            output.answer(Text(f"    {line}"))
    _commands(output, seen.study)
    _order(output, seen)
    if open_ended(seen.study):
        output.answer(
            "These are the first blocks; each further block is decided after the one before."
        )
    for note in (*seen.notes, *costs.notes):
        output.answer(f"note: {note}")


def _commands(output: Output, study: Study) -> None:
    """The commands that the study itself brings along: word by word, before any is executed."""
    found = own_commands(study)
    if found:
        output.answer("commands of the study, which a run executes as its user (usually root):")
    for each in found:
        output.command(f"    {each.where}: {each.when}: {printable(shlex.join(each.argv))}")


def _given_up_lines(study: Study) -> Iterator[str]:
    for each in all_given_up(study):
        yield f"{each.workload}: {each.words[0]}"
        yield from (f"    {line}" for line in each.words[1:])


def _treatments(output: Output, seen: Outline) -> None:
    """What is set for each treatment; of many the first."""
    known = {place.name for place in seen.study.places}
    shown = seen.settings if output.verbose else seen.settings[:SHOWN]
    for treatment, settings in shown:
        levels = list(levels_of(seen.study, treatment))
        options = [
            f"beside {value}" if name == BESIDE and value != ALONE
            else str(value) if name == BESIDE
            else f"--{name}={value}"
            for f, level in levels
            for name, value in f.options(level)
        ]  # fmt: skip
        what = ", ".join([*together(settings, known), *options]) or "no setting"
        output.answer(f"treatment {treatment_text(treatment)}: {what}")
    if len(shown) < len(seen.settings):
        output.answer(f"… {len(seen.settings) - len(shown)} more treatments (-v shows all)")


def _given_up(each: FractionSummary) -> dict[str, object]:
    return {
        "workload": each.workload,
        "design": each.kind,
        "treatments": each.tried,
        "combinations": each.combinations,
        "mixed": [
            {
                "effect": list(mixed.effect),
                "cannot_be_told_from": [list(effect) for effect in mixed.wholly],
                "partly_mixed_with": [list(effect) for effect in mixed.partly],
            }
            for mixed in each.mixed
        ],
        "unseen": [list(effect) for effect in each.unseen],
        "words": list(each.words),
    }


def _chore(each: PlannedChore) -> dict[str, object]:
    return {
        "workload": each.workload,
        "target": each.target,
        "when": each.when,
        "each": each.chore.each,
        "chore": each.chore.words,
        "times": each.times,
        "bytes_written": each.written if math.isfinite(each.written) else None,
        "seconds": each.seconds,
    }


def _beside(seen: Outline, costs: Estimate, name: str) -> Iterator[str]:
    """What is done around the loads of a workload."""
    workload = seen.study.workload(name)
    if workload.cache != "keep":
        yield _CACHES[workload.cache]
    for each in costs.chores:
        if each.workload == name:
            side = "before" if each.when == "prepare" else "after"
            when = f"{side} each {each.chore.each} ({each.times} in all)"
            if each.chore.each == "study":
                when = f"once, {side} all its trials"
            amount = f", {format_bytes(each.written)}" if 0 < each.written < math.inf else ""
            amount = ", size unknown" if math.isinf(each.written) else amount
            lasts = f", about {format_wait(each.seconds)}" if each.seconds else ""
            yield f"{when}: {each.chore.words}{amount}{lasts}"
    for argv in workload.evidence:
        yield f"after each load, its output kept: {' '.join(argv)}"


def _tree(output: Output, seen: Outline, target: str) -> None:
    """What lies below a target; of a loop device that is yet to be made there is nothing to say."""
    kinds = {each.name: each.kind for each in seen.study.targets}
    below = seen.topologies[target]
    if kinds[target.rpartition("/")[2].partition("#")[0]] != "loop":
        for line in (*words(below), *(f"! {odd}" for odd in warnings(below))):
            output.answer(Text(f"    {line}"))


def _written(costs: Estimate) -> str:
    if math.isfinite(costs.bytes_written):
        return f"up to {format_bytes(costs.bytes_written)}"
    return "an unknown number of bytes"


def _resolution(name: str, difference: float, noise: float) -> str:
    if not math.isfinite(difference):
        return f"{name}: no difference is detectable (see the notes)"
    return (
        f"{name}: smallest detectable difference {difference * 100:.1f} %, at a noise of"
        f" {noise * 100:.1f} % per trial"
    )


def _seen(study: Study, costs: Estimate, noise: NoiseEstimate) -> Iterator[str]:
    """What the trials can tell, where the noise is known or assumed."""
    for each in costs.races:
        yield _raced(study, each, noise.spreads[each.workload])
    for name, difference in () if costs.races else costs.resolvable:
        yield _resolution(name, difference, noise.spreads[name])
    if costs.resolvable and noise.source:
        yield f"noise: {noise.source}"


def _raced(study: Study, each: RaceExpectation, noise: float) -> str:
    most = study.design.blocks
    worse, same = (
        f"{block}" if block <= most else f"{block} (the study has {most})"
        for block in (each.worse, each.same)
    )
    return (
        f"{each.workload}: at a noise of {noise * 100:.1f} % per trial, a treatment"
        f" {2 * study.decide.margin * 100:g} % worse is expected to be dropped after block"
        f" {worse}, an equal one to be found the same after block {same}"
    )


def _order(output: Output, seen: Outline) -> None:
    table = TextTable("trial", "block", "workload", "treatment", header_style="bold")
    shown = seen.trials if output.verbose else seen.trials[:SHOWN]
    for trial in shown:
        treatment = treatment_text(trial.treatment)
        block = f"{trial.block} on {trial.host}" if trial.host else str(trial.block)
        table.add_row(*map(Text, (str(trial.number), block, trial.workload, treatment)))
    output.answer("", table)
    if len(shown) < len(seen.trials):
        output.answer(f"… {len(seen.trials) - len(shown)} more trials (-v shows all)")
