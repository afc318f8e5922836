"""Rows: how trials and their records are written down as JSON, and read back.  Pure.

Used by the results folder (:mod:`iotrial.store`): plan.jsonl, trial.json, measurements.jsonl.
What is read back is checked first: a key that is missing or not of its type is a FormatError that
names it, and everything behind the reading may rely on the types of the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # as pydantic wants it before Python 3.12

from iotrial.errors import FormatError
from iotrial.model.measurement import Measurement, metric, sectioned
from iotrial.model.results import BootRecord, LatencyDistribution, Percentile, StrainKind
from iotrial.model.trial import Doubt, DrainRecord, DrainState, Trial, TrialRecord, TrialState

Triples = tuple[tuple[str, str, str], ...]


# -- what a row may hold ---------------------------------------------------------------------


def _inside(path: str) -> str:
    """A relative path that leads nowhere else."""
    if {"", ".", ".."} & set(path.split("/")) or "\0" in path:
        raise ValueError("leads out of its folder")
    return path


@lru_cache(maxsize=4096)
def _known(name: str) -> str:
    """A metric's name whose percentile, where it is of one, is a number."""
    _, dot, percentile = sectioned(name)[0].partition(".clat.p")
    if dot and not re.fullmatch(r"[0-9]+(\.[0-9]+)?", percentile):
        raise ValueError("is not a percentile")
    return name


MetricName = Annotated[str, AfterValidator(_known)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=2**63)]
Index = Annotated[int, Field(ge=0, le=10**9)]
Seconds = Annotated[float, Field(ge=-1e12, le=1e12)]
Moment = Annotated[float, Field(ge=-2e9, le=2.5e11)]
"""Seconds since the epoch that are a date."""
Part = Annotated[str, AfterValidator(_inside)]
Told = (
    tuple[Number, str, Literal["", "high", "low"]]
    | tuple[Number, str, Literal["", "high", "low"], str]
)


class DoubtRow(TypedDict):
    """A doubt of hosts/NAME.json."""

    check: str
    what: str
    advice: str
    invalid: NotRequired[bool]
    trial: NotRequired[str]


class TrialRow(TypedDict):
    """A planned trial."""

    number: Index
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    block: Index
    workload: str
    treatment: dict[str, str]
    target: str
    attempt: Index
    stage: NotRequired[Index]
    host: NotRequired[str]


class DrainRow(TypedDict):
    """What a load did before its trial until credits were used up."""

    state: DrainState
    seconds: Seconds
    high: tuple[Number, Number]
    low: tuple[Number, Number]
    moved: Number


class RecordRow(TypedDict):
    """A trial as executed."""

    trial: TrialRow
    state: TrialState
    started: Moment
    seconds: Seconds
    load_seconds: Seconds
    tool: str
    command: tuple[str, ...]
    before: str
    after: str
    doubts: tuple[tuple[str, str, str, bool], ...]
    error: str
    values: dict[MetricName, Told]
    by_part: NotRequired[dict[str, dict[MetricName, Told]]]
    writers: NotRequired[tuple[tuple[str, ...], tuple[str, ...]]]
    source: NotRequired[str]
    session: NotRequired[str]
    prepared: NotRequired[Seconds]
    parts: NotRequired[tuple[Part, ...]]
    beside: NotRequired[tuple[str, str, Part]]
    starts: NotRequired[dict[str, Number]]
    clocks: NotRequired[tuple[tuple[str, Number, Number], ...]]
    drained: NotRequired[DrainRow]


PercentileRow = tuple[Number, Number, bool]
LatencyRow = tuple[str, tuple[tuple[str, str], ...], str, Count, Count, tuple[PercentileRow, ...]]


class AARow(TypedDict):
    """What of an A/A study is not in its file."""

    arms: Annotated[int, Field(ge=2, le=10_000)]
    blocks: Annotated[int, Field(ge=0, le=1_000_000)]
    levels: dict[str, str]


class PriorRow(TypedDict):
    """What earlier results say of the order."""

    folder: str
    order: dict[str, tuple[dict[str, str], ...]]


class PlanHeader(TypedDict):
    """The first line of plan.jsonl."""

    format: int
    study: NotRequired[str]
    digest: NotRequired[str]
    recorded: NotRequired[bool]
    pretended: NotRequired[bool]
    doubts: NotRequired[tuple[tuple[str, str, str], ...]]
    latencies: NotRequired[tuple[LatencyRow, ...]]
    aa: NotRequired[AARow]
    prior: NotRequired[PriorRow]
    blocks: NotRequired[Annotated[int, Field(ge=1, le=100_000)]]
    choices: NotRequired[dict[str, tuple[str, ...]]]
    values: NotRequired[tuple[tuple[str, str, str, str], ...]]
    missing: NotRequired[tuple[tuple[str, str, str, str], ...]]


