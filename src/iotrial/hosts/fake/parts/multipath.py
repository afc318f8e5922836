"""Multipath: multipathd, dmsetup and the map mpatha.

As multipath-tools 0.9.4 answers: the daemon reads /etc/multipath/conf.d when it reconfigures, and
only then; it shows what it has merged; it writes the timeouts it has to the ports behind it;
``disablequeueing`` holds until ``restorequeueing`` or the next reconfigure.  ``restorequeueing``
does nothing as long as the daemon believes that the map queues: it looks when maps are shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from iotrial.hosts.fake.machine import Control, Machine, Program, Said
from iotrial.hosts.fake.parts.scsi import Scsi

FOLDER = "/etc/multipath/conf.d/"
MAP = "mpatha"
_DEFAULTS = {"polling_interval": "5", "no_path_retry": "fail", "path_selector": "service-time 0"}
_SECTION = re.compile(r"^(\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r'^\t(\w+) "([^"]*)"$', re.MULTILINE)
_TIMEOUTS = ("dev_loss_tmo", "fast_io_fail_tmo")

Sections = dict[str, dict[str, str]]


class Multipath:
    """``administrator`` is what /etc/multipath.conf says, ``merged`` what the daemon has."""

    below: tuple[str, ...] = ()

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

    def controls(self) -> Mapping[str, Control]:
        return {}

    def links(self) -> Mapping[str, str]:
        return {}

    def programs(self) -> Mapping[str, Program]:
        return {
            "multipathd": Program(self._multipathd, changes=lambda words: words[0] != "show"),
            "iotrial-reconfigure": Program(self._reconfigure, changes=True),
            "iotrial-multipath": Program(self._look, changes=False),
            "iotrial-queueing": Program(self._table, changes=False),
            "iotrial-queues": Program(self._restore, changes=True),
            "dmsetup": Program(self._dmsetup, changes=False),
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

    def _multipathd(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        match list(words):
            case ["show", "config"]:
                return Said(0, self._config())
            case ["show", "daemon"]:
                return Said(0, "pid 700 idle\n")
            case ["reconfigure"]:
                return self._reconfigure(machine, (), b"")
            case ["show", "maps", *_]:
                self._believed = self.queueing
                return Said(0, f"{MAP}\n")
            case ["disablequeueing", "map", name] if name == MAP:
                self.disabled, self.queueing = True, False
            case ["restorequeueing", "map", name] if name == MAP:
                if self.disabled and not self._believed:
                    self.queueing = self._believed = self._configured
                self.disabled = False
            case _:
                return Said(1, "fail\n", "")
        return Said(0, "ok\n")

    def _reconfigure(self, machine: Machine, _words: Sequence[str], _stdin: bytes) -> Said:
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
        return Said(0, "ok\n")

    def _restore(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        self._multipathd(machine, ("show", "maps"), b"")
        return self._multipathd(machine, ("restorequeueing", "map", words[-1]), b"")

    def _config(self) -> str:
        sections = (
            f"{name} {{\n" + "".join(f'\t{key} "{value}"\n' for key, value in keys.items()) + "}\n"
            for name, keys in self.merged.items()
        )
        return "".join(sections)

    def _look(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        path, section, key = words[-3:]
        if path not in machine.files:
            return Said(0, "unset\n")
        return Said(0, self.merged[section].get(key, "pending") + "\n")

    def _dmsetup(self, _machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        if list(words) != ["table", MAP]:
            return Said(1, "", "Device does not exist.\nCommand failed.\n")
        features = "1 queue_if_no_path" if self.queueing else "0"
        paths = "service-time 0 2 2 8:16 1 1 8:32 1 1"
        return Said(0, f"0 2097152 multipath {features} 1 alua 1 1 {paths}\n")

    def _table(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        said = self._dmsetup(machine, ("table", words[-1]), b"")
        return Said(said.exit, f"{int('queue_if_no_path' in said.stdout)}\n" * (not said.exit))


PART = Multipath
