"""SCSI: the disk fake0 on host2 (as virtio-scsi has it), and host3, an lpfc adapter with two
remote ports; an iSCSI session.

As drivers/scsi/{scsi_sysfs,virtio_scsi,scsi_transport_fc,scsi_transport_iscsi}.c of 6.1 answer:
a depth is cut down without a word, the two timeouts of a port depend on each other, the timeout of
a disk and that of its queue are one value in two units.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping

from iotrial.hosts.fake.machine import Control, Lasting, Program
from iotrial.hosts.fake.queue import refuse

_DISK = "/sys/devices/virtual/block/fake0"
_HOSTS = "/sys/class/scsi_host"
_PORTS = "/sys/class/fc_remote_ports"
_SESSIONS = "/sys/class/iscsi_session"
_CMD_PER_LUN, _CAN_QUEUE = 128, 256
_BLOCK_MAX = 600
_TICK = 4  # ms, at 250 Hz
_UINT = 2**32 - 1
PORTS = ("rport-3:0-0", "rport-3:0-1")

Take = Callable[[str], str | None]


def number(text: str, low: int = 0, high: int = _UINT) -> int:
    """What kstrtouint() and a check of the range make of it.  Raises OSError."""
    word = text.strip()
    if not word.isascii() or not word.isdigit() or not low <= int(word) <= high:
        raise refuse(errno.EINVAL)
    return int(word)


def within(low: int, high: int) -> Take:
    return lambda text: str(number(text, low, high))


def or_off(low: int, high: int) -> Take:
    return lambda text: "off" if text.startswith("off") else str(number(text, low, high))


class Scsi:
    """``ports`` may be set by multipathd too: see :meth:`set_port`."""

    below = (f"{_DISK}/device", f"{_DISK}/queue", _HOSTS, _PORTS, _SESSIONS)

    def __init__(self) -> None:
        disk = f"{_DISK}/device"
        files: dict[str, Control] = {
            f"{disk}/queue_depth": Control(str(_CMD_PER_LUN), _depth),
            f"{disk}/queue_ramp_up_period": Control("120000", _ramp),
            f"{disk}/queue_type": Control("simple", lambda _text: "simple"),
            f"{disk}/timeout": Control("30", self._seconds),
            f"{_DISK}/queue/io_timeout": Control("30000", self._milliseconds),
            f"{disk}/eh_timeout": Control("10", within(0, 2**31 - 1)),
        }
        for name, fixed in (("host2", (_CMD_PER_LUN, _CAN_QUEUE)), ("host3", (30, 8192))):
            files |= {
                f"{_HOSTS}/{name}/cmd_per_lun": Control(str(fixed[0])),
                f"{_HOSTS}/{name}/can_queue": Control(str(fixed[1])),
                f"{_HOSTS}/{name}/nr_hw_queues": Control("4"),
                f"{_HOSTS}/{name}/use_blk_mq": Control("1"),
                f"{_HOSTS}/{name}/eh_deadline": Control("off", or_off(0, _UINT // 250)),
            }
        adapter = f"{_HOSTS}/host3/lpfc"
        files |= {
            f"{adapter}_lun_queue_depth": Control("30"),
            f"{adapter}_tgt_queue_depth": Control("65535", within(10, 65535)),
            f"{adapter}_max_scsicmpl_time": Control("0", within(0, 60000)),
            f"{adapter}_first_burst_size": Control("0", within(0, 65536)),
            f"{adapter}_fcp_imax": Control("150000", _imax),
            f"{adapter}_cq_max_proc_limit": Control("1024", within(64, 4096)),
            f"{_SESSIONS}/session1/recovery_tmo": Control("120", or_off(0, 2**31 - 1)),
        }
        for port in PORTS:
            files |= self._port(f"{_PORTS}/{port}")
        self._files = Lasting(files)

    def controls(self) -> Mapping[str, Control]:
        return self._files

    def programs(self) -> Mapping[str, Program]:
        return {}

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {}

    def set_port(self, name: str, value: str) -> None:
        """multipathd's: on every port, and without asking the kernel twice."""
        for port in PORTS:
            self._files[f"{_PORTS}/{port}/{name}"].value = value

    def _seconds(self, text: str) -> str:
        seconds = number(text, 1, 2**31 // 1000)
        self._files[f"{_DISK}/queue/io_timeout"].value = str(seconds * 1000)
        return str(seconds)

    def _milliseconds(self, text: str) -> str:
        rounded = -(-number(text, 1, 2**31 - 1) // _TICK) * _TICK
        self._files[f"{_DISK}/device/timeout"].value = str(rounded // 1000)
        return str(rounded)

    def _port(self, folder: str) -> dict[str, Control]:
        loss, fail = f"{folder}/dev_loss_tmo", f"{folder}/fast_io_fail_tmo"
        return {
            loss: Control("60", lambda text: self._loss(text, fail)),
            fail: Control("5", lambda text: self._fail(text, loss)),
        }

    def _loss(self, text: str, fail: str) -> str:
        seconds = number(text)
        if self._files[fail].value == "off" and seconds > _BLOCK_MAX:
            raise refuse(errno.EINVAL)
        return str(seconds)

    def _fail(self, text: str, loss: str) -> str:
        if text.startswith("off"):
            return "off"
        return str(number(text, 0, min(_BLOCK_MAX, int(self._files[loss].value) - 1)))


def _depth(text: str) -> str:
    return str(min(number(text, 1, _CAN_QUEUE), _CMD_PER_LUN))


def _ramp(text: str) -> str:
    return str(-(-number(text) // _TICK) * _TICK)


def _imax(text: str) -> str:
    value = number(text, 0, 5_000_000)
    return str(value if value == 0 else number(text, 5000, 5_000_000))


PART = Scsi
