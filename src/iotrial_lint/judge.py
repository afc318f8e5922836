"""Judging: sheets and a scene → remarks, the gravest first within a file's order.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from iotrial_lint.rule import (
    SEVERITIES,
    Entry,
    Kind,
    Remark,
    Rule,
    Said,
    Scene,
    Setting,
    Severity,
    Sheet,
)
from iotrial_lint.rules import rules


def judged(sheets: Sequence[Sheet], scene: Scene) -> tuple[Remark, ...]:
    """What all rules say of files that have nothing to do with each other, by file and line."""
    return tuple(
        remark for sheet in sheets for remark in in_order(_of_sheet(sheet, scene, rules().values()))
    )


def judged_host(scene: Scene) -> tuple[Remark, ...]:
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


def in_order(remarks: Iterable[Remark]) -> list[Remark]:
    """By line, and the gravest first."""
    return sorted(remarks, key=lambda each: (each.line, SEVERITIES.index(each.severity)))


def counted(remarks: Iterable[Remark]) -> dict[Severity, int]:
    """How many of each severity."""
    found = [remark.severity for remark in remarks]
    return {severity: found.count(severity) for severity in SEVERITIES}


def _of_sheet(sheet: Sheet, scene: Scene, wanted: Iterable[Rule]) -> list[Remark]:
    return in_order(
        _remark(rule, sheet.file, said)
        for rule in wanted
        if sheet.kind in rule.kinds
        for said in rule.judge(sheet, scene)
    )


def _remark(rule: Rule, file: str, said: Said) -> Remark:
    return Remark(said.file or file, said.line, said.key, said.what, said.fix or rule.fix, rule)


def merged(sheets: Sequence[Sheet]) -> Iterator[Sheet]:
    """For each kind that is read together (sysctl, modprobe) one sheet of what all its files say,
    in order; every other sheet as it is."""
    for kind in ("sysctl", "modprobe"):
        same = [sheet for sheet in sheets if sheet.kind == kind]
        if same:
            yield _one(kind, same)
    yield from (sheet for sheet in sheets if sheet.kind not in ("sysctl", "modprobe"))


def _one(kind: Kind, sheets: Sequence[Sheet]) -> Sheet:
    settings = tuple(
        replace(each, entry=_placed(each.entry, sheet.file))
        for sheet in sheets
        for each in sheet.settings
    )
    wins: dict[str, Setting] = {each.name: each for each in settings}
    kept = tuple(each for each in settings if wins[each.name] is each)
    entries = tuple(_placed(entry, sheet.file) for sheet in sheets for entry in sheet.entries)
    return Sheet(kind, sheets[-1].file, entries, kept)


def _placed(entry: Entry, file: str) -> Entry:
    return replace(entry, file=file)
