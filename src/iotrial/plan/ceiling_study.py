"""The study that ``iotrial saturate`` executes, as the text of a study file.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from iotrial.model.workload import OptionValue
from iotrial.plan.locate import inline

SEARCH, FINAL = "search", "final"
"""The names of the two workloads."""
TOGETHER = "together"
"""The name of several targets as one."""
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BATCHES = (1, 4, 16)
"""I/Os submitted and waited for at a time."""
MOST_JOBS = 32
PER_CPU = 4
BLOCKS = {"iops": ("4k",), "bandwidth": ("64k", "256k", "1m")}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is searched.  ``targets`` are their names and tables, ``hosts`` their names and how
    ssh(1) reaches them (none: this machine); ``engines`` their names and options; ``seconds`` of
    a deciding trial; ``p99`` in seconds (0: no bound)."""

    targets: Mapping[str, Mapping[str, object]]
    goal: str
    rw: str
    engines: Mapping[str, Sequence[tuple[str, OptionValue]]]
    blocks: tuple[str, ...]
    cpus: int
    seconds: float
    p99: float = 0.0
    margin: float = 0.03
    budget: float = 0.0
    size: int = 0
    hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        operation = "write" if "write" in self.rw else "read"
        return f"{operation}.{'iops' if self.goal == 'iops' else 'bw'}"


def jobs(cpus: int) -> tuple[int, ...]:
    """Numbers of jobs: 1, 2, 4 … up to :data:`PER_CPU` a CPU, :data:`MOST_JOBS` at least."""
    most = max(MOST_JOBS, PER_CPU * cpus)
    return tuple(2**power for power in range(int(math.log2(most)) + 1))


def study_text(asked: Asked) -> str:
    """The study file.  The same answer for the same question, so that a run can be resumed."""
    return "\n".join(_lines(asked)) + "\n"


def _lines(asked: Asked) -> Iterator[str]:
    goal = "most IOPS" if asked.goal == "iops" else "highest bandwidth"
    within = f" with a p99 of {asked.p99 * 1e3:g} ms at most" if asked.p99 else ""
    yield f"question = {inline(f'Which load reaches the {goal}{within}?')}"
    yield from _where(asked)
    for name, ramp, runtime in (
        (SEARCH, asked.seconds / 5, asked.seconds / 2),
        (FINAL, asked.seconds / 4, asked.seconds),
    ):
        yield f"[workloads.{name}]"
        yield 'tool = "fio"'
        yield f"[workloads.{name}.options]"
        yield f"rw = {inline(asked.rw)}"
        yield "direct = 1"
        yield "group_reporting = 1"
        if asked.size:
            yield f"size = {asked.size}"
        yield f'ramp_time = "{ramp * 1e3:.0f}ms"'
        yield f'runtime = "{runtime * 1e3:.0f}ms"'
    yield "[factors.engine]"
    yield f"options = {inline({name: dict(each) for name, each in asked.engines.items()})}"
    yield "[factors.block]"
    yield 'option = "bs"'
    yield f"levels = {inline(asked.blocks)}"
    yield "[factors.jobs]"
    yield 'option = "numjobs"'
    yield f"levels = {inline(jobs(asked.cpus))}"
    yield "[factors.depth]"
    yield 'option = "iodepth"'
    yield f"levels = {inline(DEPTHS)}"
    yield "[factors.batch]"
    yield f"options = {inline({str(size): _batch(size) for size in BATCHES})}"
    for size in BATCHES:
        if below := [depth for depth in DEPTHS if depth < size]:
            yield "[[exclude]]"
            yield f"batch = {size}"
            yield f"depth = {inline(below)}"
    yield "[design]"
    yield 'kind = "saturate"'
    yield 'settle = "0s"'
    if asked.budget:
        yield f'budget = "{asked.budget:g}s"'
    yield "[decide]"
    yield f"primary = {inline(asked.metric)}"
    yield f"margin = {asked.margin:g}"
    if asked.p99:
        name = f"{asked.metric.partition('.')[0]}.clat.p99"
        yield f'limits = {{ {inline(name)} = "{asked.p99 * 1e6:g}us" }}'


def _where(asked: Asked) -> Iterator[str]:
    for name, ssh in asked.hosts.items():
        yield f"[hosts.{inline(name)}]"
        if ssh:
            yield f"ssh = {inline(ssh)}"
    for name, table in asked.targets.items():
        yield f"[targets.{inline(name)}]"
        yield from (f"{key} = {inline(value)}" for key, value in table.items())
    if len(asked.targets) > 1:
        yield f"[targets.{TOGETHER}]"
        yield f"targets = {inline([*asked.targets])}"


def _batch(size: int) -> dict[str, int]:
    if size == 1:
        return {}
    return {"iodepth_batch_submit": size, "iodepth_batch_complete_max": size}