class DeviceRow(TypedDict):
    """A device of a machine."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    queue: NotRequired[dict[str, Any]]


class TargetSignatureRow(TypedDict):
    """What a target of the study was on a machine."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    path: NotRequired[str | None]
    identity: NotRequired[dict[str, Any] | None]


class FactsRow(TypedDict):
    """hosts/NAME.json, as far as anything is decided by it; all else is only shown."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    memory: NotRequired[Count | None]
    devices: NotRequired[dict[str, DeviceRow]]
    targets: NotRequired[dict[str, TargetSignatureRow]]
    programs: NotRequired[dict[str, str]]
    baselines: NotRequired[dict[str, str]]
    doubts: NotRequired[tuple[DoubtRow, ...]]


class ResourceUsageRow(TypedDict):
    """One of strain.json."""

    host: str
    kind: StrainKind
    name: str
    of: NotRequired[str]
    busy: NotRequired[Number]
    interrupts: NotRequired[Number]
    stolen: NotRequired[Number]
    ios: NotRequired[Number]
    came: NotRequired[Number]
    went: NotRequired[Number]
    latency: NotRequired[Number]
    depth: NotRequired[Number]
    limit: NotRequired[Count]
    iowait: NotRequired[Number]
    load: NotRequired[Number]


class SessionRow(TypedDict):
    """A line of sessions.jsonl."""

    started: NotRequired[Moment]


class BootRow(TypedDict):
    """A line of boots.jsonl."""

    host: str
    method: str
    started: Moment
    seconds: Number
    block: Count
    changes: list[tuple[str, str]]
    kernel: str
    command_line: str
    boot_id: str
    problem: str


_TRIPLES: TypeAdapter[Triples] = TypeAdapter(Triples)
_TRIAL = TypeAdapter(TrialRow)
_RECORD: TypeAdapter[Any] = TypeAdapter(RecordRow)
_LATENCY: TypeAdapter[Any] = TypeAdapter(LatencyRow)
_HEAD: TypeAdapter[Any] = TypeAdapter(PlanHeader)
_FACTS: TypeAdapter[Any] = TypeAdapter(FactsRow)
_STRAINS = TypeAdapter(list[ResourceUsageRow])
_INVENTORY: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])
_SESSION: TypeAdapter[Any] = TypeAdapter(SessionRow)
_BOOT: TypeAdapter[Any] = TypeAdapter(BootRow)


T = TypeVar("T")


def checked(adapter: TypeAdapter[T], row: Any) -> T:  # noqa: ANN401 (what it adapts)
    """``row`` as it should be.  Raises FormatError, naming the first key that is not."""
    try:
        return adapter.validate_python(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        key = ".".join(str(each)[:60] for each in first["loc"])
        raise FormatError(f"{key or 'row'}: {first['msg']}") from error


def head_in(row: Mapping[str, Any]) -> dict[str, Any]:
    """The head of plan.jsonl.  Raises FormatError, as all of these do."""
    return dict(checked(_HEAD, row))


def facts_in(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(checked(_FACTS, row))


def session_in(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(checked(_SESSION, row))


def boot_in(row: Mapping[str, Any]) -> BootRecord:
    found = checked(_BOOT, row)
    return BootRecord(**{**found, "changes": tuple(tuple(each) for each in found["changes"])})


def strains_in(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The strains of strain.json, each with the types of its fields."""
    return [dict(each) for each in checked(_STRAINS, row.get("strains"))]


def inventory_in(row: Mapping[str, Any]) -> dict[str, str]:
    """inventory.json: how ssh(1) reaches each host."""
    return checked(_INVENTORY, row)


# -- rows ------------------------------------------------------------------------------------


def line_out(record: TrialRecord) -> dict[str, Any]:
    """One line of measurements.jsonl: the trial's own numbers; its jobs' stay in the raw file.

    Settings are JSON within JSON: 10,000 trials hold few different ones, and a string that was
    seen before need not be parsed again.
    """
    return {
        **record_out(record),
        "folder": record.trial.folder,
        "before": json.dumps(record.before),
        "after": json.dumps(record.after),
        "values": {
            m.metric: [m.value, m.raw, m.censored, m.unit]
            for m in record.measurements
            if m.job == "all"
        },
        **({"by_part": by_part(record)} if record.parts else {}),
    }


def by_part(record: TrialRecord) -> dict[str, dict[str, list[Any]]]:
    """What each part measured, by its name."""
    found: dict[str, dict[str, list[Any]]] = {part: {} for part in record.parts}
    for m in record.measurements:
        if m.job in found:
            found[m.job][m.metric] = [m.value, m.raw, m.censored, m.unit]
    return found


