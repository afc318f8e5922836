"""``[[stage]]`` of a study file: one part of a staged study."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from iotrial.plan.values import Scalar, Size


class SweepTable(BaseModel):
    """A finer sweep, or part of the range."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    start: Size | None = Field(
        None,
        alias="from",
        description="The first level; left out: the lowest that survived.",
        examples=[65536],
    )
    to: Size | None = Field(
        None,
        description="No level is above it; left out: the highest that survived.",
        examples=[98304],
    )
    step: Size | None = Field(
        None, description="Between two levels; left out: the factor's own.", examples=[1024]
    )


class StageTable(BaseModel):
    """One stage of a staged study; it carries what it found on to the next."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    vary: list[str] = Field(
        default_factory=list,
        description="Factors varied in this stage, at the levels that are left of them; all others "
        "stand at what earlier stages chose, else at their baseline. A stage that confirms varies "
        "none.",
        examples=[["rsize"]],
    )
    fix: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Factors and workload options held still in this stage.",
        examples=[{"size": "1GiB", "wsize": 65536}],
    )
    then: Literal["narrow", "knee", "best", "screen", "confirm"] = Field(
        "best",
        description="What is carried on: the levels that may be the best; the smallest number as "
        "good as the best; the best; all levels of the factors that may matter. `confirm` compares "
        "all baselines with all that was chosen.",
        examples=["narrow"],
    )
    range: SweepTable | None = Field(
        None,
        description="Finer levels, or fewer, of the factor that has a range.",
        examples=[{"step": 1024}],
    )
    workloads: list[str] = Field(
        default_factory=list, description="Only these; left out: all.", examples=[["read"]]
    )
    options: dict[str, dict[str, Scalar]] = Field(
        default_factory=dict,
        description="Options of workloads, in place of their own.",
        examples=[{"read": {"size": "10GiB"}}],
    )
    target: str = Field(
        "", description="The target; left out: the study's first.", examples=["production"]
    )
    blocks: int = Field(
        0, ge=0, le=10_000, description="Blocks; left out: the design's.", examples=[5]
    )
    kind: Literal["full", "fraction", "one-at-a-time", "race"] | None = Field(
        None, description="Which treatments are tried; left out: the design's.", examples=["full"]
    )
