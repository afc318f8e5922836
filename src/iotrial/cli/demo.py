"""``iotrial demo``: a small study, from nothing to an answer, for who has never seen one."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from iotrial.cli.output import Output, common, pretend
from iotrial.cli.run import came_to, execute, exit_code, new_folder
from iotrial.cli.verdicts import filed, page_of
from iotrial.errors import UsageError
from iotrial.execute.runner import RunOutcome
from iotrial.model.study import Study
from iotrial.plan.extend import under_way
from iotrial.report.words import share
from iotrial.store import open_results, studies_in
from iotrial.units import format_wait

_FINER = 0.02
"""A margin that a study of one's own might have."""
_ROOM = 2**30
"""Bytes free that a folder must have for the file: twice its size."""
_HERE = "/var/tmp"  # noqa: S108 (where the template says; the file in it is iotrial's own)
_FILE = "iotrial-demo.data"
_PLACES = (_HERE, ".", "~")


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="The results folder.  [default: results/DATE-demo; an unfinished one is resumed]",
)
@pretend
@common
def command(output: Output, out: Path | None, *, pretend: bool) -> int:
    """Run an example study on this host in less than three minutes and show its verdicts.

    As root: the effect of two queue settings on random reads, on a loop device that iotrial
    creates and removes. Otherwise: the effect of two load options, on a file.

    The last screen shows the verdicts, the blocks that undecided comparisons need, the
    settings changed on this host, and the next commands.

    \b
    Example:
      sudo IOTRIAL demo
      iotrial demo --out /tmp/demo
    """
    study = _study(pretended=pretend)
    folder = out or _begun(Path("results"), study) or new_folder(Path("results"), study)
    if (folder / "plan.jsonl").exists() and not under_way(open_results(folder)):
        raise UsageError(
            f"{folder} has the results of a finished study",
            advice=f"Name another --out. To see these results: iotrial compare {folder}",
        )
    output.note(f"{study.question}\nThis takes less than 3 minutes; results in {folder}")
    outcome = execute(output, study, folder, pretend=pretend)
    _show(output, outcome)
    return exit_code(outcome.results)


def _begun(parent: Path, study: Study) -> Path | None:
    """The newest demo that was stopped.  One that its budget ended is over."""
    found = reversed(studies_in(parent, study.digest, pretended=study.pretended))
    return next((each for each in found if under_way(open_results(each))), None)


def _show(output: Output, outcome: RunOutcome) -> None:
    from iotrial.report.text import brief

    results = outcome.results
    seen = filed(output, results, **came_to(output, results, outcome))
    output.answer("", brief(seen), *_finer(outcome), "", *_deeds(outcome), "")
    output.answer(
        f"report:      {page_of(results)}",
        f"all of it:   iotrial compare {results.folder}",
        "your disk:   iotrial init scheduler study.toml",
    )


def _finer(outcome: RunOutcome) -> Iterator[str]:
    """What these trials cannot tell whatever came of them, and what would."""
    from iotrial.stats.judge import blocks_at_margin
    from iotrial.stats.power import seconds_of_a_block
    from iotrial.stats.verdict import LAST

    results = outcome.results
    blocks = blocks_at_margin(results, math.log1p(_FINER))
    told = f"Differences below {share(results.study.decide.margin)} are undecided: "
    if blocks is None:
        return
    if blocks >= LAST:
        yield f"{told}detecting {share(_FINER)} needs more than {LAST:,} blocks."
        return
    more = max(1, blocks - max(record.trial.block for record in results.records))
    wait = format_wait(more * seconds_of_a_block(results))
    yield f"{told}detecting {share(_FINER)} needs {blocks:,} blocks, about {wait} more."


def _deeds(outcome: RunOutcome) -> Iterator[str]:
    """What was done to the machine."""
    from iotrial.report.text import changes

    if told := changes(outcome.results):
        yield f"settings:    {told}"
    for done in outcome.payment.done:
        yield f"afterwards:  {done}"
    yield from (f"to restore:  {owed}" for owed in outcome.payment.owed or ("nothing",))


def _study(*, pretended: bool) -> Study:
    """The study of ``iotrial init demo`` where loop devices can be made, else of ``demo-file``."""
    from iotrial.plan.load import parse_study
    from iotrial.plan.template import beside, template

    name = "demo" if pretended or _may_use_loops() else "demo-file"
    text = template(name)
    if name == "demo-file":
        here = json.dumps(f"{_HERE}/{_FILE}")
        text = text.replace(here, json.dumps(str(_folder() / _FILE), ensure_ascii=False))
    return replace(parse_study(text, "demo.toml", beside(name).__getitem__), pretended=pretended)


def _may_use_loops() -> bool:
    """Whether this process may write settings and make loop devices; not all of root may."""
    if os.geteuid() != 0 or not os.access("/sys/block", os.W_OK):
        return False
    with suppress(OSError):
        os.close(os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC))
        return True
    return False


def _folder() -> Path:
    """The first folder with room whose file system lets files be read past the page cache.

    Raises UsageError where there is none.
    """
    for place in _PLACES:
        with suppress(OSError, RuntimeError):  # the latter: there is no home
            folder = Path(place).expanduser().absolute()
            found = os.statvfs(folder)
            if found.f_bavail * found.f_frsize >= _ROOM:
                os.close(os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_DIRECT | os.O_CLOEXEC))
                return folder
    raise UsageError(
        f"none of {', '.join(_PLACES)} has 1 GiB free on a file system with O_DIRECT support",
        advice="Run it in a folder on a disk, or run it as root.",
    )
