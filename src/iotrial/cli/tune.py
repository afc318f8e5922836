"""``iotrial tune``: the best levels of many knobs, for a load on a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from iotrial.called import called
from iotrial.cli.completion import of_knobs, of_loads, of_targets
from iotrial.cli.machine import HERE, machine
from iotrial.cli.output import (
    DURATION,
    Output,
    common,
    margin_of_search,
    may_write,
    p99_limit,
    pretend,
    resumable_out,
    target_size,
    writing,
)
from iotrial.cli.run import conclude, execute, new_folder
from iotrial.cli.saturate import target_table
from iotrial.errors import FormatError, RefusedError, SettingRefused, StudyError, UsageError
from iotrial.execute.settings.guard import locked
from iotrial.execute.settings.journal import sessions
from iotrial.execute.settings.restore import restore
from iotrial.files import read_text, write_text
from iotrial.hosts.places import journal_folder
from iotrial.look.candidates import candidates_seen
from iotrial.look.outline import aimed, look
from iotrial.model.host import Host
from iotrial.model.study import Study, StudyHost
from iotrial.model.target import Topology
from iotrial.model.workload import Workload
from iotrial.plan.candidates import (
    Candidate,
    CandidateChoice,
    CandidateRequest,
    character_of,
    check_names,
    choose,
    looked_at,
    reasons,
    without,
)
from iotrial.plan.load import job_text, parse_study, recording_text
from iotrial.plan.saturate import SaturationTarget, targets_named
from iotrial.plan.tune_request import (
    TARGET,
    TuneRequest,
    heading,
    length_of,
    load_named,
    load_seconds,
    study_text,
    with_length,
)
from iotrial.report.layout import TextTable
from iotrial.store import is_finished, open_results, study_at
from iotrial.tools import tool
from iotrial.tools.fio_check import sections
from iotrial.tunables import tunable
from iotrial.units import format_wait

_FEWEST = 2
"""Knobs of a search."""


@click.command()
@click.argument("target", shell_complete=of_targets)
@click.option(
    "--load",
    "load",
    required=True,
    metavar="LOAD",
    shell_complete=of_loads,
    help="A fio job file, a folder of `iotrial record` (of several devices FOLDER:DEVICE),"
    " STUDY.toml:WORKLOAD, TEMPLATE:WORKLOAD, or a pattern of fio (randread, write).",
)
@click.option(
    "--for",
    "seconds",
    type=DURATION,
    default="1h",
    show_default=True,
    metavar="TIME",
    help="Time limit.",
)
@click.option(
    "--knobs",
    "named",
    multiple=True,
    metavar="NAME[=LEVEL,...]",
    shell_complete=of_knobs,
    help="Vary this knob as well, at these levels; repeatable.",
)
@click.option("--only", is_flag=True, help="Vary only the knobs that --knobs names.")
@click.option(
    "--not",
    "removed",
    multiple=True,
    metavar="NAME",
    shell_complete=of_knobs,
    help="Do not vary this knob; repeatable. NAME may be a pattern, such as 'sysctl.vm.*'.",
)
@click.option(
    "--metric", metavar="METRIC", default="", help="Metric that decides.  [default: the load's]"
)
@p99_limit
@margin_of_search
@target_size
@may_write
@click.option("--destroy", metavar="ID", help="With --write on a device: its serial or WWN.")
@click.option(
    "--plan",
    "plan",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the study to FILE, and run nothing.",
)
@resumable_out("tune")
@pretend
@common
def command(  # noqa: PLR0913, PLR0917 (click hands over every option)
    output: Output,
    target: str,
    load: str,
    seconds: float,
    named: tuple[str, ...],
    removed: tuple[str, ...],
    metric: str,
    p99: float | None,
    margin: float,
    size: int | None,
    destroy: str | None,
    plan: Path | None,
    out: Path | None,
    *,
    only: bool,
    write: bool,
    pretend: bool,
) -> int:
    """Find the best levels of many knobs on TARGET for a load, and prove what they gain.

    TARGET is a block device, a file, a directory, or the word loop (a loop device created for it,
    of --size); HOST:TARGET is a target on an ssh host.

    The knobs follow from what lies below TARGET and from the load. None of their levels can lose
    data, takes a boot, or is a limit by purpose. The baseline of each is the value in force.

    A search in single trials is followed by trials of what each change is worth, and by a proof
    of the combination against the values in force.

    \b
    Example:
      sudo IOTRIAL tune /dev/disk/by-id/nvme-X --load randread --plan study.toml
      sudo IOTRIAL tune /dev/disk/by-id/nvme-X --load mail.fio --for 2h
      sudo IOTRIAL tune /srv/data.img --load job.fio --not 'sysctl.*' --p99 5ms
      sudo IOTRIAL tune loop --load randread --only --knobs queue.scheduler --knobs queue.nomerges
      sudo IOTRIAL tune /dev/sdb --load monday/ --write --destroy 5000C500A1B2C3D4
    """
    aim, wish = _aim(target), _wish(named, removed, only=only)
    words = _words(target, load, named, removed, metric, size, destroy, only=only, write=write)
    words += [f"--for={seconds:g}s", f"--margin={margin:g}", *([f"--p99={p99:g}s"] if p99 else ())]
    given = load_named(load, load_seconds(seconds))
    asked = TuneRequest(heading(words, given), {}, given, seconds, aim.ssh, metric, margin=margin)
    if plan is None and (code := _resumed(output, asked, out, pretend=pretend)) is not None:
        return code
    place = StudyHost("there", aim.ssh) if aim.ssh else HERE
    with machine(pretend=pretend, place=place, purpose="tune") as host:
        if not pretend:
            _need_own_values(output, host, restoring=plan is None)
        asked = replace(asked, target=target_table(host, aim, size, destroy))
        looking = _measured(asked, size, p99)
        _need_armed(looking, aim, write=write)
        study = _study(looking, "load.toml")
        seen = look(host, study)
        chosen = _chosen(host, study, seen.topologies[TARGET], wish)
        asked = _measured(asked, size, p99, knobs=len(chosen.taken))
        trial = length_of(_load_of(asked), aimed(seen.aims[TARGET]), seconds)
    _say(output, chosen, trial)
    name = f"tune-{_stem(aim)}.toml"
    if plan is not None:
        return _write(output, _study(asked, name, chosen.taken), asked, plan, _told(chosen))
    while True:
        study = replace(_study(asked, name, chosen.taken), pretended=pretend)
        folder = out or new_folder(Path("results"), study)
        try:
            return _run(output, study, folder, _told(chosen), pretend=pretend)
        except (SettingRefused, StudyError) as error:
            if (folder / "plan.jsonl").exists():
                raise
            chosen = _without(output, chosen, wish, error)


# -- what is asked --------------------------------------------------------------------------------


def _aim(word: str) -> SaturationTarget:
    try:
        aims = targets_named([word])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="TARGET") from None
    if len(aims) > 1:
        raise click.BadParameter(f"{word} is several targets, not one", param_hint="TARGET")
    return aims[0]


def _wish(named: Sequence[str], removed: Sequence[str], *, only: bool) -> CandidateRequest:
    found: dict[str, tuple[str, ...]] = {}
    for word in named:
        name, _, levels = word.partition("=")
        if name in found:
            raise click.BadParameter(f"{name} occurs twice", param_hint="--knobs")
        found[name] = tuple(filter(None, levels.split(",")))
    wish = CandidateRequest(found, only, tuple(removed))
    check_names(wish)
    if only and len(found) < _FEWEST:
        raise click.BadParameter("needs two knobs, each named by --knobs", param_hint="--only")
    return wish


def _words(  # noqa: PLR0913, PLR0917 (what the command was told)
    target: str,
    load: str,
    named: Sequence[str],
    removed: Sequence[str],
    metric: str,
    size: int | None,
    destroy: str | None,
    *,
    only: bool,
    write: bool,
) -> list[str]:
    """The command's words in one order, whatever the order they were typed in."""
    where = load if not Path(load).exists() else str(Path(load).absolute())
    return [
        target,
        f"--load={where}",
        *(f"--knobs={word}" for word in sorted(named)),
        *(f"--not={word}" for word in sorted(removed)),
        *(["--only"] if only else ()),
        *(["--write"] if write else ()),
        *([f"--metric={metric}"] if metric else ()),
        *([f"--size={size}"] if size else ()),
        *([f"--destroy={destroy}"] if destroy else ()),
    ]


