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
from iotrial.units import parse_bytes, parse_fraction, parse_iops, parse_seconds

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
        raise ValueError(f"{value!r} exceeds the size of any device") from None


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is not a duration such as "10s" or "30m"')
    seconds = parse_seconds(value)
    if not math.isfinite(seconds):
        raise ValueError(f"{value!r} is not finite")
    return seconds


def _rate(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f'{value!r} is not a rate such as 500 or "8k" (IOPS)')
    return parse_iops(value)


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is not a share such as "2%" or 0.02')
    return parse_fraction(value)


def _scalar(value: object) -> str | int | float | bool:
    if not isinstance(value, str | int | float | bool):
        names: dict[type, str] = {list: "an array", dict: "a table"}
        kind = names.get(type(value), "a date")
        raise ValueError(f"expected one value: text, a number, true or false; not {kind}")
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
        raise ValueError(f'a chore is one of {_WAYS}; optionally with each = "…"')
    return Chore(kind, each, **_amount(kind, what))  # type: ignore[arg-type]  # both checked


def _amount(kind: str, what: object) -> dict[str, object]:
    match kind:
        case "fill":
            share = _share(what)
            if not 0 < share <= 1:
                raise ValueError(f"{what!r} is not a share of the capacity: above 0, at most 100%")
            return {"share": share}
        case "precondition":
            return {"times": _times(what)}
        case "command":
            if not isinstance(what, list) or not what or not all(_word(word) for word in what):
                raise ValueError(f"{what!r} is not a command: expected an array of its words")
            return {"argv": tuple(what)}
    if what is not True:
        raise ValueError(f'{kind} takes no value: "{kind}" or {{ "{kind}" = true, each = "…" }}')
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
        raise ValueError(f'{value!r} is not a multiple of the capacity, for example "2x"')
    return times


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^\s*[0-9.]+\s*[A-Za-z]*\s*$"}),
]
Duration = Annotated[
    float, BeforeValidator(_duration), WithJsonSchema({"type": ["string", "number"]})
]
Rate = Annotated[int, BeforeValidator(_rate), WithJsonSchema({"type": ["string", "integer"]})]
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
    """Hosts that ssh's own configuration, an Ansible inventory or Slurm names, as if they stood in
    `[hosts]`.

    Of several, those count that a target names; where none does, all that are chosen here.
    """

    ssh_config: str = Field(
        "",
        description="Configuration file of ssh(1); relative to the study, or starting with `~/`.",
        examples=["~/.ssh/config"],
    )
    ansible: str = Field(
        "",
        description="Ansible inventory, INI or YAML; relative to the study, or starting with `~/`.",
        examples=["hosts.ini"],
    )
    slurm: str = Field(
        "",
        description="Nodes of [Slurm](slurm.md): `$SLURM_JOB_NODELIST`, a range of nodes, or what"
        " `sinfo` selects by `partition=`, `state=` and `nodes=`.",
        examples=["$SLURM_JOB_NODELIST", "n[1-4]", "partition=storage state=idle"],
    )
    group: str | list[str] = Field(
        "", description="Groups of the Ansible inventory to use.", examples=["storage"]
    )
    hosts: str | list[str] = Field(
        "",
        description="Hosts to use: names with ranges, or with `*` and `?`. Required for an ssh"
        " configuration.",
        examples=["box[1-4]", ["box*", "array1"]],
    )
    lease: Duration = Field(
        30.0,
        ge=5,
        le=3600,
        description="How long after losing the connection a host restores itself.",
        examples=["30s"],
    )


