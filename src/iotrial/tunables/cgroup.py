"""Family ``cgroup``: what the control group of the load may do to the device under test.

The load runs in a group that iotrial makes and removes (``iotrial.execute.settings.tuning``).
There are two kinds of limit, and a kernel offers one of them: the blkio controller of cgroup v1
(``cgroup.v1.…``) or the io controller of v2 (``cgroup.v2.…``).  A limit is also the way to
imitate a slow disk: the same machine, the same software, less of it.

Under v1 only I/O that the load itself submits is limited: direct I/O and reads that miss the
cache.  Buffered writes are written back by the kernel, in the root group, unlimited.  v2 limits
them too, on file systems that know groups (ext4, xfs, btrfs) while its memory controller is on.

Sources: the kernel's Documentation/admin-guide/cgroup-v1/blkio-controller.rst,
Documentation/admin-guide/cgroup-v2.rst, block/blk-throttle.c; v1 measured on 6.18, which has no io
controller of v2 there.
"""

from __future__ import annotations

from collections.abc import Callable

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable

FAMILY = "cgroup"
TITLE = "control group of the load: limits, or a slow disk imitated"

V1_ROOT = "/sys/fs/cgroup/blkio"
V2_ROOT = "/sys/fs/cgroup"
NAME = "iotrial"
V1 = f"{V1_ROOT}/{NAME}"
V2 = f"{V2_ROOT}/{NAME}"
"""The group of the load, where systemd and others mount the two."""

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


def _v1(what: str, unit: str, most: int, summary: str) -> Tunable:
    path = f"{V1}/blkio.throttle.{what}_device"
    return Tunable(
        f"cgroup.v1.{what}",
        path,
        f"{summary}, or unset. {_SLOW}",
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


def _v2(what: str, key: str, unit: str, summary: str) -> Tunable:
    path = f"{V2}/io.max"
    return Tunable(
        f"cgroup.v2.{what}",
        path,
        f"{summary}, or max. {_SLOW}",
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


TUNABLES: tuple[Tunable, ...] = (
    _v1("read_bps", "bytes/s", _U64, "bytes the load may read from the device a second"),
    _v1("write_bps", "bytes/s", _U64, "bytes the load may write to the device a second"),
    _v1("read_iops", "1/s", _U32, "reads the load may send to the device a second"),
    _v1("write_iops", "1/s", _U32, "writes the load may send to the device a second"),
    _v2("read_bps", "rbps", "bytes/s", "bytes the load may read from the device a second"),
    _v2("write_bps", "wbps", "bytes/s", "bytes the load may write to the device a second"),
    _v2("read_iops", "riops", "1/s", "reads the load may send to the device a second"),
    _v2("write_iops", "wiops", "1/s", "writes the load may send to the device a second"),
    Tunable(
        "cgroup.v2.latency",
        f"{V2}/io.latency",
        "the latency that others are held back for while the load misses it, or unset",
        unit="µs",
        layer="control group",
        lasts=_LASTS,
        risk="It protects the load from other groups: alone on the machine it changes nothing.",
        moot="No other process does I/O to the device.",
        source=_DOC2,
        scope="cgroup",
        domain=_limit(1, _U32, UNSET),
        pick="item",
        key="{device} target",
        absent=UNSET,
        how=_told(f"{V2}/io.latency", "{device} target={value}", "0"),
    ),
    Tunable(
        "cgroup.v2.weight",
        f"{V2}/io.weight",
        "the load's share of a device that others want too; 100 is the default",
        layer="control group",
        lasts=_LASTS,
        risk="Needs iocost (io.cost.qos enable=1) or bfq on the device; else nothing comes of it.",
        moot="No other process does I/O to the device.",
        source=_DOC2,
        scope="cgroup",
        domain=_limit(1, 10000),
        pick="field",
        key="default",
        absent="100",
        how=_told(f"{V2}/io.weight", "default {value}", "100"),
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
