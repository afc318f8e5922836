"""Known failures: on which kernels and versions of tools a case is known to fail, and why.

They stand in ``known.toml`` beside this file.  One that begins to pass is told loudly.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from iotrial_suites.case import Known
from iotrial_suites.result import Machine, numbers


@cache
def known() -> tuple[Known, ...]:
    """All of them."""
    return _table("known")


@cache
def false_alarms() -> tuple[Known, ...]:
    """Lines of kernels' logs that look like trouble and are none."""
    return _table("false_alarm")


def _table(name: str) -> tuple[Known, ...]:
    text = files(__package__).joinpath("known.toml").read_text("utf-8")
    return tuple(_known(row) for row in tomllib.loads(text).get(name, ()))


def _known(row: Mapping[str, Any]) -> Known:
    bounds = {name: _version(row[name]) for name in ("since", "until") if name in row}
    return Known(**{"case": "", **row, **bounds})


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def known_here(
    machines: Sequence[Machine], rows: Sequence[Known] | None = None
) -> dict[str, Known]:
    """By case, those that hold on any of these machines."""
    return {
        row.case: row
        for row in (known() if rows is None else rows)
        if any(row.holds(_of(machine, row.tool)) for machine in machines)
    }


def _of(machine: Machine, tool: str) -> tuple[int, ...]:
    return numbers(machine.tools.get(tool, "") if tool else machine.kernel)
