"""How a report says a name, a change, an interval and a verdict: the same words in every shape.

Text that people did not choose (a device's model string, a file's name) may hold terminal
escapes, line breaks, lone surrogates or characters that turn the reading direction, so that a
line seems to say what it does not (CVE-2021-42574).  :func:`visible` shows them by their code
instead.  Escaping for HTML or Markdown is another matter, and each renderer's own.

An interval is also drawn with characters (:func:`strip`), on a scale that its neighbours share::

    ├──●──┤    │        the interval lies below the baseline
          ├─●──┼─┤      it holds the baseline: nothing can be told
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iotrial.model.finding import Finding, Verdict
from iotrial.model.results import LatencyDistribution
from iotrial.model.trial import treatment_text
from iotrial.units import ABSURD, format_change, format_seconds, format_wait

if TYPE_CHECKING:
    from iotrial.judgement.judged import TrialCounts


_TURNS = frozenset(map(chr, (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_HIDDEN = frozenset(("Cc", "Cs", "Zl", "Zp"))
_NO_XML = frozenset("\ufffe\uffff")  # XML 1.0, 2.2: a document that holds one is broken


def _shown(character: str) -> str:
    if character in _TURNS | _NO_XML or unicodedata.category(character) in _HIDDEN:
        return character.encode("unicode_escape").decode()
    return character


@functools.lru_cache(maxsize=4096)
def visible(text: str) -> str:
    """One line of ``text``: control characters, line breaks, surrogates and turns of direction
    are shown as ``\\x1b`` or ``\\u202e``."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def visible_lines(text: str) -> str:
    """As :func:`visible`, but line breaks and tabs stay what they are (a study file, a log)."""
    return "\n".join(
        "    ".join(visible(part) for part in line.split("\t")) for line in text.splitlines()
    )


def number(finding: Finding) -> str:
    """The n of a finding; between results how many sessions each side has: ``6+1``."""
    sides = finding.compared
    return "+".join(map(str, sides.sessions)) if sides and sides.sessions else str(finding.n)


@dataclass(frozen=True, slots=True)
class Wording:
    """What is called how: ``one`` of what was measured, what a finding's ``n`` counts, what the
    number of a repeat is called, and in which order they are listed."""

    one: str
    counted: str
    again: str
    order: str


TRIALS = Wording("trial", "blocks", "block", "In order of execution.")
RUNS = Wording("run", "pairs", "repeat", "In the order of their files.")
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
        return "both values censored"
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
    what = f"detecting {size}" if not more.same else f"detecting {size} or showing equivalence"
    if not (finding.primary or finding.secondary):
        what = f"detecting {size} beyond the tolerated change"
    if more.blocks is None or more.seconds is None:
        return f"{what} needs more than {_MOST_BLOCKS:,} blocks"
    return f"{what} needs {more.blocks:,} blocks, about {format_wait(more.seconds)} more"


_MOST_BLOCKS = 2048
"""Looks beyond it are not reckoned with (:mod:`iotrial.stats.critical`)."""


def by_ranks(finding: Finding) -> str:
    """``by ranks: worse (p = 0.004)``; empty where ranks say nothing."""
    if (told := finding.ranks) is None:
        return ""
    return f"{RANKS}{VERDICTS[told.verdict]} (p {_p(told.p)})"


def _p(p: float) -> str:
    return f"= {p:.1g}" if p >= _LEAST_P else f"< {_LEAST_P:g}"


RANKS = "by ranks: "
_LEAST_P = 0.0001


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
    first, *others = sentences(answer)
    head, colon, rest = first.partition(": ")
    if " against " in head and len(first) > _HEADING and (at := first.rfind(", ", 0, _HEADING)) > 0:
        return f"{first[:at]} …", (first[at + 2 :], *others)
    if len(first) > _HEADING and colon and len(head) <= _HEADING:
        return head, (rest[:1].upper() + rest[1:], *others)
    return first, tuple(others)


_HEADING = 140  # characters


def sentences(text: str) -> list[str]:
    """Each sentence of a text."""
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text)


def direction(higher: bool | None) -> str:  # noqa: FBT001 -- three-valued, as Metric.higher is
    """What is better in a metric, in words."""
    return {True: "more is better", False: "less is better", None: ""}[higher]


