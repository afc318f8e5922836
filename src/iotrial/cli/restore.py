"""``iotrial restore``: pay what is owed."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.text import Text

from iotrial.cli.machine import machine, machines, place_of
from iotrial.cli.output import Output, common, pretend
from iotrial.execute.boot import FIRST_WITHIN, bring_back, need_own_boot
from iotrial.execute.settings.guard import epilog, locked
from iotrial.execute.settings.restore import RestoreReport, forget, read_reports, restore
from iotrial.hosts.places import journal_folder, unseen
from iotrial.look.boots import boot_debt, boot_means


@click.command()
@click.argument("host", required=False)
@click.option(
    "--forget",
    "forgotten",
    is_flag=True,
    help=(
        "Afterwards discard the records of settings that cannot be restored, listing each"
        " value; they stay as they are."
    ),
)
@click.option(
    "--epilog",
    "printed",
    is_flag=True,
    help="Print a program for Epilog of slurm.conf that restores a node after each job.",
)
@pretend
@common
def command(
    output: Output, host: str | None, *, forgotten: bool, printed: bool, pretend: bool
) -> None:
    """Restore every setting that a killed run left changed, end its load, remove what it created.

    Every run begins with this. It is safe to repeat.

    \b
    Example:
      sudo IOTRIAL restore
      iotrial restore root@box7
      iotrial restore --epilog > /etc/slurm/epilog.d/iotrial
    """
    if printed:
        if host or forgotten:
            raise click.UsageError("--epilog restores nothing now: it is given alone")
        output.document({"epilog": epilog()})
        if not output.json:
            output.text(epilog().rstrip("\n"))
        return
    place, wrong = place_of(host), False
    with machine(pretend=pretend, place=place, purpose="restore") as here, locked(here):
        told = read_reports(here, journal_folder(here))
        for line in told:
            output.answer(Text(line))
        if forgotten:
            payment = forget(here, journal_folder(here))
        else:
            payment = restore(here, journal_folder(here))
        blind = unseen(here)
        if boot_debt(here):
            wrong = boot_means(here).level and bool(place.ssh)
            payment.done += [] if wrong else need_own_boot(here)
    if wrong:
        output.note(f"{place.name} runs a boot of a study; booting it back")
        with machines(pretend=pretend, purpose="restore") as reach:
            means = bring_back(reach, place, within=FIRST_WITHIN)
        payment.done.append(f"booted {place.name} into its own: {means.release}")
    _say(output, payment, told)
    if blind:
        output.note(blind)


def _say(output: Output, payment: RestoreReport, told: Sequence[str]) -> None:
    said = {"done": payment.done, "notes": payment.notes, "owed": payment.owed}
    output.document({**said, "guard": list(told)})
    for line in payment.done:
        output.answer(line)
    for line in payment.notes:
        output.answer(line)
    if not payment.done and not payment.notes:
        output.answer("No setting is left to restore.")
