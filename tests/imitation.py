"""What the fake host can do besides what ``--pretend`` shows: the block queues of other kernels,
and a daemon with a configuration file; and what a kernel answered beside what the fake host
answers.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any, Self

from iotrial.errors import FileRefused
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.disk import (
    DEFAULT_READ_AHEAD,
    NEWEST,
    PAGE_KB,
    FakeKernel,
    FakeQueue,
    refuse,
    variable,
)
from iotrial.hosts.fake.machine import CommandOutput, FakeMachine, FakeProgram, MachinePart
from iotrial.tunables import tunable
from writes import QUEUE

# -- kernels --------------------------------------------------------------------------------------
#
# Measured as FakeQueue was, on loop devices of Debian's kernels at 250 Hz (November 2026): each
# write's answer, and every file that is a tunable after it, of random sequences and of every value
# on every such file under every scheduler.  tests/unit/test_fake_queues.py holds them against
# recordings, and tests/vm/test_fake_in_a_node.py against the kernels.


class Queue612(FakeQueue):
    """6.12: there is no ``iostats_passthrough``, and no limit raises the read-ahead above the
    default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        del self.features["iostats_passthrough"]

    @classmethod
    def of_loop(cls) -> Self:
        return cls(rotational=1)

    def write_requests(self, text: str) -> None:
        """mq-deadline is told of a new depth before it is written down: async_depth gets the
        former one."""
        former, depth = self.requests, self.iosched.get("async_depth")
        super().write_requests(text)
        if depth is not None:
            self.iosched["async_depth"] = depth if self.requests == former else former

    def _commit(self) -> None:
        self.read_ahead = max(self.read_ahead, DEFAULT_READ_AHEAD)


class Queue61(Queue612):
    """6.1: besides, no limit moves the read-ahead, and bfq leaves wbt as it is."""

    @classmethod
    def of_loop(cls) -> Self:
        return cls(rotational=1, latency=75000)

    def read_scheduler(self) -> str:
        """``none`` is the last where it is not in use, without a blank after it."""
        if self.scheduler == "none":
            return super().read_scheduler()
        names = (each for each in self.schedulers if each != "none")
        return "".join(f"[{s}] " if s == self.scheduler else f"{s} " for s in names) + "none"

    def write_scheduler(self, text: str) -> None:
        """The same one again changes nothing, unless there are blanks before its name."""
        if text.strip() != self.scheduler:
            super().write_scheduler(text)
        elif self.scheduler != "none" and text.lstrip() != text:
            self._use(self.scheduler)

    def write_sectors(self, text: str) -> None:
        asked = variable(text)
        if not PAGE_KB <= asked <= self.largest:
            raise refuse(errno.EINVAL)
        self.sectors = asked * 2

    def _commit(self) -> None:
        pass

    def _throttles(self, scheduler: str) -> bool:
        del scheduler
        return False


KERNELS = {
    each.release: each
    for each in (FakeKernel("6.1", Queue61), FakeKernel("6.12", Queue612), NEWEST)
}
"""By their releases."""


# -- a daemon -------------------------------------------------------------------------------------

CONFIGURATION = "/etc/fakeclient.conf"
DEFAULT = "16384"


class Client(MachinePart):
    """``fakeclient reload`` reads /etc/fakeclient.conf, ``fakeclient set N`` sets it without, and
    ``fakeclient show`` says what is in force.
    ``rsize`` is what the daemon read when it was last told to."""

    name = "client"

    def __init__(self) -> None:
        self.rsize = DEFAULT

    def programs(self) -> Mapping[str, FakeProgram]:
        return {"fakeclient": FakeProgram(self._run, changes=lambda words: "show" not in words)}

    def settings(self) -> Mapping[str, str]:
        return {"rsize": self.rsize}

    def _run(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        if list(words) == ["show"]:
            return CommandOutput(0, f"rsize: {self.rsize}\n")
        if list(words[:1]) == ["set"] and len(words) == len(("set", "N")):
            if not words[1].isdigit():
                return CommandOutput(1, "", f"fakeclient: {words[1]}: Invalid argument\n")
            self.rsize = words[1]
            return CommandOutput()
        if list(words) != ["reload"]:
            return CommandOutput(1, "", "fakeclient: reload, set or show\n")
        file = machine.files.get(CONFIGURATION)
        found = file.data.decode().split() if file else ["rsize", DEFAULT]
        if len(found) != len(("rsize", "N")) or not found[1].isdigit():
            return CommandOutput(1, "", f"fakeclient: {CONFIGURATION}: Invalid argument\n")
        self.rsize = found[1]
        return CommandOutput()


# -- answers --------------------------------------------------------------------------------------

DEVICE = "loop4711"


def differences(run: dict[str, Any], kernel: str) -> list[str]:
    """Where the fake first does otherwise than the run that ``answers.py`` recorded; [] nowhere.
    Which scheduler's module was loaded first is the machine's: the fake has them in its order."""
    host = FakeHost(kernel=KERNELS[kernel])
    host.run(["truncate", "-s", "64M", "/var/tmp/backing"])
    assert host.run(["losetup", f"/dev/{DEVICE}", "/var/tmp/backing"]).exit == 0
    real = dict(run["new"])
    queue = host.machine.blocks[DEVICE].queue
    own = {name for name in queue.names() if "/" not in name}
    if missing := sorted(own - set(run["files"])):
        return [f"the kernel has no {', '.join(missing)}"]
    queue.schedulers = tuple(real["queue.scheduler"].replace("[", "").replace("]", "").split())
    if found := _unlike(state(host), real):
        return ["when new", *found]
    for number, (name, text, said, changed) in enumerate(run["steps"]):
        real |= changed
        answer = written(host, name, text)
        found = _unlike(state(host), real)
        if found or answer != said:
            before = [f"{n} {t!r}" for n, t, _, _ in run["steps"][max(0, number - 8) : number]]
            return [f"{name} {text!r}: fake {answer}, kernel {said}", *found, "before:", *before]
    return []


def state(host: FakeHost) -> dict[str, str | int]:
    seen: dict[str, str | int] = {}
    for row in QUEUE:
        try:
            seen[row.name] = host.read(row.file(DEVICE)).decode()
        except FileRefused as refused:
            seen[row.name] = refused.errno
    return seen


def written(host: FakeHost, name: str, text: str) -> int:
    try:
        host.write(tunable(name).file(DEVICE), text.encode())
    except FileRefused as refused:
        return refused.errno
    return 0


def _unlike(fake: dict[str, str | int], real: dict[str, str | int]) -> list[str]:
    """What is not in ``real`` was no tunable when it was recorded."""
    return [f"{k}: fake {fake[k]!r}, kernel {real[k]!r}" for k in real if fake.get(k) != real[k]]