def count(number: int, noun: str) -> str:
    """``1 trial``, ``3 trials``, ``10,000 trials``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def done(counts: TrialCounts, one: str) -> str:
    """``58 of 60 trials count, 2 INVALID.``"""
    every = counts.valid + counts.invalid + counts.failed
    parts = [f"{counts.valid:,} of {count(every, one)} valid"]
    parts += [f"{counts.invalid:,} INVALID"] if counts.invalid else []
    parts += [f"{counts.failed:,} failed"] if counts.failed else []
    parts += [f"{counts.missing:,} planned, not executed"] if counts.missing else []
    return ", ".join(parts) + "."


def some(names: Sequence[str], limit: int) -> str:
    """The first ``limit`` names, and how many more there are."""
    head = ", ".join(names[:limit])
    return f"{head} and {len(names) - limit:,} more" if len(names) > limit else head


PRETENDED = "Pretended: the numbers come from a simulated host (--pretend); nothing was measured."
"""What every shape of a report begins with then."""

MERGED = (
    "Percentiles of all I/Os of a treatment's runs, from merged histograms; percentiles are"
    " never averaged."
)


def latency_heads(latencies: Sequence[LatencyDistribution]) -> tuple[str, ...]:
    """The heads of a table of them."""
    told = dict.fromkeys(one.p for each in latencies for one in each.percentiles)
    return ("workload", "treatment", "latency", "runs", "I/Os", *(f"p{p:g}" for p in told))


def latency_row(each: LatencyDistribution) -> tuple[str, ...]:
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


# -- an interval drawn with characters ------------------------------------------------------------

_ROOM = 3.0
"""An interval that is wider than this many times the spread of the ratios is cut: ``<`` ``>``."""


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """Ratios from ``low`` to ``high`` (both ends included, 1 between them) on ``width`` cells."""

    low: float
    high: float
    width: int

    def place(self, ratio: float) -> float:
        """From 0 at ``low`` to 1 at ``high``."""
        return (ratio - self.low) / (self.high - self.low)

    def cell(self, ratio: float) -> int:
        return min(self.width - 1, max(0, round(self.place(ratio) * (self.width - 1))))


def scale(findings: Iterable[Finding], margin: float, width: int) -> IntervalScale:
    """One scale that holds every ratio, the baseline and the margin around it, and of every
    interval as much as leaves the others readable."""
    middles, ends = [1 - margin, 1 + margin], []
    for finding in findings:
        if math.isfinite(finding.ratio):
            middles.append(finding.ratio)
        ends += [end for end in (finding.low, finding.high) if end is not None]
    least, most = min(middles), max(middles)
    room = _ROOM * (most - least)
    low = min([least, *(max(end, least - room) for end in ends)])
    high = max([most, *(min(end, most + room) for end in ends)])
    return IntervalScale(low, high if high > low else low + 0.02, width)


def strip(finding: Finding, on: IntervalScale) -> str:
    """``finding`` on the scale ``on``: exactly ``on.width`` characters."""
    cells = [" "] * on.width
    zero = on.cell(1.0)
    cells[zero] = "│"
    if finding.low is not None and finding.high is not None:
        first, last = on.cell(finding.low), on.cell(finding.high)
        cells[first : last + 1] = ["─"] * (last + 1 - first)
        if first < zero < last:
            cells[zero] = "┼"
        cells[first] = "├" if finding.low >= on.low else "<"
        cells[last] = "┤" if finding.high <= on.high else ">"
    if math.isfinite(finding.ratio):
        cells[on.cell(finding.ratio)] = {"": "●", "high": ">", "low": "<"}[finding.bound]
    return "".join(cells)


def ruler(on: IntervalScale) -> str:
    """The scale's ends in %, with 0 above the baseline where there is room for it."""
    left, right = bare(on.low), f"{bare(on.high)} %"
    cells = list(left + " " * max(1, on.width - len(left) - len(right)) + right)[: on.width]
    return "".join(_marked(cells, on.cell(1.0), len(left), on.width - len(right)))


def _marked(cells: Sequence[str], zero: int, left: int, right: int) -> list[str]:
    marked = list(cells)
    if left < zero < right - 1 and zero < len(marked):
        marked[zero] = "0"
    return marked
