"""``iotrial saturate``: the load that gets the most out of a target, and its job file."""

from __future__ import annotations

from pathlib import Path

import click

from iotrial.cli.machine import machine
from iotrial.cli.output import Output, common, pretend
from iotrial.cli.run import conclude, execute, folder_of
from iotrial.cli.verdicts import judged
from iotrial.errors import IotrialError, RefusedError
from iotrial.execute.engines import ENGINES, Tried, try_engines
from iotrial.execute.facts import gather, numbers
from iotrial.execute.look import status
from iotrial.model.finding import Ceiling
from iotrial.model.host import Host
from iotrial.model.measurement import metric
from iotrial.model.results import Results
from iotrial.model.trial import treatment_text
from iotrial.plan.ceiling_study import BLOCKS, FINAL, Asked, study_text
from iotrial.plan.load import parse_study
from iotrial.store import check, is_finished, open_results
from iotrial.tools.fio_job import job_of
from iotrial.units import format_value, parse_bytes, parse_fraction, parse_seconds

JOBFILE = "ceiling.fio"
_LONGER = {"runtime": "60s", "ramp_time": "5s", "time_based": "1"}
"""Of the job file: a trial is shorter than anybody would want to watch."""
_NOTHING = 1


_DURATION, _SIZE, _SHARE = map(
    click.types.FuncParamType, (parse_seconds, parse_bytes, parse_fraction)
)


