"""A pretended host whose link can be cut."""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.errors import HostUnreachable
from iotrial.hosts.fake import FakeHost
from iotrial.model.step import Step, StepResult


class Losable(FakeHost):
    """A pretended host; while ``cut`` no batch reaches it."""

    cut = False

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        if self.cut:
            raise HostUnreachable(f"{self.name}: the connection is lost")
        return super().batch(steps)

    def read(self, path: str) -> bytes:
        if self.cut:
            raise HostUnreachable(f"{self.name}: the connection is lost")
        return super().read(path)
