"""Module parameters of the fake machine, as kernel/params.c keeps them.

``fake_hba`` has one of each kind: a number, a switch, a text, a list of choices, one that is empty
and one that is read-only.  ``loop`` has what says how deep its devices are.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping

from iotrial.hosts.fake.machine import Control, Program
from iotrial.hosts.fake.parts.mm import brackets
from iotrial.hosts.fake.queue import refuse, unsigned

FOLDER = "/sys/module/fake_hba/parameters"
_LOOPS = "/sys/module/loop/parameters/hw_queue_depth"
_TRUE = ("y", "Y", "1", "on", "On", "ON")
_FALSE = ("n", "N", "0", "off", "Off", "OFF")
_POLICIES = ("default", "performance", "powersave")
_UINT = 2**32 - 1


def _switched(text: str) -> str:
    """kstrtobool(): the first letter decides, or on and off."""
    word = text.strip()
    if word in _TRUE or word[:1] in ("y", "Y", "1", "t", "T"):
        return "Y"
    if word in _FALSE or word[:1] in ("n", "N", "0", "f", "F"):
        return "N"
    raise refuse(errno.EINVAL)


def _number(text: str) -> str:
    number = unsigned(text)
    if number > _UINT:
        raise refuse(errno.ERANGE)
    return str(number)


def _policy(text: str) -> str:
    if text.strip() not in _POLICIES:
        raise refuse(errno.EINVAL)
    return brackets(_POLICIES, text.strip())


def _word(text: str) -> str:
    return text.rstrip("\n")


_PARAMETERS: dict[str, tuple[str, Callable[[str], str] | None]] = {
    "lun_queue_depth": ("32", _number),
    "debug": ("N", _switched),
    "link_speeds": ("8,16", _word),
    "path": ("", _word),
    "policy": (brackets(_POLICIES, "default"), _policy),
    "hba_queue_depth": ("1024", None),
}


class Modules:
    """``values`` by name of the parameter, as they read."""

    below = ("/sys/module",)

    def __init__(self) -> None:
        self.values = {name: value for name, (value, _) in _PARAMETERS.items()}

    def controls(self) -> dict[str, Control]:
        return {_LOOPS: Control("128", None)} | {
            f"{FOLDER}/{name}": Control(self.values[name], self._writer(name, taken))
            for name, (_, taken) in _PARAMETERS.items()
        }

    def _writer(
        self, name: str, taken: Callable[[str], str] | None
    ) -> Callable[[str], str | None] | None:
        if taken is None:
            return None

        def write(text: str) -> None:
            if text:  # sysfs never calls the kernel for nothing
                self.values[name] = taken(text)

        return write

    def programs(self) -> Mapping[str, Program]:
        return {}

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {}


PART = Modules
