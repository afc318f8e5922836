"""A metric of a command of one's own, as a study file says it: one table of ``metrics``.

A part of :mod:`iotrial.plan.schema`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class MetricTable(BaseModel):
    """A number that a command of your own leaves, and how to find it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    pattern: str = Field(
        "",
        description="Regular expression with one group, which is the number.",
        examples=["Throughput: ([0-9.]+)"],
    )
    json_path: str = Field(
        "",
        alias="json",
        description="Where the number is in a JSON document.",
        examples=["jobs[0].read.bw"],
    )
    file: str = Field(
        "stdout",
        description="Where to look: stdout, stderr, or a file that the command writes into its "
        "working folder, which is the trial's.",
        examples=["result.json"],
    )
    unit: str = Field(
        "",
        description="The unit that the command writes it in; left out: a plain number, or the unit "
        "beside it.",
        examples=["MiB/s", "kiops", "ms"],
    )
    take: Literal["only", "first", "last", "sum"] = Field(
        "only",
        description="Which, where the pattern is found more than once; `only` refuses that.",
        examples=["last"],
    )
    better: Literal["higher", "lower"] | None = Field(
        None,
        description="Which way is better; needed to decide by a metric that iotrial does not know.",
        examples=["higher"],
    )
