"""``docs/check.md``: what ``iotrial check`` does, and every case from the registry."""

from __future__ import annotations

from pathlib import Path

from iotrial_suites.case import Case, KnownFailure, Suite
from iotrial_suites.suites import suites
from iotrial_suites.suites.known import known

_FOOT = """
<!-- Made from the cases in src/iotrial_suites/suites/: change them, then
     IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_check_page.py -->
"""


def reference() -> str:
    """``docs/check.md``: what ``iotrial check`` does, and every case from the registry."""
    head = Path(__file__).with_name("check.md.in").read_text("utf-8")
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
