"""``iotrial doctor``: may we measure here?"""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from iotrial.cli.machine import machine, place_of
from iotrial.cli.output import Output, common, pretend
from iotrial.execute.settings.journal import sessions
from iotrial.hosts.places import holder, journal_folder
from iotrial.look.boots import boot_debt
from iotrial.look.doctor import HostCheck, examine, overall
from iotrial.look.topology import devices_here
from iotrial.look.topology_words import warnings, words
from iotrial.model.target import Topology
from iotrial.report.layout import TextTable

STYLE = {"ok": "green", "warn": "yellow", "bad": "red"}
ANSWER = {
    "ok": "Yes: no check found a problem.",
    "warn": "Yes, with warnings.",
    "bad": "No: fix the failed checks first.",
}

SHOWN = 20
"""Lines of the devices' trees that are shown without -v."""


@click.command()
@click.argument("host", required=False)
@click.option(
    "--hosts",
    "study",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="STUDY",
    help="List the hosts of this study and of its inventory, without a connection to any.",
)
@pretend
@common
def command(output: Output, host: str | None, study: Path | None, *, pretend: bool) -> int:
    """Check whether HOST (or this host) is fit for measurements, with a remedy for each problem.

    Exit code 1: a check failed.

    \b
    Example:
      sudo IOTRIAL doctor
      iotrial doctor root@box7
      iotrial doctor -- '-p 2222 root@box7'
      iotrial doctor --hosts study.toml
    """
    if study is not None:
        return _list(output, study)
    with machine(pretend=pretend, place=place_of(host)) as here:
        # What a run at work holds, it gives back: that is not owed.
        owing = () if holder(here) else sessions(here, journal_folder(here))
        owed = [line for each in owing for line in each.describe()]
        owed += () if holder(here) else boot_debt(here)
        checks = examine(here, owed=owed)
        devices = devices_here(here)
    verdict = overall(checks)
    output.document(
        {
            "verdict": verdict,
            "checks": [
                {"name": c.name, "verdict": c.verdict, "reason": c.reason, "remedy": c.remedy}
                for c in checks
            ],
            "devices": [
                {"topology": device.as_dict(), "warnings": list(warnings(device))}
                for device in devices
            ],
        }
    )
    output.answer(_table(checks), Text(f"Fit for measurements? {ANSWER[verdict]}", style="bold"))
    if devices and not output.json:
        _show(output, devices)
    return 1 if verdict == "bad" else 0


def _list(output: Output, study: Path) -> int:
    from iotrial.plan.load import load_hosts

    found = load_hosts(study)
    output.document(
        {
            "hosts": [
                {"host": each.name, "ssh": each.ssh, **({"via": each.via} if each.via else {})}
                for each in found
            ]
        }
    )
    table = TextTable("host", "reached by", header_style="dim")
    for each in found:
        table.add_row(Text(each.name), Text(each.reached or "this host"))
    output.answer(table if found else "The study names no hosts; it runs on this host.")
    return 0


def _table(checks: tuple[HostCheck, ...]) -> TextTable:
    table = TextTable()
    for check in checks:
        words = check.reason + (f"\n→ {check.remedy}" if check.remedy else "")
        table.add_row(
            Text(check.verdict, style=STYLE[check.verdict]),
            Text(check.name, style="bold"),
            Text(words),
        )
    return table


def _show(output: Output, devices: tuple[Topology, ...]) -> None:
    """Every device and what lies below it, oddities first: they are worth a line."""
    odd = [f"! {line}" for device in devices for line in warnings(device)]
    lines = [*dict.fromkeys(odd), *(line for device in devices for line in words(device))]
    shown = lines if output.verbose else lines[:SHOWN]
    output.answer("\nBlock devices and their underlying devices:")
    for line in shown:
        output.answer(f"  {line}")
    if len(shown) < len(lines):
        output.answer(f"  … {len(lines) - len(shown)} more lines (-v shows all)")
