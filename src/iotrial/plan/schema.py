"""The study file as it may be written: every table and key, its type, and what it is for.

The keys are a contract: a key is never renamed.  ``json_schema`` publishes the same models for
editors.  Keys may be left out unless marked otherwise; sizes, durations and shares are converted to
base units on the way in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PositiveInt,
    Tag,
    WithJsonSchema,
)

from iotrial.model.workload import Cache, Chore, ChoreKind, Each, Start
from iotrial.units import parse_bytes, parse_fraction, parse_seconds

_WAYS = '"trim", "lay out", { fill = "80%" }, { precondition = "2x" } or { command = ["…"] }'
_EACH = get_args(Each)
_MOST_TIMES = 100.0
Argv = list[str]
_EACH_SCHEMA = {"type": "string", "enum": list(_EACH)}


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f'{value!r} is not a size such as "1GiB", "64k" or 4096')
    try:
        return parse_bytes(value)
    except OverflowError:
        raise ValueError(f"{value!r} is more than any device has") from None


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is not a duration such as "10s" or "30m"')
    seconds = parse_seconds(value)
    if not math.isfinite(seconds):
        raise ValueError(f"{value!r} never ends")
    return seconds


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is not a share such as "2%" or 0.02')
    return parse_fraction(value)


def _scalar(value: object) -> str | int | float | bool:
    if not isinstance(value, str | int | float | bool):
        names: dict[type, str] = {list: "an array", dict: "a table"}
        kind = names.get(type(value), "a date")
        raise ValueError(f"one value is meant here: text, a number, true or false; not {kind}")
    return value


def _shape(value: object) -> str:
    """Which of the three ways to write levels this is; the tags never look like a key."""
    tags: dict[type, str] = {dict: "=groups", str: "=word"}
    return tags.get(type(value), "=list")


def _number(value: object) -> str:
    return "=list" if isinstance(value, list) else "=one"


def chore(value: object) -> Chore:
    """One chore as the file has it.  Left out, ``each`` is "trial" for a command and "study" for
    all that takes long."""
    if isinstance(value, Chore):
        return value
    said: dict[str, object] = {value: True} if isinstance(value, str) else {}
    if isinstance(value, Mapping):
        said = dict(value)
    each = said.pop("each", "trial" if "command" in said else "study")
    if each not in _EACH:
        raise ValueError(f"each is {' or '.join(map(repr, _EACH))}, not {each!r}")
    kind, what = next(iter(said.items()), ("", None))
    kinds = get_args(ChoreKind)
    if len(said) != 1 or kind not in kinds or (isinstance(value, str) and kind in kinds[1:3]):
        raise ValueError(f'a chore is one of {_WAYS}; with each = "…" if need be')
    return Chore(kind, each, **_amount(kind, what))  # type: ignore[arg-type]  # both checked


def _amount(kind: str, what: object) -> dict[str, object]:
    match kind:
        case "fill":
            share = _share(what)
            if not 0 < share <= 1:
                raise ValueError(f"{what!r} is no share of a capacity: above 0, at most 100%")
            return {"share": share}
        case "precondition":
            return {"times": _times(what)}
        case "command":
            if not isinstance(what, list) or not what or not all(_word(word) for word in what):
                raise ValueError(f"{what!r} is no command: an array of its words is meant")
            return {"argv": tuple(what)}
    if what is not True:
        raise ValueError(f'{kind} takes nothing: "{kind}" or {{ "{kind}" = true, each = "…" }}')
    return {}


def _word(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _times(value: object) -> float:
    text = value.strip().removesuffix("x") if isinstance(value, str) else value
    try:
        times = float(text) if isinstance(text, str | int | float) else math.nan
    except ValueError:
        times = math.nan
    if isinstance(value, bool) or not 0 < times <= _MOST_TIMES:
        raise ValueError(f'{value!r} is not how often the capacity is written, such as "2x"')
    return times


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^\s*[0-9.]+\s*[A-Za-z]*\s*$"}),
]
Duration = Annotated[
    float, BeforeValidator(_duration), WithJsonSchema({"type": ["string", "number"]})
]
Share = Annotated[float, BeforeValidator(_share), WithJsonSchema({"type": ["string", "number"]})]
Scalar = Annotated[
    str | int | float | bool,
    BeforeValidator(_scalar),
    WithJsonSchema({"type": ["string", "integer", "number", "boolean"]}),
]
OneOf = Annotated[
    Annotated[list[Scalar], Field(min_length=1), Tag("=list")] | Annotated[Scalar, Tag("=one")],
    Discriminator(_number),
]
"""A value, or several: of a level, of which the first that is available counts."""
Levels = Annotated[
    Annotated[list[OneOf], Field(min_length=1), Tag("=list")]
    | Annotated[dict[str, dict[str, OneOf]], Field(min_length=1), Tag("=groups")]
    | Annotated[Literal["available"], Tag("=word")],
    Discriminator(_shape),
]
ChoreValue = Annotated[
    Chore,
    BeforeValidator(chore),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": ["trim", "lay out"]},
                {
                    "type": "object",
                    "properties": {
                        "trim": {"const": True},
                        "lay out": {"const": True},
                        "fill": {"type": ["string", "number"]},
                        "precondition": {"type": ["string", "number"]},
                        "command": {"type": "array", "items": {"type": "string"}},
                        "each": _EACH_SCHEMA,
                    },
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class InventoryTable(_Table):
    """Hosts that ssh's own configuration or an Ansible inventory names, as if they stood in
    `[hosts]`.

    Of several, those count that a target names; where none does, all that are chosen here.
    """

    ssh_config: str = Field(
        "",
        description="A configuration of ssh(1); relative to the study, or beginning with `~/`.",
        examples=["~/.ssh/config"],
    )
    ansible: str = Field(
        "",
        description="An Ansible inventory, INI or YAML; relative to the study, or beginning with "
        "`~/`.",
        examples=["hosts.ini"],
    )
    group: str | list[str] = Field(
        "", description="Of an Ansible inventory: these groups only.", examples=["storage"]
    )
    hosts: str | list[str] = Field(
        "",
        description="These hosts only: names with ranges, or with `*` and `?`. "
        "Of a configuration of ssh it must be said.",
        examples=["box[1-4]", ["box*", "array1"]],
    )
    lease: Duration = Field(
        30.0,
        ge=5,
        le=3600,
        description="So long after the link to one is lost, it puts everything back itself.",
        examples=["30s"],
    )


class KnobTable(_Table):
    """A setting that lives in a configuration file; used as tunable `file.NAME`."""

    file: str = Field(
        description="The file, given back byte for byte at the end.", examples=["/etc/client.conf"]
    )
    content: str = Field(
        description="What it holds; `{value}` stands for the level.", examples=["rsize {value}\n"]
    )
    reload: Argv = Field(
        default_factory=list,
        description="Command that makes it count.",
        examples=[["systemctl", "reload", "client"]],
    )
    read: Argv = Field(
        min_length=1,
        description="Command that prints the value in force.",
        examples=[["client", "show", "rsize"]],
    )
    field: str = Field(
        "",
        description="Of what it prints, the first word behind this at the beginning of a line; "
        "left out: all of it.",
        examples=["rsize:"],
    )


class MetricTable(_Table):
    """A number that a command of your own leaves, and how to find it."""

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


class SweepTable(_Table):
    """A finer sweep, or part of the range."""

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


class StageTable(_Table):
    """One stage of a staged study; it carries what it found on to the next."""

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


class LoopTable(_Table):
    """A loop device that iotrial makes over a file, and removes again."""

    size: Size = Field(description="Size of the backing file.", examples=["1GiB"])
    directory: str = Field(
        "",
        description="Folder for the backing file; left out: iotrial's own under /var/tmp.",
        examples=["/srv/scratch"],
    )


class MountTable(_Table):
    """A file system that iotrial mounts at the target's directory, and unmounts again."""

    source: str = Field(description="What mount(8) is given.", examples=["srv:/export"])
    type: str = Field(description="File system type.", examples=["nfs", "ext4"])
    options: str = Field("", description="Mount options.", examples=["rsize=65536,noatime"])


