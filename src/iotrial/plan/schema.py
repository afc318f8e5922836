"""The study file as it may be written: every table and key, its type, and what it is for.

The keys are a contract: a key is never renamed.  The whole contract validates here; what this
version cannot execute yet is refused afterwards, plainly (:mod:`iotrial.plan.unsupported`).
``json_schema`` publishes the same models for editors.  Keys may be left out unless marked
otherwise; sizes, durations and shares are converted to base units on the way in.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from iotrial.model.chore import Cache
from iotrial.model.workload import Start
from iotrial.plan.inventory_table import InventoryTable
from iotrial.plan.knob_table import KnobTable
from iotrial.plan.metric_table import MetricTable
from iotrial.plan.stage_table import StageTable
from iotrial.plan.target_table import TargetTable
from iotrial.plan.values import (
    Argv,
    ChoreValue,
    Duration,
    Levels,
    OneOrMore,
    Scalar,
    Share,
    Size,
)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class HostTable(_Table):
    """A machine to measure on.  Without any, it is this machine."""

    ssh: str = Field(
        "",
        description="How ssh(1) reaches the machine; left out: this machine.",
        examples=["root@box7", "-p 2222 admin@box7"],
    )
    lease: Duration = Field(
        30.0,
        ge=5,
        le=3600,
        description="So long after the link to it is lost, the machine puts everything back "
        "itself.",
        examples=["30s"],
    )
    listen: str = Field(
        "",
        description='Where the servers of `start = "server"` listen: an address of the machine '
        "that is reached from here, with a port or one that is free; several loads take the ports "
        "from it on. Whoever reaches it can have fio run anything there, as root. Left out: "
        "nobody, the load goes through the SSH connection.",
        examples=["10.0.0.7", "10.0.0.7:8765", "[fd00::7]:8765"],
    )


class WorkloadTable(_Table):
    """A load: a tool with its options, or with a job file, or a command of your own."""

    tool: str = Field(description="Which load tool.", examples=["fio"])
    options: dict[str, Scalar] = Field(
        default_factory=dict,
        description="The tool's own options, by its own names.",
        examples=[{"rw": "randread", "bs": "4k", "iodepth": 32, "runtime": "10s"}],
    )
    jobfile: str = Field(
        "", description="The tool's job file, relative to the study.", examples=["my.fio"]
    )
    start: Start = Field(
        "plain",
        description="How the tool is started: by itself on each host; or, of fio, as a "
        "`fio --server` there that a `fio --client` here tells what to do, through the host's SSH "
        "connection, or where the host's `listen` says.",
        examples=["server"],
    )
    cache: Cache = Field(
        "keep",
        description="How the page cache is met before each load: left as it is; dropped, which "
        "is verified; by mounting the file system anew; or not at all, for the tool goes past it.",
        examples=["drop"],
    )
    prepare: list[ChoreValue] = Field(
        default_factory=list,
        description="Done before trials, in this order.",
        examples=[["trim", {"precondition": "2x"}]],
    )
    cleanup: list[ChoreValue] = Field(
        default_factory=list,
        description="Done after trials, also failed ones, in this order.",
        examples=[[{"command": ["rm", "-f", "/mnt/nas/old.dat"]}]],
    )
    evidence: list[Argv] = Field(
        default_factory=list,
        description="Commands run after each load while its settings hold; what they print is "
        "kept with the trial. `{target}` stands for the target's path.",
        examples=[[["nfsstat", "-c"], ["ls", "-l", "{target}"]]],
    )
    argv: Argv = Field(
        default_factory=list,
        description='The command of `tool = "command"`; `{target}` stands for the target\'s path, '
        "`{NAME}` for the option of that name.",
        examples=[["pgbench", "-c", "{clients}", "{target}"]],
    )
    metrics: dict[str, MetricTable] = Field(
        default_factory=dict,
        description="What to read from the output of `argv`.",
        examples=[{"score": {"pattern": "score: ([0-9.]+)", "better": "higher"}}],
    )


class RangeTable(_Table):
    """Whole numbers from `from` up to and with `to`, in steps of `step`."""

    start: Size = Field(alias="from", description="The first level.", examples=[20480])
    to: Size = Field(description="No level is above it.", examples=[98304])
    step: Size = Field(description="Between two levels.", examples=[4096])


class FactorTable(_Table):
    """What is varied: a tunable, a workload option, the target, how many hosts or devices, or a
    group of settings."""

    tunable: str = Field(
        "", description="A tunable: see `iotrial knobs`.", examples=["queue.scheduler"]
    )
    option: str = Field("", description="A workload option.", examples=["iodepth"])
    options: dict[str, dict[str, Scalar]] = Field(
        default_factory=dict,
        description="Groups of workload options, each switched as one.",
        examples=[{"plain": {"ioengine": "libaio"}, "fixed": {"ioengine": "io_uring",
                   "fixedbufs": 1}}],
    )  # fmt: skip
    targets: list[str] = Field(
        default_factory=list, description="Targets to compare.", examples=[["disk", "array"]]
    )
    count: Literal["hosts", "devices"] | None = Field(
        None,
        description="How many of the target's hosts take part, or how many of its devices on each "
        "host: the first so many.",
        examples=["hosts"],
    )
    manual: str = Field(
        "",
        description="What a person is asked to do for each level.",
        examples=["Flash the HBA with {level}, then confirm"],
    )
    verify: Argv = Field(
        default_factory=list,
        description="Command that must print the level a person has set.",
        examples=[["cat", "/sys/class/scsi_host/host0/fwrev"]],
    )
    levels: Levels | None = Field(
        None,
        description="A list of values; a table of groups (label = { tunable = value }); or, for a "
        'tunable, "available": every choice the kernel offers.  An array in place of a value: the '
        "first of them that is available.",
        examples=[
            ["none", ["mq-deadline", "deadline"]],
            {"stock": {}, "tuned": {"queue.nr_requests": 256}},
        ],
    )
    range: RangeTable | None = Field(
        None,
        description="Levels as a range of whole numbers.",
        examples=[{"from": 128, "to": 1024, "step": 128}],
    )
    workload: str = Field(
        "", description="Vary the option in this workload only.", examples=["randread"]
    )
    target: str = Field(
        "",
        description="Whose device the tunable belongs to; left out: the target under test.",
        examples=["disk"],
    )
    on: str = Field(
        "",
        description="What exactly the tunable is set on, where it does not follow from a target: "
        "an interface, a mount point, an interrupt, a CPU.",
        examples=["eth0", "/mnt/nas"],
    )
    baseline: Scalar = Field(
        "",
        description="What the others are compared with; left out: the level in force at the "
        'start, else the first.  For a tunable, "unset" is the value it had at the start.',
        examples=["none"],
    )
    hard: bool = Field(
        default=False,
        description="Costly to change: set up once a level and block.",
        examples=[True],
    )


class DesignTable(_Table):
    """How the treatments are spread over trials."""

    kind: Literal["full", "fraction", "one-at-a-time", "race", "saturate"] | None = Field(
        None,
        description="Which treatments are tried: all; as many as tell the effects apart; the "
        "baseline and each other level alone; all, until each is known to be worse than the "
        "best or the same; or those that a search for the highest value comes to. Left out: "
        "full where blocks is given, else a race.",
        examples=["full", "race"],
    )
    resolution: int = Field(
        5,
        ge=3,
        le=5,
        description="Of a fraction: what must not be mixed with main effects; 3: one another, "
        "4: interactions of two factors either, 5: and these not with one another.",
        examples=[4],
    )
    runs: int = Field(
        0,
        ge=0,
        description="Of a fraction, in place of the resolution: how many treatments it has.",
        examples=[16],
    )
    blocks: PositiveInt | None = Field(
        None,
        le=10_000,
        description="How often each treatment is tried; in a race, how often at most. Left out: "
        "5, and 100 in a race.",
        examples=[5],
    )
    stop: Literal["blocks", "decided"] = Field(
        "blocks",
        description="When a design that is no race ends: after all its blocks, or as soon as "
        "every comparison is decided; its intervals then hold at all looks together.",
        examples=["decided"],
    )
    blocks_over: Literal["time", "hosts"] = Field(
        "time",
        description="What the blocks are: one after the other on all hosts of the target; or each "
        "on one of them, as many at the same time as there are hosts, which must be alike.",
        examples=["hosts"],
    )
    seed: int = Field(1, ge=0, description="Decides the random order.", examples=[1])
    budget: Duration = Field(
        0.0, description="Stop after this time; 0: no limit.", examples=["30m"]
    )
    settle: Duration = Field(
        0.5, description="Wait between applying and measuring.", examples=["0.5s"]
    )


class DecideTable(_Table):
    """When a difference counts."""

    primary: str | dict[str, str] = Field(
        default_factory=dict,
        description="The metric the question is decided by: one for all, or one per workload.",
        examples=["read.iops", {"randread": "read.iops"}],
    )
    margin: Share = Field(
        0.02, gt=0, lt=1, description="The smallest difference that matters.", examples=["2%"]
    )
    confidence: float = Field(
        0.95, ge=0.5, lt=1, description="Of all intervals together.", examples=[0.95]
    )
    guardrails: dict[str, Share] = Field(
        default_factory=dict,
        description="The largest change of another metric that is put up with.",
        examples=[{"read.clat.p99": "+10%"}],
    )
    limits: dict[str, Duration] = Field(
        default_factory=dict,
        description="What a latency must not exceed, of a race or a search for the highest value.",
        examples=[{"read.clat.p99": "2ms"}],
    )


class StudyFile(_Table):
    """An iotrial study."""

    question: str = Field(
        "", description="What the study is to answer.", examples=["Which scheduler is faster?"]
    )
    hosts: dict[str, HostTable] = Field(
        default_factory=dict, description="Machines.", examples=[{"box7": {"ssh": "root@box7"}}]
    )
    inventory: InventoryTable | None = Field(
        None,
        description="More machines, which another file names.",
        examples=[{"ansible": "hosts.ini", "group": "storage"}],
    )
    targets: dict[str, TargetTable] = Field(
        description="What the I/O is aimed at.", examples=[{"disk": {"loop": {"size": "1GiB"}}}]
    )
    workloads: dict[str, WorkloadTable] = Field(
        description="The loads applied.",
        examples=[{"randread": {"tool": "fio", "options": {"rw": "randread", "bs": "4k"}}}],
    )
    factors: dict[str, FactorTable] = Field(
        default_factory=dict,
        description="What is varied; without any, the study measures the noise.",
        examples=[{"scheduler": {"tunable": "queue.scheduler", "levels": "available"}}],
    )
    knobs: dict[str, KnobTable] = Field(
        default_factory=dict,
        description="Settings of configuration files, to be varied as `file.NAME`.",
        examples=[{"rsize": {"file": "/etc/client.conf", "content": "rsize {value}\n",
                   "read": ["client", "show", "rsize"]}}],
    )  # fmt: skip
    exclude: list[dict[str, OneOrMore]] = Field(
        default_factory=list,
        description="Combinations of levels that make no sense.",
        examples=[[{"scheduler": "none", "depth": [1, 8]}]],
    )
    design: DesignTable = Field(
        default_factory=lambda: DesignTable.model_validate({}),
        description="Trials.",
        examples=[{"blocks": 5, "seed": 1}],
    )
    stage: list[StageTable] = Field(
        default_factory=list,
        description="The study is done in stages; each begins when the one before is decided.",
        examples=[[{"vary": ["rsize"], "then": "narrow"}]],
    )
    decide: DecideTable = Field(
        default_factory=lambda: DecideTable.model_validate({}),
        description="Decisions.",
        examples=[{"margin": "2%"}],
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a study file, as ``iotrial init --schema`` prints it."""
    schema = StudyFile.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "iotrial study",
    }
