"""Family ``boot``: what is read once, when the machine boots: the kernel, and any parameter of its
command line, as ``boot.nvme.poll_queues``.

No table can be complete: the rows below are what storage people turn, any other is made when it is
asked for (:func:`row`).  A trial does not write them: the host is booted with them, once, and into
its own kernel and command line afterwards (:mod:`iotrial.execute.boot`).

What is in force is read from the kernel that runs: its release; a parameter of a module from the
file that the module shows it in, and a parameter without such a file from ``/proc/cmdline``.  Where
both are there and differ, both are read, so that the value is none that a level has.

Sources: the kernel's Documentation/admin-guide/kernel-parameters.rst (a dash and an underscore are
the same in names; of several the last counts) and kernel-parameters.txt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from iotrial.model.study import Level
from iotrial.model.tunable import Domain, Tunable

FAMILY = "boot"
TITLE = "kernels and boot parameters: what only a boot changes"

KERNEL = "boot.kernel"
MARK = "iotrial.boot"
"""The word of the command line by which a boot of a study is known."""
UNSET = "unset"
"""What is read of a parameter that is not there."""
BARE = "set"
"""The value of a parameter that is a word without a value, such as ``threadirqs``."""

_NAME = re.compile(r"boot\.([A-Za-z0-9_][A-Za-z0-9_.-]*)")
_VALUE = re.compile(r'[^\s"]+')
_READ = r"""
key=$(printf %s "$1" | tr - _)
value=
for word in $(cat /proc/cmdline); do
    name=$(printf %s "${word%%=*}" | tr - _)
    [ "$name" = "$key" ] || continue
    case $word in *=*) value=${word#*=} ;; *) value=set ;; esac
done
file=
case $key in *.*) file=/sys/module/${key%%.*}/parameters/${key#*.} ;; esac
if [ -n "$file" ] && seen=$(cat "$file" 2>/dev/null) && [ -n "$seen" ]; then
    case $seen in Y) seen=1 ;; N) seen=0 ;; esac
    case $value in
        [Yy] | [Yy]es | [Oo]n | true | set) said=1 ;;
        [Nn] | [Nn]o | [Oo]ff | false) said=0 ;;
        *) said=${value:-$seen} ;;
    esac
    if [ "$said" = "$seen" ]; then value=${value:-$seen}; else value="$value, but $file: $seen"; fi
fi
printf '%s\n' "${value:-unset}"
"""
_LASTS = "until the next boot"


def is_boot(tunable: str) -> bool:
    """Whether only a boot changes it."""
    return tunable.startswith(f"{FAMILY}.")


def takes_boot(levels: Iterable[Level]) -> bool:
    """Whether one of a factor's levels takes a boot.  Such factors change together: each
    combination of their levels is booted once a block."""
    return any(is_boot(name) for level in levels for name, _ in level.settings)


def word(tunable: str, value: str) -> str:
    """What of the command line makes it so.

    >>> word("boot.nvme.poll_queues", "2"), word("boot.threadirqs", BARE)
    ('nvme.poll_queues=2', 'threadirqs')
    """
    name = tunable.removeprefix(f"{FAMILY}.")
    return name if value == BARE else f"{name}={value}"


def _values(_raw: bytes) -> Domain:
    return Domain(rule=_refusal)


def _refusal(value: str) -> str:
    if _VALUE.fullmatch(value):
        return ""
    return "a value on the command line has no blank and no quote"


def _parameter(  # noqa: PLR0913 (a row of a table)
    name: str,
    summary: str,
    *,
    unit: str = "",
    risk: str = "",
    moot: str = "",
    source: str = "kernel Documentation/admin-guide/kernel-parameters.txt",
    domain: Callable[[bytes], Domain] = _values,
) -> Tunable:
    return Tunable(
        f"boot.{name}",
        "",
        summary,
        unit=unit,
        layer="kernel",
        lasts=_LASTS,
        risk=risk,
        moot=moot,
        source=source,
        scope="host",
        read=("sh", "-c", _READ.replace("{", "{{").replace("}", "}}"), "iotrial-cmdline", name),
        domain=domain,
        boot=True,
    )


def row(name: str) -> Tunable | None:
    """The row of any parameter, made when asked for; None for a name that is none."""
    found = _NAME.fullmatch(name)
    if not found:
        return None
    return _parameter(
        found[1],
        "a parameter of the kernel's command line that iotrial knows nothing more of",
        risk="A wrong one may keep the machine from booting; its next boot is its own again.",
    )


TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        KERNEL,
        "",
        "which of the installed kernels runs, by its release (`uname -r`)",
        layer="kernel",
        lasts=_LASTS,
        risk="Another kernel may name disks and interfaces otherwise; targets are found by their"
        " ids.",
        source="uname(1)",
        scope="host",
        read=("uname", "-r"),
        domain=_values,
        boot=True,
    ),
    _parameter(
        "nvme.poll_queues",
        "hardware queues of each NVMe controller that are polled, for hipri I/O",
        unit="queues",
        risk="Too many leave none for interrupts.",
        moot="The load does not poll (fio hipri, io_uring IOPOLL).",
        source="modinfo nvme; measured in a virtual machine with Linux 6.1 and 6.12",
    ),
    _parameter(
        "nvme.write_queues",
        "hardware queues of each NVMe controller that are for writes alone",
        unit="queues",
        moot="Reads and writes do not come together.",
        source="modinfo nvme",
    ),
    _parameter(
        "nvme_core.multipath",
        "whether the kernel joins the paths of an NVMe namespace itself",
        moot="There is one path.",
        source="modinfo nvme_core",
    ),
    _parameter(
        "scsi_mod.use_blk_mq",
        "whether SCSI has many queues (kernels 3.17 to 4.20; later ones always)",
        moot="The kernel is newer than 4.20.",
    ),
    _parameter(
        "mitigations",
        "whether the kernel works around faults of processors: auto, off, or auto,nosmt",
        risk="off: a process can read what is another's. Not on a machine with strangers' code.",
        moot="The load makes few system calls.",
    ),
    _parameter(
        "isolcpus",
        "CPUs that the scheduler puts no process on by itself",
        unit="list of CPUs",
        moot="Nothing is pinned to them.",
    ),
    _parameter(
        "nohz_full",
        "CPUs without a timer tick while one process runs there",
        unit="list of CPUs",
        risk="Needs a kernel with CONFIG_NO_HZ_FULL; another one ignores it.",
    ),
    _parameter(
        "intel_idle.max_cstate",
        "the deepest idle state of Intel's processors",
        risk="0 hands them to the driver of ACPI.",
        moot="The processors are never idle.",
    ),
    _parameter(
        "iommu",
        "how devices reach memory: pt leaves those of the host itself untranslated",
        risk="off keeps devices from virtual machines.",
        moot="There is no IOMMU, or it is off in the firmware.",
    ),
    _parameter(
        "threadirqs",
        "interrupts are handled by threads, which have priorities (level `set`)",
        moot="The kernel is PREEMPT_RT: it always does.",
    ),
)
