"""Family ``cgroup``: what the control group of the load may do to the device under test.

The load runs in a group that iotrial makes and removes (``iotrial.execute.settings.tuning``).  A
workload that runs beside it has a group of its own next to that one, with the same limits and
weights under ``cgroup.v1.beside.…`` and ``cgroup.v2.beside.…``: a victim and its neighbour, each
with its share::

    [workloads.database]
    beside = "backup"

    [factors.share]
    baseline = "even"

    [factors.share.levels]
    even = { "cgroup.v2.cost.qos" = "auto" }
    database = { "cgroup.v2.cost.qos" = "auto", "cgroup.v2.weight" = 1000 }

There are two kinds of limit, and a kernel offers one of them: the blkio controller of cgroup v1
(``cgroup.v1.…``) or the io controller of v2 (``cgroup.v2.…``).  A limit is also the way to
imitate a slow disk: the same machine, the same software, less of it.

Under v1 only I/O that the load itself submits is limited: direct I/O and reads that miss the
cache.  Buffered writes are written back by the kernel, in the root group, unlimited.  v2 limits
them too, on file systems that know groups (ext4, xfs, btrfs) while its memory controller is on.

``io.cost`` (``cgroup.v2.cost.…``) belongs to the device and to the root group: it weighs every I/O
by a model of the device (``model``), and holds groups to their weights so that the latencies of
``qos`` are met.  Each is one value, as the kernel prints it: what a part of it would become depends
on the rest.  It works on disks that take requests, not on dm and md.

A weight has an effect only under iocost (``cgroup.v2.weight`` with ``cgroup.v2.cost.qos``) or under
the scheduler bfq (the two ``bfq_weight``).

Sources: the kernel's Documentation/admin-guide/cgroup-v1/blkio-controller.rst,
Documentation/admin-guide/cgroup-v2.rst, block/blk-throttle.c, blk-iocost.c, bfq-cgroup.c; v1
measured on 6.18, which has no io controller of v2 there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable, literal

FAMILY = "cgroup"
TITLE = "control group of the load: limits, or a slow disk imitated"

V1_ROOT = "/sys/fs/cgroup/blkio"
V2_ROOT = "/sys/fs/cgroup"
NAME = "iotrial"
V1 = f"{V1_ROOT}/{NAME}"
V2 = f"{V2_ROOT}/{NAME}"
"""The group of the load, where systemd and others mount the two."""
BESIDE = "beside."
"""What names of settings of the group beside it have before the last part."""


def aside(folder: str) -> str:
    """The group of the load that runs beside the one in ``folder``."""
    return f"{folder}-beside"


def of_neighbour(name: str) -> bool:
    """Whether a tunable of this family belongs to the group of the load beside.

    >>> of_neighbour("cgroup.v2.beside.weight")
    True
    """
    return name.startswith((f"cgroup.v1.{BESIDE}", f"cgroup.v2.{BESIDE}"))


UNSET = "unset"
_U32 = 2**32 - 2
_U64 = 2**64 - 2
_SLOW = "Also the way to imitate a slow disk."
_DOC1 = "kernel Documentation/admin-guide/cgroup-v1/blkio-controller.rst; block/blk-throttle.c"
_DOC2 = "kernel Documentation/admin-guide/cgroup-v2.rst; not measured (no io controller of v2)"
_LASTS = "as long as the group of the load, which the run makes and removes"
_DIRECT = (
    "Direct I/O is needed: buffered writes come from the root group. The first limit of a device"
    " turns throttling on for it until it goes, which costs each I/O a little."
)

_CONTROLLER = """\
file=$1/cgroup.subtree_control words=
read -r words <"$file" || [ -e "$file" ] || exit 1
case " $words " in *" io "*) echo on ;; *) echo off ;; esac
"""


def _limit(low: int, high: int, *words: str) -> Callable[[bytes], Domain]:
    return lambda _raw: Domain(low=low, high=high, words=words)


def _told(path: str, form: str, unset: str) -> Callable[[str, str], tuple[Change, ...]]:
    """Write a line for the device; ``form`` has {device} and {value}; ``unset`` stands for
    the word ``unset``."""

    def how(device: str, value: str) -> tuple[Change, ...]:
        meant = unset if value == UNSET else value
        return (Change("write", path=path, data=form.format(device=device, value=meant)),)

    return how


_COST = """\
[ -e "$1" ] || { echo "$1: No such file or directory" >&2; exit 1; }
said=
while read -r device rest; do
    [ "$device" != "$2" ] || said=$rest
done <"$1"
case $said in
    '') echo "$3" ;;
    'enable=0 ctrl=auto '*) echo off ;;
    'enable=1 ctrl=auto '* | 'ctrl=auto '*) echo auto ;;
    'enable=0 ctrl=user '*) echo "off ${said#enable=0 ctrl=user }" ;;
    'enable=1 ctrl=user '*) echo "${said#enable=1 ctrl=user }" ;;
    *) echo "${said#ctrl=user model=linear }" ;;
esac
"""
"""Arguments: the file, the device, what it is where the file does not have it."""
QOS, MODEL = f"{V2_ROOT}/io.cost.qos", f"{V2_ROOT}/io.cost.model"
_QOS_WORDS = ("rpct", "rlat", "wpct", "wlat", "min", "max")
_MODEL_WORDS = ("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops")
_PERCENT = ("rpct", "wpct", "min", "max")
_QOS_LIKE = "rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00"
_MODEL_LIKE = (
    "rbps=174019176 rseqiops=41708 rrandiops=370 wbps=178075866 wseqiops=42705 wrandiops=378"
)
_MOST_PERCENT, _LEAST_RATE, _MOST_RATE = 100.0, 1.0, 10000.0


def _spelt(value: str, names: tuple[str, ...]) -> str:
    """Words ``name=number`` as the kernel prints them; '' for what are not these names."""
    found = dict(word.partition("=")[::2] for word in value.split())
    if set(found) != set(names) or len(value.split()) != len(names):
        return ""
    numbers = []
    for name in names:
        if not re.fullmatch(
            r"[0-9]{1,18}(\.[0-9]+)?" if name in _PERCENT else "[0-9]{1,18}", found[name]
        ):
            return ""
        number = f"{float(found[name]):.2f}" if name in _PERCENT else str(int(found[name]))
        numbers.append(f"{name}={number}")
    return " ".join(numbers)


def _qos_bounds(value: str) -> str:
    """ioc_qos_write() refuses or cuts what lies outside."""
    number = {n: float(v) for n, _, v in (word.partition("=") for word in value.split())}
    if max(number["rpct"], number["wpct"]) > _MOST_PERCENT:
        return "a percentile is above 100"
    if not _LEAST_RATE <= number["min"] <= number["max"] <= _MOST_RATE:
        return f"min and max are from {_LEAST_RATE:g} to {_MOST_RATE:g}, min below max"
    return ""


def _of_words(
    names: tuple[str, ...], like: str, bounds: Callable[[str], str], *words: str
) -> Callable[[bytes], Domain]:
    def rule(value: str) -> str:
        if value in words:
            return ""
        kept = _spelt(value, names)
        if not kept:
            return f"{value!r} is neither {' nor '.join(words)} nor like {like!r}"
        return bounds(kept) if kept == value else f"{value!r} is read back as {kept!r}: write it so"

    return lambda _raw: Domain(rule=rule)


def _set_qos(device: str, value: str) -> tuple[Change, ...]:
    off, _, own = value.partition(" ") if value.startswith("off ") else ("", "", value)
    words = {"off": "enable=0 ctrl=auto", "auto": "enable=1 ctrl=auto"}
    line = words.get(value, f"enable={int(not off)} ctrl=user {own}")
    return (Change("write", path=QOS, data=f"{device} {line}"),)


def _set_model(device: str, value: str) -> tuple[Change, ...]:
    line = "ctrl=auto" if value == "auto" else f"ctrl=user model=linear {value}"
    return (Change("write", path=MODEL, data=f"{device} {line}"),)


def _cost(
    what: str, path: str, summary: str, domain: Callable[[bytes], Domain], start: str
) -> Tunable:
    return Tunable(
        f"cgroup.v2.cost.{what}",
        "",
        summary,
        layer="control group",
        lasts="until the disk goes or the machine reboots",
        rank=8 if what == "model" else 9,
        moves=("queue.wbt_lat_usec",) if what == "qos" else (),
        risk="The kernel measures every I/O of the disk from then on, which costs each a little,"
        " and turns writeback throttling off (6.2 and later). systemd's iocost writes the same"
        " files.",
        moot="No two groups do I/O to the device, or the device is never full.",
        source=_DOC2.replace("not measured (no io controller of v2)", "block/blk-iocost.c"),
        scope="cgroup",
        domain=domain,
        read=("sh", "-c", literal(_COST), "iotrial-cost", path, "{device}", start),
        how=_set_qos if what == "qos" else _set_model,
    )


def _rows(v1: str, v2: str, beside: str, whose: str) -> tuple[Tunable, ...]:
    """Limits and weights of one group: its folder under each version, what stands before its names
    (nothing for the load's own), and who that is."""

    def limit1(what: str, unit: str, most: int, summary: str) -> Tunable:
        path = f"{v1}/blkio.throttle.{what}_device"
        return Tunable(
            f"cgroup.v1.{beside}{what}",
            path,
            f"{summary.format(whose)}, or unset. {_SLOW}",
            unit=unit,
            layer="control group",
            lasts=_LASTS,
            risk=f"{_DIRECT} I/O is counted before it is merged.",
            moot="The device does not reach the limit anyway.",
            source=f"{_DOC1}; measured on 6.18",
            scope="cgroup",
            domain=_limit(1, most, UNSET),
            pick="field",
            key="{device} ",
            absent=UNSET,
            how=_told(path, "{device} {value}", "0"),
        )

    def limit2(what: str, key: str, unit: str, summary: str) -> Tunable:
        path = f"{v2}/io.max"
        return Tunable(
            f"cgroup.v2.{beside}{what}",
            path,
            f"{summary.format(whose)}, or max. {_SLOW}",
            unit=unit,
            layer="control group",
            lasts=_LASTS,
            risk="Buffered writes are limited only on file systems that know groups.",
            moot="The device does not reach the limit anyway.",
            source=_DOC2,
            scope="cgroup",
            domain=_limit(1, _U32 if "iops" in what else _U64, "max"),
            pick="item",
            key="{device} " + key,
            absent="max",
            how=_told(path, "{device} " + key + "={value}", "max"),
        )

    def weight(name: str, path: str, most: int, risk: str, source: str) -> Tunable:
        new = name.startswith("v2.")
        return Tunable(
            f"cgroup.{name[:3]}{beside}{name[3:]}",
            path,
            f"the share that {whose} has of a device that others want too; 100 is the default",
            layer="control group",
            lasts=_LASTS,
            risk=risk,
            moot="No other process does I/O to the device.",
            source=source,
            scope="cgroup",
            domain=_limit(1, most),
            pick="field" if new else "text",
            key="default" if new else "",
            absent="100",
            how=_told(path, "default {value}" if new else "{value}", "100"),
        )

    reads, writes = "bytes {} may read from", "bytes {} may write to"
    asked, sent = "reads {} may send to", "writes {} may send to"
    second = "the device a second"
    return (
        limit1("read_bps", "bytes/s", _U64, f"{reads} {second}"),
        limit1("write_bps", "bytes/s", _U64, f"{writes} {second}"),
        limit1("read_iops", "1/s", _U32, f"{asked} {second}"),
        limit1("write_iops", "1/s", _U32, f"{sent} {second}"),
        weight("v1.bfq_weight", f"{v1}/blkio.bfq.weight", 1000, _BFQ, _BFQ_SOURCE),
        limit2("read_bps", "rbps", "bytes/s", f"{reads} {second}"),
        limit2("write_bps", "wbps", "bytes/s", f"{writes} {second}"),
        limit2("read_iops", "riops", "1/s", f"{asked} {second}"),
        limit2("write_iops", "wiops", "1/s", f"{sent} {second}"),
        Tunable(
            f"cgroup.v2.{beside}latency",
            f"{v2}/io.latency",
            f"the latency that others are held back for while {whose} misses it, or unset",
            unit="µs",
            layer="control group",
            lasts=_LASTS,
            risk="It protects one group from others: alone on the machine it changes nothing.",
            moot="No other process does I/O to the device.",
            source=_DOC2,
            scope="cgroup",
            domain=_limit(1, _U32, UNSET),
            pick="item",
            key="{device} target",
            absent=UNSET,
            how=_told(f"{v2}/io.latency", "{device} target={value}", "0"),
        ),
        weight(
            "v2.weight",
            f"{v2}/io.weight",
            10000,
            "Needs iocost on the device (cgroup.v2.cost.qos); else nothing comes of it.",
            _DOC2,
        ),
        weight("v2.bfq_weight", f"{v2}/io.bfq.weight", 1000, _BFQ, f"{_DOC2}; {_BFQ_SOURCE}"),
    )


_BFQ = "Needs the scheduler bfq on the device; else nothing comes of it."
_BFQ_SOURCE = "block/bfq-cgroup.c; kernel Documentation/block/bfq-iosched.rst"

TUNABLES: tuple[Tunable, ...] = (
    *_rows(V1, V2, "", "the load"),
    *_rows(aside(V1), aside(V2), BESIDE, "the load beside"),
    _cost(
        "qos",
        QOS,
        "the latencies for which groups are held to their weights (io.cost.qos): off, auto, or"
        " all six numbers",
        _of_words(_QOS_WORDS, _QOS_LIKE, _qos_bounds, "off", "auto"),
        "off",
    ),
    _cost(
        "model",
        MODEL,
        "what the device is taken to do in a second (io.cost.model): auto, or all six numbers",
        _of_words(_MODEL_WORDS, _MODEL_LIKE, lambda _value: "", "auto"),
        "auto",
    ),
    Tunable(
        "cgroup.v2.controller",
        "",
        "whether groups below the root have the io controller (`own` of the run turns it on)",
        layer="control group",
        lasts="until the machine reboots",
        rank=5,
        risk="Off takes io.max and its kin away from every group below the root (systemd's too).",
        moot="No limit of cgroup v2 is varied.",
        source=_DOC2,
        scope="host",
        domain=lambda _raw: Domain(choices=("on", "off")),
        read=("sh", "-c", _CONTROLLER, "iotrial-controller", V2_ROOT),
        how=lambda _device, value: (
            Change(
                path=f"{V2_ROOT}/cgroup.subtree_control",
                data="+io" if value == "on" else "-io",
            ),
        ),
    ),
)
