"""What every report of checks says alike."""

from __future__ import annotations

from collections.abc import Mapping

from iotrial.report.blocks import Span
from iotrial.report.visible import visible
from iotrial.units import format_wait
from iotrial_suites.result import Checked, Command, Result, State

SIGNS: dict[State, str] = {"pass": "ok", "fail": "FAIL", "known failure": "known", "not run": "—"}


STYLES: Mapping[State, str] = {
    "pass": "pass",
    "fail": "fail",
    "known failure": "known",
    "not run": "unrun",
}
"""How each result looks, by its name in the style sheet."""


def summary(checked: Checked) -> str:
    """``14 passed, 1 failed, 2 not run, in 41 s``."""
    names: dict[State, str] = {
        "pass": "passed",
        "fail": "failed",
        "known failure": "known to fail",
        "not run": "not run",
    }
    parts = [f"{checked.counts[state]} {word}" for state, word in names.items()]
    parts.append(f"{len(checked.undone)} without a result")
    kept = [part for part in parts if not part.startswith("0 ")] or ["nothing was run"]
    return f"{', '.join(kept)}, in {format_wait(checked.seconds)}"


def without_result(checked: Checked) -> tuple[str, ...]:
    """The cases that were not come to, or not to the end of."""
    return tuple(
        visible(case if turn == 1 else f"{case} (round {turn})") for case, turn in checked.undone
    )


def last_time(checked: Checked, result: Result) -> str:
    """``last fail, 2.1 s``; '' without a last time."""
    last = checked.last.get(result.case)
    if last is None:
        return ""
    return f"last {last.state}, {seconds(last.seconds)}"


def seconds(value: float) -> str:
    """Short times with a decimal, as they are compared."""
    return f"{value:.1f} s" if value < 100 else format_wait(value)  # noqa: PLR2004


def changed(checked: Checked, result: Result) -> bool:
    """Whether it came to something else than the last time."""
    last = checked.last.get(result.case)
    return last is not None and last.state != result.state


def lines(result: Result) -> tuple[str, ...]:
    """Why it came to that, a line each."""
    found = list(result.reasons)
    if result.mended:
        found.append(f"PASSES NOW, and was known to fail: {result.known}")
    elif result.known:
        found.append(f"known: {result.known}")
    return tuple(visible(line) for line in found)


def machines(checked: Checked) -> tuple[str, ...]:
    """``disks-1: Linux 6.1.0-56-amd64, Debian …; mdadm - v4.2``."""
    return tuple(
        visible(
            f"{each.name}: Linux {each.kernel}"
            + (f", {each.distribution}" if each.distribution else "")
            + "".join(f"; {said or f'no {tool}'}" for tool, said in each.tools.items())
        )
        for each in checked.machines
    )


def state(of: State) -> Span:
    """A result, as it looks."""
    return Span(of, f"state {STYLES[of]}")


def ended(command: Command) -> str:
    """How a command ended: ``exit 0``, ``killed after its time``."""
    if command.late:
        return "did not end in its time"
    return f"signal {-command.exit}" if command.exit < 0 else f"exit {command.exit}"
