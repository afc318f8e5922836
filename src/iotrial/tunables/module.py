"""Family ``module``: any parameter of any module, as ``module.nvme_core.io_timeout``.

No table can be complete: the rows below are what storage people turn, any other is made when it
is asked for (:func:`row`).  Built-in drivers have their parameters here too.

Many parameters are read only when the module is loaded: their files are read-only (mode 0444).
No trial can vary them without unloading what the machine stands on, so they are no factors
(``iotrial.look.refusals`` looks); as durable settings they go into modprobe.d or the kernel's
command line.  Others can be written, but count only for what is set up afterwards (a namespace
that is scanned, a session that is opened): the rows say so where it is known.

Sources: the kernel's Documentation/admin-guide/kernel-parameters.txt, kernel/params.c, the
drivers' own descriptions (modinfo).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from iotrial.errors import UsageError
from iotrial.model.step import Pick
from iotrial.model.tunable import Domain, Tunable

FAMILY = "module"
TITLE = "module parameters: drivers of adapters, NVMe, SCSI, dm, loop"

_NAME = re.compile(r"module\.([A-Za-z0-9_]+)\.([A-Za-z0-9_-]+)")
_LASTS = "until the module is unloaded or the machine reboots"
_LATER = "Counts for what is set up afterwards, not for what is there."

REFUSED = {
    "module.firmware_class.path": "decides what the kernel loads into devices",
    "module.kgdboc.kgdboc": "hands the console to a debugger",
    "module.module.sig_enforce": "cannot be undone before a reboot",
    "module.rcutree.do_rcu_barrier": "is an act, not a setting",
    "module.kernel.panic_on_warn": "makes the machine halt",
    "module.apparmor.mode": "decides what programs may do",
}
"""Parameters that are no settings to try, and why."""


def undoable(raw: bytes) -> Domain:
    """Nothing is taken where what is there now could not be written back: an empty text is no
    write at all, ``(null)`` is none either, and a choice in brackets is not taken with them."""
    text = raw.decode("utf-8", "replace").strip()
    if text in ("", "(null)"):
        return _nothing("it is empty now, and no write can make it so again")
    if re.search(r"(^|\s)\[[^\]]+\](\s|$)", text):
        return _nothing(f"it reads as a list, {text}, that could not be written back")
    return Domain()


def _nothing(why: str) -> Domain:
    return Domain(rule=lambda _value: why)


def policies(raw: bytes) -> Domain:
    """``[default] performance powersave`` → the three."""
    words = raw.decode("ascii", "replace").replace("[", "").replace("]", "").split()
    return Domain(choices=tuple(words))


def _parameter(  # noqa: PLR0913 (a row of a table)
    name: str,
    summary: str,
    *,
    unit: str = "",
    risk: str = "",
    moot: str = "",
    source: str = "",
    pick: Pick = "yes",
    domain: Callable[[bytes], Domain] = undoable,
) -> Tunable:
    module, _, parameter = name.partition(".")
    return Tunable(
        f"module.{name}",
        f"/sys/module/{module}/parameters/{parameter}",
        summary,
        unit=unit,
        layer=f"module {module}",
        lasts=_LASTS,
        risk=risk,
        moot=moot or "The module is not in use.",
        source=source or f"modinfo {module}; not measured (no such hardware here)",
        scope="host",
        pick=pick,
        domain=domain,
    )


def row(name: str) -> Tunable | None:
    """The row of any parameter, made when asked for; None for a name that is none.

    Y and N read as 1 and 0.  Raises UsageError for a parameter that is no setting to try.
    """
    found = _NAME.fullmatch(name)
    if not found:
        return None
    if name in REFUSED:
        raise UsageError(f"{name} {REFUSED[name]}", advice="Remove it from the study.")
    return _parameter(
        f"{found[1]}.{found[2]}",
        "a module parameter that iotrial knows nothing more of",
        risk="What a write to it moves is not known, and not restored.",
        source=f"modinfo -p {found[1]}; kernel/params.c",
    )


TUNABLES: tuple[Tunable, ...] = (
    _parameter(
        "nvme.poll_queues",
        "hardware queues of each controller that are polled, for hipri I/O",
        unit="queues",
        risk="Counts when a controller is reset or found; too many leave none for interrupts.",
        moot="The load does not poll (fio hipri, io_uring IOPOLL).",
    ),
    _parameter(
        "nvme.write_queues",
        "hardware queues of each controller that are for writes alone",
        unit="queues",
        risk="Counts when a controller is reset or found.",
        moot="Reads and writes do not come together.",
    ),
    _parameter(
        "nvme_core.io_timeout",
        "after how long an I/O of NVMe is given up",
        unit="s",
        risk=_LATER,
        moot="No I/O takes that long.",
    ),
    _parameter(
        "nvme_core.multipath",
        "whether the kernel joins the paths of an NVMe namespace itself",
        risk="Read when namespaces are found: read-only on every kernel seen.",
        moot="There is one path.",
    ),
    _parameter(
        "nvme_core.default_ps_max_latency_us",
        "the longest wake-up time of a power state that a drive may choose by itself; 0 is none",
        unit="µs",
        risk="Counts when a controller is found; a live one has power/pm_qos_latency_tolerance_us.",
        moot="The drive is never idle.",
    ),
    _parameter(
        "scsi_mod.use_blk_mq",
        "whether SCSI has many queues (kernels 3.17 to 4.20; later ones always)",
        risk="Counts for adapters found afterwards: read-only on every kernel seen.",
    ),
    _parameter(
        "scsi_mod.scsi_logging_level",
        "what SCSI writes to the kernel's log, as bits",
        risk="A high level makes every I/O slow.",
    ),
    _parameter(
        "dm_mod.use_blk_mq",
        "whether request-based dm (multipath) has many queues (kernels 4.0 to 4.20)",
        risk="Counts for maps made afterwards.",
    ),
    _parameter(
        "dm_mod.dm_mq_queue_depth",
        "requests that a queue of request-based dm takes",
        unit="requests",
        risk="Counts for maps made afterwards.",
    ),
    _parameter(
        "dm_multipath.queue_if_no_path_timeout_secs",
        "after how long without a path queued I/O fails; 0 is never",
        unit="s",
        risk="0 with queue_if_no_path makes programs hang until a path returns.",
        moot="There is always a path.",
    ),
    _parameter(
        "qla2xxx.ql2xmaxqdepth",
        "the first queue_depth of each disk behind a QLogic adapter",
        unit="requests",
        risk=f"{_LATER} scsi.queue_depth sets it live.",
    ),
    _parameter(
        "qla2xxx.ql2xloginretrycount",
        "how often a login to a port is tried",
        risk=_LATER,
        moot="No path is lost.",
    ),
    _parameter(
        "lpfc.lpfc_lun_queue_depth",
        "the first queue_depth of each disk behind an Emulex adapter",
        unit="requests",
        risk=f"Read-only; each adapter has its own below /sys/class/scsi_host. {_LATER}",
    ),
    _parameter(
        "lpfc.lpfc_hba_queue_depth",
        "commands that an Emulex adapter takes in all",
        unit="requests",
        risk="Read when the adapter is found.",
    ),
    _parameter(
        "loop.max_loop",
        "loop devices made when the module is loaded",
        risk="Read-only.",
        moot="Always, for speed.",
    ),
    _parameter(
        "loop.hw_queue_depth",
        "requests that a loop device takes; for devices made afterwards",
        unit="requests",
        risk=_LATER,
        moot="The target is not a loop device.",
    ),
    _parameter(
        "zswap.enabled",
        "whether pages on their way to swap are compressed and kept in memory first",
        moot="No swap, or memory enough.",
        source="kernel Documentation/admin-guide/mm/zswap.rst",
    ),
    _parameter(
        "pcie_aspm.policy",
        "how readily PCIe links sleep: a link that sleeps answers some microseconds later",
        pick="chosen",
        domain=policies,
        risk="Where the firmware keeps control of it the kernel answers EPERM.",
        moot="The links are never idle.",
        source="kernel Documentation/admin-guide/kernel-parameters.txt; drivers/pci/pcie/aspm.c",
    ),
)