class KnobTable(_Table):
    """A setting that lives in a configuration file, used as tunable `file.NAME`; or one that a
    command writes, used as `command.NAME`."""

    file: str = Field(
        "",
        description="The file; restored byte for byte at the end.",
        examples=["/etc/client.conf"],
    )
    content: str = Field(
        "",
        description="Content of the file; `{value}` is replaced by the level.",
        examples=["rsize {value}\n"],
    )
    write: Argv = Field(
        default_factory=list,
        description="In place of a file: command that sets the value; `{value}` is replaced by the"
        " level, and by what `read` printed when the setting is restored.",
        examples=[["lctl", "set_param", "osc.work-OST0000-osc.max_rpcs_in_flight={value}"]],
    )
    reload: Argv = Field(
        default_factory=list,
        description="Command that puts the file into effect.",
        examples=[["systemctl", "reload", "client"]],
    )
    read: Argv = Field(
        min_length=1,
        description="Command that prints the value in force.",
        examples=[["client", "show", "rsize"]],
    )
    field: str = Field(
        "",
        description="Prefix of the output line whose next word is the value; default: the whole"
        " output.",
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
        description="Path of the number in a JSON document.",
        examples=["jobs[0].read.bw"],
    )
    file: str = Field(
        "stdout",
        description="Source: stdout, stderr, or a file that the command writes to its working"
        " folder, that of the trial.",
        examples=["result.json"],
    )
    unit: str = Field(
        "",
        description="Unit of the number; default: the unit printed after the number, else none.",
        examples=["MiB/s", "kiops", "ms"],
    )
    take: Literal["only", "first", "last", "sum"] = Field(
        "only",
        description="Which of several matches to use; `only` rejects several matches.",
        examples=["last"],
    )
    better: Literal["higher", "lower"] | None = Field(
        None,
        description="Direction of improvement; required for a primary metric unknown to iotrial.",
        examples=["higher"],
    )


class SweepTable(_Table):
    """A finer sweep, or part of the range."""

    start: Size | None = Field(
        None,
        alias="from",
        description="First level; default: the lowest one left.",
        examples=[65536],
    )
    to: Size | None = Field(
        None,
        description="Upper limit of the levels; default: the highest one left.",
        examples=[98304],
    )
    step: Size | None = Field(
        None, description="Step between levels; default: that of the factor.", examples=[1024]
    )


class StageTable(_Table):
    """One stage of a staged study; it carries what it found on to the next."""

    vary: list[str] = Field(
        default_factory=list,
        description="Factors varied in this stage, at their remaining levels; all others are at"
        " the level that earlier stages selected, else at their baseline. A confirm"
        " stage varies none.",
        examples=[["rsize"]],
    )
    fix: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Factors and workload options fixed in this stage.",
        examples=[{"size": "1GiB", "wsize": 65536}],
    )
    then: Literal["narrow", "knee", "best", "screen", "confirm"] = Field(
        "best",
        description="What the next stage receives. narrow: levels that may be the best; knee:"
        " the smallest level as good as the best; best: the best level; screen: all"
        " levels of the factors that may matter. `confirm` compares all baselines"
        " with all selected levels.",
        examples=["narrow"],
    )
    range: SweepTable | None = Field(
        None,
        description="Another range of levels for the factor that has a range.",
        examples=[{"step": 1024}],
    )
    workloads: list[str] = Field(
        default_factory=list,
        description="Workloads of this stage; default: all.",
        examples=[["read"]],
    )
    options: dict[str, dict[str, Scalar]] = Field(
        default_factory=dict,
        description="Workload options that replace those of the study.",
        examples=[{"read": {"size": "10GiB"}}],
    )
    target: str = Field(
        "", description="Target; default: the first of the study.", examples=["production"]
    )
    blocks: int = Field(
        0, ge=0, le=10_000, description="Blocks; default: those of the design.", examples=[5]
    )
    kind: Literal["full", "fraction", "one-at-a-time", "race"] | None = Field(
        None, description="Kind of design; default: that of the study.", examples=["full"]
    )


class LoopTable(_Table):
    """A loop device that iotrial makes over a file, and removes again."""

    size: Size = Field(description="Size of the backing file.", examples=["1GiB"])
    directory: str = Field(
        "",
        description="Folder of the backing file; default: a folder of iotrial in /var/tmp.",
        examples=["/srv/scratch"],
    )


class MountTable(_Table):
    """A file system that iotrial mounts at the target's directory, and unmounts again."""

    source: str = Field(
        description="Source of the mount, as for mount(8).", examples=["srv:/export"]
    )
    type: str = Field(description="File system type.", examples=["nfs", "ext4"])
    options: str = Field("", description="Mount options.", examples=["rsize=65536,noatime"])


