"""``iotrial saturate``: the load that gets the most out of a target, and its job file.

``ceiling.fio``: fio's job file for the load that a search found, one for each host.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from iotrial.called import called
from iotrial.cli.completion import of_targets
from iotrial.cli.machine import machines
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
)
from iotrial.cli.run import conclude, execute, folder_of
from iotrial.errors import IotrialError, RefusedError
from iotrial.files import read_text, write_text
from iotrial.hosts.at_once import Pool, at_once
from iotrial.look.engines import ENGINES, EngineSupport, try_engines
from iotrial.look.facts import gather, numbers
from iotrial.look.identity import sight
from iotrial.look.reading import status
from iotrial.model.finding import Ceiling
from iotrial.model.host import Host
from iotrial.model.measurement import metric
from iotrial.model.results import Results
from iotrial.model.study import StudyHost
from iotrial.model.trial import TrialRecord, treatment_text
from iotrial.plan.load import parse_study
from iotrial.plan.parts import parts_of
from iotrial.plan.saturate import (
    BLOCK_SIZES,
    SaturationRequest,
    SaturationTarget,
    comparison_text,
    study_text,
    targets_named,
)
from iotrial.report.words import PRETENDED
from iotrial.store import check, is_finished, open_results
from iotrial.tools.fio import job_of
from iotrial.units import format_value

NAME = "ceiling"
_LONGER = {"runtime": "60s", "ramp_time": "5s", "time_based": "1"}
"""A trial is shorter than anybody would want to watch."""
_APART = {"new_group": "1"}
"""Of several targets each has a report of its own; ``group_reporting`` would make one of all."""


def write_jobs(results: Results, found: Ceiling | None) -> list[str]:
    """The paths of the files, in the results folder; none where no load was found."""
    if found is None or found.best is None:
        return []
    final = results.study.workloads[1].name
    last = [
        record
        for record in results.records
        if record.trial.workload == final
        and record.trial.treatment == found.best.treatment
        and record.state == "valid"
    ]
    return (
        [_write(results, found, host, loads) for host, loads in _loads(results, last[-1]).items()]
        if last
        else []
    )


def _loads(results: Results, record: TrialRecord) -> dict[str, dict[str, Sequence[str]]]:
    """fio's commands of a trial, by host and target; the host is '' where there is one."""
    if not record.parts:
        return {"": {record.trial.workload: record.command}}
    parts = parts_of(results.study, record.trial)
    one = len({part.host for part in parts}) == 1
    found: dict[str, dict[str, Sequence[str]]] = {}
    for part in parts:
        said = results.folder / "trials" / record.trial.folder / part.name / "command"
        argv = shlex.split(read_text(said, results.folder))
        found.setdefault("" if one else part.host, {})[part.target.name] = argv
    return found


def _write(results: Results, found: Ceiling, host: str, loads: dict[str, Sequence[str]]) -> str:
    best = found.best
    assert best is not None  # noqa: S101 (for the type checker: asked before)
    value = format_value(best.rate, metric(found.metric).display_unit)
    heading = [
        f"Highest {found.metric} found by iotrial saturate: {treatment_text(best.treatment)}.",
        f"Measured: {value} in {best.trials} short trials.",
        "Runtime and ramp are longer here.  Check filename before you run it.",
    ]
    if results.pretended:
        heading.insert(0, PRETENDED)
    if host:
        heading.append(
            f"This is the part of {host}: start the files of all hosts at the same time,"
        )
        heading.append(f"each on its host: ssh {host} fio - < {NAME}-{host}.fio")
    if found.metric.startswith("write"):
        heading.append("IT WRITES: existing data is lost.")
    path = results.folder / f"{NAME}{'-' if host else ''}{host}.fio"
    instead = _LONGER | (_APART if len(loads) > 1 else {})
    write_text(path, job_of(loads, heading, instead))
    return str(path)


ALONE, SEVERAL = 1.0, 4.0
"""Seconds of a deciding trial on one host, and on several, whose loads never begin at once."""


