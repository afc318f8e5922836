"""Family ``scsi``: disks, adapters, Fibre Channel ports and iSCSI sessions of the SCSI layer.

Disks: ``/sys/block/DEVICE/device/``; adapters: ``/sys/class/scsi_host/hostN/``; what lies behind
them: ``/sys/class/fc_remote_ports/`` and ``/sys/class/iscsi_session/``.  Any other attribute of an
adapter is made into a row when it is asked for, as ``scsi.host.NAME`` (:func:`row`).

Sources: drivers/scsi/{scsi_sysfs,scsi,virtio_scsi,scsi_transport_fc,scsi_transport_iscsi}.c and
drivers/scsi/{lpfc/lpfc_attr,qla2xxx/qla_attr}.c as of Linux 6.1; Documentation/ABI/testing/
{sysfs-bus-scsi-devices,sysfs-class-fc_remote_ports}.  What was seen in a virtual machine says so;
no Fibre Channel adapter was at hand.

Left out on purpose: ``scsi_disk/*/cache_type`` (it decides whether the kernel flushes the disk's
cache: the wrong word loses data with the power; ``temporary`` leaves no trace to restore from);
``evt_*`` (files of mode 0444 that no one can write, although the driver could take it);
``state``, ``delete``, ``rescan``, ``scan``, ``host_reset`` (acts, not settings); qla2xxx's
``zio`` (queues an adapter reset), ``zio_timer`` (counts after the next reset) and
``zio_threshold`` (shows the old value until a timer has run); qla2xxx's ``ql2xmaxqdepth`` and
lpfc's ``lpfc_hba_queue_depth`` (parameters of their modules).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable

FAMILY = "scsi"
TITLE = "SCSI disks, adapters, Fibre Channel ports, iSCSI sessions: depths and timeouts"

_SYSFS = "drivers/scsi/scsi_sysfs.c"
_SEEN = "seen on 6.1 with virtio-scsi"
_UNMEASURED = "not measured"
_INT = 2**31 - 1
_UINT = 2**32 - 1
_BLOCK_MAX = 600
"""SCSI_DEVICE_BLOCK_MAX_TIMEOUT, seconds: how long a device may be blocked."""
_ATTRIBUTE = re.compile(r"scsi\.host\.([A-Za-z0-9_]+)")
_NO_ERRORS = "Nothing fails during the trial."
_NOT_FC = "The disk is not reached over Fibre Channel."
_NOT_LPFC = "The adapter is not driven by lpfc."

REFUSED = {
    **dict.fromkeys(
        ("scan", "host_reset", "issue_reset", "issue_lip", "rescan", "delete", "reset_statistics"),
        "is an act, not a setting",
    ),
    **dict.fromkeys(("state", "link_state", "board_mode"), "takes the adapter away"),
    **dict.fromkeys(("zio", "ql2xexchoffld", "ql2xiniexchg"), "resets the adapter"),
    **dict.fromkeys(("qlini_mode", "active_mode", "supported_mode"), "takes the disks away"),
    **dict.fromkeys(("lpfc_req_fw_upgrade", "optrom_ctl"), "writes firmware"),
    "lpfc_xlane_lun": "is a table of many entries, written one at a time",
}
"""Attributes of adapters that are no settings to try, and why."""

DomainOf = Callable[[bytes], Domain]


def _between(low: int, high: int) -> DomainOf:
    return lambda _raw: Domain(low=low, high=high)


def _seconds_or_off(high: int) -> DomainOf:
    return lambda _raw: Domain(low=0, high=high, words=("off",))


def _loss_back(device: str, value: str) -> tuple[Change, ...]:
    """More than 600 is refused while fast_io_fail_tmo is off.  It moves that, which has the higher
    rank and goes back next."""
    folder = f"/sys/class/fc_remote_ports/{device}/"
    loss = Change("write", path=f"{folder}dev_loss_tmo", data=value)
    if int(value) <= _BLOCK_MAX:
        return (loss,)
    return (Change("write", path=f"{folder}fast_io_fail_tmo", data="0"), loss)


def _disk(name: str, summary: str, domain: DomainOf, **more: Any) -> Tunable:  # noqa: ANN401
    return Tunable(
        f"scsi.{name}",
        f"/sys/block/{{device}}/device/{name}",
        summary,
        scope="disk",
        domain=domain,
        **{"layer": "scsi", "source": f"{_SYSFS}; {_UNMEASURED}", **more},
    )


def _host(name: str, summary: str, domain: DomainOf, **more: Any) -> Tunable:  # noqa: ANN401
    return Tunable(
        f"scsi.host.{name}",
        f"/sys/class/scsi_host/{{device}}/{name}",
        summary,
        scope="scsi-host",
        domain=domain,
        **{"layer": "adapter", "source": f"{_SYSFS}; {_UNMEASURED}", **more},
    )


def _lpfc(name: str, summary: str, low: int, high: int, **more: Any) -> Tunable:  # noqa: ANN401
    return _host(
        f"lpfc_{name}",
        summary,
        _between(low, high),
        **{
            "moot": _NOT_LPFC,
            "source": f"drivers/scsi/lpfc/lpfc_attr.c; {_UNMEASURED}",
            **more,
        },
    )


_DISKS = (
    _disk(
        "queue_depth",
        "how many commands the disk may have at once",
        _between(1, _INT),
        unit="commands",
        risk=(
            "More than the adapter's can_queue is EINVAL; virtio-scsi cuts down to cmd_per_lun"
            " without a word (reading back catches it). The kernel lowers it by itself when the"
            " target says TASK SET FULL: this is detected as drift, and the trial is excluded."
        ),
        moot="The load's depth times its jobs stays below it.",
        source=f"{_SYSFS} sdev_store_queue_depth(); {_SEEN}: 254 becomes 128, 1024 is EINVAL",
    ),
    _disk(
        "queue_ramp_up_period",
        "how long after a full queue before the depth is raised again by one",
        _between(0, _INT),
        unit="ms",
        risk="Rounded up to the kernel's tick: levels are best multiples of 4 ms.",
        moot="The target never says TASK SET FULL, or the driver does not track depths.",
    ),
    _disk(
        "queue_type",
        "whether commands are tagged: simple or none",
        lambda _raw: Domain(choices=("simple", "none")),
        moot="Every disk of this century is tagged.",
        source=f"{_SYSFS} store_queue_type_field() of 6.1; {_UNMEASURED}",
        reload=(
            "the kernel takes what is written to queue_type and ignores it, and only its log"
            " says so (deprecated); a queue_depth of 1 comes nearest"
        ),
    ),
    _disk(
        "timeout",
        "after how long a command is given up and error handling begins",
        _between(1, 24 * 86400),
        unit="s",
        rank=50,
        moves=("nvme.io_timeout",),
        risk="Too short a time turns a slow target into a failed one: resets, lost paths.",
        moot=_NO_ERRORS,
        source=f"{_SYSFS} sdev_store_timeout(): the same value as queue/io_timeout; {_UNMEASURED}",
    ),
    _disk(
        "eh_timeout",
        "how long error handling waits for one of its own commands",
        _between(1, 24 * 86400),
        unit="s",
        risk="Too short a time makes a busy target be taken offline.",
        moot=_NO_ERRORS,
    ),
)

_FIXED = "the driver decides it when the adapter is found; it cannot be written"

_HOSTS = (
    _host(
        "cmd_per_lun",
        "the depth at which a disk of this adapter starts",
        _between(1, _INT),
        unit="commands",
        reload=f"{_FIXED}. Set scsi.queue_depth on the disks.",
        source=f"{_SYSFS} (read-only); {_SEEN}: it is also the most a disk there can have",
    ),
    _host(
        "can_queue",
        "how many commands the adapter takes at once, all disks together",
        _between(1, _INT),
        unit="commands",
        reload=f"{_FIXED}. Some drivers have a module parameter for it.",
        moot="All disks together ask for less.",
    ),
    _host(
        "nr_hw_queues",
        "how many hardware queues the adapter has",
        _between(1, _INT),
        unit="queues",
        reload=f"{_FIXED}. Some drivers have a module parameter for it.",
    ),
    _host(
        "use_blk_mq",
        "whether the multi-queue block layer is used; always 1 since 5.0",
        _between(0, 1),
        reload="since 5.0 there is no other block layer; before, scsi_mod.use_blk_mq at boot",
    ),
    _host(
        "eh_deadline",
        "after how long error handling skips to a reset of the adapter; seconds, or off",
        _seconds_or_off(_UINT // 1000),
        unit="s",
        risk=(
            "A low value resets the whole adapter, with all its disks, early. EINVAL where the"
            " driver knows no such reset, EBUSY while error handling runs."
        ),
        moot=_NO_ERRORS,
        source=f"{_SYSFS} store_shost_eh_deadline(); {_UNMEASURED}",
    ),
    _lpfc(
        "lun_queue_depth",
        "the depth at which a disk of this adapter starts",
        1,
        512,
        unit="commands",
        reload=(
            "read-only in sysfs: it is the module parameter lpfc_lun_queue_depth, which counts"
            " when a disk is found. Set scsi.queue_depth on the disks."
        ),
    ),
    _lpfc(
        "tgt_queue_depth",
        "how many commands each target port may have at once",
        10,
        65535,
        unit="commands",
        rank=50,
        risk="A new value ends active automatic throttling (cmd_qdepth).",
        moot=f"{_NOT_LPFC} Or the disks behind a port ask for less together.",
    ),
    _lpfc(
        "max_scsicmpl_time",
        "completion time above which commands to a port are throttled; 0 is off",
        0,
        60000,
        unit="ms",
        moot=f"{_NOT_LPFC} Or 0, the default.",
    ),
    _lpfc(
        "first_burst_size",
        "bytes a write sends before the target asks for them; 0 is off",
        0,
        65536,
        unit="bytes",
        risk="Targets must support first burst; it counts for ports that log in afterwards.",
        moot=f"{_NOT_LPFC} Or the target does not support first burst; or reads only.",
    ),
    _lpfc(
        "fcp_imax",
        "how many interrupts a second at most for each event queue; 0 is automatic",
        0,
        5_000_000,
        unit="1/s",
        risk="1 to 4999 is EINVAL, and so is any value on adapters before SLI-4.",
        moot=f"{_NOT_LPFC} Fewer I/O complete in a second.",
    ),
    _lpfc(
        "cq_max_proc_limit",
        "how many completions one interrupt handles before it lets others run",
        64,
        4096,
        unit="completions",
        moot=f"{_NOT_LPFC} Fewer complete at a time.",
    ),
)

_PORTS = (
    Tunable(
        "scsi.dev_loss_tmo",
        "/sys/class/fc_remote_ports/{device}/dev_loss_tmo",
        "how long a lost Fibre Channel port is waited for before its disks go",
        unit="s",
        layer="transport",
        scope="remote-port",
        rank=54,
        moves=("scsi.fast_io_fail_tmo",),
        back=_loss_back,
        domain=_between(1, _UINT),
        risk=(
            "Too short a time makes disks vanish with a flap of the link. multipathd sets it"
            " again at a reconfigure. Above 600 only while fast_io_fail_tmo is not off; EBUSY"
            " while the port is blocked. It may be lowered below fast_io_fail_tmo, but such a"
            " pair cannot be restored: restore names it."
        ),
        moot=f"{_NOT_FC} {_NO_ERRORS}",
        source=(
            "Documentation/ABI/testing/sysfs-class-fc_remote_ports;"
            f" drivers/scsi/scsi_transport_fc.c fc_rport_set_dev_loss_tmo(); {_UNMEASURED}"
        ),
    ),
    Tunable(
        "scsi.fast_io_fail_tmo",
        "/sys/class/fc_remote_ports/{device}/fast_io_fail_tmo",
        "how long I/O to a lost Fibre Channel port is held before it fails; seconds, or off",
        unit="s",
        layer="transport",
        scope="remote-port",
        rank=55,
        domain=_seconds_or_off(_BLOCK_MAX),
        risk=(
            "Must be below dev_loss_tmo and at most 600, else EINVAL: which of the two goes"
            " first depends on their values. multipathd sets it again at a reconfigure."
        ),
        moot=f"{_NOT_FC} {_NO_ERRORS}",
        source=(
            "Documentation/ABI/testing/sysfs-class-fc_remote_ports;"
            f" drivers/scsi/scsi_transport_fc.c store_fc_rport_fast_io_fail_tmo(); {_UNMEASURED}"
        ),
    ),
    Tunable(
        "scsi.recovery_tmo",
        "/sys/class/iscsi_session/{device}/recovery_tmo",
        "how long a lost iSCSI session is waited for before its I/O fails; seconds, or off",
        unit="s",
        layer="transport",
        scope="iscsi-session",
        rank=55,
        lasts="until the session ends",
        domain=_seconds_or_off(_INT),
        risk=(
            "Once written manually, iscsid no longer sets it until the session ends; no file"
            " shows that. EBUSY while the session is down. multipathd sets it too, from its"
            " fast_io_fail_tmo."
        ),
        moot=f"The disk is not reached over iSCSI. {_NO_ERRORS}",
        source=(
            "drivers/scsi/scsi_transport_iscsi.c store_priv_session_recovery_tmo(), iscsid.conf"
            f" node.session.timeo.replacement_timeout; {_UNMEASURED}"
        ),
    ),
)

TUNABLES: tuple[Tunable, ...] = (*_DISKS, *_HOSTS, *_PORTS)


def row(name: str) -> Tunable | None:
    """The row of any attribute of an adapter (``scsi.host.NAME``), made when asked for; None for
    a name that is none.

    Raises UsageError for an attribute that is no setting to try.
    """
    asked = _ATTRIBUTE.fullmatch(name)
    if asked is None:
        return None
    attribute = asked[1]
    if attribute in REFUSED:
        raise UsageError(
            f"{name}: {attribute} {REFUSED[attribute]}", advice="Remove it from the study."
        )
    return _host(
        attribute,
        "an attribute of the adapter's driver that iotrial knows nothing more of",
        lambda _raw: Domain(),
        risk="What a write to it moves is not known, and not restored.",
        source=f"the adapter's driver; {_UNMEASURED}",
    )
