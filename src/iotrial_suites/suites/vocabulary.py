"""The words that cases are written in: each is a step, or a few, with the type of its answer.

``said = yield from run("mdadm", "--detail", node)`` is ``said = yield Run((…))``, typed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from iotrial_suites.case import (
    Failed,
    Join,
    Lose,
    Mount,
    Note,
    Pause,
    Return,
    Run,
    Said,
    Start,
    Started,
    Step,
    Undo,
)

T = TypeVar("T")
Doing = Generator[Step, Any, T]

SUCCESS = (0,)


def run(
    *argv: str,
    on: int = 0,
    within: float = 120.0,
    exits: tuple[int, ...] | None = SUCCESS,
    stdin: str = "",
) -> Doing[Said]:
    """Run a command that must succeed (or end as one of ``exits``; None: as it likes)."""
    said: Said = yield Run(argv, on, within, exits, stdin)
    return said


def refused(*argv: str, on: int = 0, within: float = 120.0) -> Doing[Said]:
    """Run a command that must be refused."""
    said = yield from run(*argv, on=on, within=within, exits=None)
    expect(said.exit != 0, f"`{' '.join(argv)}` was to be refused, and succeeded")
    return said


def read(path: str, *, on: int = 0) -> Doing[str]:
    """The text of a file, without the blanks around it."""
    said = yield from run("cat", path, on=on)
    return said.stdout.strip()


def write(path: str, text: str, *, on: int = 0) -> Doing[None]:
    """Write into a control file, in one write(2)."""
    yield from run(*writing(path), on=on, stdin=text)


def writing(path: str) -> tuple[str, ...]:
    """The command that writes its stdin into a control file."""
    return ("dd", f"of={path}", "bs=64k", "conv=notrunc", "status=none")


def start(*argv: str, on: int = 0, within: float = 120.0) -> Doing[Started]:
    """Start a command and go on."""
    started: Started = yield Start(argv, on, within)
    return started


def join(
    started: Started, *, within: float = 60.0, exits: tuple[int, ...] | None = SUCCESS
) -> Doing[Said]:
    """Wait for the end of a command that was started."""
    said: Said = yield Join(started, within, exits)
    return said


def pause(seconds: float) -> Doing[None]:
    yield Pause(seconds)


def undo(*argv: str, on: int = 0, at: str = "") -> Doing[None]:
    """Owe a command, before what it undoes is made; with ``at``, only while that path is there."""
    yield Undo(argv, on, at)


def mount(device: str, type: str, options: str = "", *, on: int = 0) -> Doing[str]:  # noqa: A002 (as mount -t)
    """Mount at a new folder; gives back the folder."""
    point: str = yield Mount(device, type, options, on)
    return point


def lose(*argv: str, on: int, within: float = 60.0) -> Doing[None]:
    """Run a command after which the host must be gone."""
    yield Lose(argv, on, within)


def back(on: int, *, within: float = 180.0) -> Doing[None]:
    """Wait for a host that was lost."""
    yield Return(on, within)


def note(text: str) -> Doing[None]:
    yield Note(text)


def expect(so: object, otherwise: str) -> None:
    """Fail the case with this sentence unless it is so."""
    if not so:
        raise Failed(otherwise)


def until(
    look: Callable[[], Doing[T]],
    so: Callable[[T], object],
    otherwise: str,
    *,
    within: float = 30.0,
    every: float = 0.2,
) -> Doing[T]:
    """Look again and again until it is so; else fail with a sentence and what was seen last.

    ``within`` counts only the pauses: what the looks take comes on top.
    """
    waited = 0.0
    while True:
        seen = yield from look()
        if so(seen):
            return seen
        if waited >= within:
            raise Failed(f"{otherwise}, for {within:g} s; last seen: {str(seen)[-400:]}")
        yield Pause(every)
        waited += every
