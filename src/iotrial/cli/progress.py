"""Progress: every trial's value as it comes, the last value beside it, and when it will be over.

On a terminal a line at the bottom moves; elsewhere there are plain lines only.  Refreshed when
something happens, at most once a second: watching must not load the machine that is measured.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from iotrial.cli.output import Output, can_move
from iotrial.live.pace import RunProgress
from iotrial.model.event import (
    Ask,
    Event,
    LoadProgress,
    Message,
    TrialBegan,
    TrialEnded,
    TrialsPlanned,
)
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord, treatment_text
from iotrial.plan.ahead import open_ended
from iotrial.plan.boots import boot_factors
from iotrial.plan.design import abreast
from iotrial.report.layout import cut, folded
from iotrial.units import format_value, format_wait

_EVERY = 1.0
_BAR = 24
_BELOW = 2
"""Lines below the bar."""
_VALUE = 4 + 12
"""Cells of a trial's value and of the gaps before it."""
_GLANCE = 0.2
"""Seconds between two looks whether a signal came, while a person is waited for."""


class ProgressDisplay:
    """Called with what a run tells (:mod:`iotrial.model.event`), it shows that to people."""

    def __init__(self, output: Output, study: Study) -> None:
        self._output = output
        self._primary = study.decide.leading
        self._metrics = study.metrics
        self._last: dict[tuple[str, str], float] = {}
        self._widest = max((len(workload.name) for workload in study.judged), default=0)
        self._pace = RunProgress(
            abreast(study), study.design.budget, boots=bool(boot_factors(study))
        )
        longest = [
            (each.name, max((level.label for level in each.levels), key=len, default=""))
            for each in study.factors
        ]
        self._wide = len(treatment_text(tuple(longest)))
        self._several = study.spread
        self._shown = 0.0
        self._open_ended = open_ended(study)
        self._expected = 0.0
        self._text = ""
        self._bar = can_move(output.notes) and not output.quiet

    def close(self) -> None:
        self._output.moving.end()

    def __call__(self, event: Event) -> None:
        match event:
            case Message():
                self._output.note(event.text)
            case TrialsPlanned():
                self._planned(event.pending, event.most, event.results)
            case TrialBegan():
                self._expected = event.expected
                self._show(self._name(event.trial))
            case LoadProgress():
                self._show(f"{event.elapsed:.0f} s  {self._name(event.trial)}")
            case TrialEnded():
                self._ended(event.record)
            case _:
                pass  # the live page shows it

    def _planned(self, pending: int, most: int, results: Path) -> None:
        first = not self._pace.done and not self._pace.left
        self._pace = self._pace.planned(pending, most)
        if first or not self._open_ended:
            what = f"at most {most}" if self._open_ended else f"{pending}"
            self._output.note(f"{what} trials; results in {results}")
        self._draw("")

    @property
    def _mark(self) -> str:
        return "≤" if self._open_ended else ""

    def _ended(self, record: TrialRecord) -> None:
        self._pace = self._pace.ended(record)
        done, total = self._pace.done, self._pace.most
        count = f"{done:>{len(str(total))}}/{self._mark}{total}"
        self._output.note(self._line(count, record))
        self._draw(self._text if self._several else "")

    def _line(self, count: str, record: TrialRecord) -> str:
        """One trial that is over.  Where the window is too narrow for the widest, all treatments
        stand below what came of them."""
        trial, value = record.trial, self._value(record)
        if not self._bar:
            return f"{count}  {self._name(trial):44}  {value}  {self._eta()}".rstrip()
        where, treatment = self._where(trial), self._treatment(trial)
        self._wide = max(self._wide, len(treatment))
        width, indent = self._output.notes.width, " " * (len(count) + 2)
        head = f"{count}  {where}"
        if len(head) + self._wide + _VALUE <= width:
            line = f"{head}  {treatment:{self._wide}}  {value}"
            fits = len(line) <= width or record.state != "valid"
            return line if fits else line.partition("  (last ")[0]
        if len(head) + _VALUE + len("  (last 1003 MiB/s)") <= width:
            return f"{head}  {value}\n{indent}{treatment}"
        return f"{head}\n{indent}{value.strip()}  {treatment}"

    def person(self) -> Ask | None:
        """How somebody is asked to do something; None where nobody is there."""
        return self._ask if sys.stdin.isatty() else None

    def _ask(self, what: str, stopped: Callable[[], bool]) -> None:
        """Waits for the return key, or until the run is ``stopped``."""
        self._output.moving.end()
        self._output.notes.bell()
        self._output.note(f"{what}\nThen press Enter.")
        while not stopped():
            ready, _, _ = select.select([sys.stdin], [], [], _GLANCE)
            if ready:
                sys.stdin.readline()
                break
        self._draw("")

    def _value(self, record: TrialRecord) -> str:
        """This trial's response, and the one before of the same treatment and workload."""
        if record.state == "failed":
            return f"FAILED: {record.error}"
        name = self._primary.get(record.trial.workload, "")
        value = record.value(name)
        if value is None:
            return "no value"
        unit = self._metrics.display_unit(name)
        key = (record.trial.workload, treatment_text(record.trial.treatment))
        last = self._last.get(key)
        self._last[key] = value
        text = f"{format_value(value, unit):>12}"
        text += f"  (last {format_value(last, unit)})" if last is not None else ""
        if record.state == "invalid":
            why = next(doubt.what for doubt in record.doubts if doubt.invalid)
            text += f"  INVALID: {why}; queued again"
        return text

    def _eta(self) -> str:
        if not (wait := self._pace.wait(self._expected)):
            return ""
        return f"ETA {'at most ' if self._open_ended else ''}{format_wait(wait)}"

    def _show(self, text: str) -> None:
        if self._several and time.monotonic() < self._shown + _EVERY:
            return  # each of many hosts has something to say
        self._shown = time.monotonic()
        self._draw(text)

    def _draw(self, text: str) -> None:
        self._text = text
        if self._bar:
            width = self._output.notes.width
            done, total = self._pace.done, self._pace.most
            head = f"{done}/{self._mark}{total}  {self._eta()}".rstrip()
            self._output.moving.show(Group(*bar(done / max(total, 1), head, text, width)))

    def _name(self, trial: Trial) -> str:
        return f"{self._where(trial)}  {self._treatment(trial)}"

    def _where(self, trial: Trial) -> str:
        where = f" on {trial.host}" if trial.host else ""
        return f"block {trial.block}{where}  {trial.workload:{self._widest}}"

    @staticmethod
    def _treatment(trial: Trial) -> str:
        again = f" attempt {trial.attempt}" if trial.attempt > 1 else ""
        return f"{treatment_text(trial.treatment)}{again}"


def bar(share: float, head: str, text: str, width: int) -> list[Text]:
    """The bar, and beside it ``head``, which is always there; ``text`` beside them where there is
    room for it, else below, as much of it as two lines hold."""
    cells = min(_BAR, max(width - cell_len(head) - 1, 0))
    full = round(cells * share)
    first = Text.assemble(("━" * full, "green"), ("─" * (cells - full), "dim"), " ", head)
    if not text:
        return [first]
    if cell_len(first.plain) + 2 + cell_len(text) <= width:
        return [first + "  " + text]
    lines = folded(text, width - 2, hang=0).plain.split("\n")
    lines[_BELOW - 1 :] = [cut(" ".join(lines[_BELOW - 1 :]), width - 2)]
    return [first, *(Text(f"  {line}") for line in lines if line)]
