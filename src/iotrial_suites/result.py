"""Checked: what the cases of suites came to, for every report of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["pass", "fail", "known failure", "not run"]
STATES: tuple[State, ...] = ("pass", "fail", "known failure", "not run")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that was run for a case: evidence.

    ``phase``: ``prepare``, ``steps`` or ``clean-up``.  ``at`` is when it began (Unix time),
    ``seconds`` how long it took; ``exit`` its status or minus its signal; ``late`` whether it was
    ended because its time was over; ``stdout`` and ``stderr`` what it said, or the name of the
    file beside that holds it (``stdout_file``).
    """

    number: int
    host: str
    phase: str
    argv: tuple[str, ...]
    at: float
    seconds: float
    exit: int
    late: bool = False
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    stdout_file: str = ""
    stderr_file: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What one case came to, once.

    ``case`` is its id (``md/create``), ``round`` counts repetitions from 1.  ``reasons`` say why it
    failed or was not run: all of them.  ``known`` says why it is known to fail on this kernel or
    version; with state ``pass``, that it was known to, and does not any more.  ``at`` is Unix time,
    ``seconds`` how long it took, clean-up and all.  ``folder`` holds its evidence, below the
    results folder ('': there is none).  ``owed`` is what clean-up could not do.
    """

    case: str
    title: str
    round: int
    state: State
    reasons: tuple[str, ...] = ()
    known: str = ""
    at: float = 0.0
    seconds: float = 0.0
    folder: str = ""
    commands: int = 0
    owed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people; the round where it is not the first."""
        return self.case if self.round == 1 else f"{self.case} (round {self.round})"

    @property
    def key(self) -> tuple[str, int]:
        return (self.case, self.round)

    @property
    def anchor(self) -> str:
        """Names its place on a page."""
        return f"{self.case.replace('/', '-')}-{self.round}"

    @property
    def mended(self) -> bool:
        """A known failure that begins to pass."""
        return self.state == "pass" and bool(self.known)


@dataclass(frozen=True, slots=True)
class Machine:
    """A host that cases were run on: its kernel (``uname -r``) and the versions of the tools that
    matter, as they say them."""

    name: str
    kernel: str
    distribution: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checked:
    """All of it: a session's results and, of each case, the last time before.

    ``suites`` are names and titles; ``last`` maps a case's id to its newest result in an earlier
    folder, ``last_from`` is that folder's name.  ``seed`` is that of the order (None: as listed).
    ``stopped`` says why it ended early; ``undone`` are the cases and rounds without a result.
    """

    suites: tuple[tuple[str, str], ...]
    machines: tuple[Machine, ...]
    results: tuple[Result, ...]
    started: float = 0.0
    last: Mapping[str, Result] = field(default_factory=dict)
    last_from: str = ""
    seed: int | None = None
    stopped: str = ""
    commands: Mapping[tuple[str, int], tuple[Command, ...]] = field(default_factory=dict)
    logs: Mapping[tuple[str, int], str] = field(default_factory=dict)
    undone: tuple[tuple[str, int], ...] = ()

    @property
    def counts(self) -> dict[State, int]:
        states = [each.state for each in self.results]
        return {state: states.count(state) for state in STATES}

    @property
    def mended(self) -> tuple[Result, ...]:
        return tuple(each for each in self.results if each.mended)

    @property
    def owed(self) -> tuple[str, ...]:
        return tuple(line for each in self.results for line in each.owed)

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.results)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "suites": [name for name, _ in self.suites],
            "hosts": [
                {
                    "name": each.name,
                    "kernel": each.kernel,
                    "distribution": each.distribution,
                    "tools": dict(each.tools),
                }
                for each in self.machines
            ],
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "seed": self.seed,
            "stopped": self.stopped,
            "counts": {state.replace(" ", "_"): n for state, n in self.counts.items()},
            "undone": [{"case": case, "round": turn} for case, turn in self.undone],
            "results": [self._row(each) for each in self.results],
        }

    def _row(self, each: Result) -> dict[str, Any]:
        last = self.last.get(each.case)
        return {
            "case": each.case,
            "title": each.title,
            "round": each.round,
            "state": each.state,
            "reasons": list(each.reasons),
            "known": each.known,
            "mended": each.mended,
            "seconds": round(each.seconds, 3),
            "evidence": each.folder,
            "owed": list(each.owed),
            "last": {"state": last.state, "seconds": round(last.seconds, 3)} if last else None,
        }


def numbers(said: str) -> tuple[int, ...]:
    """The first version number in what a program or kernel says.

    >>> numbers("mdadm - v4.2 - 2021-12-30 - Debian 4.2-5")
    (4, 2)
    """
    found = re.search(r"\d+(?:\.\d+)+", said) or re.search(r"\d+", said)
    return tuple(map(int, found[0].split("."))) if found else ()
