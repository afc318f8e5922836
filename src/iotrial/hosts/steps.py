"""Doing steps one by one, with the other verbs of a host: what a batch is where there is no link
whose round trips would count."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial

from iotrial.errors import FileRefused
from iotrial.model.host import CompletedCommand, Host
from iotrial.model.step import NOT_HERE, Change, Ensure, Probe, Step, StepResult, spoken

_WORDS = {os.strerror(code): code for code in errno.errorcode}
_ACT_WITHIN = 60.0
"""Seconds that a command of a step may take."""


def perform(
    host: Host, steps: Sequence[Step], see: Callable[[Probe], StepResult] | None = None
) -> tuple[StepResult, ...]:
    """As :meth:`~iotrial.model.host.Host.batch` says.  ``see`` is what the host has instead of
    :func:`look`."""
    see = see or partial(look, host)
    return tuple([_perform(host, step, see(step.probe)) for step in steps])


def _perform(host: Host, step: Step, seen: StepResult) -> StepResult:
    """A step whose probe has just answered ``seen``."""
    if not isinstance(step, Ensure) or reads(step.probe, seen) == step.value:
        return seen
    for act in step.acts:
        done = _act(host, act)
        if done.errno:
            return StepResult(seen.raw, done.errno, done.complaint)
    return StepResult(seen.raw)


def look(host: Host, probe: Probe) -> StepResult:
    """What one probe reads."""
    if probe.argv:
        return _said(host.run(probe.argv, timeout=_ACT_WITHIN))
    try:
        return StepResult(host.read(probe.path))
    except FileRefused as refused:
        return StepResult(b"", refused.errno, str(refused))


def reads(probe: Probe, answer: StepResult) -> str | None:
    """The value that an answer to a Look shows; None where there is no such setting."""
    if answer.errno == 0:
        return probe.value(answer.raw)
    if probe.absent and answer.errno in NOT_HERE:
        return probe.absent
    return None


def beside(path: str) -> str:
    """Where the new content of a file lies until it takes the file's place."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.new"


def code_of(complaint: str) -> int:
    """The errno that a program's last words name, EIO where they name none.

    >>> code_of("ethtool: netlink error: Operation not supported") == errno.EOPNOTSUPP
    True
    """
    last = complaint.rpartition(": ")[2].strip().rstrip(".")
    return _WORDS.get(last, errno.EIO)


def _said(done: CompletedCommand) -> StepResult:
    if done.exit == 0:
        return StepResult(done.stdout)
    return StepResult(b"", code_of(done.complaint), f"`{spoken(done.argv)}`: {done.complaint}")


def _act(host: Host, act: Change) -> StepResult:
    try:
        match act.kind:
            case "write":
                host.write(act.path, act.data.encode("utf-8", "surrogateescape"))
            case "save":
                host.save(act.path, act.data.encode("utf-8", "surrogateescape"), private=False)
            case "remove":
                host.remove(act.path)
            case "run":
                done = _said(host.run(act.argv, timeout=_ACT_WITHIN))
                return StepResult(b"", done.errno, done.complaint)
    except FileRefused as refused:
        return StepResult(b"", refused.errno, str(refused))
    return StepResult()