class TargetTable(_Table):
    """What the I/O is aimed at: one of device, devices, file, directory, loop, targets."""

    device: str = Field(
        "",
        description="Block device: a persistent path, or its serial, WWN or UUID.",
        examples=["/dev/disk/by-id/nvme-X", "S4X1N0M123456", "/dev/loop7"],
    )
    devices: list[str] = Field(
        default_factory=list,
        description="Several block devices, loaded together.",
        examples=[["/dev/sdb", "/dev/sdc"]],
    )
    file: str = Field(
        "",
        description="File; if missing, created with `size` and removed afterwards.",
        examples=["/data/iotrial.dat"],
    )
    size: Size | None = Field(None, description="Size of the file.", examples=["4GiB"])
    directory: str = Field(
        "",
        description=(
            "Folder in which the load creates its files, which are removed afterwards;"
            " other content is kept."
        ),
        examples=["/mnt/nas"],
    )
    loop: LoopTable | None = Field(
        None, description="Loop device created for the study.", examples=[{"size": "1GiB"}]
    )
    targets: list[str] = Field(
        default_factory=list,
        description="Member targets, loaded together.",
        examples=[["array1", "array2"]],
    )
    host: str = Field("", description="Host of the target, a name of [hosts].", examples=["box7"])
    hosts: str | list[str] = Field(
        "", description="Hosts that each have this target.", examples=["box[1-4]"]
    )
    destroy: str | list[str] = Field(
        "",
        description="Serial or WWN of the device (one per device), or the path of an existing"
        " file: permits the loss of its content.",
        examples=["S4X1N0K123456", "/data/old.dat"],
    )
    mount: MountTable | None = Field(
        None,
        description="Mounted at the directory for the study, unmounted afterwards.",
        examples=[{"source": "srv:/export", "type": "nfs"}],
    )
    create: list[Argv] = Field(
        default_factory=list,
        description="Commands that create the target, which must not exist before; `remove`"
        " always runs afterwards.  Such a device may be armed by its path.",
        examples=[[["mdadm", "--create", "/dev/md0", "--level=1"]]],
    )
    remove: Argv | list[Argv] = Field(
        default_factory=list,
        description="Commands that remove the target.",
        examples=[["mdadm", "--stop", "/dev/md0"]],
    )
    filesystem: str = Field(
        "",
        description="File system to create on the armed device or loop device, mounted, and"
        " wiped afterwards: ext2, ext3, ext4, xfs, btrfs.",
        examples=["ext4"],
    )
    format: Argv = Field(
        default_factory=list,
        description="Options of mkfs for that file system; they may name no other device.",
        examples=[["-O", "^has_journal"], ["-d", "agcount=16"]],
    )


class HostTable(_Table):
    """A machine to measure on.  Without any, it is this machine."""

    ssh: str = Field(
        "",
        description="ssh(1) destination of the host; default: this host.",
        examples=["root@box7", "-p 2222 admin@box7"],
    )
    via: str = Field(
        "",
        description="How the machine is reached in place of `ssh`, by a [connector]"
        "(many-hosts.md#hosts-without-ssh): `NAME://TO`.",
        examples=["podman://box", "slurm://n1"],
    )
    shell: Argv = Field(
        default_factory=list,
        description="A command, executed on this host, that gives a POSIX shell of the machine on"
        " stdin and stdout, in place of `ssh`.",
        examples=[["podman", "exec", "-i", "box", "sh"]],
    )
    lease: Duration = Field(
        30.0,
        ge=5,
        le=3600,
        description="How long after losing the connection the host restores itself.",
        examples=["30s"],
    )
    listen: str = Field(
        "",
        description='Address at which servers of `start = "server"` listen, reachable from the'
        " controlling host, with or without a port; several loads use consecutive"
        " ports. Every client that reaches it can make fio run commands there, as"
        " root. Default: no listener, the load uses the SSH connection.",
        examples=["10.0.0.7", "10.0.0.7:8765", "[fd00::7]:8765"],
    )
    power: Argv = Field(
        default_factory=list,
        description="A command, executed on this host, that cycles the power of the machine where"
        " it does not come back from a boot.",
        examples=[["ipmitool", "-H", "bmc7", "-U", "admin", "-f", "/etc/bmc", "power", "cycle"]],
    )


class OfferedTable(_Table):
    """Rates that a load offers, one after another in each trial, and the bound of the response
    time."""

    rates: list[Rate] = Field(
        default_factory=list,
        description="Rates in IOPS, ascending; or `from`, `to` and `steps`.",
        examples=[[500, "1k", "2k", "4k", "8k"]],
    )
    start: Rate | None = Field(None, alias="from", description="Lowest rate.", examples=["500"])
    to: Rate | None = Field(None, description="Highest rate.", examples=["8k"])
    steps: int | None = Field(None, description="Number of rates, in equal ratios.", examples=[5])
    within: dict[str, Duration] = Field(
        description="Bound of one percentile of the response time from the intended start: p50 to"
        " p99.99.",
        examples=[{"p99": "2ms"}],
    )


class RecordedTable(_Table):
    """A part of a recording: one device of it, or a part of its time."""

    folder: str = Field(
        description="Folder of `iotrial record`, relative to the study.", examples=["monday"]
    )
    device: str = Field(
        "",
        description="Device of the recording, by the name that it had then; needed if it has"
        " several.",
        examples=["sdb"],
    )
    begin: Duration = Field(0.0, description="Where the part begins.", examples=["10m"])
    time: Duration | None = Field(
        None, description="How long it is; default: to the end.", examples=["60s"]
    )


def _recorded(value: object) -> object:
    return {"folder": value} if isinstance(value, str) else value


class WorkloadTable(_Table):
    """A load: a tool with its options, or with a job file, or a command of your own."""

    tool: str = Field(description="Load tool.", examples=["fio"])
    options: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Options of the tool, under the tool's names.",
        examples=[{"rw": "randread", "bs": "4k", "iodepth": 32, "runtime": "10s"}],
    )
    jobfile: str = Field(
        "", description="Job file of the tool, relative to the study.", examples=["my.fio"]
    )
    recorded: Annotated[RecordedTable | None, BeforeValidator(_recorded)] = Field(
        None,
        description="Recording of `iotrial record`, relative to the study. `replay` does its I/Os"
        " again at their times; `fio` a job file with the same character.",
        examples=["monday", {"folder": "monday", "begin": "10m", "time": "60s"}],
    )
    offered: OfferedTable | None = Field(
        None,
        description="Offered rates, for fio: each trial measures all of them, and the highest rate"
        " within the bound is its result.",
        examples=[{"from": "500", "to": "8k", "steps": 5, "within": {"p99": "2ms"}}],
    )
    beside: str = Field(
        "",
        description="Another workload that runs at the same time. It has no trials of its own; its"
        " numbers are those of this workload's trials, as `METRIC[WORKLOAD]`.",
        examples=["backup"],
    )
    target: str = Field(
        "",
        description="Target of a workload that runs beside others; default: the target under test.",
        examples=["backups"],
    )
    start: Start = Field(
        "plain",
        description="How the tool is started: on each host directly; or, for fio, as a `fio"
        " --server` there, controlled by a `fio --client` here through the SSH"
        " connection or at the host's `listen` address.",
        examples=["server"],
    )
    cache: Cache = Field(
        "keep",
        description="State of the page cache before each load. keep: unchanged; drop: dropped"
        " and verified; remount: the file system is remounted; direct: the tool"
        " bypasses the page cache.",
        examples=["drop"],
    )
    prepare: list[ChoreValue] = Field(
        default_factory=list,
        description="Chores before trials, in this order.",
        examples=[["trim", {"precondition": "2x"}]],
    )
    cleanup: list[ChoreValue] = Field(
        default_factory=list,
        description="Chores after trials, also after failed ones, in this order.",
        examples=[[{"command": ["rm", "-f", "/mnt/nas/old.dat"]}]],
    )
    evidence: list[Argv] = Field(
        default_factory=list,
        description="Commands run after each load, before its settings are restored; their"
        " output is stored with the trial. `{target}` is replaced by the target's"
        " path.",
        examples=[[["nfsstat", "-c"], ["ls", "-l", "{target}"]]],
    )
    argv: Argv = Field(
        default_factory=list,
        description='Command of `tool = "command"`; `{target}` is replaced by the target\'s'
        " path, `{NAME}` by the option of that name.",
        examples=[["pgbench", "-c", "{clients}", "{target}"]],
    )
    metrics: dict[str, MetricTable] = Field(
        default_factory=dict,
        description="Metrics to read from the output of `argv`.",
        examples=[{"score": {"pattern": "score: ([0-9.]+)", "better": "higher"}}],
    )


class RangeTable(_Table):
    """Whole numbers from `from` up to and with `to`, in steps of `step`."""

    start: Size = Field(alias="from", description="First level.", examples=[20480])
    to: Size = Field(description="Upper limit of the levels.", examples=[98304])
    step: Size = Field(description="Step between levels.", examples=[4096])


class FactorTable(_Table):
    """What is varied: a tunable, a workload option, the target, how many hosts or devices, or a
    group of settings."""

    tunable: str = Field(
        "", description="Tunable: see `iotrial knobs`.", examples=["queue.scheduler"]
    )
    boot: str = Field(
        "",
        description="Parameter of the kernel's command line, or `kernel` for installed kernels by"
        " their release: the host is booted with each level.  `set` is a parameter without a"
        " value, `unset` the host's own.",
        examples=["nvme.poll_queues", "kernel"],
    )
    option: str = Field("", description="Workload option.", examples=["iodepth"])
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
        description="Number of hosts of the target that take part, or of its devices on each"
        " host: the first N.",
        examples=["hosts"],
    )
    manual: str = Field(
        "",
        description="Instruction to the operator for each level.",
        examples=["Flash the HBA with {level}, then confirm"],
    )
    verify: Argv = Field(
        default_factory=list,
        description="Command that must print the level that the operator has set.",
        examples=[["cat", "/sys/class/scsi_host/host0/fwrev"]],
    )
    levels: Levels | None = Field(
        None,
        description="List of values; table of groups (label = { tunable = value }); or, for a"
        ' tunable, "available": every value that the kernel offers.  An array'
        " instead of a value: its first available element.",
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
        description="Target whose device has the tunable; default: the target under test.",
        examples=["disk"],
    )
    on: str = Field(
        "",
        description="Object on which the tunable is set, if it does not follow from a target:"
        " an interface, a mount point, an interrupt, a CPU.",
        examples=["eth0", "/mnt/nas"],
    )
    baseline: Scalar = Field(
        "",
        description="Level that the others are compared with; default: the level in force at"
        ' the start, else the first.  For a tunable, "unset" is its value at the'
        " start.",
        examples=["none"],
    )
    hard: bool = Field(
        default=False,
        description="Hard to change: set up once per level and block (whole plot).",
        examples=[True],
    )


class DesignTable(_Table):
    """How the treatments are spread over trials."""

    kind: Literal["full", "fraction", "one-at-a-time", "race", "saturate", "tune"] | None = Field(
        None,
        description="Kind of design. full: all treatments; fraction: a fractional design of the"
        " given resolution; one-at-a-time: the baseline and each other level alone;"
        " race: all treatments, until each is shown to be worse than the best or"
        " the same; saturate: a search for the highest value; tune: a search for the"
        " best levels of many factors. Default: full if blocks is given, else race.",
        examples=["full", "race"],
    )
    resolution: int = Field(
        5,
        ge=3,
        le=5,
        description="Resolution of a fraction; 3: main effects are not aliased with each other,"
        " 4: nor with two-factor interactions, 5: two-factor interactions are not"
        " aliased with each other either.",
        examples=[4],
    )
    runs: int = Field(
        0,
        ge=0,
        description="Number of treatments of a fraction, instead of its resolution.",
        examples=[16],
    )
    blocks: PositiveInt | None = Field(
        None,
        le=10_000,
        description="Trials of each treatment; in a race, the maximum. Default: 5, and 100 in a"
        " race.",
        examples=[5],
    )
    stop: Literal["blocks", "decided"] = Field(
        "blocks",
        description="End of a design other than a race: after all blocks, or as soon as every"
        " comparison is decided, with intervals that hold simultaneously at all"
        " looks.",
        examples=["decided"],
    )
    blocks_over: Literal["time", "hosts"] = Field(
        "time",
        description="Placement of blocks. time: one after another, each on all hosts of the"
        " target; hosts: each on one host, concurrently on all hosts, which must be"
        " of the same kind.",
        examples=["hosts"],
    )
    seed: int = Field(1, ge=0, description="Seed of the random order.", examples=[1])
    budget: Duration = Field(
        0.0, description="Time limit of the study; 0: no limit.", examples=["30m"]
    )
    settle: Duration = Field(
        0.5, description="Wait between applying settings and measuring.", examples=["0.5s"]
    )
    drain: Duration = Field(
        0.0,
        description="Burst credits: before the first trial of each workload, and again after a"
        " pause, its load runs unmeasured until its rate has fallen by 20 % or more and is level"
        " for 30 s, and at most this long; 0: not at all.",
        examples=["30m"],
    )


