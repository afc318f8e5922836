"""Progress: every trial's value as it comes, the last value beside it, and when it will be over.

On a terminal a line at the bottom moves; elsewhere there are plain lines only.  Refreshed when
something happens, at most once a second: watching must not load the machine that is measured.
"""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn

from iotrial.cli.output import Output
from iotrial.execute.interruption import Interruption
from iotrial.live.pace import Pace
from iotrial.model.measurement import metric
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord, treatment_text
from iotrial.plan.ahead import open_ended
from iotrial.plan.spread import abreast
from iotrial.units import format_value, format_wait

_EVERY = 1.0
_GLANCE = 0.2
"""Seconds between two looks whether a signal came, while a person is waited for."""


class Terminal:
    """The runner's watcher for people (``iotrial.execute.runner.Watcher``)."""

    def __init__(self, output: Output, study: Study) -> None:
        self._output = output
        self._primary = dict(study.decide.primary)
        self._last: dict[tuple[str, str], float] = {}
        self._widest = max((len(workload.name) for workload in study.workloads), default=0)
        self._pace = Pace(abreast(study), study.design.budget)
        self._several = study.spread
        self._shown = 0.0
        self._open_ended = open_ended(study)
        self._bar: Progress | None = None
        if output.notes.is_terminal and not output.quiet:
            self._bar = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.completed}/{task.fields[at_most]}{task.total}", markup=False),
                TextColumn("{task.description}", markup=False),
                console=output.notes,
                auto_refresh=False,
                transient=True,
            )

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def said(self, text: str) -> None:
        self._output.note(text)

    def planned(self, pending: int, most: int, results: Path) -> None:
        first = not self._pace.done and not self._pace.left
        self._pace = self._pace.planned(pending, most)
        if first or not self._open_ended:
            what = f"at most {most}" if self._open_ended else f"{pending}"
            self._output.note(f"{what} trials to do; results in {results}")
        if self._bar is None:
            return
        if not self._bar.task_ids:
            self._bar.start()
            self._bar.add_task("", total=self._pace.most, at_most=self._mark)
        self._bar.update(self._bar.task_ids[-1], total=self._pace.most)

    @property
    def _mark(self) -> str:
        return "≤" if self._open_ended else ""

    def began(self, trial: Trial, seconds: float) -> None:
        self._show(f"{self._name(trial)}  {self._eta(seconds)}")

    def ticked(self, trial: Trial, elapsed: float) -> None:
        self._show(f"{self._name(trial)}  {elapsed:.0f} s  {self._eta(0.0)}")

    def ended(self, record: TrialRecord) -> None:
        self._pace = self._pace.ended(record)
        done, total = self._pace.done, self._pace.most
        self._output.note(
            f"{done:>{len(str(total))}}/{self._mark}{total}  {self._name(record.trial):44}"
            f"  {self._value(record)}  {self._eta(0.0)}".rstrip()
        )
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[-1], completed=self._pace.done)

    def attended(self) -> bool:
        return sys.stdin.isatty()

    def asked(self, what: str, interruption: Interruption) -> None:
        """Waits for the return key; a signal ends the wait."""
        if self._bar is not None:
            self._bar.stop()
        self._output.notes.bell()
        self._output.note(f"{what}\nThen press Enter.")
        while not interruption.signal:
            ready, _, _ = select.select([sys.stdin], [], [], _GLANCE)
            if ready:
                sys.stdin.readline()
                break
        if self._bar is not None:
            self._bar.start()

    def _value(self, record: TrialRecord) -> str:
        """This trial's response, and the one before of the same treatment and workload."""
        if record.state == "failed":
            return f"FAILED: {record.error}"
        name = self._primary.get(record.trial.workload, "")
        value = record.value(name)
        if value is None:
            return "no value"
        unit = metric(name).unit
        key = (record.trial.workload, treatment_text(record.trial.treatment))
        last = self._last.get(key)
        self._last[key] = value
        text = f"{format_value(value, unit):>12}"
        text += f"  (last {format_value(last, unit)})" if last is not None else ""
        if record.state == "invalid":
            why = next(doubt.what for doubt in record.doubts if doubt.invalid)
            text += f"  INVALID: {why}; queued again"
        return text

    def _eta(self, expected: float) -> str:
        if not (wait := self._pace.wait(expected)):
            return ""
        return f"ETA {'at most ' if self._open_ended else ''}{format_wait(wait)}"

    def _show(self, text: str) -> None:
        if self._several and time.monotonic() < self._shown + _EVERY:
            return  # each of many hosts has something to say
        self._shown = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[-1], description=text)
            self._bar.refresh()

    def _name(self, trial: Trial) -> str:
        again = f" attempt {trial.attempt}" if trial.attempt > 1 else ""
        treatment = treatment_text(trial.treatment)
        where = f" on {trial.host}" if trial.host else ""
        return f"block {trial.block}{where}  {trial.workload:{self._widest}}  {treatment}{again}"
