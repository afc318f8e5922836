"""``iotrial plan``: what would be done.  Touches nothing."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
from rich.text import Text

from iotrial.cli import stages
from iotrial.cli.machine import machines
from iotrial.cli.many import alike, together
from iotrial.cli.noise import Below, Noise, chosen
from iotrial.cli.output import Output, common, pretend
from iotrial.errors import StudyError, printable
from iotrial.look.outline import Outline, outline, outline_of_many
from iotrial.look.topology import warnings, words
from iotrial.model.study import Study
from iotrial.model.trial import treatment_text
from iotrial.plan.ahead import open_ended
from iotrial.plan.chores import Doing
from iotrial.plan.design import levels_of
from iotrial.plan.estimate import Estimate, Expected, estimate
from iotrial.plan.executed import commands
from iotrial.plan.given_up import GivenUp
from iotrial.plan.parts import several
from iotrial.report.layout import Sheet
from iotrial.store import study_at
from iotrial.units import format_bytes, format_wait

SHOWN = 12

_CACHES = {
    "drop": "before each load: all caches are dropped, and the target looked for in them",
    "remount": "before each load: the file system is mounted anew, and looked for in the cache",
    "direct": "the load goes past the page cache",
}


@click.command()
@click.argument("study", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--noise",
    metavar="SHARE|FOLDER",
    help="Assume this spread of one trial, such as 5%, or what the A/A study in FOLDER measured."
    "  [default: the newest A/A study of these targets and workloads below results/]",
)
@click.option(
    "--pilot",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Take the spread from this results folder instead.",
)
@pretend
@common
def command(
    output: Output, study: Path, noise: str | None, pilot: Path | None, *, pretend: bool
) -> int:
    """Say what STUDY would do here: trials, order, settings, commands, time, bytes, resolution.

    Only reads. Exits with 2 when this kernel refuses a level.

    \b
    Example:
      iotrial plan study.toml
      iotrial plan study.toml --noise 5%
      iotrial plan study.toml --noise results/2026-11-20-scheduler-aa
    """
    loaded = replace(study_at(study), pretended=pretend)
    with machines(pretend=pretend, several=len(loaded.places) > 1) as reach:
        if several(loaded):
            seen, name = outline_of_many(reach, loaded, in_turn=pretend), loaded.place.name
        else:
            with reach(loaded.place) as host:
                seen, name = outline(host, loaded), host.name
    spread = chosen(loaded, noise, pilot, Below(Path("results"), name))
    costs = estimate(seen.study, aims=seen.aimed, noise=spread.spreads)
    _document(output, seen, costs, spread)
    if not output.json:
        _tell(output, seen, costs, spread)
    if seen.refused:
        raise StudyError(
            "\n  ".join(["this kernel refuses part of the study:", *seen.refused]),
            file=str(study),
            advice="Leave these levels out, or name the cells under [[exclude]].",
        )
    return 0


def _document(output: Output, seen: Outline, costs: Estimate, noise: Noise) -> None:
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
            "given_up": [_given_up(each) for each in stages.all_given_up(seen.study)],
            **stages.document(seen.study),
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
                for each in commands(seen.study)
            ],
            "notes": [*seen.notes, *costs.notes],
            "refused": list(seen.refused),
        }
    )


def _tell(output: Output, seen: Outline, costs: Estimate, noise: Noise) -> None:
    output.answer(Text(seen.study.question, style="bold"), "")
    output.answer(
        f"{'at most ' if open_ended(seen.study) else ''}{costs.trials} trials in "
        f"{stages.rounds(seen.study)} {format_wait(costs.seconds)};"
        f" {_written(costs)} written"
    )
    for line in _seen(seen.study, costs, noise):
        output.answer(Text(line))
    for line in (*stages.lines(seen.study), *_given_up_lines(seen.study)):
        output.answer(line)
    output.answer("")
    for name, target in alike(seen):
        output.answer(Text(f"target {target}"))
        _tree(output, seen, name)
    _treatments(output, seen)
    for name, argv in seen.commands:
        output.answer(f"workload {name}:")
        output.command(f"    {' '.join(argv)}")
        for line in _beside(seen, costs, name):
            output.answer(Text(f"    {line}"))
    _commands(output, seen.study)
    _order(output, seen)
    if open_ended(seen.study):
        output.answer("These are the first blocks; what is in the next is decided after each.")
    for note in (*seen.notes, *costs.notes):
        output.answer(f"note: {note}")


def _commands(output: Output, study: Study) -> None:
    """The commands that the study itself brings along: word by word, before any is executed."""
    found = commands(study)
    if found:
        output.answer("commands of the study, which a run executes as its user (usually root):")
    for each in found:
        output.command(f"    {each.where}: {each.when}: {printable(shlex.join(each.argv))}")


def _given_up_lines(study: Study) -> Iterator[str]:
    for each in stages.all_given_up(study):
        yield f"{each.workload}: {each.words[0]}"
        yield from (f"    {line}" for line in each.words[1:])


def _treatments(output: Output, seen: Outline) -> None:
    """What is set for each treatment; of many the first."""
    known = {place.name for place in seen.study.places}
    shown = seen.settings if output.verbose else seen.settings[:SHOWN]
    for treatment, settings in shown:
        levels = list(levels_of(seen.study, treatment))
        options = [f"--{name}={value}" for f, level in levels for name, value in f.options(level)]
        what = ", ".join([*together(settings, known), *options]) or "nothing is set"
        output.answer(f"treatment {treatment_text(treatment)}: {what}")
    if len(shown) < len(seen.settings):
        output.answer(f"… {len(seen.settings) - len(shown)} more treatments (-v shows all)")


def _given_up(each: GivenUp) -> dict[str, object]:
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


def _chore(each: Doing) -> dict[str, object]:
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
            amount = ", as much as it takes" if math.isinf(each.written) else amount
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
        return f"{name}: no difference can be told (see the notes)"
    return (
        f"{name}: tells differences of {difference * 100:.1f} % and more, if one trial varies by"
        f" {noise * 100:.1f} %"
    )


def _seen(study: Study, costs: Estimate, noise: Noise) -> Iterator[str]:
    """What the trials can tell, where the noise is known or assumed."""
    for each in costs.races:
        yield _raced(study, each, noise.spreads[each.workload])
    for name, difference in () if costs.races else costs.resolvable:
        yield _resolution(name, difference, noise.spreads[name])
    if costs.resolvable and noise.source:
        yield f"noise: {noise.source}"


def _raced(study: Study, each: Expected, noise: float) -> str:
    most = study.design.blocks
    worse, same = (
        f"{block}" if block <= most else f"{block} (the study has {most})"
        for block in (each.worse, each.same)
    )
    return (
        f"{each.workload}: if one trial varies by {noise * 100:.1f} %, what is "
        f"{2 * study.decide.margin * 100:g} % worse is likely to be dropped after block {worse}, "
        f"and equals to be called the same after block {same}"
    )


def _order(output: Output, seen: Outline) -> None:
    table = Sheet("trial", "block", "workload", "treatment", header_style="bold")
    shown = seen.trials if output.verbose else seen.trials[:SHOWN]
    for trial in shown:
        treatment = treatment_text(trial.treatment)
        block = f"{trial.block} on {trial.host}" if trial.host else str(trial.block)
        table.add_row(*map(Text, (str(trial.number), block, trial.workload, treatment)))
    output.answer("", table)
    if len(shown) < len(seen.trials):
        output.answer(f"… {len(seen.trials) - len(shown)} more trials (-v shows all)")
