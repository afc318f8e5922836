"""A daemon with a configuration file: ``fakeclient reload`` reads /etc/fakeclient.conf,
``fakeclient show`` says what is in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotrial.hosts.fake.machine import Control, Machine, Program, Said

CONFIGURATION = "/etc/fakeclient.conf"
DEFAULT = "16384"


class Client:
    """``rsize`` is what the daemon read when it was last told to."""

    below: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.rsize = DEFAULT

    def controls(self) -> Mapping[str, Control]:
        return {}

    def links(self) -> Mapping[str, str]:
        return {}

    def programs(self) -> Mapping[str, Program]:
        return {"fakeclient": Program(self._run, changes=lambda words: "reload" in words)}

    def settings(self) -> Mapping[str, str]:
        return {"rsize": self.rsize}

    def _run(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        if list(words) == ["show"]:
            return Said(0, f"rsize: {self.rsize}\n")
        if list(words) != ["reload"]:
            return Said(1, "", "fakeclient: reload or show\n")
        file = machine.files.get(CONFIGURATION)
        found = file.data.decode().split() if file else ["rsize", DEFAULT]
        if len(found) != len(("rsize", "N")) or not found[1].isdigit():
            return Said(1, "", f"fakeclient: {CONFIGURATION}: Invalid argument\n")
        self.rsize = found[1]
        return Said()


PART = Client
