"""What ``/proc`` of the fake host says, in the kernel's formats, and its kernel parameters, as 6.18
keeps them: the pairs that zero each other, the pair that must stay in order, and keys that cannot
be read.

``tests/integration/test_sysctls_on_this_kernel.py`` compares the answers of the parameters with the
running kernel's.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from functools import cache

from iotrial.hosts.fake.disk import refuse

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
    disk = "".join(f" {n}:{none}  PCI-MSIX {n}-edge  fake1q{n - 40}\n" for n in range(40, 44))
    return (
        f"    {head}\n 24:{each}  PCI-MSI 0-edge  fake-queue\n 25:{none}  PCI-MSI 1-edge  idle\n"
        f"{disk}"
    )


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


# -- kernel parameters -----------------------------------------------------------------------------

START = {
    "vm/dirty_ratio": "20",
    "vm/dirty_bytes": "0",
    "vm/dirty_background_ratio": "10",
    "vm/dirty_background_bytes": "0",
    "vm/dirty_expire_centisecs": "3000",
    "vm/swappiness": "60",
    "vm/vfs_cache_pressure": "100",
    "net/ipv4/ipfrag_low_thresh": "3145728",
    "net/ipv4/ipfrag_high_thresh": "4194304",
    "net/ipv4/tcp_rmem": "4096\t131072\t6291456",
    "net/ipv4/tcp_wmem": "4096\t16384\t4194304",
    "net/ipv4/tcp_moderate_rcvbuf": "1",
    "net/core/rmem_max": "212992",
    "net/core/wmem_max": "212992",
    "net/core/netdev_max_backlog": "1000",
    "vm/dirty_writeback_centisecs": "500",
    "fs/aio-max-nr": "65536",
    "kernel/shmmax": "18446744073692774399",
    "kernel/sem": "32000\t1024000000\t500\t32000",
}
_ZEROES = {
    "vm/dirty_ratio": "vm/dirty_bytes",
    "vm/dirty_bytes": "vm/dirty_ratio",
    "vm/dirty_background_ratio": "vm/dirty_background_bytes",
    "vm/dirty_background_bytes": "vm/dirty_background_ratio",
}
_LEAST = {"vm/dirty_bytes": 8192, "vm/dirty_background_bytes": 1, "net/core/rmem_max": 2304}
_MOST = {"vm/dirty_ratio": 100, "vm/dirty_background_ratio": 100, "vm/swappiness": 200}
_LOW, _HIGH = "net/ipv4/ipfrag_low_thresh", "net/ipv4/ipfrag_high_thresh"


class Sysctls:
    """``values`` by path below /proc/sys, as they read without the final newline."""

    def __init__(self) -> None:
        self.values = dict(START)

    def write(self, path: str, text: str) -> None:
        """Raises OSError, as the kernel answers."""
        if path not in self.values:
            raise refuse(errno.EACCES)
        words = text.split()
        if not words or not all(word.isdigit() for word in words):
            raise refuse(errno.EINVAL)
        if len(words) != len(self.values[path].split()):
            raise refuse(errno.EINVAL)
        if len(words) == 1:
            self._check(path, int(words[0]))
        before = self.values[path]
        self.values[path] = "\t".join(str(int(word)) for word in words)
        other = _ZEROES.get(path)
        # The background pair is zeroed by any write, the other one by a change only.
        if other and ("background" in path or self.values[path] != before):
            self.values[other] = "0"

    def _check(self, path: str, number: int) -> None:
        within = _LEAST.get(path, 0) <= number <= _MOST.get(path, number)
        ordered = not (
            (path == _LOW and number > int(self.values[_HIGH]))
            or (path == _HIGH and number < int(self.values[_LOW]))
        )
        if not (within and ordered):
            raise refuse(errno.EINVAL)
