"""What a store holds: tables, their columns and what they mean, the same for every kind of store.

The views are the contract (``docs/store.md``): names and meanings stay within a version of the
schema.  How a kind of store lays its tables out is its own matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

VERSION = 2
"""Of the schema.  A store of another version is refused; one of an earlier can be migrated
(``migrations.py``)."""


@dataclass(frozen=True, slots=True)
class StoreColumn:
    """``kind`` is text, integer, number, flag, time (UTC) or bytes."""

    name: str
    kind: str
    about: str


@dataclass(frozen=True, slots=True)
class StoreView:
    """A view: what a row of it is, and its columns."""

    name: str
    about: str
    columns: tuple[StoreColumn, ...]


def _columns(text: str) -> tuple[StoreColumn, ...]:
    return tuple(StoreColumn(*line.split(None, 2)) for line in text.strip().splitlines())


_RESULT = "result text Which results: 16 hex digits, the same however often they are pushed."
RESULTS = StoreView(
    "results",
    "One results folder, as it was pushed last.",
    _columns(f"""
{_RESULT}
study text The study's name.
digest text Of the study: the same file, the same digest.
question text What the study asks.
answer text What it came to, in one sentence.
design text The kind of design; aa: the baseline against itself.
place text HOST:FOLDER where the raw files were when it was pushed.
content text Digest of what was pushed: another one after the study went on.
began time The first trial's start; empty where that is not known.
ended time The last trial's end.
pushed time When it came into the store.
pretended flag Whether its numbers are made up (--pretend).
trials integer Trials that were executed.
valid integer Of them, those whose numbers count.
file text The study file.
pushed_by text The version of iotrial that pushed it, whose judgement the findings are; else empty.
"""),
)
TAGS = StoreView(
    "tags",
    "A name that a person gave to results (push --tag).",
    _columns(f"""
{_RESULT}
tag text The name.
"""),
)
MACHINES = StoreView(
    "machines",
    "A machine that results are of, as it was then.",
    _columns(f"""
{_RESULT}
host text Its name in the study.
machine text Digest of what stays the same of it: machine id, CPU, memory.
kernel text Release of its kernel.
distribution text Its distribution.
cpu text Model of its CPU.
cpus integer Its CPUs.
memory integer Bytes of memory.
facts text Everything that was noted of it, as JSON.
"""),
)
SETTINGS = StoreView(
    "settings",
    "A setting that was in force in trials, as it was read back.",
    _columns(f"""
{_RESULT}
settings integer Which settings were in force together: the trials' settings.
device text The device; on one of several hosts HOST/DEVICE.
tunable text The tunable.
value text Its value.
"""),
)
TRIALS = StoreView(
    "trials",
    "One trial that was executed.",
    _columns(f"""
{_RESULT}
study text The study's name.
trial integer Its number, in the order of execution.
folder text Its folder, below the results folder.
block integer Its block.
stage integer Its stage, from 1; 0: the study has none.
attempt integer From 1; an INVALID trial is done again.
workload text The workload.
treatment text The levels of all factors: a=1, b=2.
target text The target.
host text The host of its block, where blocks are spread over hosts.
tool text The load tool.
state text valid, invalid or failed.
doubted flag Whether there is a doubt about this trial.
started time When it began; empty where that is not known.
seconds number How long it took.
raw text Digest of the names and contents of its raw files; empty where there are none.
error text Why it failed.
settings integer Which settings were in force: those of the view settings.
"""),
)
MEASUREMENTS = StoreView(
    "measurements",
    "One number of one trial, in base units.",
    _columns(f"""
{_RESULT}
study text The study's name.
trial integer The trial's number.
workload text The workload.
treatment text The levels of all factors.
state text The trial's: valid, invalid or failed.
metric text The metric.
job text all: the trial's own number; else that of a job or a part.
value number The number.
unit text Its unit: 1/s, bytes/s, s, fraction.
censored text high or low: the truth lies beyond the value; else empty.
raw text The file in the trial's folder that has it.
"""),
)
POINTS = StoreView(
    "points",
    "A treatment's metric over the trials of one results folder: a point of its history.",
    _columns(f"""
{_RESULT}
study text The study's name.
began time When the first trial of these results began.
workload text The workload.
treatment text The levels of all factors.
target text The target.
metric text The metric.
unit text Its unit.
higher flag Whether more is better; empty where neither is.
n integer Valid trials without a doubt, which the point is of.
doubted integer Trials that were left out: doubted, INVALID or failed.
mean number Their geometric mean.
sd number Standard deviation of the logs; empty for one trial.
"""),
)
FINDINGS = StoreView(
    "findings",
    "A level compared with the baseline.",
    _columns(f"""
{_RESULT}
study text The study's name.
stage integer Its stage, from 1; 0: the study has none.
workload text The workload.
metric text The metric.
factor text The factor.
level text Its level.
baseline text The level that it is compared with.
ratio number Level by baseline.
low number Lower end of the interval; empty where there is none.
high number Its upper end.
verdict text better, worse, same or cannot-tell.
n integer Blocks behind it.
family text primary, secondary or guardrail.
"""),
)
DOUBTS = StoreView(
    "doubts",
    "What makes results less believable.",
    _columns(f"""
{_RESULT}
trial integer The trial's number; empty: all of them.
rule text The check that found it.
what text What was found.
advice text What to do about it.
invalid flag Whether it makes the trial INVALID.
"""),
)
FILES = StoreView(
    "files",
    "The small files of a results folder, from which `iotrial pull` makes it again.",
    _columns(f"""
{_RESULT}
path text Below the results folder.
data bytes Its content, compressed by zlib.
"""),
)
VIEWS = (
    RESULTS, TAGS, MACHINES, SETTINGS, TRIALS, MEASUREMENTS, POINTS, FINDINGS, DOUBTS, FILES,
)  # fmt: skip
PLAIN: Mapping[str, StoreView] = {
    view.name: view for view in (RESULTS, TAGS, MACHINES, POINTS, FINDINGS, DOUBTS, FILES)
}
"""Those that every kind of store keeps as they are; trials with their settings and measurements
are too many for that."""


def told() -> Iterator[tuple[str, str, str, str]]:
    """(view, column, kind, what it means) of every column, each view's own meaning first."""
    for view in VIEWS:
        yield view.name, "", "", view.about
        for column in view.columns:
            yield view.name, column.name, column.kind, column.about
