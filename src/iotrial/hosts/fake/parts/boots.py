"""Boots of the fake machine: by kexec, as ``hosts/boot.sh`` has them, its verbs done at once.

What is armed a boot takes; what runs and what is owed a boot does not forget.  The unit that brings
the machine back by itself is no part of it: here nobody waits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Self

from iotrial.hosts.fake.machine import CommandOutput, FakeMachine, FakeProgram, MachinePart
from iotrial.hosts.fake.proc import fixed, release

OTHER = "6.1.0-fake"
"""The kernel that is installed beside the machine's own."""
MARK = "iotrial.boot="
_STATE = "/var/lib/iotrial/boot/token"
_PARAMETERS = ("poll_queues", "write_queues")
_LOOKS = ("means", "parameters")
_VERB = 3
"""Where ``-c SCRIPT NAME VERB …`` has its verb."""


class BootLoader(MachinePart):
    """``running`` is the release and the command line that run (none: its own); ``armed`` what a
    next boot takes; ``owed`` the token of what is left of a study."""

    name = "boots"

    def __init__(self) -> None:
        self.running: tuple[str, str] | None = None
        self.armed: tuple[str, str] | None = None
        self.going = False
        self.owed = ""

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "iotrial-boot": FakeProgram(
                self._boot, changes=lambda words: words[_VERB] not in _LOOKS
            ),
            "iotrial-cmdline": FakeProgram(self._parameter, changes=False),
        }

    def settings(self) -> Mapping[str, str]:
        return {"running": " ".join(self.running or ()), "owed": self.owed}

    def remember(self, former: Self, machine: FakeMachine) -> None:
        """A boot that was asked for takes what is armed; any other is the machine's own, whose unit
        removes what is left."""
        self.running = former.armed if former.going else None
        self.owed = former.owed if self.running else ""
        if self.running is None:
            machine.files.pop(_STATE, None)
        machine.booted = self.running

    def _boot(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        match list(words[_VERB:]):
            case ["means"]:
                return CommandOutput(0, self._means(machine))
            case ["parameters", module, _]:
                return CommandOutput(0, "\n".join(_PARAMETERS if module == "nvme" else ()))
            case ["arm", token, _, chosen, line, *_]:
                if chosen not in (OTHER, release(machine.kernel.release)):
                    return CommandOutput(1, "", f"no kernel {chosen} is installed on this host\n")
                self.armed, self.owed = (chosen, line), token
                machine.put(_STATE, f"{token}\n".encode()).durable = True
            case ["go"]:
                self.going = True
                machine.boot()
            case ["back"]:
                self.armed = None
                machine.boot()
            case ["disarm"]:
                self.armed = None
            case ["clear"] if self.running:
                return CommandOutput(1, "", "the host still runs a boot of a study\n")
            case ["clear"]:
                self.armed, self.owed = None, ""
                machine.files.pop(_STATE, None)
        return CommandOutput()

    def _means(self, machine: FakeMachine) -> str:
        own = (release(machine.kernel.release), fixed(machine.kernel.release)["cmdline"].strip())
        runs = self.running or own
        lines = [f"running|{runs[0]}|{runs[1]}", f"kernel|{own[0]}|", f"kernel|{OTHER}|"]
        lines += ["method|kexec|"]
        lines += [f"owed|{self.owed}|"] if self.owed else []
        lines += [f"level|{runs[0]}|"] if self.running else []
        return "".join(f"{line}\n" for line in lines)

    def _parameter(
        self, machine: FakeMachine, words: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        name = words[_VERB]
        line = self.running[1] if self.running else fixed(machine.kernel.release)["cmdline"]
        found = re.findall(rf"(?:^|\s){re.escape(name)}(?:=(\S*))?(?=\s|$)", line)
        unset = "0" if name.startswith("nvme.") else "unset"
        return CommandOutput(0, f"{(found[-1] or 'set') if found else unset}\n")
