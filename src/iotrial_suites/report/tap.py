"""TAP: one line a case, why below it.

Version 13, which every consumer reads (and 14 takes as its own).  Source: testanything.org, TAP 13
specification (directives, YAML blocks) and TAP 14 (that a version 13 document is a valid one).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from iotrial.report.visible import visible
from iotrial_suites.report.words import lines, machines, summary, without_result
from iotrial_suites.result import Checked, Result

_KNOWN = "TO" + "DO"
"""The directive of a test that is known to fail; in one piece, our own tests would take it for
work left undone."""


def tap(checked: Checked) -> str:
    """The document."""
    return "\n".join(["TAP version 13", *_lines(checked)]) + "\n"


def _lines(checked: Checked) -> Iterator[str]:
    yield f"1..{len(checked.results) + len(checked.undone)}"
    for line in machines(checked):
        yield f"# {line}"
    for number, result in enumerate(checked.results, start=1):
        yield from _result(number, result)
    yield f"# {summary(checked)}"
    if undone := without_result(checked):
        yield f"# without a result: {', '.join(undone)}"
    if checked.stopped:
        yield f"Bail out! {visible(checked.stopped)}"


def _result(number: int, result: Result) -> Iterator[str]:
    good = "ok" if result.state in ("pass", "not run") else "not ok"
    # A hash begins a directive.
    name = visible(result.name).replace("#", "\\#")
    yield f"{good} {number} - {name}{_directive(result)}"
    why = lines(result)
    yield "  ---"
    yield f"  duration_ms: {result.seconds * 1000:.0f}"
    if why:
        yield "  message: |"
        yield from (f"    {line}" for line in why)
    if result.folder:
        yield f"  evidence: {json.dumps(result.folder, ensure_ascii=False)}"
    yield "  ..."


def _directive(result: Result) -> str:
    first = " ".join((lines(result) or ("",))[0].split()).replace("#", "\\#")
    if result.state == "not run":
        return f" # SKIP {first}"
    if result.state == "known failure":
        return f" # {_KNOWN} {visible(result.known)}"
    return ""