@click.command()
@click.argument("target")
@click.option(
    "--for",
    "goal",
    type=click.Choice(["iops", "bandwidth"]),
    default="iops",
    show_default=True,
    help="What to look for the most of.",
)
@click.option("--p99", type=_DURATION, help="The 99th percentile of latency allowed, such as 2ms.")
@click.option("--rw", help="fio's rw.  [default: randread; read with --for bandwidth]")
@click.option("--block", "blocks", multiple=True, help="Block size; may be given several times.")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(list(ENGINES)),
    help="Only these engines.  [default: all that work here]",
)
@click.option("--size", type=_SIZE, help="Of a file or loop device; in a directory of each job.")
@click.option("--write", is_flag=True, help="The load may write: without it, it only reads.")
@click.option("--destroy", help="With --write on a device: its serial or WWN.")
@click.option(
    "--runtime",
    type=_DURATION,
    default="1s",
    show_default=True,
    help="Of each deciding trial; those of the search are half as long.",
)
@click.option(
    "--margin",
    type=_SHARE,
    default="3%",
    show_default=True,
    help="The smallest difference that matters.",
)
@click.option("--budget", type=_DURATION, help="No longer than this, such as 5m.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="The results folder.  [default: results/DATE-saturate-TARGET; an unfinished one is "
    "resumed]",
)
@pretend
@common
def command(  # noqa: PLR0913, PLR0917 (click hands over every option)
    output: Output,
    target: str,
    goal: str,
    p99: float | None,
    rw: str | None,
    blocks: tuple[str, ...],
    engines: tuple[str, ...],
    size: int | None,
    destroy: str | None,
    runtime: float,
    margin: float,
    budget: float | None,
    out: Path | None,
    *,
    write: bool,
    pretend: bool,
) -> int:
    """Find the load that gets the most out of TARGET: engine, block, jobs, depth and batch.

    TARGET is a block device, a file, a directory, or the word loop (a loop device made for it,
    of --size).  A few single trials search, the best of them are raced, and the fio job file of
    the winner lies in the results folder.  It only reads, unless --write is given.

    \b
    Example:
      sudo iotrial saturate /dev/disk/by-id/nvme-X --p99 2ms
      sudo iotrial saturate loop --size 1GiB
      iotrial saturate /data/big.file --for bandwidth
    """
    pattern = _pattern(rw, goal, write=write)
    with machine(pretend=pretend) as host:
        table = _table(host, target, size, destroy)
        tried = try_engines(host, engines or tuple(ENGINES), target)
        facts = numbers(gather(host, (), ["fio"]))
    usable = _usable(output, tried)
    asked = Asked(
        table,
        goal,
        pattern,
        {name: ENGINES[name] for name in usable},
        blocks or BLOCKS[goal],
        int(facts["cpus"]),
        runtime,
        p99 or 0.0,
        margin,
        budget or 0.0,
        size or 0 if "directory" in table else 0,
    )
    study = parse_study(study_text(asked), f"saturate-{Path(target).name}.toml", _no_file)
    folder = out or folder_of(Path("results"), study)
    if (folder / "plan.jsonl").exists() and is_finished(folder):
        output.note(f"nothing is left to do in {folder}; for a new search name another --out")
        check(folder, study)
        results, stopped = open_results(folder), None
    else:
        stopped = execute(output, study, folder, pretend=pretend)
        results = stopped.results
    _, comparison = judged(results)
    found = comparison.ceiling
    path = _write_job(results, found) if found and found.best else None
    code = conclude(output, results, stopped, jobfile=str(path) if path else None)
    if path:
        output.note(f"job file: {path}")
    return code or (0 if found and found.best else _NOTHING)


def _pattern(rw: str | None, goal: str, *, write: bool) -> str:
    random = "rand" if goal == "iops" else ""
    chosen = rw or f"{random}{'write' if write else 'read'}"
    if chosen not in ("read", "randread") and not write:
        raise RefusedError(
            f"rw={chosen} writes to the target",
            advice="Add --write where its content may be lost, or leave --rw out.",
        )
    if chosen not in ("read", "randread", "write", "randwrite"):
        raise click.BadParameter(
            f"{chosen}: one of read, randread, write, randwrite is meant", param_hint="--rw"
        )
    return chosen


def _table(host: Host, target: str, size: int | None, destroy: str | None) -> dict[str, object]:
    """``[targets.target]`` of the study."""
    armed = {"destroy": destroy} if destroy else {}
    if target == "loop":
        return {"loop": {"size": size or 1 << 30}}
    found = status(host, target)
    if found and found.is_folder:
        if not size:
            raise click.BadParameter("a directory needs it: each job's", param_hint="--size")
        return {"directory": target}
    if "/" not in target or (found and found.is_block_device) or target.startswith("/dev/"):
        return {"device": target, **armed}
    if found is None and not size:
        raise click.BadParameter(
            f"{target} does not exist: how large is it to be made?", param_hint="--size"
        )
    path, there = str(Path(target).absolute()), found.size if found else 0
    return {"file": path, "size": size or there, **armed}


def _usable(output: Output, tried: tuple[Tried, ...]) -> list[str]:
    usable = [each.name for each in tried if not each.why]
    for each in tried:
        if each.why:
            output.note(f"without {each.name}: {each.why}")
    if not usable:
        raise RefusedError(
            "no engine can be used here: " + "; ".join(f"{e.name}: {e.why}" for e in tried),
            advice="Leave --engine out to try all; fio --enghelp lists what fio was built with.",
        )
    return usable


def _no_file(name: str) -> str:
    raise IotrialError(f"a search has no job file, and {name} is one")


def _write_job(results: Results, found: Ceiling) -> Path | None:
    """``ceiling.fio``: the command of the winner's last deciding trial, for a longer run."""
    if found.best is None:
        return None
    commands = [
        record.command
        for record in results.records
        if record.trial.workload == FINAL
        and record.trial.treatment == found.best.treatment
        and record.state == "valid"
    ]
    if not commands:
        return None
    load = treatment_text(found.best.treatment)
    value = format_value(found.best.rate, metric(found.metric).unit)
    heading = [
        f"The most {found.metric} that iotrial saturate found: {load}.",
        f"It reached {value} in {found.best.trials} short trials.",
        "Runtime and ramp are longer here.  Look at filename before you run it.",
    ]
    path = results.folder / JOBFILE
    path.write_text(job_of(commands[-1], heading, _LONGER), encoding="utf-8")
    return path