def _stem(aim: SaturationTarget) -> str:
    return Path(aim.path).name


def _study(asked: TuneRequest, name: str, knobs: Sequence[Candidate] = ()) -> Study:
    load = asked.load

    def read(file: str) -> str:
        return load.files[file] if file in load.files else job_text(Path(file))

    return parse_study(
        study_text(asked, knobs),
        name,
        read,
        recording=lambda _, by, table: recording_text(Path(), by, table),
    )


def _load_of(asked: TuneRequest) -> Workload:
    return _study(asked, "load.toml").workloads[0]


def _measured(
    asked: TuneRequest, size: int | None, p99: float | None, knobs: int = 0
) -> TuneRequest:
    """With the length of the load, for a search among so many knobs, its metric and its limit."""
    load = asked.load
    if "directory" in asked.target and size and "size" not in load.table.get("options", {}):
        load = replace(
            load, table={**load.table, "options": {**load.table.get("options", {}), "size": size}}
        )
    long = load_seconds(asked.seconds, knobs)
    asked = replace(asked, load=with_length(load, _load_of(replace(asked, metric="")), long))
    study = _study(replace(asked, metric=""), "load.toml")
    if "directory" in asked.target and _unsized(study.workloads[0]):
        raise click.BadParameter(
            "a directory needs the size of the file of each job", param_hint="--size"
        )
    wanted = asked.metric or load.metric
    metrics = [wanted] if wanted else [name for _, name in study.decide.primary]
    if len(metrics) > 1:
        message = f"the load has {len(metrics)} metrics that decide: {', '.join(metrics)}"
        raise UsageError(message, advice=f"Select one: --metric {metrics[0]}")
    asked = replace(asked, metric=metrics[0])
    return replace(asked, limit=_limit(study.workloads[0], metrics[0], p99)) if p99 else asked