@click.command()
@click.argument("target", nargs=-1, required=True, shell_complete=of_targets)
@click.option(
    "--for",
    "goal",
    type=click.Choice(["iops", "bandwidth"]),
    default="iops",
    show_default=True,
    help="Metric to maximise.",
)
@p99_limit
@click.option(
    "--compare",
    "compared",
    multiple=True,
    metavar="TUNABLE=LEVEL,...",
    help="With --p99: write the study that compares these levels by the highest offered rate"
    " within the limit; repeatable.",
)
@click.option(
    "--rw", metavar="PATTERN", help="fio's rw.  [default: randread; read with --for bandwidth]"
)
@click.option(
    "--block",
    "blocks",
    multiple=True,
    metavar="SIZE",
    help="Block size; repeatable.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(list(ENGINES)),
    metavar="NAME",
    help=f"Only these engines: {', '.join(ENGINES)}.  [default: all that work here]",
)
@target_size
@may_write
@click.option(
    "--destroy",
    "destroys",
    multiple=True,
    metavar="ID",
    help="With --write on a device: its serial or WWN; for several targets one each, in their"
    " order.",
)
@click.option(
    "--runtime",
    type=DURATION,
    metavar="TIME",
    help="Runtime of each deciding trial; trials of the search are half as long.  [default: 1s;"
    " 4s with several hosts]",
)
@margin_of_search
@click.option("--budget", type=DURATION, metavar="TIME", help="Time limit, for example 5m.")
@resumable_out("saturate")
@pretend
@common
def command(  # noqa: PLR0913, PLR0917 (click hands over every option)
    output: Output,
    target: tuple[str, ...],
    goal: str,
    p99: float | None,
    compared: tuple[str, ...],
    rw: str | None,
    blocks: tuple[str, ...],
    engines: tuple[str, ...],
    size: int | None,
    destroys: tuple[str, ...],
    runtime: float | None,
    margin: float,
    budget: float | None,
    out: Path | None,
    *,
    write: bool,
    pretend: bool,
) -> int:
    """Find the load of highest throughput on TARGET: engine, block size, jobs, depth and batch.

    TARGET is a block device, a file, a directory, or the word loop (a loop device created for it,
    of --size); HOST:TARGET is a target on an ssh host, box[1-4]:TARGET one on each of four hosts.
    Several targets are loaded at the same time; the result is their sum.

    A search in single trials is followed by a race of the best loads. The fio job file of the
    best load is written to the results folder.  The load only reads, unless --write is given.

    \b
    Example:
      sudo IOTRIAL saturate /dev/disk/by-id/nvme-X --p99 2ms
      sudo IOTRIAL saturate loop --p99 2ms --compare queue.scheduler=none,bfq
      sudo IOTRIAL saturate loop --size 1GiB
      iotrial saturate /data/big.file --for bandwidth
      sudo IOTRIAL saturate /dev/sdb /dev/sdc root@box2:/dev/sdb
    """
    pattern = _pattern(rw, goal, write=write)
    aims = _aims(target)
    levels = _compared(compared, p99, goal, aims)
    found = _looked(aims, destroys, size, engines or tuple(ENGINES), pretend=pretend)
    usable = _usable(output, found)
    remote = len(found) > 1 or any(place.ssh for place, _ in found)
    asked = SaturationRequest(
        {name: table for _, about in found for name, table in about.tables.items()},
        goal,
        pattern,
        {name: ENGINES[name] for name in usable},
        blocks or BLOCK_SIZES[goal],
        max(about.cpus for _, about in found),
        runtime or (SEVERAL if len(found) > 1 else ALONE),
        p99 or 0.0,
        margin,
        budget or 0.0,
        size or 0 if any("directory" in t for _, a in found for t in a.tables.values()) else 0,
        {place.name: place.ssh for place, _ in found} if remote else {},
    )
    if levels:  # before anything is measured
        parse_study(comparison_text(asked, 1e4, asked.blocks[0], levels), _COMPARISON, _no_file)
    made = parse_study(study_text(asked), f"saturate-{_stem(aims)}.toml", _no_file)
    study = replace(made, pretended=pretend)
    folder = out or folder_of(Path("results"), study)
    if (folder / "plan.jsonl").exists() and is_finished(folder):
        output.note(f"the search in {folder} is complete; for a new search name another --out")
        check(folder, study)
        results, stopped = open_results(folder), None
    else:
        stopped = execute(output, study, folder, pretend=pretend)
        results = stopped.results
    from iotrial.judgement import judge

    ceiling = judge(results).comparison.ceiling
    paths = write_jobs(results, ceiling)
    first = {"jobfile": paths[0], "jobfiles": paths} if paths else {"jobfile": None}
    code = conclude(output, results, stopped, **first)
    for path in paths:
        output.note(f"job file: {path}")
    if levels and ceiling and ceiling.best:
        text = comparison_text(
            asked, ceiling.best.rate, dict(ceiling.best.treatment)["block"], levels
        )
        write_text(folder / _COMPARISON, text)
        output.note(f"study that compares: {folder / _COMPARISON}")
        output.note(f"to run it: {called()} run {folder / _COMPARISON}{' --pretend' * pretend}")
    return code


_COMPARISON = "compare.toml"


def _compared(
    given: Sequence[str], p99: float | None, goal: str, aims: Sequence[SaturationTarget]
) -> dict[str, list[str]]:
    """Tunables and the levels of each."""
    hint = "--compare"
    if given and (not p99 or goal != "iops"):
        raise click.BadParameter("needs --p99, and IOPS as the metric", param_hint=hint)
    if given and len(aims) > 1:
        raise click.BadParameter("is for one TARGET", param_hint=hint)
    found: dict[str, list[str]] = {}
    for word in given:
        tunable, _, levels = word.partition("=")
        if tunable in found:
            raise click.BadParameter(f"{tunable} is given twice", param_hint=hint)
        found[tunable] = list(filter(None, levels.split(",")))
        if len(found[tunable]) < 2:  # noqa: PLR2004 (a comparison has two sides)
            example = "for example queue.scheduler=none,mq-deadline"
            raise click.BadParameter(f"{word!r} has no two levels; {example}", param_hint=hint)
    return found


