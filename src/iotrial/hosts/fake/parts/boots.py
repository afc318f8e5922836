"""Boots of the fake machine: by kexec, as ``hosts/boot.sh`` has them, its verbs done at once; and
the menu of its boot loader, GRUB or systemd-boot, as ``hosts/loader.sh`` has it made.

What is armed a boot takes; what runs and what is owed a boot does not forget.  The unit that brings
the machine back by itself is no part of it: here nobody waits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Self

from iotrial.hosts.fake.machine import CommandOutput, FakeMachine, FakeProgram, MachinePart
from iotrial.hosts.fake.proc import fixed, release

OTHER = "6.1.0-fake"
"""The kernel that is installed beside the machine's own."""
MARK = "iotrial.boot="
_FOLDER = "/var/lib/iotrial/boot"
_STATE = f"{_FOLDER}/token"
_PARAMETERS = ("poll_queues", "write_queues")
_LOOKS = ("means", "parameters")
MENU, ENTRY = "/boot/grub/grub.cfg", "/boot/loader/entries/fake.conf"
"""Which of them is there says which loader the machine has: both are one line of options here."""
LINE = "/etc/kernel/cmdline"
_PARTS = "/etc/default/grub.d/"
_PART = re.compile(
    r'^GRUB_CMDLINE_LINUX_DEFAULT="\$\{GRUB_CMDLINE_LINUX_DEFAULT-\} (.*)"$', re.MULTILINE
)
_VERB = 3
"""Where ``-c SCRIPT NAME VERB …`` has its verb."""


class BootLoader(MachinePart):
    """``running`` is the release and the command line that run (none: its own); ``armed`` what a
    next boot takes; ``owed`` the token of what is left of a study.  ``broken`` is what making the
    menu fails with ('': it does not)."""

    name = "boots"

    def __init__(self) -> None:
        self.own: tuple[str, str] | None = None
        self.broken = ""
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
            "iotrial-loader": FakeProgram(
                self._loader, changes=lambda words: words[_VERB] in ("update", "back")
            ),
        }

    def settings(self) -> Mapping[str, str]:
        return {"running": " ".join(self.running or ()), "owed": self.owed}

    def remember(self, former: Self, machine: FakeMachine) -> None:
        """A boot that was asked for takes what is armed; any other is the machine's own, whose unit
        removes what is left."""
        self.running = former.armed if former.going else None
        self.owed = former.owed if self.running else ""
        if self.running is None and former.owed:
            _forget(machine)
        file = machine.files.get(MENU) or machine.files.get(ENTRY)
        line = file.data.decode().strip() if file else ""
        self.own = (release(machine.kernel.release), line) if line else None
        machine.booted = self.running or self.own

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
                _forget(machine)
        return CommandOutput()

    def _means(self, machine: FakeMachine) -> str:
        own = self.own or (release(machine.kernel.release), _first(machine))
        runs = self.running or own
        lines = [f"running|{runs[0]}|{runs[1]}", f"kernel|{own[0]}|", f"kernel|{OTHER}|"]
        lines += ["method|kexec|"]
        lines += [f"owed|{self.owed or 'begun'}|"] if _FOLDER in machine.folders else []
        lines += [f"level|{runs[0]}|"] if self.running else []
        return "".join(f"{line}\n" for line in lines)

    def _parameter(
        self, machine: FakeMachine, words: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        name = words[_VERB]
        line = machine.booted[1] if machine.booted else _first(machine)
        found = re.findall(rf"(?:^|\s){re.escape(name)}(?:=(\S*))?(?=\s|$)", line)
        unset = "0" if name.startswith("nvme.") else "unset"
        return CommandOutput(0, f"{(found[-1] or 'set') if found else unset}\n")

    def _loader(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        match list(words[_VERB:]):
            case ["which"]:
                return CommandOutput(0, _which(machine))
            case ["has", name, added]:
                return CommandOutput(0 if _has(machine, name, added) else 1)
            case ["update", name, added]:
                return self._update(machine, name, added)
            case ["back", name, added, *lies]:
                return self._back(machine, (name, added), lies)
        return CommandOutput()

    def _back(
        self, machine: FakeMachine, menu: tuple[str, str], lies: Sequence[str]
    ) -> CommandOutput:
        path, beside, digest = lies
        file = machine.files.get(path)
        if beside in machine.files:
            return CommandOutput(1, "", f"{path} is not what it was\n")
        if file and hashlib.sha256(file.data).hexdigest() == digest:
            return CommandOutput(1, "", f"{path} is still there\n")
        return self._made(machine, menu[0]) if _has(machine, *menu) else CommandOutput()

    def _update(self, machine: FakeMachine, name: str, added: str) -> CommandOutput:
        done = self._made(machine, name)
        if done.exit or _has(machine, name, added):
            return done
        return CommandOutput(1, "", f"no entry of the menu has: {added}\n")

    def _made(self, machine: FakeMachine, name: str) -> CommandOutput:
        if self.broken:
            return CommandOutput(1, "", f"{self.broken}\n")
        if name == "grub":
            parts = [path for path in sorted(machine.files) if path.startswith(_PARTS)]
            every = (machine.files[path].data.decode() for path in parts if path.endswith(".cfg"))
            line = " ".join([_first(machine), *(w for text in every for w in _PART.findall(text))])
        else:
            line = machine.files[LINE].data.decode().strip()
        path, mode = (MENU, 0o600) if name == "grub" else (ENTRY, 0o644)
        machine.put(path, f"{line}\n".encode(), mode=mode)
        return CommandOutput()


def _forget(machine: FakeMachine) -> None:
    for path in [path for path in machine.files if path.startswith(f"{_FOLDER}/")]:
        del machine.files[path]
    machine.folders.pop(_FOLDER, None)


def _first(machine: FakeMachine) -> str:
    return fixed(machine.kernel.release)["cmdline"].strip()


def _which(machine: FakeMachine) -> str:
    if MENU in machine.files:
        return "loader|grub|\n"
    if ENTRY in machine.files:
        return "loader|kernel-install|\n"
    return f"not|grub|there is no {MENU}\nnot|kernel-install|it is not installed\n"


def _has(machine: FakeMachine, name: str, added: str) -> bool:
    file = machine.files.get(MENU if name == "grub" else ENTRY)
    return file is not None and f" {added} " in f" {file.data.decode().strip()} "
