"""Made-up devices: how many I/Os a second and which latency a load gets from them.

A closed queueing system with asymptotes: jobs x depth in flight against a base latency, a device
and CPUs that saturate, and penalties for more jobs than CPUs and for very deep queues.  All of it
is drawn from a seed.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from iotrial.plan.load import parse_study
from iotrial.plan.saturate import SaturationRequest, study_text

ENGINES = ("libaio", "io_uring", "io_uring-fixed", "io_uring-sqpoll")


def study(p99: float = 0.0, margin: float = 0.03):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """The study of ``iotrial saturate`` on a loop device, with two CPUs."""
    engines = {name: [("ioengine", "libaio" if name == "libaio" else "io_uring"),
                      ("thinktime", place)] for place, name in enumerate(ENGINES)}  # fmt: skip
    targets = {"target": {"loop": {"size": 1 << 20}}}
    asked = SaturationRequest(targets, "iops", "randread", engines, ("4k",), 2, 1.0, p99, margin)
    return parse_study(study_text(asked), "made-up.toml", lambda name: name)


@dataclass(frozen=True)
class Device:
    """A surface; see the module."""

    cpus: int
    base: float
    most: float
    cost: float
    engine: tuple[float, ...]
    batching: float
    crowding: float
    depth: float

    @classmethod
    def drawn(cls, seed: int) -> Device:
        chance = random.Random(seed)
        return cls(
            chance.choice([2, 4, 8, 16]),
            10 ** chance.uniform(-5, -2.5),
            10 ** chance.uniform(4, 6.3),
            10 ** chance.uniform(-6, -4.9),
            (1.0, *(chance.uniform(0.5, 1.1) for _ in ENGINES[1:])),
            chance.uniform(0, 0.6),
            chance.uniform(0, 0.3),
            chance.uniform(0, 0.2),
        )

    def rate(self, engine: int, jobs: int, depth: int, batch: int) -> float:
        each = self.cost * self.engine[engine] * (1 - self.batching * (1 - 1 / batch))
        cpu = min(jobs, self.cpus) / each
        waiting = 1 + 0.3 * math.log2(batch) * batch / depth
        offered = jobs * depth / (self.base * waiting + each)
        most = (cpu**-4 + self.most**-4) ** -0.25
        found = (offered**-3 + most**-3) ** (-1 / 3)
        crowd = 1 + max(0.0, math.log2(jobs / self.cpus))
        deep = 1 + max(0.0, math.log2(depth / 32))
        return float(found * crowd**-self.crowding * deep**-self.depth)

    def p99(self, engine: int, jobs: int, depth: int, batch: int) -> float:
        """Little's law for the mean, times a tail that grows with the crowd."""
        mean = jobs * depth / self.rate(engine, jobs, depth, batch)
        return mean * (1.5 + 0.5 * min(3.0, jobs * depth / 64 / self.cpus))