def record_out(record: TrialRecord) -> dict[str, Any]:
    return {
        "trial": trial_out(record.trial),
        "state": record.state,
        "started": record.started,
        "seconds": round(record.seconds, 6),
        "load_seconds": round(record.load_seconds, 6),
        "tool": record.tool,
        "command": list(record.command),
        "writers": [list(names) for names in record.writers],
        "doubts": [[d.check, d.what, d.advice, d.invalid] for d in record.doubts],
        "error": record.error,
        **({"source": record.source} if record.source else {}),
        **({"session": record.session} if record.session else {}),
        **({"prepared": round(record.prepared, 6)} if record.prepared else {}),
        **({"parts": list(record.parts)} if record.parts else {}),
        **({"beside": list(record.beside)} if record.beside else {}),
        **({"starts": dict(record.starts)} if record.starts else {}),
        **({"clocks": [list(each) for each in record.clocks]} if record.clocks else {}),
        **({"drained": asdict(record.drained)} if record.drained else {}),
    }


def latency_out(each: LatencyDistribution) -> list[Any]:
    return [
        *(each.workload, each.treatment, each.name, each.runs, each.ios),
        [[one.p, one.value, one.beyond] for one in each.percentiles],
    ]


def latency_in(row: Any) -> LatencyDistribution:  # noqa: ANN401
    workload, treatment, name, runs, ios, percentiles = checked(_LATENCY, row)
    told = tuple(Percentile(*one) for one in percentiles)
    return LatencyDistribution(
        workload, tuple((n, label) for n, label in treatment), name, runs, ios, told
    )


def record_in(row: dict[str, Any], memo: dict[str, Triples]) -> TrialRecord:
    """The record of a row; ``memo`` is shared by the rows of one folder.  Raises FormatError."""
    row = dict(checked(_RECORD, row))
    trial = _trial(row["trial"])
    return TrialRecord(
        trial=trial,
        state=row["state"],
        started=row["started"],
        seconds=row["seconds"],
        load_seconds=row["load_seconds"],
        tool=row["tool"],
        command=tuple(row["command"]),
        before=_triples(row["before"], memo),
        after=_triples(row["after"], memo),
        writers=row.get("writers", ((), ())),  # not in older folders
        doubts=tuple(
            Doubt(name, what, advice, invalid=invalid, trial=trial.folder)
            for name, what, advice, invalid in row["doubts"]
        ),
        error=row["error"],
        measurements=(
            *(_measurement(name, told) for name, told in row["values"].items()),
            *(
                _measurement(name, told, part)
                for part, values in row.get("by_part", {}).items()
                for name, told in values.items()
            ),
        ),
        source=row.get("source", ""),
        session=row.get("session", ""),
        prepared=row.get("prepared", 0.0),
        parts=tuple(row.get("parts", ())),
        beside=row.get("beside", ()),
        starts=tuple(row.get("starts", {}).items()),
        clocks=tuple((name, ahead, within) for name, ahead, within in row.get("clocks", ())),
        drained=DrainRecord(**row["drained"]) if "drained" in row else None,
    )


def _measurement(name: str, told: Told, job: str = "all") -> Measurement:
    """``told`` are value, raw, censored and the unit, which is not in older folders."""
    value, raw, censored, *unit = told
    try:
        return Measurement(name, value, unit[0] if unit else metric(name).unit, job, raw, censored)
    except KeyError:
        raise FormatError(f"values.{name}: unknown metric") from None


def _triples(text: str, memo: dict[str, Triples]) -> Triples:
    """Settings read back; equal ones share one tuple."""
    if text not in memo:
        try:
            memo[text] = _TRIPLES.validate_json(text)
        except ValidationError as error:
            raise FormatError("before, after: not a list of [device, tunable, value]") from error
    return memo[text]


def trial_out(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "id": trial.id,
        "block": trial.block,
        "workload": trial.workload,
        "treatment": dict(trial.treatment),
        "target": trial.target,
        "attempt": trial.attempt,
        **({"stage": trial.stage} if trial.stage else {}),
        **({"host": trial.host} if trial.host else {}),
    }


def trial_in_row(row: Mapping[str, Any]) -> Trial:
    """The trial of a row.  Raises FormatError."""
    return _trial(checked(_TRIAL, row))


def _trial(row: TrialRow) -> Trial:
    return Trial(
        number=row["number"],
        id=row["id"],
        block=row["block"],
        workload=row["workload"],
        treatment=tuple(row["treatment"].items()),
        target=row["target"],
        attempt=row["attempt"],
        stage=row.get("stage", 0),  # not in folders without stages
        host=row.get("host", ""),  # only where blocks are spread over hosts
    )
