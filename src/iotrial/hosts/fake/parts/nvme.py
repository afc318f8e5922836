"""NVMe: the controller nvme0 behind a fabric, nvme1 on PCIe, and fake1, a disk that the kernel's
own multipath has joined.

As drivers/nvme/host/{core,multipath,pci}.c of 6.1 answer: the loss timeout is kept as a number of
tries, and ``off`` is written as -1.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

from iotrial.hosts.fake.machine import Control, Lasting, Program
from iotrial.hosts.fake.queue import refuse

_FABRIC = "/sys/class/nvme/nvme0"
_PCI = "/sys/class/nvme/nvme1"
_DISK = "/sys/devices/virtual/block/fake1"
_TICK = 4  # ms, at 250 Hz
_POLICIES = ("numa", "round-robin", "queue-depth")


def _integer(text: str, low: int) -> int:
    word = text.strip()
    if not word.removeprefix("-").isdigit() or not low <= int(word) < 2**31:
        raise refuse(errno.EINVAL)
    return int(word)


class Nvme:
    """``_tries``: how often it connects again before it gives up; -1 is for ever."""

    below = (_FABRIC, _PCI, f"{_DISK}/device", f"{_DISK}/queue")

    def __init__(self) -> None:
        self._tries = 60
        self._files = Lasting(
            {
                f"{_FABRIC}/ctrl_loss_tmo": Control("600", self._loss),
                f"{_FABRIC}/reconnect_delay": Control("10", self._delay),
                f"{_FABRIC}/fast_io_fail_tmo": Control("off", self._fail),
                f"{_FABRIC}/kato": Control("5"),
                f"{_PCI}/power/pm_qos_latency_tolerance_us": Control("100000", self._tolerance),
                f"{_PCI}/hmb": Control("1", lambda text: str(int(bool(_integer(text, 0))))),
                f"{_PCI}/queue_count": Control("9"),
                f"{_PCI}/sqsize": Control("1023"),
                f"{_DISK}/device/iopolicy": Control("numa", self._policy),
                f"{_DISK}/queue/io_timeout": Control(
                    "30000", lambda text: str(-(-_integer(text, 1) // _TICK) * _TICK)
                ),
            }
        )

    def controls(self) -> Mapping[str, Control]:
        return self._files

    def programs(self) -> Mapping[str, Program]:
        return {}

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {"tries": str(self._tries)}

    @property
    def _every(self) -> int:
        return int(self._files[f"{_FABRIC}/reconnect_delay"].value)

    def _loss(self, text: str) -> str:
        seconds = _integer(text, -(2**31))
        self._tries = -1 if seconds < 0 else -(-seconds // self._every)
        return self._shown(self._every)

    def _delay(self, text: str) -> str:
        delay = _integer(text, 0)
        self._files[f"{_FABRIC}/ctrl_loss_tmo"].value = self._shown(delay)
        return str(delay)

    def _shown(self, delay: int) -> str:
        return "off" if self._tries < 0 else str(self._tries * delay)

    def _fail(self, text: str) -> str:
        seconds = _integer(text, -(2**31))
        return "off" if seconds < 0 else str(seconds)

    def _tolerance(self, text: str) -> str:
        word = text.strip()
        return word if word in ("any", "auto") else str(_integer(text, 0))

    def _policy(self, text: str) -> str:
        if text.strip() not in _POLICIES:
            raise refuse(errno.EINVAL)
        return text.strip()


PART = Nvme
