"""Runs that differ in one factor alone, and ran side by side → one run (``import --merge host``).

The first run of each host is put together with the first of each other, the second with the
second: repeats stay repeats.  What differs in anything else stays apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iotrial.errors import UsageError
from iotrial.model.trial import Doubt, Treatment
from iotrial_import.file_words import by_file
from iotrial_import.merged import Part, joined, merged
from iotrial_import.run import FILE, Run, some, varied


def merged_over(factor: str, runs: Sequence[Run], doubts: list[Doubt]) -> list[Run]:
    """The runs that differ in one factor alone as one run, the first of each label with the first
    of the others, and so on."""
    others = [name for name in varied(runs) if name != factor]
    runs = [run.placed(others) for run in runs]
    if factor == FILE and not any(FILE in run.properties for run in runs):
        told = by_file(runs)
        runs = [run.with_label(FILE, told.get(index, run.file)) for index, run in enumerate(runs)]
    groups: dict[tuple[str, Treatment], dict[str, list[Run]]] = {}
    for run in runs:
        labels = groups.setdefault((run.workload, run.treatment), {})
        labels.setdefault(run.label(factor), []).append(run)
    if not any(len(labels) > 1 for labels in groups.values()):
        known = ", ".join(dict.fromkeys(name for run in runs for name in run.properties))
        raise UsageError(
            f"--merge {factor}: no two runs differ in {factor} alone",
            advice=f"What these runs say: {known or 'nothing'}.  --label or `files` of a map can"
            " say more.",
        )
    found: list[Run] = []
    fullest = max(map(len, groups.values()))
    for labels in groups.values():
        if len(labels) < fullest:
            where = ", ".join(run.place for each in labels.values() for run in each[:1])
            what = f"{len(labels)} of {fullest} labels of {factor} have this run: {where}"
            advice = "Its rates are sums of fewer: a file is missing, or differs in something else."
            doubts.append(Doubt("merged-fewer", what, advice))
        found += _side_by_side(factor, labels, doubts) if len(labels) > 1 else _only(labels)
    return found


def _only(labels: Mapping[str, list[Run]]) -> list[Run]:
    return [run for runs in labels.values() for run in runs]


def _side_by_side(
    factor: str, labels: Mapping[str, list[Run]], doubts: list[Doubt]
) -> Iterator[Run]:
    if len({len(runs) for runs in labels.values()}) > 1:
        counts = ", ".join(f"{label}: {len(runs)}" for label, runs in labels.items())
        raise UsageError(
            f"--merge {factor}: a run of each is put together with one of each other, and they"
            f" have unequal numbers ({counts})",
            advice="Leave out what is too much, or say with `files` of a map how runs differ.",
        )
    for members in zip(*labels.values(), strict=True):
        if len({run.numbers for run in members}) < len(members):
            what = f"the same numbers twice: {', '.join(each.place for each in members)}"
            advice = "Give each file once: copies were added up."
            doubts.append(Doubt("merged-copies", what, advice))
        parts = [
            Part(*each) for each in zip(labels, [run.recording for run in members], strict=True)
        ]
        properties = dict(joined([tuple(run.properties.items()) for run in members]))
        properties.pop(factor, None)
        raw = some([run.file for run in members]).replace("; ", " + ")
        yield replace(
            members[0],
            recording=merged(parts, raw),
            properties=properties,
            parts=sum(run.parts for run in members),
        )
