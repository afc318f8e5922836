"""Member: one host of a crew at work."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from iotrial.execute.bench import Bench
from iotrial.execute.kernels import Kernel
from iotrial.execute.restore import Payment
from iotrial.execute.upkeep import Upkeep
from iotrial.model.study import Place


@dataclass
class Member:
    """One host at work.  ``numbers`` are those its options may use; ``stack`` gives everything
    back when it is closed."""

    place: Place
    bench: Bench
    stack: ExitStack
    kernel: Kernel
    payment: Payment
    numbers: dict[str, float] = field(default_factory=dict)
    _upkeep: Upkeep | None = None

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def upkeep(self) -> Upkeep:
        assert self._upkeep is not None  # noqa: S101 (for the type checker: given when prepared)
        return self._upkeep

    @upkeep.setter
    def upkeep(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep
