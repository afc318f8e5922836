"""The machine around the disk: what both the facts of a study and the doctor read of it.

Every function is pure over what a file of /proc or /sys says.

Udev rules that write settings: a writer that comes whenever a device is added or changed.

A rule is applied again at every *change* event, and udev itself makes one when a program that had
the whole disk open for writing closes it (``OPTIONS+="watch"``, udev(7)): so a load on a disk can
be what brings a rule's value back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from iotrial.hosts.local import LocalHost
from iotrial.look import reading
from iotrial.model.host import Reader

BOOT_ID = "/proc/sys/kernel/random/boot_id"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
WRITERS = {
    "tuned": "profiles: sysctls, schedulers, read-ahead, governors",
    "tuned-ppd": "switches tuned's profiles",
    "ktune": "the profiles of RHEL 5 and 6",
    "saptune": "sysctls, schedulers, read-ahead for SAP",
    "sapconf": "the same, before saptune",
    "irqbalance": "interrupt affinity",
    "bpftune": "sysctls of the network, as it goes",
    "power-profiles-daemon": "energy preference, turbo",
    "thermald": "limits of frequency and power",
    "tlp": "governors, read-ahead, schedulers, power of links",
    "laptop_mode": "writeback, read-ahead, power of disks",
    "auto-cpufreq": "governors, turbo",
    "cpufreqd": "governors",
    "cpuspeed": "governors",
    "gamemoded": "governors, I/O priorities",
    "numad": "transparent huge pages, NUMA placement",
    "ksmtuned": "merging of pages",
    "cloud-init": "sysctls, mounts, at boot",
    "google_guest_agent": "queues and interrupt affinity of its SSDs and interfaces",
    "waagent": "SCSI timeouts, again and again (OS.RootDeviceScsiTimeout)",
    "iotrial": "what its study says",
}
"""Programs that write settings on their own account, and which: from their manuals."""
UDEV = ("systemd-udevd", "udevd", "eudevd")
_COMM = 15  # bytes the kernel keeps of a name: TASK_COMM_LEN less its NUL
_SHORT = {name[:_COMM]: name for name in (*WRITERS, *UDEV)}
_INTERPRETERS = ("python", "perl")
"""Scripts that are started as ``python3 /usr/sbin/waagent`` have the interpreter's name."""


def cpu_model(cpuinfo: str) -> str:
    """/proc/cpuinfo: x86 says ``model name``, arm64 only numbers."""
    said = _pairs(cpuinfo)
    numbers = (said.get("CPU implementer", ""), said.get("CPU part", ""))
    return said.get("model name") or said.get("cpu model") or " ".join(numbers).strip()


def cpu_count(cpuinfo: str) -> int:
    """Processors that are online."""
    lines = (line.partition(":")[0].strip() for line in cpuinfo.splitlines())
    return sum(1 for name in lines if name == "processor")


def memory(meminfo: str) -> int:
    """MemTotal of /proc/meminfo in bytes; 0 unknown."""
    words = _pairs(meminfo).get("MemTotal", "0").split()
    return int(words[0]) * 1024


def _pairs(text: str) -> dict[str, str]:
    """``name : value`` lines; the first of each name counts (the first processor)."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def distribution(os_release: str) -> str:
    """PRETTY_NAME of os-release(5)."""
    for line in os_release.splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip().strip('"')
    return ""


def virtualisation(cpuinfo: str, vendor: str, product: str) -> str:
    """What kind of virtual machine this seems to be; '' on bare metal, as far as one can see."""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE):
        known = ("QEMU", "KVM", "VMware", "Xen", "VirtualBox", "Amazon EC2", "Google Compute")
        return next((name for name in known if name in f"{vendor} {product}"), "")
    return " ".join(part for part in (vendor, product) if part) or "a hypervisor"


def choices(scheduler: str) -> tuple[str, ...]:
    """``none [mq-deadline] bfq`` → its names, in the kernel's order."""
    return tuple(scheduler.replace("[", "").replace("]", "").split())


def pressure(text: str) -> float:
    """``some avg10`` of a /proc/pressure file as a fraction; 0 where there is none."""
    match = re.search(r"^some avg10=([0-9.]+)", text, re.MULTILINE)
    return float(match[1]) / 100 if match else 0.0


def load_average(text: str) -> float:
    """The one-minute load of /proc/loadavg."""
    return float((text.split() or ["0"])[0])


