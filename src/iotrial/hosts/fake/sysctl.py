"""Kernel parameters in a dictionary, as a 6.18 kernel keeps them.

The pairs that zero each other, the pair that must stay in order, and keys that cannot be read.
``tests/integration/test_sysctls_on_this_kernel.py`` compares the answers with the running
kernel's.
"""

from __future__ import annotations

import errno

from iotrial.hosts.fake.queue import refuse

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
