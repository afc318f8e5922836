"""What is known of cases: on which kernels and versions of tools one fails, and why; and all that
there are, as ``docs/check.md`` has them.

Known failures stand in ``known.toml`` beside this file.  One that begins to pass is told loudly.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from iotrial_suites.case import Case, HostVersions, KnownFailure, Suite, numbers
from iotrial_suites.suites import suites


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


_FOOT = """
<!-- Made from the cases in src/iotrial_suites/suites/: change them, then
     IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_check_page.py -->
"""


def reference() -> str:
    """``docs/check.md``: what ``iotrial check`` does, and every case from the registry."""
    head = files(__package__).joinpath("page.md").read_text("utf-8")
    return f"{head}{''.join(map(_section, suites().values()))}{_known_failures(known())}{_FOOT}"


def _section(suite: Suite) -> str:
    rows = "".join(map(_row, suite.cases))
    head = "| case | passes where | needs |\n|---|---|---|\n"
    return f"## {suite.name}\n\n{suite.title}.\n\n{head}{rows}\n"


def _row(case: Case) -> str:
    needs = ", ".join(case.needs.words())
    return f"| `{case.name}` | {_plain(case.title)} | {_plain(needs)} |\n"


def _known_failures(rows: tuple[KnownFailure, ...]) -> str:
    if not rows:
        return "## Known failures\n\nNone.\n"
    lines = "".join(
        f"- `{row.case}`, {_versions(row)}: {_plain(row.reason)} ({_plain(row.source)})\n"
        for row in rows
    )
    return f"## Known failures\n\n{lines}"


def _versions(row: KnownFailure) -> str:
    words = [row.tool or "Linux"]
    words += [f"from {'.'.join(map(str, row.since))} on"] if row.since else []
    words += [f"before {'.'.join(map(str, row.until))}"] if row.until else []
    return " ".join(words)


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")
