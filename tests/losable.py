"""Pretended hosts whose link can be cut, or whose loads fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from iotrial.errors import HostUnreachable
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.host import FakeProcess
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


class Failing(Losable):
    """Its loads end with exit code 1: the first ``works_after`` of them, or (0) all."""

    works_after = 0

    def start(
        self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> FakeProcess:
        process = super().start(argv, folder=folder, environment=environment)
        if not self.works_after or self._loads <= self.works_after:
            ended = process.wait

            def wait(seconds: float) -> int | None:
                return None if ended(seconds) is None else 1

            process.wait = wait  # type: ignore[method-assign]
        return process
