"""Jobs done at the same time, a thread each, and hosts that are open at the same time: the one way
to open several, whoever works on them.

Pretended hosts make nobody wait: a thread for each would only compete for the interpreter.  They
are worked on one after another, without threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

from iotrial.errors import HostUnreachable, Interrupted, IotrialError, LockedError, OwedError
from iotrial.model.study import StudyHost

T = TypeVar("T")


def at_once(
    jobs: Mapping[str, Callable[[], T]], *, in_turn: bool = False
) -> tuple[dict[str, T], dict[str, Exception]]:
    """Do all jobs at the same time, or ``in_turn``; gives back what they gave, and what they
    raised, by name.  An interrupt from the keyboard is raised when all of them have ended."""
    found: dict[str, T] = {}
    errors: dict[str, Exception] = {}
    if in_turn or len(jobs) <= 1:
        for name, job in jobs.items():
            try:
                found[name] = job()
            except Exception as raised:  # noqa: BLE001 (given back, and raised by whoever asked)
                errors[name] = raised
        return found, errors
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        futures = {name: pool.submit(job) for name, job in jobs.items()}
        wait(futures.values())
    for name, future in futures.items():
        error = future.exception()
        if error is None:
            found[name] = future.result()
        elif isinstance(error, Exception):
            errors[name] = error
        else:
            raise error
    return found, errors


class Pool(Generic[T]):
    """Hosts that are open: ``opened`` has what each was opened as, by name, ``lost`` why others
    could not be, and ``names`` those of all.  ``enter`` opens one of them, and its context is left
    when the host is closed.

    As a context: on the way out all are closed, whatever happened to one of them, or to whoever
    opened them.
    """

    def __init__(
        self,
        places: Sequence[StudyHost],
        enter: Callable[[StudyHost], AbstractContextManager[T]],
        *,
        in_turn: bool = False,
    ) -> None:
        self.opened: dict[str, T] = {}
        self.lost: dict[str, Exception] = {}
        self.names = tuple(place.name for place in places)
        self._places = {place.name: place for place in places}
        self._enter = enter
        self._in_turn = in_turn
        self._stacks: dict[str, tuple[T, ExitStack]] = {}

    def open(self, names: Iterable[str] | None = None) -> dict[str, Exception]:
        """Open these, or all, at the same time; gives back why others are not open, by name."""
        wanted = self.names if names is None else names
        jobs = {name: partial(self._open, name) for name in wanted}
        _, self.lost = at_once(jobs, in_turn=self._in_turn)
        self.look()
        return self.lost

    def open_all(self) -> dict[str, T]:
        """Open all; raises as :meth:`check`."""
        self.open()
        self.check()
        return self.opened

    def check(self) -> None:
        """Raise why hosts could not be opened, where there are such."""
        if error := unreached(self.lost):
            raise error

    def _open(self, name: str) -> None:
        with ExitStack() as stack:
            opened = stack.enter_context(self._enter(self._places[name]))
            self._stacks[name] = (opened, stack.pop_all())

    def close(self, names: Iterable[str] | None = None) -> dict[str, Exception]:
        """Close these, or all, at the same time; gives back what that raised, by name."""
        wanted = self.names if names is None else set(names)
        gone = [name for name in reversed(self.names) if name in wanted and name in self._stacks]
        jobs = {name: self._stacks.pop(name)[1].close for name in gone}
        self.look()
        return at_once(jobs, in_turn=self._in_turn)[1]

    def renew(self, name: str) -> T:
        """Close a host and open it anew.  Raises why it cannot be opened."""
        self.close([name])
        self.open([name])
        self.check()
        return self.opened[name]

    def join(self, whole: Pool[T]) -> None:
        """Be a part of another pool from now on: what either opens or closes, both have (the other
        one when it is told to :meth:`look`)."""
        self._stacks = whole._stacks
        self.look()

    def look(self) -> None:
        """See what is open now."""
        self.opened = {n: self._stacks[n][0] for n in self.names if n in self._stacks}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raises what was left behind; a host that cannot be reached any more is closed."""
        errors = self.close()
        left = {n: each for n, each in errors.items() if not isinstance(each, HostUnreachable)}
        if worst := gravest(left):
            raise worst


# -- one error for several hosts ------------------------------------------------------------------

LAST: tuple[type[IotrialError], ...] = (HostUnreachable,)


def gravest(
    errors: Mapping[str, Exception], last: Sequence[type[IotrialError]] = LAST
) -> IotrialError | None:
    """The one error that stands for all: what is owed, then an interruption, then what a host
    could not, then the kinds of ``last``.  Raises what is no error of ours."""
    for error in errors.values():
        if not isinstance(error, IotrialError):
            raise error
    found = [each for each in errors.values() if isinstance(each, IotrialError)]
    owed = [each for each in found if isinstance(each, OwedError)]
    if len(owed) > 1:
        lines = [line for each in owed for line in (each.message, *each.owed)]
        message = f"{len(owed)} hosts are not fully restored:"
        return OwedError(message, owed=lines, advice=owed[0].advice)

    def weight(error: IotrialError) -> int:
        kinds = enumerate((OwedError, Interrupted, *last), -2)
        return next((n if n < 0 else n + 1 for n, kind in kinds if isinstance(error, kind)), 0)

    return min(found, key=weight, default=None)


def unreached(errors: Mapping[str, Exception]) -> IotrialError | None:
    """What to say where hosts could not be opened, before anything was changed: the gravest, with
    the words of all."""
    error = gravest(errors)
    if error is not None and len(errors) > 1 and not isinstance(error, LockedError):
        error.message = "; ".join(str(getattr(each, "message", each)) for each in errors.values())
    return error
