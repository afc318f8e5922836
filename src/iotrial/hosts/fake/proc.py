"""What ``/proc`` of the fake host says.  Pure: numbers in, text out, in the kernel's formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

CPUS = 4
MEMORY = 8 * 2**30
_TICKS = 100  # per second, USER_HZ

_FIXED = {
    "meminfo": (
        f"MemTotal:       {MEMORY // 1024} kB\n"
        f"MemFree:        {MEMORY // 2048} kB\n"
        f"MemAvailable:   {MEMORY // 1536} kB\n"
        "SwapTotal:       1048576 kB\nSwapFree:        1048576 kB\n"
    ),
    "cpuinfo": "".join(
        f"processor\t: {cpu}\nmodel name\t: Pretended CPU\ncpu MHz\t\t: 3000.000\n\n"
        for cpu in range(CPUS)
    ),
    "sys/kernel/hostname": "fake\n",
    "cmdline": "root=/dev/fakesys1 ro\n",
    "loadavg": "0.10 0.05 0.01 1/100 4000\n",
}


def release(kernel: str) -> str:
    """What uname(2) calls it."""
    return f"{kernel}.0-fake"


@cache
def fixed(kernel: str) -> dict[str, str]:
    """What reads the same for as long as a machine with that kernel lives."""
    name = release(kernel)
    return _FIXED | {
        "version": f"Linux version {name} (fake@fake) (gcc) #1 SMP PREEMPT_DYNAMIC\n",
        "sys/kernel/osrelease": f"{name}\n",
    }


def cpu_stat(seconds: float, busy: float) -> str:
    """/proc/stat after ``seconds`` of uptime, ``busy`` CPU seconds of them spent on loads."""
    spent, total = int(busy * _TICKS), int(seconds * _TICKS)
    whole = f"cpu  {spent // 3} 0 {spent - spent // 3} {max(0, CPUS * total - spent)} 0 0 0 0 0 0"
    each = [
        f"cpu{n} {spent // 12} 0 {spent // 6} {max(0, total - spent // 4)} 0 0 0 0 0 0"
        for n in range(CPUS)
    ]
    return "\n".join([whole, *each, f"intr {spent}", f"ctxt {spent}", "btime 0", ""])


def interrupts(count: int) -> str:
    head = "".join(f"       CPU{n}" for n in range(CPUS))
    each = "".join(f" {count // CPUS:10d}" for _ in range(CPUS))
    none = "".join(f" {0:10d}" for _ in range(CPUS))
    return f"    {head}\n 24:{each}  PCI-MSI 0-edge  fake-queue\n 25:{none}  PCI-MSI 1-edge  idle\n"


def pressure(total: int) -> str:
    line = f"avg10=0.00 avg60=0.00 avg300=0.00 total={total}"
    return f"some {line}\nfull {line}\n"


def mountinfo(mounts: Iterable[tuple[str, str, str, str]]) -> str:
    """(device number, mount point, type, source) rows, the root first."""
    lines = [
        f"{20 + i} {20 if i else 1} {devno} / {point} rw,relatime - {kind} {source} rw"
        for i, (devno, point, kind, source) in enumerate(mounts)
    ]
    return "\n".join([*lines, ""])


def swaps(devices: Mapping[str, int]) -> str:
    """Device node → bytes."""
    head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"
    rows = [f"{node}\tpartition\t{size // 1024}\t0\t-2" for node, size in devices.items()]
    return "\n".join([head, *rows, ""])


def process_stat(pid: int, program: str, group: int, started: float) -> str:
    """/proc/PID/stat; field 22 is the start time in ticks since boot (proc_pid_stat(5))."""
    before = f"{pid} ({program[:15]}) R 1 {group} {group} 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0"
    return f"{before} {int(started * _TICKS)} 0 0 0\n"
