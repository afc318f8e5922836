"""Workload: the load applied."""

from __future__ import annotations

from dataclasses import dataclass

OptionValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Workload:
    """A tool with its options, as the study says them.  ``jobfile`` is the text of a job file
    (fio), already read; empty when there is none."""

    name: str
    tool: str
    options: tuple[tuple[str, OptionValue], ...] = ()
    jobfile: str = ""

    def option(self, name: str, default: OptionValue = "") -> OptionValue:
        return dict(self.options).get(name, default)
