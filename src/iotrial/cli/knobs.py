"""``iotrial knobs``: the catalogue of tunables."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from iotrial.cli.machine import machine
from iotrial.cli.output import Output, common, pretend
from iotrial.model.tunable import Tunable
from iotrial.tunables import all_tunables, tunable


@click.command()
@click.argument("name", required=False)
@click.option("--device", help="Show the values in force on this block device (kernel name).")
@click.option(
    "--measure-moves",
    is_flag=True,
    help="Measure, on a loop device made for it, what a write to each queue knob moves. Root.",
)
@pretend
@common
def command(
    output: Output, name: str | None, device: str | None, *, measure_moves: bool, pretend: bool
) -> None:
    """List the tunables, or say everything about NAME.

    \b
    Example:
      iotrial knobs
      iotrial knobs queue.scheduler --device sda
      sudo iotrial knobs --measure-moves
    """
    if measure_moves:
        _moves(output, pretend=pretend)
        return
    knobs = [tunable(name)] if name else list(all_tunables())
    values = _values(knobs, device, pretend=pretend) if device or name else {}
    output.document({"tunables": [_row(knob, values) for knob in knobs]})
    if name:
        for title, words in _about(knobs[0], values).items():
            output.answer(Text.assemble((f"{title:12}", "bold"), words))
        return
    table = Table(box=None, pad_edge=False, show_header=bool(device), header_style="bold")
    table.add_column("tunable", no_wrap=True, style="bold")
    if device:
        table.add_column(device)
    table.add_column("what it does")
    for knob in knobs:
        now = [Text(values.get(knob.name, "–"))] if device else []
        table.add_row(knob.name, *now, Text(knob.summary))
    output.answer(table)


def _values(knobs: list[Tunable], device: str | None, *, pretend: bool) -> dict[str, str]:
    """What is in force: of the device's knobs, if there is one, and of the host's."""
    from iotrial.execute.tuning import observe

    with machine(pretend=pretend) as here:
        known = [knob for knob in knobs if device or knob.scope == "host"]
        seen = [(knob.name, observe(here, knob, device or "")) for knob in known]
    return {name: value for name, value in seen if value is not None}


def _about(knob: Tunable, values: dict[str, str]) -> dict[str, str]:
    parts = {
        "name": knob.name,
        "does": knob.summary,
        "file": knob.path,
        "unit": knob.unit,
        "layer": knob.layer,
        "lasts": knob.lasts,
        "moves": ", ".join(knob.moves),
        "risk": knob.risk,
        "moot when": knob.moot,
        "source": knob.source,
        "in force": values.get(knob.name, ""),
    }
    return {title: words for title, words in parts.items() if words}


def _row(knob: Tunable, values: dict[str, str]) -> dict[str, object]:
    return {
        "name": knob.name,
        "summary": knob.summary,
        "file": knob.path,
        "unit": knob.unit,
        "layer": knob.layer,
        "lasts": knob.lasts,
        "moves": list(knob.moves),
        "risk": knob.risk,
        "moot": knob.moot,
        "source": knob.source,
        "value": values.get(knob.name),
    }


def _moves(output: Output, *, pretend: bool) -> None:
    from iotrial.execute.moves import measure_on_a_loop

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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("a write to", "moves here", "declared"):
        table.add_column(title)
    for name, moved in found.items():
        table.add_row(name, ", ".join(moved) or "–", ", ".join(declared[name]) or "–")
    output.answer(table)
