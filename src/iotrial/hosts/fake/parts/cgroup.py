"""Control groups of the fake machine: blkio of v1 and io of v2, one group that may be made in each.

No kernel offers both controllers; this one does, so that every row can be tried.  v1 answers as
6.18 does (``tests/integration/test_cgroup_on_this_kernel.py`` compares), v2 as
Documentation/admin-guide/cgroup-v2.rst says.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from iotrial.hosts.fake.machine import Control, Program, Said
from iotrial.hosts.fake.queue import refuse

if TYPE_CHECKING:
    from iotrial.hosts.fake.machine import Machine

V1, V2 = "/sys/fs/cgroup/blkio", "/sys/fs/cgroup"
GROUP = "iotrial"
LIMITS = ("read_bps", "write_bps", "read_iops", "write_iops")
MAXIMA = ("rbps", "wbps", "riops", "wiops")
_U32, _U64 = 2**32, 2**64


class Groups:
    """``made`` are the roots that have our group now, ``v1`` its limits by file and device,
    ``v2`` by device and name."""

    below = (V2,)

    def __init__(self) -> None:
        self.made: set[str] = set()
        self.v1: dict[str, dict[str, int]] = {name: {} for name in LIMITS}
        self.v2: dict[str, dict[str, int]] = {}
        self.latency: dict[str, int] = {}
        self.weight = 100
        self.io = False

    def controls(self) -> dict[str, Control]:
        files = {
            f"{V1}/cgroup.procs": Control("1", lambda _text: None),
            f"{V1}/blkio.throttle.read_iops_device": Control(""),
            f"{V2}/cgroup.controllers": Control("cpu io memory"),
            f"{V2}/cgroup.subtree_control": Control("io" if self.io else "", self._control),
        }
        if V1 in self.made:
            files[f"{V1}/{GROUP}/cgroup.procs"] = Control("", lambda _text: None)
            for name, limits in self.v1.items():
                files[f"{V1}/{GROUP}/blkio.throttle.{name}_device"] = Control(
                    "\n".join(f"{device} {value}" for device, value in limits.items()),
                    self._throttler(name),
                )
        if V2 in self.made:
            files[f"{V2}/{GROUP}/cgroup.procs"] = Control("", lambda _text: None)
        if V2 in self.made and self.io:
            files[f"{V2}/{GROUP}/io.max"] = Control(self._maxima(), self._set_max)
            files[f"{V2}/{GROUP}/io.weight"] = Control(f"default {self.weight}", self._set_weight)
            files[f"{V2}/{GROUP}/io.latency"] = Control(
                "\n".join(f"{device} target={value}" for device, value in self.latency.items()),
                self._set_latency,
            )
        return files

    def _control(self, text: str) -> None:
        if text.strip() not in ("+io", "-io"):
            raise refuse(errno.EINVAL)
        self.io = text.strip() == "+io"
        if not self.io:
            self.v2, self.latency, self.weight = {}, {}, 100

    def _throttler(self, name: str) -> Callable[[str], None]:
        """tg_set_conf(): 0 is no limit, and iops keep the lower 32 bits."""

        def write(text: str) -> None:
            found = re.fullmatch(r"([0-9]+:[0-9]+) ([0-9]+)\s*", text)
            if not found:
                raise refuse(errno.EINVAL)
            most = _U32 if "iops" in name else _U64
            value = int(found[2]) % most
            if value in (0, most - 1):
                self.v1[name].pop(found[1], None)
            else:
                self.v1[name][found[1]] = value

        return write

    def _maxima(self) -> str:
        return "\n".join(
            f"{device} " + " ".join(f"{name}={limits.get(name, 'max')}" for name in MAXIMA)
            for device, limits in self.v2.items()
        )

    def _set_max(self, text: str) -> None:
        device, *words = text.split()
        limits = dict(self.v2.get(device, {}))
        for word in words:
            name, _, value = word.partition("=")
            if name not in MAXIMA or not (value == "max" or value.isdigit()):
                raise refuse(errno.EINVAL)
            limits.pop(name, None)
            if value != "max":
                if int(value) == 0:
                    raise refuse(errno.ERANGE)
                limits[name] = int(value)
        self.v2[device] = limits
        if not limits:
            del self.v2[device]

    def _set_weight(self, text: str) -> None:
        found = re.fullmatch(r"(?:default )?([0-9]+)\s*", text)
        if not found or not 1 <= int(found[1]) <= 10000:  # noqa: PLR2004 (CGROUP_WEIGHT_MAX)
            raise refuse(errno.EINVAL)
        self.weight = int(found[1])

    def _set_latency(self, text: str) -> None:
        found = re.fullmatch(r"([0-9]+:[0-9]+) target=([0-9]+)\s*", text)
        if not found:
            raise refuse(errno.EINVAL)
        self.latency.pop(found[1], None)
        if int(found[2]):
            self.latency[found[1]] = int(found[2])

    # -- making and removing the group ------------------------------------------------------

    def programs(self) -> Mapping[str, Program]:
        return {
            "iotrial-join": Program(lambda *_: Said(), changes=True),
            "mkdir": Program(self._mkdir, changes=True),
            "rmdir": Program(self._rmdir, changes=True),
            "iotrial-controller": Program(
                lambda *_: Said(0, "on\n" if self.io else "off\n"), changes=False
            ),
        }

    def _mkdir(self, machine: Machine, words: Sequence[str], stdin: bytes) -> Said:
        root = self._root(words)
        if not root:
            return _ordinary("mkdir", machine, words, stdin)
        if root in self.made:
            return Said(1, "", f"mkdir: cannot create directory '{words[-1]}': File exists\n")
        self.made.add(root)
        return Said()

    def _rmdir(self, machine: Machine, words: Sequence[str], stdin: bytes) -> Said:
        root = self._root(words)
        if not root:
            return _ordinary("rmdir", machine, words, stdin)
        if root not in self.made:
            why = "No such file or directory"
            return Said(1, "", f"rmdir: failed to remove '{words[-1]}': {why}\n")
        if any(words[-1] in task.argv for task in machine.tasks.values()):
            return Said(1, "", f"rmdir: failed to remove '{words[-1]}': Device or resource busy\n")
        self.made.discard(root)
        if root == V1:
            self.v1 = {name: {} for name in LIMITS}
        else:
            self.v2, self.latency, self.weight = {}, {}, 100
        return Said()

    @staticmethod
    def _root(words: Sequence[str]) -> str:
        root, _, name = words[-1].rpartition("/")
        return root if name == GROUP and root in (V1, V2) else ""

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {"groups": " ".join(sorted(self.made))}


def _ordinary(name: str, machine: Machine, words: Sequence[str], stdin: bytes) -> Said:
    from iotrial.hosts.fake.commands import COMMANDS  # noqa: PLC0415 (it imports the machine)

    return COMMANDS[name].command(machine, words, stdin)


PART = Groups
