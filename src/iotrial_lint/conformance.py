"""Conformance: what every plugin of this wing must do, tried out (:mod:`iotrial.conformance`)."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.conformance import GARBAGE, named, says
from iotrial.plugins import Plugin
from iotrial_lint.parsers import parsed
from iotrial_lint.rule import KINDS as SHEETS
from iotrial_lint.rule import SEVERITIES, LintContext


def of_lint(plugin: Plugin) -> Iterator[str]:
    rule = plugin.value
    yield from named(rule.name)
    yield from says(rule, "title", "reason", "source")
    if rule.severity not in SEVERITIES:
        yield f"its severity {rule.severity!r} is not one of {', '.join(SEVERITIES)}"
    if not rule.kinds and not rule.of_host:
        yield "it judges no kind of file, and no host"
    for kind in rule.kinds:
        if kind not in SHEETS:
            yield f"unknown kind {kind!r} of file: {', '.join(SHEETS)}"
            continue
        sheets = [parsed(kind, data, "file") for data in GARBAGE]
        for sheet in sheets:
            tuple(rule.judge(sheet, LintContext(sheets=tuple(sheets))))
        empty = parsed(kind, b"", "file")
        if not empty.complaints and tuple(rule.judge(empty, LintContext())):
            yield f"it speaks of an empty file of kind {kind}"
    if rule.of_host:
        tuple(rule.host(LintContext()))
