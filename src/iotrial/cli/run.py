"""``iotrial run``: preflight, trials, findings.

``run --live``: where the page is served, and what is said of it.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from iotrial.cli.extending import SHARE, ExtensionRequest, lengthened
from iotrial.cli.machine import machine, machines
from iotrial.cli.output import Output, check_place, common, pretend
from iotrial.cli.progress import ProgressDisplay
from iotrial.cli.verdicts import publish
from iotrial.errors import UsageError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import RunOutcome, count, execute_on
from iotrial.hosts.slurm import allocation, before_the_end, job_here
from iotrial.live.address import FREE, Address, is_address, parse
from iotrial.live.live import LiveStatus
from iotrial.model.event import Event
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.plan.aa import as_aa
from iotrial.plan.in_blocks import has_fixed_blocks, in_blocks
from iotrial.plan.prior import with_prior
from iotrial.plugins import wing
from iotrial.store import check, is_finished, open_results, studies_in, study_at

FLAG = "--live"


class _RunCommand(click.Command):
    """``run``, whose ``--live`` may stand alone: a word after it that is no address is STUDY."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args.index("--") if "--" in args else len(args)
        for at, word in enumerate(args[:words]):
            if word == FLAG and not is_address(" ".join(args[at + 1 : at + 2])):
                args[at] = f"{FLAG}={FREE}"
        return super().parse_args(ctx, args)


def address_of(text: str | None) -> Address | None:
    """Raises UsageError."""
    return None if text is None else parse(text)


def announce(live: LiveStatus) -> list[str]:
    """What a person needs to look at the page; nothing where there is none."""
    if live.place is None:
        return []
    port = live.place.port
    lines = [f"live: {live.place.url}"]
    if live.place.loopback:
        lines.append(
            f"  from elsewhere: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE, then the same address"
        )
    else:
        lines.append(
            "  the connection is not encrypted: others on the network can read this address and"
            " the page. For privacy omit ADDR and use ssh -L."
        )
    return lines


FAILED = 5
NOTHING = 1
"""The exit code of a search that found no ceiling."""
ARMS = 2


@click.command(cls=_RunCommand)
@click.argument("study", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="The results folder.  [default: results/DATE-STUDY; an unfinished one is resumed]",
)
@click.option(
    "--aa",
    "noise",
    is_flag=True,
    help="Run an A/A study: the baseline against itself, to measure the noise.",
)
@click.option(
    "--arms",
    type=int,
    default=ARMS,
    show_default=True,
    metavar="NUMBER",
    help="With --aa: number of identical arms.",
)
@click.option(
    "--blocks",
    type=int,
    metavar="NUMBER",
    help="With --aa or --against: number of blocks.  [default: that of the study; with --against"
    " fewer where these decide as much]",
)
@click.option(
    "--prior",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Earlier results of the same target: a race of many treatments measures the best of"
    " them first. They do not enter the decision.",
)
@click.option(
    "--more-blocks",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="STUDY is a results folder: extend the study in it by N blocks.",
)
@click.option(
    "--until",
    type=SHARE,
    metavar="SHARE",
    help="STUDY is a results folder: extend it until this difference is detectable (5%).",
)
@click.option(
    "--live",
    metavar="[ADDR:PORT]",
    help="Serve a page that shows the run.  [default: this host alone, a free port]",
)
@click.option(
    "--slurm",
    metavar="WORDS",
    help="Get nodes of Slurm for the run, by these words of salloc, and release them afterwards.",
)
@click.option(
    "--reserve",
    metavar="WORDS",
    help="With --slurm: make a maintenance reservation first, by these words of scontrol.",
)
@click.option(
    "--against",
    metavar="WHICH",
    help="Afterwards compare with stored results of this study on this machine: last (since its"
    " last change), best, or a tag; exit code 1: worse.",
)
@click.option("--store", metavar="URL", help="With --against: the store; as `iotrial push` has it.")
@click.option(
    "--in-turn",
    type=click.Choice(["auto", "never"]),
    metavar="WHEN",
    help="With --against: auto measures settings or a study that are not what they were in turn"
    " with what is now; never takes no more time.  [default: auto]",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --against: also JUnit XML; a treatment that is worse is a failure.",
)
@click.option(
    "--markdown",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --against: also Markdown.",
)
@pretend
@common
def command(  # noqa: PLR0913, PLR0917 (click hands over every option)
    output: Output,
    study: Path,
    out: Path | None,
    arms: int,
    blocks: int | None,
    live: str | None,
    slurm: str | None,
    reserve: str | None,
    *,
    against: str | None,
    store: str | None,
    in_turn: str | None,
    junit: Path | None,
    markdown: Path | None,
    prior: Path | None,
    noise: bool,
    pretend: bool,
    more_blocks: int | None,
    until: float | None,
) -> int:
    """Execute STUDY: change settings, measure, restore settings, decide.

    Run it again to resume: committed trials are kept, and settings that a killed run left changed
    are restored first.

    With --aa it measures the noise floor: the variation of trials of one treatment within a block,
    between blocks and over time, the detectable differences by duration, and the trial length.

    With --more-blocks or --until STUDY is a results folder, and its study is extended: intervals
    then hold simultaneously at all looks.

    \b
    Example:
      sudo IOTRIAL run study.toml
      sudo IOTRIAL run study.toml --aa --blocks 10
      sudo IOTRIAL run study.toml --prior results/2026-11-20-scheduler
      sudo IOTRIAL run study.toml --live
      sudo IOTRIAL run results/2026-11-20-scheduler --more-blocks 20
      iotrial run study.toml --slurm "--partition=storage --nodes=4 --exclusive"
      iotrial run study.toml --pretend
      sudo IOTRIAL run nightly.toml --against last --junit verdicts.xml
    """
    asked = _against(
        against,
        {"store": store, "in_turn": in_turn, "junit": junit, "markdown": markdown},
        alone=not (noise or more_blocks or until),
    )
    if reserve is not None and slurm is None:
        raise click.UsageError("--reserve is an option of --slurm")
    with allocated(output, slurm, reserve, pretend=pretend):
        address = address_of(live)
        wish = ExtensionRequest(more_blocks, until)
        if wish.asked(study):
            if out or prior or noise or blocks is not None or arms != ARMS:
                raise click.UsageError(
                    "--more-blocks and --until can be combined with --live and --pretend only"
                )
            loaded = lengthened(output, study, wish, pretend=pretend)
            outcome = execute(output, loaded, study, address=address, pretend=pretend)
            return conclude(output, outcome.results, outcome)
        loaded = replace(study_at(study), pretended=pretend)
        if noise:
            loaded = as_aa(loaded, arms, blocks or 0)
        elif arms != ARMS or (blocks is not None and asked is None):
            raise click.UsageError("--arms and --blocks are options of an A/A study: add --aa")
        folder = out or folder_of(Path("results"), loaded)
        if prior is not None:
            loaded = _ordered(output, loaded, prior, folder)
        if (folder / "plan.jsonl").exists() and is_finished(folder):
            output.note(
                f"the study in {folder} is complete; for a new execution name another --out"
            )
            check(folder, loaded)
            return _concluded(output, open_results(folder), None, asked)
        if asked is not None and not (folder / "plan.jsonl").exists():
            loaded = _sized(output, loaded, asked, blocks, pretend=pretend)
        outcome = execute(output, loaded, folder, address=address, pretend=pretend)
        return _concluded(output, outcome.results, outcome, asked)


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """What ``--against`` asks for: ``which`` of the stored results, in the ``store`` of this
    address (None: the usual one); whether anything is measured ``in_turn``; and the files to
    write."""

    which: str
    store: str | None = None
    in_turn: bool = True
    junit: Path | None = None
    markdown: Path | None = None