def syncing(actions: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """(array, md/sync_action) → arrays at work on themselves: ``md0: check``."""
    return tuple(f"{name}: {action}" for name, action in actions if action not in ("", "idle"))


# Reading what is spread over many files.


def writers(host: Reader) -> tuple[str, ...]:
    """Programs at work that change settings themselves: ``tuned (pid 812)``; not ourselves.
    Two round trips, three where there may be some."""
    return tuple(
        f"{name} (pid {pid})"
        for pid, name, argv in processes(host)
        if name in WRITERS and b"--pretend" not in argv
    )


def udev(host: Reader) -> bool:
    """Whether udev is at work: without it no rule is applied."""
    return any(name in UDEV for _, name, _ in processes(host))


def runs(host: Reader) -> tuple[str, ...]:
    """Other ``iotrial run`` at work, whoever's they are: ``pid 812``.  An iotrial on its made-up
    machine touches nothing here."""
    return tuple(
        f"pid {pid}"
        for pid, name, argv in processes(host)
        if name == "iotrial" and b"run" in argv and b"--pretend" not in argv
    )


def same_kernel(host: Reader) -> bool:
    """Whether a host that is reached over a link is in truth this machine: another mount or
    network namespace of it, or itself by another name."""
    return host.remote and reading.text(host, BOOT_ID) == reading.text(LocalHost(), BOOT_ID)


def processes(host: Reader) -> tuple[tuple[int, str, tuple[bytes, ...]], ...]:
    """(pid, name, argv) of every process that one of our names belongs to, but for the one that
    looks."""
    pids = [pid for pid in reading.names(host, "/proc") if pid.isdigit()]
    names = reading.texts(host, ["/proc/self/stat", *(f"/proc/{pid}/comm" for pid in pids)])
    own = {names["/proc/self/stat"].split(" ", 1)[0]}
    if same_kernel(host):
        own.add(str(os.getpid()))
    comm = {pid: names[f"/proc/{pid}/comm"] for pid in pids if pid not in own}
    known = [pid for pid, name in comm.items() if name in _SHORT or name.startswith(_INTERPRETERS)]
    argvs = reading.contents(host, [f"/proc/{pid}/cmdline" for pid in known]) if known else {}
    found = []
    for pid in known:
        argv = tuple(argvs[f"/proc/{pid}/cmdline"].split(b"\0"))
        name = _SHORT.get(comm[pid]) or script(argv)
        if name in WRITERS or name in UDEV:
            found.append((int(pid), name, argv))
    return tuple(found)


def script(argv: Sequence[bytes]) -> str:
    """The name of the script that an interpreter executes.

    >>> script((b"/usr/bin/python3", b"-u", b"/usr/sbin/waagent", b"-daemon"))
    'waagent'
    """
    words = (word.decode("utf-8", "replace") for word in argv[1:])
    path = next((word for word in words if not word.startswith("-")), "")
    return path.rpartition("/")[2].removesuffix(".py")


def resyncs(host: Reader) -> tuple[str, ...]:
    arrays = [name for name in reading.names(host, "/sys/block") if name.startswith("md")]
    return syncing(
        (name, reading.text(host, f"/sys/block/{name}/md/sync_action")) for name in arrays
    )


def schedulers(host: Reader) -> tuple[str, ...]:
    """Every scheduler that any device offers.  A module that is not loaded is not offered."""
    files = [f"/sys/block/{name}/queue/scheduler" for name in reading.names(host, "/sys/block")]
    said = reading.texts(host, files).values()
    return tuple(dict.fromkeys(name for text in said for name in choices(text)))


FOLDERS = (
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
)
"""As udev(7) reads them: of files with the same name, the one in the first folder counts."""

_WRITES = re.compile(
    r"""(?:ATTR\{(?P<file>(?:queue|device|bdi|md|parameters)/[^}]+|read_ahead_kb|mtu|tx_queue_len)\}
    |SYSCTL\{(?P<key>[^}]+)\})\s*[+:]?=(?!=)""",
    re.VERBOSE,
)
"""An assignment; ``==`` and ``!=`` only ask."""


def rules(host: Reader) -> tuple[str, ...]:
    """Each rule that writes a setting: ``/etc/udev/rules.d/60-disk.rules:3 (queue/scheduler)``.

    Several round trips: one for each folder, one for all files.
    """
    files: dict[str, str] = {}
    for folder in FOLDERS:
        for name in reading.names(host, folder):
            if name.endswith(".rules"):
                files.setdefault(name, f"{folder}/{name}")
    said = reading.contents(host, [files[name] for name in sorted(files)])
    return tuple(
        f"{path}:{number} ({', '.join(what)})"
        for path, data in said.items()
        for number, what in written(data.decode("utf-8", "replace"))
    )


def written(text: str) -> Iterable[tuple[int, list[str]]]:
    """(line, what is assigned there) of a rules file.  Pure.

    A backslash at the end of a line joins it with the next one, also in a comment (udev(7)).

    >>> list(written('# ATTR{queue/scheduler}="x"\\nATTR{queue/rotational}=="1", \\\\\\n'
    ...              '  ATTR{queue/scheduler}="bfq"'))
    [(2, ['queue/scheduler'])]
    """
    whole, began = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        began = began if whole else number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        rule, whole = (whole + line).strip(), ""
        found = [match["file"] or match["key"] for match in _WRITES.finditer(rule)]
        if found and not rule.startswith("#"):
            yield began, list(dict.fromkeys(found))