def _unsized(workload: Workload) -> bool:
    """Whether fio has to be told how large its files are."""
    if workload.tool != "fio":
        return False
    sizes = ("size", "filesize", "io_size")
    return not all(any(each.values(name) for name in sizes) for each in sections(workload))


def _limit(workload: Workload, metric: str, p99: float) -> tuple[str, float]:
    """The latency that ``--p99`` limits."""
    driver, operation = tool(workload.tool), metric.partition(".")[0]
    if operation not in ("read", "write"):
        operation = "read" if driver.reach(workload).reads else "write"
    measures = getattr(driver, "measures", None)
    for quantity in ("clat", "response"):
        name = f"{operation}.{quantity}.p99"
        if measures and measures.fullmatch(name):
            return name, p99
    raise click.BadParameter(f"{driver.name} measures no p99 of latency", param_hint="--p99")


def _need_armed(asked: TuneRequest, aim: SaturationTarget, *, write: bool) -> None:
    workload = _load_of(asked)
    if tool(workload.tool).reach(workload).writes and not write:
        raise RefusedError(
            f"the load writes to {aim.path}",
            advice="Add --write if its content may be lost, or name a load that only reads.",
        )


# -- what is there --------------------------------------------------------------------------------


def _need_own_values(output: Output, host: Host, *, restoring: bool) -> None:
    """What is in force are the host's own values only where nothing of a run is left."""
    if restoring and host.unprivileged:
        raise RefusedError(
            f"{host.name}: a search changes settings, which needs root: {host.unprivileged}",
            advice="--plan FILE writes the study without root.",
        )
    if restoring:
        with locked(host):
            for line in restore(host, journal_folder(host)).done:
                output.note(line)
    elif sessions(host, journal_folder(host)):
        raise RefusedError(
            f"{host.name}: a run has changed settings, so that the values in force are not the"
            " host's own",
            advice="Wait until it ends; if it was killed: iotrial restore",
        )


def _chosen(host: Host, study: Study, below: Topology, wish: CandidateRequest) -> CandidateChoice:
    made = study.targets[0].kind == "loop"
    view = candidates_seen(host, looked_at(below, wish), below, made=made)
    load = character_of(study.workloads[0], view.numbers)
    chosen = choose(load, below, view.seen, view.facts, wish)
    if len(chosen.taken) < _FEWEST:
        raise UsageError(
            f"a search needs two knobs, and {len(chosen.taken)} of those here can be varied",
            advice="Remove --not, or name more by --knobs NAME=LEVEL,LEVEL.",
        )
    return chosen