class DecideTable(_Table):
    """When a difference counts."""

    primary: str | list[str] | dict[str, str | list[str]] = Field(
        default_factory=dict,
        description="Primary metrics: one or several for all workloads, or per workload. All"
        " comparisons of theirs are one family.",
        examples=["read.iops", ["read.iops", "read.clat.p99"], {"randread": "read.iops"}],
    )
    secondary: list[str] | dict[str, str | list[str]] | None = Field(
        None,
        description="Metrics of a second family of comparisons, with an error of its own; nothing"
        " is decided by them. Default: the other operations of IOzone and the other columns of"
        " bonnie++.",
        examples=[["write.iops", "read.clat.p99"], {"mixed": ["write.iops"]}, []],
    )
    margin: Share = Field(
        0.02,
        gt=0,
        lt=1,
        description="Equivalence margin: the smallest difference that matters.",
        examples=["2%"],
    )
    confidence: float = Field(
        0.95, ge=0.5, lt=1, description="Simultaneous confidence of all intervals.", examples=[0.95]
    )
    guardrails: dict[str, Share] = Field(
        default_factory=dict,
        description="Largest tolerated change of another metric.",
        examples=[{"read.clat.p99": "+10%"}],
    )
    limits: dict[str, Duration] = Field(
        default_factory=dict,
        description="Upper limit of a latency, for a race or a search for the highest value.",
        examples=[{"read.clat.p99": "2ms"}],
    )
    goal: Literal["all", "winner"] = Field(
        "all",
        description="What ends a race: every treatment is told from the one to keep or found the"
        " same, or no treatment is better than it by more than the margin.",
        examples=["winner"],
    )
    test: Literal["intervals", "ranks"] = Field(
        "intervals",
        description="What *better* and *worse* are read from: the intervals, or the rank test that"
        " stands beside them, of a design with at least 8 blocks.",
        examples=["ranks"],
    )
    guarantee: Literal["normal", "exact"] = Field(
        "normal",
        description="What the noise may be like under which a race is wrong in at most 1 -"
        " confidence of studies: about normal, or anything. Exact takes about twice the trials"
        " where noise is about normal.",
        examples=["exact"],
    )


class StudyFile(_Table):
    """An iotrial study."""

    question: str = Field(
        "", description="Question that the study answers.", examples=["Which scheduler is faster?"]
    )
    hosts: dict[str, HostTable] = Field(
        default_factory=dict, description="Machines.", examples=[{"box7": {"ssh": "root@box7"}}]
    )
    inventory: InventoryTable | None = Field(
        None,
        description="Further hosts, from another file.",
        examples=[{"ansible": "hosts.ini", "group": "storage"}],
    )
    targets: dict[str, TargetTable] = Field(
        description="Targets of the I/O.", examples=[{"disk": {"loop": {"size": "1GiB"}}}]
    )
    workloads: dict[str, WorkloadTable] = Field(
        description="Loads to apply.",
        examples=[{"randread": {"tool": "fio", "options": {"rw": "randread", "bs": "4k"}}}],
    )
    factors: dict[str, FactorTable] = Field(
        default_factory=dict,
        description="Factors to vary; without any, the study measures the noise.",
        examples=[{"scheduler": {"tunable": "queue.scheduler", "levels": "available"}}],
    )
    knobs: dict[str, KnobTable] = Field(
        default_factory=dict,
        description="Settings of your own: of configuration files, to be varied as `file.NAME`, or"
        " read and written by commands, as `command.NAME`.",
        examples=[{"rsize": {"file": "/etc/client.conf", "content": "rsize {value}\n",
                   "read": ["client", "show", "rsize"]}}],
    )  # fmt: skip
    exclude: list[dict[str, OneOf]] = Field(
        default_factory=list,
        description="Combinations of levels to leave out.",
        examples=[[{"scheduler": "none", "depth": [1, 8]}]],
    )
    design: DesignTable = Field(
        default_factory=lambda: DesignTable.model_validate({}),
        description="Trials.",
        examples=[{"blocks": 5, "seed": 1}],
    )
    stage: list[StageTable] = Field(
        default_factory=list,
        description="Stages of the study; each starts when the previous one is decided.",
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