class TargetTable(_Table):
    """What the I/O is aimed at: one of device, devices, file, directory, loop, targets."""

    device: str = Field(
        "",
        description="A block device: a path that cannot move, or the serial, WWN or UUID itself.",
        examples=["/dev/disk/by-id/nvme-X", "S4X1N0M123456", "/dev/loop7"],
    )
    devices: list[str] = Field(
        default_factory=list,
        description="Several block devices loaded as one.",
        examples=[["/dev/sdb", "/dev/sdc"]],
    )
    file: str = Field(
        "",
        description="A file, made for the run at `size` and removed afterwards.",
        examples=["/data/iotrial.dat"],
    )
    size: Size | None = Field(None, description="Size of the file.", examples=["4GiB"])
    directory: str = Field(
        "",
        description="A folder the load makes its files in. They are removed; what was there stays.",
        examples=["/mnt/nas"],
    )
    loop: LoopTable | None = Field(
        None, description="A loop device made for the study.", examples=[{"size": "1GiB"}]
    )
    targets: list[str] = Field(
        default_factory=list,
        description="Other targets that are loaded together as this one.",
        examples=[["array1", "array2"]],
    )
    host: str = Field("", description="Which of [hosts] it is on.", examples=["box7"])
    hosts: str | list[str] = Field(
        "", description="Several hosts that each have it.", examples=["box[1-4]"]
    )
    destroy: str | list[str] = Field(
        "",
        description="Serial or WWN of the device (of each of several devices), or the path of a "
        "file that exists: says that its content may be lost.",
        examples=["S4X1N0K123456", "/data/old.dat"],
    )
    mount: MountTable | None = Field(
        None,
        description="Mounted at the directory for the study, and unmounted after it.",
        examples=[{"source": "srv:/export", "type": "nfs"}],
    )
    create: list[Argv] = Field(
        default_factory=list,
        description="Commands that make the target, which must not be there before; owed until "
        "`remove` ran.  A device made so may be armed by its path.",
        examples=[[["mdadm", "--create", "/dev/md0", "--level=1"]]],
    )
    remove: Argv | list[Argv] = Field(
        default_factory=list,
        description="Command or commands that remove it again.",
        examples=[["mdadm", "--stop", "/dev/md0"]],
    )
    filesystem: str = Field(
        "",
        description="Made on the armed device or loop device, mounted, and wiped afterwards: "
        "ext2, ext3, ext4, xfs, btrfs.",
        examples=["ext4"],
    )


class HostTable(_Table):
    """A machine to measure on.  Without any, it is this machine."""

    ssh: str = Field(
        "",
        description="How ssh(1) reaches the machine; left out: this machine.",
        examples=["root@box7", "-p 2222 admin@box7"],
    )
    via: str = Field(
        "",
        description="How a [plugin](plugins.md#a-way-to-reach-hosts) reaches the machine, in place "
        "of `ssh`: `NAME://TO`.",
        examples=["nsenter://1234"],
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
    exclude: list[dict[str, OneOf]] = Field(
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