def _without(
    output: Output,
    chosen: CandidateChoice,
    wish: CandidateRequest,
    error: SettingRefused | StudyError,
) -> CandidateChoice:
    """The choice without the levels that only the attempt shows to be rejected, before the first
    trial.  Raises what was raised where a person named the knob, or too few are left."""
    refused = (error,) if isinstance(error, SettingRefused) else error.refused
    taken = {each.knob: each for each in chosen.taken}
    missing = dict(chosen.missing)
    for each in {(one.tunable, one.value): one for one in refused}.values():
        found = next((k for k in taken.values() if tunable(k.knob).written == each.tunable), None)
        if found is None or found.knob in wish.named:
            raise error
        rest = None if getattr(each, "everywhere", False) else without(found, each.value)
        if rest is None:
            del taken[found.knob]
            missing[found.knob] = each.message
        else:
            taken[found.knob] = rest
        level = f" at {each.value}" if rest else ""
        output.note(f"{found.knob} is not varied{level}: {each.message}")
    if not refused or len(taken) < _FEWEST:
        raise error
    return CandidateChoice(tuple(taken.values()), missing)


# -- what is said ---------------------------------------------------------------------------------


def _told(chosen: CandidateChoice) -> dict[str, Any]:
    """The choice, for JSON."""
    return {"knobs": [*map(_row, chosen.taken)], "not_varied": dict(chosen.missing)}


def _row(each: Candidate) -> dict[str, object]:
    """A knob, for JSON."""
    return {
        "knob": each.knob,
        "in_force": each.in_force,
        "levels": list(each.levels),
        "reason": each.reason,
    }


def _say(output: Output, chosen: CandidateChoice, trial: tuple[float, int]) -> None:
    table = TextTable("knob", "in force", "also tried", "reason")
    for each in chosen.taken:
        others = ", ".join(level for level in each.levels[1:])
        table.add_row(each.knob, Text(each.in_force), Text(others), Text(each.reason))
    output.answer(table)
    left = chosen.missing
    output.answer(
        f"Not varied: {len(left)} other knobs"
        + ("." if output.verbose else "; --verbose lists each with the reason.")
    )
    if output.verbose:
        for why, knobs in reasons(left):
            output.answer(f"  {why}: {', '.join(knobs)}")
    output.answer(
        f"Each trial has {format_wait(trial[0])} of the load; there is time for about {trial[1]}."
    )


def _write(
    output: Output, study: Study, asked: TuneRequest, plan: Path, told: Mapping[str, Any]
) -> int:
    texts = {plan: study.text}
    for name, text in asked.load.files.items():
        if not Path(name).is_absolute():  # of a template
            texts[plan.parent / name] = text
    for path, text in texts.items():
        with writing(path, "--plan"):
            write_text(path, text)
    output.document({"study": study.text, "written": [str(path) for path in texts], **told})
    output.answer(f"{plan} is written. Review it, then: {called()} run {plan}")
    return 0


# -- the run --------------------------------------------------------------------------------------


def _resumed(output: Output, asked: TuneRequest, out: Path | None, *, pretend: bool) -> int | None:
    """The exit code of an earlier run with the same words that is resumed, or complete; None where
    there is none."""
    folders = [out] if out else sorted(Path("results").glob("*"), reverse=True)
    for folder in folders:
        if not (folder / "plan.jsonl").exists() or _heading(folder) != asked.heading:
            continue
        study = replace(study_at(folder / "study.toml"), pretended=pretend)
        if open_results(folder).pretended is not pretend:
            continue
        if not is_finished(folder):
            output.note(f"{folder} is resumed")
            return _run(output, study, folder, {}, pretend=pretend)
        if out:
            output.note(f"the search in {folder} is complete; for a new search name another --out")
            return _concluded(output, folder)
    return None


def _heading(folder: Path) -> str:
    try:
        return read_text(folder / "study.toml", folder).partition("\n")[0]
    except (OSError, FormatError):
        return ""


def _run(
    output: Output, study: Study, folder: Path, told: Mapping[str, Any], *, pretend: bool
) -> int:
    outcome = execute(output, study, folder, pretend=pretend)
    code = conclude(output, outcome.results, outcome, **told)
    if not outcome.stopped:
        _hint(output, folder)
    return code


def _concluded(output: Output, folder: Path) -> int:
    code = conclude(output, open_results(folder), None)
    _hint(output, folder)
    return code


def _hint(output: Output, folder: Path) -> None:
    """How to put the recommended settings in force, where there are any."""
    from iotrial.judgement import judge
    from iotrial.keep.winner import winners

    results = open_results(folder)
    if not results.pretended and winners(results, judge(results).comparison):
        command = f"{called()} keep {folder} try"
        output.note(f"to try the recommended settings, with a way back: {command}")
