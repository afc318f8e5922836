"""SIGINT, SIGTERM and SIGHUP: noted at once, obeyed where it is safe.

A handler that raises could strike in the middle of a restore.  Here it only notes; the runner
looks between steps, and a load that is being waited for is ended at once.
"""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any, Self

from iotrial.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Context in which the stop signals are noted in ``signal`` (0: none so far).  ``why`` says so
    where it is iotrial itself that stops."""

    def __init__(self) -> None:
        self.signal = 0
        self.why = ""
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._former[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number

    def stop(self, why: str) -> None:
        """Stop as by SIGTERM; from any thread."""
        self.why = why
        os.kill(os.getpid(), signal.SIGTERM)

    def check(self) -> None:
        """Raise Interrupted when a stop was asked for."""
        if self.signal:
            why = self.why or f"stopped by {signal.Signals(self.signal).name}"
            raise Interrupted(
                why,
                advice="Settings are restored. Run the same command again to resume.",
            )
