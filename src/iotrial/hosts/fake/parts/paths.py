"""How the fake machine gets at its disks: SCSI and its transports, multipath, NVMe."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence

from iotrial.hosts.fake.disk import TICK, Take, number, refuse, within
from iotrial.hosts.fake.machine import (
    CommandOutput,
    ControlFile,
    FakeMachine,
    FakeProgram,
    MachinePart,
    StaticFiles,
)

_SCSI_DISK = "/sys/devices/virtual/block/fake0"
_HOSTS = "/sys/class/scsi_host"
_PORTS = "/sys/class/fc_remote_ports"
_SESSIONS = "/sys/class/iscsi_session"
_CMD_PER_LUN, _CAN_QUEUE = 128, 256
_BLOCK_MAX = 600
_UINT = 2**32 - 1
PORTS = ("rport-3:0-0", "rport-3:0-1")


def or_off(low: int, high: int) -> Take:
    return lambda text: "off" if text.startswith("off") else str(number(text, low, high))


class Scsi(MachinePart):
    """The disk fake0 on host2 (as virtio-scsi has it), and host3, an lpfc adapter with two remote
    ports; an iSCSI session.

    As drivers/scsi/{scsi_sysfs,virtio_scsi,scsi_transport_fc,scsi_transport_iscsi}.c of 6.1
    answer: a depth is cut down without a word, the two timeouts of a port depend on each other, the
    timeout of a disk and that of its queue are one value in two units.

    ``ports`` may be set by multipathd too: see :meth:`set_port`.
    """

    name = "scsi"
    below = (f"{_SCSI_DISK}/device", f"{_SCSI_DISK}/queue", _HOSTS, _PORTS, _SESSIONS)

    def __init__(self) -> None:
        disk = f"{_SCSI_DISK}/device"
        files: dict[str, ControlFile] = {
            f"{disk}/queue_depth": ControlFile(str(_CMD_PER_LUN), _depth),
            f"{disk}/queue_ramp_up_period": ControlFile("120000", _ramp),
            f"{disk}/queue_type": ControlFile("simple", lambda _text: "simple"),
            f"{disk}/timeout": ControlFile("30", self._seconds),
            f"{_SCSI_DISK}/queue/io_timeout": ControlFile("30000", self._milliseconds),
            f"{disk}/eh_timeout": ControlFile("10", within(0, 2**31 - 1)),
        }
        for name, fixed in (("host2", (_CMD_PER_LUN, _CAN_QUEUE)), ("host3", (30, 8192))):
            files |= {
                f"{_HOSTS}/{name}/cmd_per_lun": ControlFile(str(fixed[0])),
                f"{_HOSTS}/{name}/can_queue": ControlFile(str(fixed[1])),
                f"{_HOSTS}/{name}/nr_hw_queues": ControlFile("4"),
                f"{_HOSTS}/{name}/use_blk_mq": ControlFile("1"),
                f"{_HOSTS}/{name}/eh_deadline": ControlFile("off", or_off(0, _UINT // 250)),
            }
        adapter = f"{_HOSTS}/host3/lpfc"
        files |= {
            f"{adapter}_lun_queue_depth": ControlFile("30"),
            f"{adapter}_tgt_queue_depth": ControlFile("65535", within(10, 65535)),
            f"{adapter}_max_scsicmpl_time": ControlFile("0", within(0, 60000)),
            f"{adapter}_first_burst_size": ControlFile("0", within(0, 65536)),
            f"{adapter}_fcp_imax": ControlFile("150000", _imax),
            f"{adapter}_cq_max_proc_limit": ControlFile("1024", within(64, 4096)),
            f"{_SESSIONS}/session1/recovery_tmo": ControlFile("120", or_off(0, 2**31 - 1)),
        }
        for port in PORTS:
            files |= self._port(f"{_PORTS}/{port}")
        self._files = StaticFiles(files)

    def controls(self) -> Mapping[str, ControlFile]:
        return self._files

    def set_port(self, name: str, value: str) -> None:
        """multipathd's: on every port, and without asking the kernel twice."""
        for port in PORTS:
            self._files[f"{_PORTS}/{port}/{name}"].value = value

    def _seconds(self, text: str) -> str:
        seconds = number(text, 1, 2**31 // 1000)
        self._files[f"{_SCSI_DISK}/queue/io_timeout"].value = str(seconds * 1000)
        return str(seconds)

    def _milliseconds(self, text: str) -> str:
        rounded = -(-number(text, 1, 2**31 - 1) // TICK) * TICK
        self._files[f"{_SCSI_DISK}/device/timeout"].value = str(rounded // 1000)
        return str(rounded)

    def _port(self, folder: str) -> dict[str, ControlFile]:
        loss, fail = f"{folder}/dev_loss_tmo", f"{folder}/fast_io_fail_tmo"
        return {
            loss: ControlFile("60", lambda text: self._loss(text, fail)),
            fail: ControlFile("5", lambda text: self._fail(text, loss)),
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
    return str(-(-number(text) // TICK) * TICK)


def _imax(text: str) -> str:
    value = number(text, 0, 5_000_000)
    return str(value if value == 0 else number(text, 5000, 5_000_000))


FOLDER = "/etc/multipath/conf.d/"
MAP = "mpatha"
_DEFAULTS = {"polling_interval": "5", "no_path_retry": "fail", "path_selector": "service-time 0"}
_SECTION = re.compile(r"^(\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r'^\t(\w+) "([^"]*)"$', re.MULTILINE)
_TIMEOUTS = ("dev_loss_tmo", "fast_io_fail_tmo")

Sections = dict[str, dict[str, str]]


class Multipath(MachinePart):
    """multipathd, dmsetup and the map mpatha.

    As multipath-tools 0.9.4 answers: the daemon reads /etc/multipath/conf.d when it reconfigures,
    and only then; it shows what it has merged; it writes the timeouts it has to the ports behind
    it; ``disablequeueing`` holds until ``restorequeueing`` or the next reconfigure.
    ``restorequeueing`` does nothing as long as the daemon believes that the map queues: it looks
    when maps are shown.

    ``administrator`` is what /etc/multipath.conf says, ``merged`` what the daemon has.
    """

    name = "multipath"

    def __init__(self) -> None:
        self.administrator: Sections = {"defaults": dict(_DEFAULTS), "overrides": {}}
        self.merged: Sections = {name: dict(keys) for name, keys in self.administrator.items()}
        self.queueing = False
        self.disabled = False
        self._believed = False

    def configure(self, overrides: Mapping[str, str], *, disabled: str = "") -> None:
        """As an administrator has it: these overrides, and ``disablequeueing`` for a map."""
        self.administrator["overrides"] |= overrides
        self.merged["overrides"] |= overrides
        self.disabled = disabled == MAP
        self.queueing = self._configured and not self.disabled
        self._believed = self.queueing

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "multipathd": FakeProgram(self._multipathd, changes=lambda words: words[0] != "show"),
            "iotrial-reconfigure": FakeProgram(self._reconfigure, changes=True),
            "iotrial-multipath": FakeProgram(self._look, changes=False),
            "iotrial-queueing": FakeProgram(self._table, changes=False),
            "iotrial-queues": FakeProgram(self._restore, changes=True),
            "dmsetup": FakeProgram(self._dmsetup, changes=False),
        }

    def settings(self) -> Mapping[str, str]:
        shown = {
            f"{section} {key}": value
            for section, keys in self.merged.items()
            for key, value in keys.items()
        }
        return shown | {MAP: str(int(self.queueing))}

    @property
    def _configured(self) -> bool:
        keys = {**self.merged["defaults"], **self.merged["overrides"]}
        return keys["no_path_retry"] not in ("fail", "0")

    def _multipathd(
        self, machine: FakeMachine, words: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        match list(words):
            case ["show", "config"]:
                return CommandOutput(0, self._config())
            case ["show", "daemon"]:
                return CommandOutput(0, "pid 700 idle\n")
            case ["reconfigure"]:
                return self._reconfigure(machine, (), b"")
            case ["show", "maps", *_]:
                self._believed = self.queueing
                return CommandOutput(0, f"{MAP}\n")
            case ["disablequeueing", "map", name] if name == MAP:
                self.disabled, self.queueing = True, False
            case ["restorequeueing", "map", name] if name == MAP:
                if self.disabled and not self._believed:
                    self.queueing = self._believed = self._configured
                self.disabled = False
            case _:
                return CommandOutput(1, "fail\n", "")
        return CommandOutput(0, "ok\n")

    def _reconfigure(
        self, machine: FakeMachine, _words: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        merged: Sections = {name: dict(keys) for name, keys in self.administrator.items()}
        files = (name for name in machine.files if name.startswith(FOLDER))
        for path in sorted(name for name in files if name.endswith(".conf")):
            text = machine.files[path].data.decode()
            for section, body in _SECTION.findall(text):
                merged[section] |= dict(_ENTRY.findall(body))
        self.merged = merged
        self.disabled, self.queueing = False, self._configured
        self._believed = self.queueing
        scsi = machine.parts["scsi"]
        for name in _TIMEOUTS:
            wanted = merged["overrides"].get(name)
            if wanted is not None and isinstance(scsi, Scsi):
                scsi.set_port(name, wanted.replace("infinity", "4294967295"))
        return CommandOutput(0, "ok\n")

    def _restore(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        self._multipathd(machine, ("show", "maps"), b"")
        return self._multipathd(machine, ("restorequeueing", "map", words[-1]), b"")

    def _config(self) -> str:
        sections = (
            f"{name} {{\n" + "".join(f'\t{key} "{value}"\n' for key, value in keys.items()) + "}\n"
            for name, keys in self.merged.items()
        )
        return "".join(sections)

    def _look(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        path, section, key = words[-3:]
        if path not in machine.files:
            return CommandOutput(0, "unset\n")
        return CommandOutput(0, self.merged[section].get(key, "pending") + "\n")

    def _dmsetup(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        if list(words) != ["table", MAP]:
            return CommandOutput(1, "", "Device does not exist.\nCommand failed.\n")
        features = "1 queue_if_no_path" if self.queueing else "0"
        paths = "service-time 0 2 2 8:16 1 1 8:32 1 1"
        return CommandOutput(0, f"0 2097152 multipath {features} 1 alua 1 1 {paths}\n")

    def _table(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        said = self._dmsetup(machine, ("table", words[-1]), b"")
        return CommandOutput(
            said.exit, f"{int('queue_if_no_path' in said.stdout)}\n" * (not said.exit)
        )


_FABRIC = "/sys/class/nvme/nvme0"
_PCI = "/sys/class/nvme/nvme1"
_NVME_DISK = "/sys/devices/virtual/block/fake1"
_POLICIES = ("numa", "round-robin", "queue-depth")


def _integer(text: str, low: int) -> int:
    word = text.strip()
    if not word.removeprefix("-").isdigit() or not low <= int(word) < 2**31:
        raise refuse(errno.EINVAL)
    return int(word)


class Nvme(MachinePart):
    """The controller nvme0 behind a fabric, nvme1 on PCIe, and fake1, a disk that the kernel's own
    multipath has joined.

    As drivers/nvme/host/{core,multipath,pci}.c of 6.1 answer: the loss timeout is kept as a number
    of tries, and ``off`` is written as -1.

    ``_tries``: how often it connects again before it gives up; -1 is for ever.
    """

    name = "nvme"
    below = (_FABRIC, _PCI, f"{_NVME_DISK}/device", f"{_NVME_DISK}/queue")

    def __init__(self) -> None:
        self._tries = 60
        self._files = StaticFiles(
            {
                f"{_FABRIC}/ctrl_loss_tmo": ControlFile("600", self._loss),
                f"{_FABRIC}/reconnect_delay": ControlFile("10", self._delay),
                f"{_FABRIC}/fast_io_fail_tmo": ControlFile("off", self._fail),
                f"{_FABRIC}/kato": ControlFile("5"),
                f"{_PCI}/power/pm_qos_latency_tolerance_us": ControlFile("100000", self._tolerance),
                f"{_PCI}/hmb": ControlFile("1", lambda text: str(int(bool(_integer(text, 0))))),
                f"{_PCI}/queue_count": ControlFile("9"),
                f"{_PCI}/sqsize": ControlFile("1023"),
                f"{_NVME_DISK}/device/iopolicy": ControlFile("numa", self._policy),
                f"{_NVME_DISK}/queue/io_timeout": ControlFile(
                    "30000", lambda text: str(-(-_integer(text, 1) // TICK) * TICK)
                ),
            }
        )

    def controls(self) -> Mapping[str, ControlFile]:
        return self._files

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
