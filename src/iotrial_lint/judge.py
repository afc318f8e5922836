"""Judging: sheets and a scene → remarks, the gravest first within a file's order.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from iotrial_lint.rule import (
    SEVERITIES,
    ConfigFile,
    ConfigLine,
    ConfigSetting,
    Kind,
    LintContext,
    LintMessage,
    Rule,
    RuleMessage,
    Severity,
)
from iotrial_lint.rules import rules


def judged(sheets: Sequence[ConfigFile], scene: LintContext) -> tuple[LintMessage, ...]:
    """What all rules say of files that have nothing to do with each other, by file and line."""
    return tuple(
        remark for sheet in sheets for remark in in_order(_of_sheet(sheet, scene, rules().values()))
    )


def judged_host(scene: LintContext) -> tuple[LintMessage, ...]:
    """What all rules say of a running host: of each file by itself, of what wins of all of them
    together, and of what is in force."""
    alone = [rule for rule in rules().values() if not rule.together]
    together = [rule for rule in rules().values() if rule.together]
    found = [remark for sheet in scene.sheets for remark in _of_sheet(sheet, scene, alone)]
    for sheet in merged(scene.sheets):
        found.extend(_of_sheet(sheet, scene, together))
    for rule in rules().values():
        found.extend(_remark(rule, "", said) for said in rule.host(scene))
    order = {sheet.file: number for number, sheet in enumerate(scene.sheets)}
    found.sort(key=lambda each: (order.get(each.file, len(order)), each.file))
    return tuple(dict.fromkeys(found))


def in_order(remarks: Iterable[LintMessage]) -> list[LintMessage]:
    """By line, and the gravest first."""
    return sorted(remarks, key=lambda each: (each.line, SEVERITIES.index(each.severity)))


def counted(remarks: Iterable[LintMessage]) -> dict[Severity, int]:
    """How many of each severity."""
    found = [remark.severity for remark in remarks]
    return {severity: found.count(severity) for severity in SEVERITIES}


def _of_sheet(sheet: ConfigFile, scene: LintContext, wanted: Iterable[Rule]) -> list[LintMessage]:
    return in_order(
        _remark(rule, sheet.file, said)
        for rule in wanted
        if sheet.kind in rule.kinds
        for said in rule.judge(sheet, scene)
    )


def _remark(rule: Rule, file: str, said: RuleMessage) -> LintMessage:
    return LintMessage(
        said.file or file, said.line, said.key, said.what, said.fix or rule.fix, rule
    )


def merged(sheets: Sequence[ConfigFile]) -> Iterator[ConfigFile]:
    """For each kind that is read together (sysctl, modprobe) one sheet of what all its files say,
    in order; every other sheet as it is."""
    for kind in ("sysctl", "modprobe"):
        same = [sheet for sheet in sheets if sheet.kind == kind]
        if same:
            yield _one(kind, same)
    yield from (sheet for sheet in sheets if sheet.kind not in ("sysctl", "modprobe"))


def _one(kind: Kind, sheets: Sequence[ConfigFile]) -> ConfigFile:
    settings = tuple(
        replace(each, entry=_placed(each.entry, sheet.file))
        for sheet in sheets
        for each in sheet.settings
    )
    wins: dict[str, ConfigSetting] = {each.name: each for each in settings}
    kept = tuple(each for each in settings if wins[each.name] is each)
    entries = tuple(_placed(entry, sheet.file) for sheet in sheets for entry in sheet.entries)
    return ConfigFile(kind, sheets[-1].file, entries, kept)


def _placed(entry: ConfigLine, file: str) -> ConfigLine:
    return replace(entry, file=file)
