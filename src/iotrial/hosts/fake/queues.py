"""The block queues of kernels: what each does otherwise than :class:`FakeQueue`.

Measured as that was, on loop devices of Debian's kernels at 250 Hz (November 2026): each write's
answer, and every file that is a tunable after it, of random sequences and of every value on every
such file under every scheduler.  ``tests/unit/test_fake_queues.py`` holds them against recordings,
and ``tests/vm/test_fake_in_a_node.py`` against the kernels.
"""

from __future__ import annotations

import errno
from typing import Self

from iotrial.hosts.fake.queue import DEFAULT_READ_AHEAD, PAGE_KB, FakeQueue, refuse, variable


class Queue612(FakeQueue):
    """6.12: there is no ``iostats_passthrough``, and no limit raises the read-ahead above the
    default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        del self.features["iostats_passthrough"]

    @classmethod
    def of_loop(cls) -> Self:
        return cls(rotational=1)

    def write_requests(self, text: str) -> None:
        """mq-deadline is told of a new depth before it is written down: async_depth gets the
        former one."""
        former, depth = self.requests, self.iosched.get("async_depth")
        super().write_requests(text)
        if depth is not None:
            self.iosched["async_depth"] = depth if self.requests == former else former

    def _commit(self) -> None:
        self.read_ahead = max(self.read_ahead, DEFAULT_READ_AHEAD)


class Queue61(Queue612):
    """6.1: besides, no limit moves the read-ahead, and bfq leaves wbt as it is."""

    @classmethod
    def of_loop(cls) -> Self:
        return cls(rotational=1, latency=75000)

    def read_scheduler(self) -> str:
        """``none`` is the last where it is not in use, without a blank after it."""
        if self.scheduler == "none":
            return super().read_scheduler()
        names = (each for each in self.schedulers if each != "none")
        return "".join(f"[{s}] " if s == self.scheduler else f"{s} " for s in names) + "none"

    def write_scheduler(self, text: str) -> None:
        """The same one again changes nothing, unless there are blanks before its name."""
        if text.strip() != self.scheduler:
            super().write_scheduler(text)
        elif self.scheduler != "none" and text.lstrip() != text:
            self._use(self.scheduler)

    def write_sectors(self, text: str) -> None:
        asked = variable(text)
        if not PAGE_KB <= asked <= self.largest:
            raise refuse(errno.EINVAL)
        self.sectors = asked * 2

    def _commit(self) -> None:
        pass

    def _throttles(self, scheduler: str) -> bool:
        del scheduler
        return False


NEWEST = "6.18"
QUEUES: dict[str, type[FakeQueue]] = {"6.1": Queue61, "6.12": Queue612, NEWEST: FakeQueue}
"""Kernel → its queue."""
