"""Limits: what a benchmark prints of each number, its interval and its limit, and its exit code.

The number decides: a wide interval, of a busy machine or of few runs, would excuse any.  Where the
interval holds the limit, that is printed beside it.  What could not be measured is missed too: a
benchmark that measured nothing has shown nothing.
"""

from __future__ import annotations

import math
import os
import platform
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from scipy.special import stdtrit
from scipy.stats import binom

Interval = tuple[float, float]
Found = float | tuple[float, Interval]
"""A number, or one with its interval."""
CONFIDENCE = 0.95
NOWHERE: Interval = (-math.inf, math.inf)


def mean_of(values: Sequence[float]) -> tuple[float, Interval]:
    """The mean and its 95 % t interval; of one value an interval without ends."""
    mean, count = math.fsum(values) / len(values), len(values)
    if count < 2:
        return mean, NOWHERE
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in values) / (count - 1) / count)
    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    return mean, (mean - half, mean + half)


def ratio_of(ones: Sequence[float], others: Sequence[float]) -> tuple[float, Interval]:
    """The geometric mean of the ratios, pair by pair, and its t interval on the log scale."""
    mean, ends = mean_of([math.log(one / other) for one, other in zip(ones, others, strict=True)])
    low, high = (math.exp(end) if end < math.inf else math.inf for end in ends)
    return math.exp(mean), (low, high)


def median_of(values: Sequence[float]) -> tuple[float, Interval]:
    """The median, and the order statistics that hold it in 95 % of cases at least (the sign test
    turned round: H. A. David and H. N. Nagaraja (2003), *Order Statistics*, 7.1)."""
    ordered, count = sorted(values), len(values)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    at = int(binom.ppf((1 - CONFIDENCE) / 2, count, 0.5))
    return middle, (ordered[at - 1], ordered[count - at]) if at else NOWHERE


@dataclass
class Limits:
    """Prints figures, names in ``width`` characters, and knows which limits were missed."""

    width: int = 60
    missed: list[str] = field(default_factory=list)

    def tell(self, name: str, found: Found, *, form: str = ".3f", beside: str = "") -> None:
        """A figure without a limit."""
        self._row(name, _number(found, form), beside)

    def at_most(
        self, name: str, found: Found, limit: float, *, form: str = ".3f", beside: str = ""
    ) -> None:
        said = self._judged(name, _ends(found), limit, kept=_ends(found)[0] <= limit)
        self._row(name, _number(found, form), f"<= {limit:g}", said, beside)

    def at_least(
        self, name: str, found: Found, limit: float, *, form: str = ".3f", beside: str = ""
    ) -> None:
        said = self._judged(name, _ends(found), limit, kept=_ends(found)[0] >= limit)
        self._row(name, _number(found, form), f">= {limit:g}", said, beside)

    def unmeasured(self, name: str, why: str) -> None:
        """Something with a limit that could not be measured."""
        self.missed.append(name)
        print(f"{name}: NOT MEASURED: {why}", flush=True)

    def status(self) -> int:
        """The exit code; the limits that were missed are named once more."""
        for name in self.missed:
            print(f"limit missed: {name.strip()}", flush=True)
        return 1 if self.missed else 0

    def _judged(self, name: str, found: tuple[float, Interval], limit: float, *, kept: bool) -> str:
        low, high = found[1]
        unsure = "(its interval holds the limit)" if low < limit < high else ""
        if kept:
            return unsure
        self.missed.append(name)
        return f"MISSED {unsure}".rstrip()

    def _row(self, name: str, number: str, *more: str) -> None:
        print(f"{name:{self.width}} {number}  {'  '.join(filter(None, more))}".rstrip(), flush=True)


def _ends(found: Found) -> tuple[float, Interval]:
    return found if isinstance(found, tuple) else (found, (found, found))


def _number(found: Found, form: str) -> str:
    value, (low, high) = _ends(found)
    shown = f"{value:>10{form}}"
    if not isinstance(found, tuple) or math.inf in (-low, high):
        return shown
    return f"{shown} ({low:{form}} … {high:{form}})"


def machine() -> str:
    """What the numbers depend on, in a line."""
    said = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    model = next((line.partition(": ")[2] for line in said if line.startswith("model name")), "?")
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    return f"{model}, {cores} cores, Linux {platform.release()}, load {load:.1f}"


def note(words: str) -> None:
    """How far it is, on stderr."""
    print(words, file=sys.stderr, flush=True)


def run_main(main: Callable[[], int]) -> NoReturn:
    """End with what ``main`` returns.  A signal that ends this process takes the way of an
    exception, so that what was made (devices, namespaces, folders) is removed."""

    def end(number: int, _frame: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)  # once is enough: what removes is not stopped
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    sys.exit(main())