def _concluded(
    output: Output, results: Results, outcome: RunOutcome | None, asked: ComparisonRequest | None
) -> int:
    """What the run came to, and where that is asked for what it comes to beside stored results."""
    code = conclude(output, results, outcome)
    if asked is None or code:
        return code
    found: int = _stored().compared(output, results, asked)
    return found


def _sized(
    output: Output, study: Study, asked: ComparisonRequest, blocks: int | None, *, pretend: bool
) -> Study:
    """The study in the blocks that were asked for, or as many as the comparison needs."""
    if blocks is not None and (blocks < 1 or not has_fixed_blocks(study)):
        raise click.UsageError("--blocks gives a study with a fixed number of blocks another one")
    shorter: Study = _stored().shortened(output, study, asked, pretend=pretend)
    return shorter if blocks is None else in_blocks(study, blocks)


def _against(
    which: str | None, options: Mapping[str, Any], *, alone: bool
) -> ComparisonRequest | None:
    """What is asked of a store, before hours of measuring.  Raises UsageError, and StoreError for
    a store that does not answer."""
    if which is None:
        if given := [name for name, value in options.items() if value]:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            needs = "needs" if len(given) == 1 else "need"
            raise UsageError(
                f"{names} {needs} --against",
                advice="Add --against last, best or a tag; iotrial compare has --junit for results"
                " that are there.",
            )
        return None
    if not alone:
        raise click.UsageError("--against is for a study as it is, not for --aa or an extension")
    for option in ("junit", "markdown"):
        if options[option] is not None:
            check_place(options[option], f"--{option}")
    _stored().check(options["store"], which)
    return ComparisonRequest(which, **{**options, "in_turn": options["in_turn"] != "never"})


def _stored() -> ModuleType:
    module = wing("iotrial_store.cli.against")
    if module is None:
        raise UsageError(
            "--against needs the package iotrial_store, which is missing",
            advice="Install the complete iotrial wheel.",
        )
    return module


