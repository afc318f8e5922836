"""How a report says a change, an interval and a verdict: the same words in every shape."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iotrial.model.finding import Finding, Verdict
from iotrial.model.results import Latency
from iotrial.model.trial import treatment_text
from iotrial.report.visible import visible
from iotrial.units import ABSURD, format_change, format_seconds, format_wait

if TYPE_CHECKING:
    from iotrial.judgement.judged import Counts


@dataclass(frozen=True, slots=True)
class Terms:
    """What is called how: ``one`` of what was measured, what a finding's ``n`` counts, what the
    number of a repeat is called, and in which order they are listed."""

    one: str
    counted: str
    again: str
    order: str


TRIALS = Terms("trial", "blocks", "block", "In the order they were done.")
RUNS = Terms("run", "pairs", "repeat", "In the order of their files.")
"""Of imported results: nobody planned them, and there are no blocks."""
VERDICTS: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "same": "same",
    "cannot-tell": "cannot tell",
}


def bare(ratio: float) -> str:
    """A ratio as a signed change without its unit: 0.82 → ``−18.0``; ``?`` for nan."""
    if math.isnan(ratio):
        return "?"
    return format_change(ratio).removesuffix(" %")


def interval(finding: Finding) -> str:
    """``−19.9 … −16.1``, or ``no interval`` where one block allows none."""
    if finding.bound:
        return "at least" if finding.bound == "high" else "at most"
    if math.isnan(finding.ratio):
        return "both beyond what was told"
    if finding.low is None or finding.high is None:
        return "no interval"
    return f"{bare(finding.low)} … {bare(finding.high)}"


def numbers(finding: Finding) -> str:
    """``−18.0 (−19.9 … −16.1)``, below a head that says %."""
    return f"{bare(finding.ratio)} ({interval(finding)})"


def change(finding: Finding) -> str:
    """``−18.0 % (−19.9 … −16.1)``."""
    changed = "?" if math.isnan(finding.ratio) else format_change(finding.ratio)
    return f"{changed} ({interval(finding)})"


def needs(finding: Finding) -> str:
    """What would tell it: ``a difference of 5 % would need 40 blocks, about 12m05s more``; where
    being the same is as likely ``2 % or the same would need …``; empty where nothing is to be said.

    Of a guardrail the difference is that from the tolerated change.
    """
    if (more := finding.needs) is None:
        return ""
    size = share(more.difference)
    what = f"a difference of {size}" if not more.same else f"{size} or the same"
    if not finding.primary:
        what = f"{size} from what is tolerated"
    if more.blocks is None or more.seconds is None:
        return f"{what} would need more than {_MOST_BLOCKS:,} blocks"
    return f"{what} would need {more.blocks:,} blocks, about {format_wait(more.seconds)} more"


_MOST_BLOCKS = 2048
"""Looks beyond it are not reckoned with (:mod:`iotrial.stats.critical`)."""


def verdict(finding: Finding) -> str:
    """The verdict; of one that nobody can tell with what would: ``cannot tell: a difference …``."""
    return ": ".join(filter(None, (VERDICTS[finding.verdict], needs(finding))))


def baselines(findings: Sequence[Finding]) -> str:
    """What the findings are against: ``none``, or ``iodepth=1, ioengine=libaio`` where several
    factors are compared."""
    several = len({finding.factor for finding in findings}) > 1
    told = (f"{f.factor}={f.baseline}" if several else f.baseline for f in findings)
    return ", ".join(dict.fromkeys(told))


def load(finding: Finding) -> str:
    """The workload of a finding, with its stage where it has one."""
    return f"stage {finding.stage}: {finding.workload}" if finding.stage else finding.workload


def share(fraction: float) -> str:
    """A size without a sign: 0.021 → ``2.1 %``, 0.02 → ``2 %``, 2.4 → ``3.4×``; of hundreds of
    times nobody wants to know how many (two trials with an interval of all that can be)."""
    if fraction >= ABSURD:
        return f"> {ABSURD}×"
    if fraction >= 1:
        return f"{1 + fraction:.1f}×"
    return f"{fraction * 100:.1f}".removesuffix(".0") + " %"


def headline(answer: str) -> tuple[str, tuple[str, ...]]:
    """The answer's beginning for a heading, and its other sentences.

    A long first sentence is parted at its colon: ``Keep none: for randread …`` has the heading
    ``Keep none``.  One that says of a factor's levels what they are, ``scheduler against cfq: noop
    +2 %, …``, is parted between two levels.
    """
    first, *others = _SENTENCE.split(answer)
    head, colon, rest = first.partition(": ")
    if " against " in head and len(first) > _HEADING and (at := first.rfind(", ", 0, _HEADING)) > 0:
        return f"{first[:at]} …", (first[at + 2 :], *others)
    if len(first) > _HEADING and colon and len(head) <= _HEADING:
        return head, (rest[:1].upper() + rest[1:], *others)
    return first, tuple(others)


_HEADING = 140  # characters
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])")


def direction(higher: bool | None) -> str:  # noqa: FBT001 -- three-valued, as Metric.higher is
    """What is better in a metric, in words."""
    return {True: "more is better", False: "less is better", None: ""}[higher]


def count(number: int, noun: str) -> str:
    """``1 trial``, ``3 trials``, ``10,000 trials``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def done(counts: Counts, one: str) -> str:
    """``58 of 60 trials count, 2 INVALID.``"""
    every = counts.valid + counts.invalid + counts.failed
    parts = [f"{counts.valid:,} of {count(every, one)} count"]
    parts += [f"{counts.invalid:,} INVALID"] if counts.invalid else []
    parts += [f"{counts.failed:,} failed"] if counts.failed else []
    parts += [f"{counts.missing:,} planned and not done"] if counts.missing else []
    return ", ".join(parts) + "."


def some(names: Sequence[str], limit: int) -> str:
    """The first ``limit`` names, and how many more there are."""
    head = ", ".join(names[:limit])
    return f"{head} and {len(names) - limit:,} more" if len(names) > limit else head


PRETENDED = "Pretended: a made-up machine gave these numbers (--pretend); nothing was measured."
"""What every shape of a report begins with then."""

MERGED = (
    "Percentiles of all I/Os of a treatment's runs: their histograms added up bin by bin,"
    " never an average of percentiles."
)


def latency_heads(latencies: Sequence[Latency]) -> tuple[str, ...]:
    """The heads of a table of them."""
    told = dict.fromkeys(one.p for each in latencies for one in each.percentiles)
    return ("workload", "treatment", "latency", "runs", "I/Os", *(f"p{p:g}" for p in told))


def latency_row(each: Latency) -> tuple[str, ...]:
    """One line of it, as text."""
    values = (("≥ " if one.beyond else "") + format_seconds(one.value) for one in each.percentiles)
    said = (each.workload, treatment_text(each.treatment), each.name)
    return (*map(visible, said), f"{each.runs:,}", f"{each.ios:,}", *values)


def guard(finding: Finding, tolerated: float) -> str:
    """Whether a guardrail holds: ``within +10 %``, ``beyond +10 %``, ``may be beyond +10 %``.

    ``tolerated`` is the largest relative change allowed, upwards if positive, downwards if not.
    """
    limit = 1 + tolerated
    ends = [finding.ratio if end is None else end for end in (finding.low, finding.high)]
    outside = [end > limit if tolerated >= 0 else end < limit for end in ends]
    held = "beyond" if all(outside) else "may be beyond" if any(outside) else "within"
    return f"{held} {bare(limit).removesuffix('.0')} %"