def _aims(targets: Sequence[str]) -> tuple[SaturationTarget, ...]:
    try:
        return targets_named(targets)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="TARGET") from None


def _stem(aims: Sequence[SaturationTarget]) -> str:
    """What the study is named for."""
    first = Path(aims[0].path).name
    return first if len(aims) == 1 else f"{first}-and-{len(aims) - 1}-more"


@dataclass(frozen=True, slots=True)
class _About:
    """What is known of one host: its targets' tables by their names, the engines tried, CPUs."""

    tables: Mapping[str, Mapping[str, object]]
    tried: tuple[EngineSupport, ...]
    cpus: int


def _looked(
    aims: Sequence[SaturationTarget],
    destroys: Sequence[str],
    size: int | None,
    engines: tuple[str, ...],
    *,
    pretend: bool,
) -> list[tuple[StudyHost, _About]]:
    """Look at every host, at the same time.  Raises HostUnreachable."""
    if destroys and len(destroys) != len(aims):
        message = f"{len(destroys)} for {len(aims)} targets: one for each, in their order"
        raise click.BadParameter(message, param_hint="--destroy")
    armed = dict(zip((aim.name for aim in aims), destroys, strict=False))
    hosts = {StudyHost(aim.host, aim.ssh): None for aim in aims}
    several = len(hosts) > 1 or any(place.ssh for place in hosts)

    def look(host: Host, name: str) -> _About:
        mine = [aim for aim in aims if aim.host == name]
        tables = {
            aim.name: {
                **_sized(target_table(host, aim, size, armed.get(aim.name)), size),
                **({"host": name} if several else {}),
            }
            for aim in mine
        }
        tried = try_engines(host, engines, [aim.path for aim in mine])
        return _About(tables, tried, int(numbers(gather(host, (), ["fio"]))["cpus"]))

    with machines(pretend=pretend, several=several) as reach, Pool([*hosts], reach) as pool:
        found, errors = at_once({n: partial(look, host, n) for n, host in pool.open_all().items()})
    if errors:
        raise next(iter(errors.values()))
    return [(place, found[place.name]) for place in hosts]


def _pattern(rw: str | None, goal: str, *, write: bool) -> str:
    random = "rand" if goal == "iops" else ""
    chosen = rw or f"{random}{'write' if write else 'read'}"
    if chosen not in ("read", "randread") and not write:
        raise RefusedError(
            f"rw={chosen} writes to the target",
            advice="Add --write if its content may be lost, or remove --rw.",
        )
    if chosen not in ("read", "randread", "write", "randwrite"):
        raise click.BadParameter(
            f"{chosen}: expected read, randread, write or randwrite", param_hint="--rw"
        )
    return chosen


def _sized(table: dict[str, object], size: int | None) -> dict[str, object]:
    if "directory" in table and not size:
        raise click.BadParameter(
            "a directory needs the size of the file of each job", param_hint="--size"
        )
    return table


def target_table(
    host: Host, aim: SaturationTarget, size: int | None, destroy: str | None
) -> dict[str, object]:
    """``[targets.NAME]`` of the study."""
    target, armed = aim.path, {"destroy": destroy} if destroy else {}
    if target == "loop":
        return {"loop": {"size": size or 1 << 30}}
    found = status(host, target)
    if found and found.is_folder:
        return {"directory": target if aim.ssh else str(Path(target).absolute())}
    if found is None and target.startswith("/dev/"):
        sight(host, target)  # which raises, before engines are tried
    if "/" not in target or (found and found.is_block_device) or target.startswith("/dev/"):
        return {"device": target, **armed}
    if found is None and not size:
        raise click.BadParameter(
            f"{target} does not exist: the size to create it with is missing", param_hint="--size"
        )
    path = target if aim.ssh else str(Path(target).absolute())
    return {"file": path, "size": size or (found.size if found else 0), **armed}


def _usable(output: Output, found: Sequence[tuple[StudyHost, _About]]) -> list[str]:
    """The engines that every host takes."""
    why: dict[str, list[str]] = {}
    for place, about in found:
        at = f"{place.name}: " if len(found) > 1 else ""
        for each in about.tried:
            why.setdefault(each.name, []).extend([f"{at}{each.why}"] if each.why else [])
    for name, reasons in why.items():
        if reasons:
            output.note(f"without {name}: {'; '.join(reasons)}")
    usable = [name for name, reasons in why.items() if not reasons]
    if not usable:
        said = "; ".join(f"{name}: {'; '.join(reasons)}" for name, reasons in why.items())
        raise RefusedError(
            f"no usable engine on this host: {said}",
            advice="Remove --engine to try all; fio --enghelp lists what fio was built with.",
        )
    return usable


def _no_file(name: str) -> str:
    raise IotrialError(f"a search has no job file, and {name} is one")
