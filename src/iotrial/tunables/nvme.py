"""Family ``nvme``: NVMe controllers, their namespaces and the paths to them.

How many I/O queues a controller over a fabric has, and how long they are, is agreed when it is
connected (``nvme connect --nr-io-queues=N --queue-size=N``).  Such connections are compared as
targets, each made for the study and removed after it::

    [targets.two]
    device = "/dev/disk/by-id/nvme-uuid.UUID"
    create = [["nvme", "connect", "-t", "tcp", "-a", "ADDRESS", "-n", "NQN", "--nr-io-queues=2"]]
    remove = [["nvme", "disconnect", "-n", "NQN"]]

Controllers: ``/sys/class/nvme/nvmeN/``; the timeout of a request lies in the queue of any block
device, and the path policy where the kernel's own NVMe multipath has joined several controllers.

Sources: drivers/nvme/host/{core,multipath,pci}.c as of Linux 6.1 (``queue-depth`` as of 6.11),
drivers/base/power/sysfs.c, Documentation/ABI/stable/sysfs-block, Documentation/ABI/testing/
{sysfs-nvme,sysfs-devices-power}.  No controller over a fabric and none with power states was at
hand: those rows were not measured.

Left out on purpose: ``reset_controller``, ``rescan_controller`` and ``delete_controller`` (acts),
``dhchap_secret`` (a secret), and the parameters of nvme and nvme_core (family ``module``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable

FAMILY = "nvme"
TITLE = "NVMe controllers: timeouts, path policy, power saving, queues"

_CORE = "drivers/nvme/host/core.c"
_UNMEASURED = "not measured"
_INT = 2**31 - 1
_NO_FABRIC = "The controller sits on PCIe, not behind a fabric."
_NO_ERRORS = "No connection is lost during the trial."
_FOLDER = "/sys/class/nvme/{device}/"

Acts = Callable[[str, str], tuple[Change, ...]]


def _or_off(name: str) -> Acts:
    """``off`` reads where -1 is what must be written."""

    def acts(device: str, value: str) -> tuple[Change, ...]:
        written = "-1" if value == "off" else value
        return (Change("write", path=_FOLDER.format(device=device) + name, data=written),)

    return acts


def _controller(name: str, summary: str, **more: Any) -> Tunable:  # noqa: ANN401
    return Tunable(
        f"nvme.{name}",
        _FOLDER + name,
        summary,
        scope="nvme",
        **{
            "layer": "nvme",
            "lasts": "until the controller goes or the machine reboots",
            "source": f"{_CORE}; {_UNMEASURED}",
            **more,
        },
    )


_QUEUES = (
    "the number of queues is agreed with the controller when it is reset: set the parameters"
    " write_queues and poll_queues of the module nvme, then reset the controller or reboot"
)

TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        "nvme.io_timeout",
        "/sys/block/{device}/queue/io_timeout",
        "after how long a request is given up; of any block device, not of NVMe alone",
        unit="ms",
        scope="disk",
        rank=60,
        domain=lambda _raw: Domain(low=1, high=_INT),
        risk=(
            "Too short a time makes the driver abort requests and reset the controller. On a"
            " SCSI disk it is scsi.timeout in other units: restoring this one, the finer,"
            " restores both. Rounded to the kernel's tick."
        ),
        moot="No request takes that long.",
        source=f"Documentation/ABI/stable/sysfs-block (since 4.20); {_UNMEASURED}",
    ),
    Tunable(
        "nvme.iopolicy",
        "/sys/block/{device}/device/iopolicy",
        "which path the kernel's own NVMe multipath takes: numa, round-robin, queue-depth",
        layer="nvme",
        scope="device",
        rank=40,
        lasts="until the subsystem goes or the machine reboots",
        domain=lambda _raw: Domain(choices=("numa", "round-robin", "queue-depth")),
        risk=(
            "queue-depth exists since 6.11; before, writing it is EINVAL. Before 6.11 the kernel"
            " also keeps the path that it took last: numa after round-robin may use any path (seen"
            " with 6.1)."
        ),
        moot=(
            "The subsystem has one path, or nvme_core.multipath is off: then the file is not"
            " there, and dm-multipath does the work (family multipath)."
        ),
        source=(
            "Documentation/ABI/testing/sysfs-nvme; drivers/nvme/host/multipath.c: `device` of a"
            f" joined disk is its subsystem; {_UNMEASURED}"
        ),
    ),
    Tunable(
        "nvme.pm_qos_latency_tolerance_us",
        _FOLDER + "power/pm_qos_latency_tolerance_us",
        "how long waking from a power state may take (APST): µs, any, auto; 0 turns APST off",
        unit="µs",
        domain=lambda _raw: Domain(low=0, high=_INT, words=("any", "auto")),
        layer="nvme",
        scope="nvme",
        lasts="until the controller goes or the machine reboots",
        risk="Above what the firmware can bear, some drives vanish from the bus.",
        moot="The controller has no autonomous power states, or is never idle.",
        source=(
            "Documentation/ABI/testing/sysfs-devices-power; drivers/base/power/sysfs.c;"
            f" {_CORE} nvme_set_latency_tolerance(); {_UNMEASURED}"
        ),
    ),
    _controller(
        "hmb",
        "whether a drive without memory of its own may use the host's",
        domain=lambda _raw: Domain(choices=("0", "1")),
        risk="What the drive kept there is lost when it is turned off: it starts cold again.",
        moot="The drive has memory of its own: then the file is not there.",
        source=f"drivers/nvme/host/pci.c hmb_store() of 6.1; {_UNMEASURED}",
    ),
    _controller(
        "reconnect_delay",
        "how long to wait between two tries to connect again",
        unit="s",
        rank=40,
        moves=("nvme.ctrl_loss_tmo",),
        domain=lambda _raw: Domain(low=1, high=_INT),
        risk="ctrl_loss_tmo is kept as a number of tries, so its seconds change along.",
        moot=f"{_NO_FABRIC} {_NO_ERRORS}",
    ),
    _controller(
        "ctrl_loss_tmo",
        "how long a lost controller is waited for before its disks go; seconds, or off",
        unit="s",
        rank=50,
        how=_or_off("ctrl_loss_tmo"),
        domain=lambda _raw: Domain(low=0, high=_INT, words=("off",)),
        risk="Rounded up to whole reconnect_delays. off waits for ever.",
        moot=f"{_NO_FABRIC} {_NO_ERRORS}",
    ),
    _controller(
        "fast_io_fail_tmo",
        "how long I/O to a lost controller is held before it fails; seconds, or off",
        unit="s",
        rank=50,
        how=_or_off("fast_io_fail_tmo"),
        domain=lambda _raw: Domain(low=0, high=_INT, words=("off",)),
        moot=f"{_NO_FABRIC} {_NO_ERRORS}",
    ),
    _controller(
        "kato",
        "how often the connection is proved alive",
        unit="s",
        reload="agreed when the controller is connected: nvme connect --keep-alive-tmo",
        moot=_NO_FABRIC,
    ),
    _controller(
        "queue_count",
        "how many queues the controller has, the admin queue among them",
        unit="queues",
        reload=_QUEUES,
        moot="The load runs on fewer CPUs than there are queues.",
    ),
    _controller(
        "sqsize",
        "how many commands one queue holds, less one",
        unit="commands",
        reload=(
            "agreed with the controller when it is reset: the parameter io_queue_depth of the"
            " module nvme, then a reset or a reboot"
        ),
        moot="The load's depth on one CPU stays below it.",
    ),
)
