"""``iotrial check``: functional suites: pass, fail, or not run and why."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from iotrial.cli.completion import of_devices, of_suites
from iotrial.cli.output import Output, common
from iotrial.errors import UsageError
from iotrial.report.layout import TextTable

if TYPE_CHECKING:
    from iotrial_suites.case import Case, Suite

_RANDOM = "random"


@click.command()
@click.argument("suite", nargs=-1, shell_complete=of_suites)
@click.option(
    "--on",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="As ssh takes it; box[1-3] for several; again for more.  [default: this host]",
)
@click.option(
    "--devices",
    multiple=True,
    metavar="ID",
    shell_complete=of_devices,
    help="A disk that cases may write to, by its serial, WWN or a name that cannot move; again "
    "for more; HOST:ID is one of several hosts' own.  [default: loop devices that are made]",
)
@click.option(
    "--destroy",
    "destroys",
    multiple=True,
    metavar="ID",
    help="Its serial or WWN, for each of --devices in their order.",
)
@click.option(
    "--lose",
    "losable",
    multiple=True,
    metavar="HOST",
    help="A host of --on that cases may crash, and that boots again by itself; again for more.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="The results folder.  [default: results/DATE-check-SUITE]",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="FOLDER",
    help="Resume in this folder: cases with a result are not repeated.",
)
@click.option(
    "--repeat", type=click.IntRange(1), metavar="NUMBER", help="Every case so often.  [default: 1]"
)
@click.option(
    "--shuffle",
    is_flag=False,
    flag_value=_RANDOM,
    metavar="[SEED]",
    help="In a random order; with SEED (a number) in that of a former time.",
)
@click.option("--list", "listing", is_flag=True, help="List suites, cases and what each needs.")
@common
def command(  # noqa: PLR0913, PLR0917 (click hands over every option)
    output: Output,
    suite: tuple[str, ...],
    hosts: tuple[str, ...],
    devices: tuple[str, ...],
    destroys: tuple[str, ...],
    losable: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    repeat: int | None,
    shuffle: str | None,
    *,
    listing: bool,
) -> int:
    """Run the cases of SUITE (or single ones, such as md/create): pass, fail, or not run and why.

    What a case makes is undone, whatever happens; every command with what it said is kept as
    evidence.  Exits with 1 when a case fails, unless it is known to fail there.

    \b
    Example:
      iotrial check --list md
      sudo IOTRIAL check scheduler
      iotrial check md --on root@box7 --repeat 10 --shuffle
    """
    from iotrial_suites.cli_session import (
        ScratchResources,
        SessionRequest,
        armed,
        execute,
        named,
        resumed,
    )
    from iotrial_suites.suites import chosen, suites

    if listing:
        return _list(output, chosen(suite or tuple(suites())))
    if resume is None:
        if not suite:
            raise UsageError(
                "which suite?", advice=f"There are: {', '.join(suites())}; --list says more."
            )
        wish = SessionRequest(chosen(suite), repeat or 1, _seed(shuffle), hosts)
    else:
        wish = resumed(resume, anew=bool(suite or hosts or out or repeat or shuffle))
    given = ScratchResources(armed(devices, destroys, wish.hosts), named(losable, wish.hosts))
    return execute(output, wish, given, out=out, resume=resume)


def _seed(shuffle: str | None) -> int | None:
    if shuffle is None:
        return None
    if shuffle == _RANDOM:
        return random.randrange(10**6)
    if not shuffle.isdigit():
        raise UsageError(f"--shuffle {shuffle}: not a number", advice="Such as: --shuffle 7")
    return int(shuffle)


def _list(output: Output, cases: tuple[tuple[Suite, Case], ...]) -> int:
    suites = {suite.name: suite for suite, _ in cases}
    output.document(
        {
            "suites": [
                {
                    "suite": name,
                    "title": suite.title,
                    "cases": [
                        {
                            "case": suite.id_of(case),
                            "title": case.title,
                            "needs": list(case.needs.words()),
                            "source": case.source,
                        }
                        for of, case in cases
                        if of is suite
                    ],
                }
                for name, suite in suites.items()
            ]
        }
    )
    for name, suite in suites.items():
        table = TextTable()
        for of, case in cases:
            if of is suite:
                needs = ", ".join(case.needs.words())
                row = Text(case.title)
                row.append(f"\nneeds {needs}" if needs else "", style="dim")
                table.add_row(Text(suite.id_of(case), "bold"), row)
        named = suite.title.lower().startswith(f"{name}:")
        title = suite.title if named else f"{name}: {suite.title}"
        output.answer(Text(title, style="bold"), table)
    return 0
