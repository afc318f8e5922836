"""Workload: the load applied."""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.model.chore import Cache, Chore

OptionValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Workload:
    """A tool with its options, as the study says them.  ``jobfile`` is the text of a job file
    (fio), already read; empty when there is none.  ``cache`` is how the page cache is met before
    each load; ``prepare`` and ``cleanup`` are the chores around its trials; ``evidence`` are
    commands whose output is kept after each load."""

    name: str
    tool: str
    options: tuple[tuple[str, OptionValue], ...] = ()
    jobfile: str = ""
    cache: Cache = "keep"
    prepare: tuple[Chore, ...] = ()
    cleanup: tuple[Chore, ...] = ()
    evidence: tuple[tuple[str, ...], ...] = ()

    def option(self, name: str, default: OptionValue = "") -> OptionValue:
        return dict(self.options).get(name, default)
