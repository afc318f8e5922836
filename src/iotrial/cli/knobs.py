"""``iotrial knobs``: the catalogue of tunables."""

from __future__ import annotations

import click
from rich.text import Text

from iotrial.cli.completion import of_knobs
from iotrial.cli.machine import machine
from iotrial.cli.output import Output, common, pretend
from iotrial.model.tunable import Tunable
from iotrial.plan.knobs import about, changed, takes
from iotrial.report.layout import TextTable
from iotrial.tunables import TunableFamily, every_family, tunable


@click.command()
@click.argument("name", required=False, shell_complete=of_knobs)
@click.option(
    "--device",
    metavar="NAME",
    help="Show the values in force on this device, interface, CPU … (kernel name).",
)
@click.option(
    "--measure-moves",
    is_flag=True,
    help=(
        "Measure which queue settings a write to each queue setting changes, on a loop device."
        " Needs root."
    ),
)
@pretend
@common
def command(
    output: Output, name: str | None, device: str | None, *, measure_moves: bool, pretend: bool
) -> None:
    """List the tunables by family, those of one family, or all facts about one tunable, NAME.

    \b
    Example:
      iotrial knobs
      iotrial knobs net
      iotrial knobs queue.scheduler --device sda
      sudo IOTRIAL knobs --measure-moves
    """
    if measure_moves:
        _moves(output, pretend=pretend)
        return
    shown = [family for family in every_family() if name in (None, family.name)]
    one = None if shown else tunable(str(name))
    knobs = [one] if one else [knob for family in shown for knob in family.rows]
    values = _values(knobs, device, pretend=pretend) if device or one else {}
    absent = _absent(one, device, pretend=pretend) if one and not values else ""
    output.document({"tunables": [{**_row(knob, values), "absent": absent} for knob in knobs]})
    if one:
        for title, words in _about(one, values, absent).items():
            output.answer(Text.assemble((f"{title:15}", "bold"), words))
        return
    for family in shown:
        _list(output, family, values, device)


def _list(
    output: Output, family: TunableFamily, values: dict[str, tuple[str, str]], device: str | None
) -> None:
    """A family's heading, and its rows; with a device, those that it has."""
    rows = [knob for knob in family.rows if not device or knob.name in values]
    if device and not rows:
        return
    output.answer(Text.assemble((family.name, "bold underline"), f"  {family.title}"))
    table = TextTable()
    table.add_column("tunable", no_wrap=True, style="bold")
    for _ in range(2 if device else 1):
        table.add_column()
    for knob in rows:
        now = [Text(values[knob.name][0])] if device else []
        table.add_row(f"  {knob.name}", *now, Text(knob.summary))
    output.answer(table)


def _values(
    knobs: list[Tunable], device: str | None, *, pretend: bool
) -> dict[str, tuple[str, str]]:
    """What is in force, and what is taken: of the device's knobs, if there is one, and of the
    host's.  One batch."""
    from iotrial.hosts.steps import reads
    from iotrial.model.step import Read

    asked = [(knob, knob.probe(at)) for knob in knobs if (at := _where(knob, device)) is not None]
    with machine(pretend=pretend) as here:
        answers = here.batch([Read(probe) for _, probe in asked])
    return {
        knob.name: (value, takes(knob.domain(answer.raw)))
        for (knob, probe), answer in zip(asked, answers, strict=True)
        if (value := reads(probe, answer)) is not None
    }


def _where(knob: Tunable, device: str | None) -> str | None:
    """The device of a knob, '' for the host's; None where it is not of this device."""
    if knob.scope == "host":
        return ""
    return device if device and not knob.device_problem(device) else None


def _absent(knob: Tunable, device: str | None, *, pretend: bool) -> str:
    """Why this machine does not have it, and what may be meant; '' where nobody can tell."""
    from iotrial.look.offer import Domains

    at = _where(knob, device)
    if at is None:
        return ""
    with machine(pretend=pretend) as here:
        domains = Domains(here)
        if domains.here(knob.name, at):
            return ""
        return f"{domains.why(knob.name, at)}. {domains.instead(knob.name, at)}".strip()


def _about(knob: Tunable, values: dict[str, tuple[str, str]], absent: str) -> dict[str, str]:
    now, taken = values.get(knob.name, ("", ""))
    here = {"in force": now, "accepted here": taken, "not here": absent}
    named = {"name": knob.name, "does": knob.summary, **about(knob)}
    return named | {title: words for title, words in here.items() if words}


def _row(knob: Tunable, values: dict[str, tuple[str, str]]) -> dict[str, object]:
    now, taken = values.get(knob.name, (None, None))
    return {
        "name": knob.name,
        "summary": knob.summary,
        "scope": knob.scope,
        "file": knob.path,
        "command": list(knob.read),
        "changed": changed(knob),
        "unit": knob.unit,
        "layer": knob.layer,
        "lasts": knob.lasts,
        "moves": list(knob.moves),
        "reload": knob.reload,
        "risk": knob.risk,
        "moot": knob.moot,
        "source": knob.source,
        "value": now,
        "takes": taken,
    }


def _moves(output: Output, *, pretend: bool) -> None:
    from iotrial.execute.settings.moves import measure_on_a_loop

    with machine(pretend=pretend, purpose="knobs") as here:
        found = measure_on_a_loop(here)
    declared = {name: tunable(name).moves for name in found}
    output.document(
        {
            "moves": [
                {"tunable": name, "measured": list(moved), "declared": list(declared[name])}
                for name, moved in found.items()
            ]
        }
    )
    table = TextTable("a write to", "also changes here", "declared", header_style="bold")
    for name, moved in found.items():
        table.add_row(name, ", ".join(moved) or "–", ", ".join(declared[name]) or "–")
    output.answer(table)
