"""When a test ends what it ends."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(number: int, many: int, moment: float, met: Callable[[], object]) -> None:
    """Wait for a moment, in seconds.  The last of so many waits until it is met: on a slow machine
    all chosen moments may be too early."""
    if number < many - 1:
        time.sleep(moment)
        return
    deadline = time.monotonic() + 200
    while not met():
        assert time.monotonic() < deadline, "it was never seen"
        time.sleep(0.05)