@contextmanager
def allocated(
    output: Output, slurm: str | None, reserve: str | None, *, pretend: bool
) -> Iterator[None]:
    """Nodes of Slurm's while the context lives, where they are asked for."""
    with ExitStack() as stack:
        words = _words("--slurm", slurm)
        if reserve is not None and not pretend:
            from iotrial.execute.reservation import reserved

            here = stack.enter_context(machine(pretend=False, purpose="reservation"))
            name = stack.enter_context(reserved(here, _words("--reserve", reserve)))
            output.notice(f"reservation {name}")
            words = [f"--reservation={name}", *words]
        if slurm is not None and not pretend:
            stack.enter_context(allocation(words, output.notice))
        yield


def _words(option: str, text: str | None) -> list[str]:
    try:
        return shlex.split(text or "")
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}", advice="Quote it once.") from error


def _ordered(output: Output, study: Study, prior: Path, folder: Path) -> Study:
    """The study with what the earlier results say of it; a study that has begun keeps its own."""
    if (folder / "plan.jsonl").exists():
        output.note(f"{folder} is resumed in its own order: --prior is ignored")
        return study
    from iotrial.plan.race import MOST_IN_BLOCK

    ordered = with_prior(study, open_results(prior))
    if all(len(study.treatments(each.name)) <= MOST_IN_BLOCK for each in study.judged):
        output.note(f"--prior has no effect: a block holds all treatments, up to {MOST_IN_BLOCK}")
    return ordered


def execute(
    output: Output, study: Study, folder: Path, *, address: Address | None = None, pretend: bool
) -> RunOutcome:
    """Execute what is missing of a study in its results folder, watched: on the terminal, and on a
    page where ``address`` says that one is to be served."""
    with LiveStatus(study, address) as live:
        for line in announce(live):
            output.notice(line)
        outcome = _watched(output, study, folder, live=live, pretend=pretend)
        live.ends(exit_code(outcome.results))
    return outcome


def _watched(
    output: Output, study: Study, folder: Path, *, live: LiveStatus, pretend: bool
) -> RunOutcome:
    terminal = ProgressDisplay(output, study)

    def tell(event: Event) -> None:
        terminal(event)
        live(event)

    study = _alone(study) if pretend else study
    job = "" if pretend else job_of(study)
    try:
        with (
            Interruption() as interruption,
            before_the_end(job, interruption.stop) if job else nullcontext(),
            machines(pretend=pretend, purpose=study.name, several=len(study.places) > 1) as reach,
        ):
            return execute_on(
                study, reach, folder,
                interruption=interruption, tell=tell, ask=terminal.person(), in_turn=pretend,
            )  # fmt: skip
    finally:
        terminal.close()


def job_of(study: Study) -> str:
    """The job of Slurm that ends what a study runs on: its nodes', or ours; '' none."""
    ways = [place.via.partition("://") for place in study.places]
    jobs = [to.partition("/")[0] for name, _, to in ways if name == "slurm" and "/" in to]
    return jobs[0] if jobs else job_here()


def _alone(study: Study) -> Study:
    """The study with every tool started by itself: nothing listens on a made-up machine."""
    return replace(study, workloads=tuple(replace(each, start="plain") for each in study.workloads))


def conclude(
    output: Output,
    results: Results,
    outcome: RunOutcome | None,
    **more: Any,  # noqa: ANN401 (JSON values)
) -> int:
    """Say what a run came to, ``outcome`` None where nothing was left to do; the exit code."""
    publish(output, results, **came_to(output, results, outcome), **more)
    return exit_code(results)


def came_to(output: Output, results: Results, outcome: RunOutcome | None) -> dict[str, Any]:
    """Say whether a run stopped and which trials do not count; the same for the document."""
    counts = count(results.records)
    stopped = outcome.stopped if outcome else ""
    if stopped:
        output.notice(f"stopped: {stopped}")
    if counts["invalid"] or counts["failed"]:
        output.note(f"{counts['invalid']} trials were INVALID, {counts['failed']} failed")
    return {
        "trials": {"done": counts["valid"], **counts},
        "restored": outcome.payment.done if outcome else (),
        "stopped": stopped,
    }


def exit_code(results: Results) -> int:
    """What a run of these results exits with.

    A search that found its ceiling has done what it was asked for, whatever loads could not be
    measured on the way: it goes round them, and claims nothing of them.
    """
    counts = count(results.records)
    code = FAILED if counts["failed"] or not counts["valid"] else 0
    if results.study.design.kind != "saturate":
        return code
    from iotrial.stats.ceiling import judge_ceiling

    found = judge_ceiling(results).ceiling
    return 0 if found and found.best else code or NOTHING


def folder_of(parent: Path, study: Study) -> Path:
    """The newest unfinished folder of this very study, or a new one named by date and study."""
    for folder in reversed(studies_in(parent, study.digest, pretended=study.pretended)):
        if not is_finished(folder):
            return folder
    return new_folder(parent, study)


def new_folder(parent: Path, study: Study) -> Path:
    """One that is not there yet, named by date and study."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", study.name).strip("-.") or "study"
    stem = f"{time.strftime('%Y-%m-%d')}-{name}"
    names = [stem, *(f"{stem}-{n}" for n in range(2, 10_000))]
    return next(parent / each for each in names if not (parent / each).exists())
