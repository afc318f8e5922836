"""What is known of cases: on which kernels and versions of tools one fails, and why.

Known failures stand in ``known.toml`` beside this file.  One that begins to pass is told loudly.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from iotrial_suites.case import HostVersions, KnownFailure, numbers


@cache
def known() -> tuple[KnownFailure, ...]:
    """All of them."""
    return _table("known")


@cache
def false_alarms() -> tuple[KnownFailure, ...]:
    """Lines of kernels' logs that look like trouble and are none."""
    return _table("false_alarm")


def _table(name: str) -> tuple[KnownFailure, ...]:
    text = files(__package__).joinpath("known.toml").read_text("utf-8")
    return tuple(_known(row) for row in tomllib.loads(text).get(name, ()))


def _known(row: Mapping[str, Any]) -> KnownFailure:
    bounds = {name: _version(row[name]) for name in ("since", "until") if name in row}
    return KnownFailure(**{"case": "", **row, **bounds})


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def known_here(
    machines: Sequence[HostVersions], rows: Sequence[KnownFailure] | None = None
) -> dict[str, KnownFailure]:
    """By case, those that hold on any of these machines."""
    return {
        row.case: row
        for row in (known() if rows is None else rows)
        if any(row.holds(_of(machine, row.tool)) for machine in machines)
    }


def _of(machine: HostVersions, tool: str) -> tuple[int, ...]:
    return numbers(machine.tools.get(tool, "") if tool else machine.kernel)
