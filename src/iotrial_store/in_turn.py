"""What is to be measured in turn, since stored results are not shown to be of the same.  Pure.

Two results are *of the same* where nothing differs that a measurement may depend on: machine,
kernel, firmware, versions of tools, settings that the study does not vary, and what the study says
of its loads and targets (:func:`reasons`, by what :mod:`iotrial.stats.regress` lists as different).
Of these iotrial can bring back the settings, and the study.

*Settings* as they were are a factor beside the study's own: :data:`AGAINST`, with the levels
:data:`STORED` and :data:`NOW`, which changes nothing.  The design, the order by chance, journal and
restore are those of any study; only the treatments whose settings differ are measured, each with
the values that it had.  A block is a pair.

*A study* whose loads or targets are not said as they were is executed as it was beside what it is,
in alternation (:mod:`iotrial.cli.compare`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from iotrial.errors import UsageError
from iotrial.model.finding import Difference
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Treatment
from iotrial.plan.in_blocks import FIXED
from iotrial.stats.regress import SettingDifference, differences, unlike_loads, unlike_settings
from iotrial.tunables import catalogue_of, written

AGAINST, STORED, NOW = "against", "stored", "now"
LEAST = 4
"""Pairs, with fewer of which Student's t decides next to nothing."""
_MOST = 500
"""Treatments to be left out one by one."""
_NO_MATTER = re.compile(
    r"question|decide\..*|exclude.*|factors\.[^.]+\.(levels|baseline|range\..*)"
    r"|design\.(blocks|seed|budget|kind|stop|runs|resolution|share|blocks_over)"
)
"""Keys of a study that no single measurement depends on."""

Then = Mapping[Treatment, Mapping[str, str]]
"""Of each treatment whose settings are not what they were: tunable → its value then."""


def reasons(former: Results, latter: Results) -> tuple[Difference, ...]:
    """Why the two are not shown to be measured on the same; nothing where they are.  Loads that are
    not the same at all are compared in no way, and are no reason."""
    others = tuple(f"workloads.{name}." for name in unlike_loads(former.study, latter.study))
    return tuple(
        each
        for each in differences(former, latter)
        if each.kind != "study"
        or not (each.what.startswith(others) or _NO_MATTER.fullmatch(each.what))
    )


def settings_then(former: Results, latter: Results) -> tuple[Then, tuple[str, ...]]:
    """What a run can set as it was, and which settings it cannot, in words."""
    study, known = latter.study, catalogue_of(latter.study)
    varied = {written(name) for f in study.factors for at in f.levels for name, _ in at.settings}
    found: dict[tuple[Treatment, str], list[SettingDifference]] = {}
    for each in unlike_settings(former, latter):
        if each.tunable not in varied:
            found.setdefault((each.treatment, each.tunable), []).append(each)
    then: dict[Treatment, dict[str, str]] = {}
    lost: dict[str, None] = {}
    for (treatment, name), here in found.items():
        values = {value for each in here for value in each.before}
        try:
            knob = known.tunable(name)
        except UsageError:
            lost[name] = None
            continue
        if len(values) > 1 or knob.reload or knob.boot or len(study.places) > 1:
            lost[name] = None
        else:
            then.setdefault(treatment, {})[name] = values.pop()
    return then, tuple(lost)


def with_settings_then(study: Study, then: Then) -> str:
    """What is added to the text of the study, so that its treatments are measured with the settings
    of ``then`` and as found.  Raises UsageError where that cannot be said."""
    if study.stages or study.aa or study.spread or study.design.kind not in (*FIXED[:1], "race"):
        raise UsageError(
            f"a study of the kind {study.design.kind} with settings as they were is not made by"
            " iotrial itself",
            advice="Write a study of these settings as a factor: iotrial init.",
        )
    levels = list(dict.fromkeys(tuple(sorted(values.items())) for values in then.values()))
    names = [STORED, *(f"{STORED}-{number}" for number in range(2, len(levels) + 1))]
    mine = {each: names[levels.index(tuple(sorted(v.items())))] for each, v in then.items()}
    lines = [
        "", "# Added by run --against: settings as they were, beside those that were found.",
        f"[factors.{AGAINST}]", f'baseline = "{STORED}"', f"[factors.{AGAINST}.levels]",
        *(f"{name} = {{ {_pairs(dict(at))} }}" for name, at in zip(names, levels, strict=True)),
        f"{NOW} = {{}}", "",
    ]  # fmt: skip
    every = {each for load in study.judged for each in study.treatments(load.name)}
    out = [
        {**dict(each), **({AGAINST: name} if each in mine else {})}
        for each in sorted(every)
        for name in (names if each in mine else [""])
        if mine.get(each) != name
    ]
    if len(out) > _MOST or not all(out):
        raise UsageError(
            f"{len(every):,} treatments are too many to be measured with settings as they were",
            advice="Compare fewer: run a study of the treatments that matter.",
        )
    for each in out:
        lines += [
            "[[exclude]]",
            *(f"{_key(key)} = {_text(value)}" for key, value in each.items()),
            "",
        ]
    return "\n".join(lines)


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{_text(name)} = {_text(value)}" for name, value in values.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    """A string of TOML; JSON's are."""
    return json.dumps(value, ensure_ascii=False)


def sides(results: Results, study: Study) -> tuple[tuple[Results, ...], tuple[Results, ...]]:
    """What was measured with settings as they were, and as found: of each a results a block, the
    n-th beside the n-th, as results of the ``study`` without :data:`AGAINST`."""
    blocks = sorted({record.trial.block for record in results.records})

    def of(block: int, names: Collection[str], called: str) -> Results:
        kept = []
        for record in results.records:
            treatment = dict(record.trial.treatment)
            level = treatment.pop(AGAINST, "")
            if record.trial.block == block and (level == NOW) == (NOW in names):
                trial = replace(record.trial, treatment=tuple(treatment.items()))
                kept.append(replace(record, trial=trial))
        records = tuple(kept)
        planned = tuple(record.trial for record in records)
        return replace(results, folder=Path(called), study=study, records=records, planned=planned)

    return (
        tuple(of(block, (STORED,), "settings as stored") for block in blocks),
        tuple(of(block, (NOW,), "settings as found") for block in blocks),
    )


def told(found: Sequence[Difference]) -> list[str]:
    """Differences as a person says them: ``kernel: 6.1 then, 6.12 now``."""
    return [f"{each.what}: {each.before} then, {each.after} now" for each in found]
