"""Memory of the fake machine: huge pages, page merging and a compressed disk, as 6.18 has them.

``tests/integration/test_mm_on_this_kernel.py`` compares the answers with the running kernel's.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from functools import partial

from iotrial.hosts.fake.machine import Control, Program
from iotrial.hosts.fake.queue import refuse, unsigned

_MM = "/sys/kernel/mm"
CHOICES = {
    f"{_MM}/transparent_hugepage/enabled": ("always", "madvise", "never"),
    f"{_MM}/transparent_hugepage/defrag": (
        *("always", "defer", "defer+madvise", "madvise", "never"),
    ),
}
_NUMBERS = {f"{_MM}/transparent_hugepage/khugepaged/defrag": 1, f"{_MM}/ksm/run": 2}
"""File → the largest number that it takes."""


def brackets(choices: tuple[str, ...], chosen: str) -> str:
    """``always [madvise] never``."""
    return " ".join(f"[{each}]" if each == chosen else each for each in choices)


class Memory:
    """``chosen`` and ``numbers`` by file."""

    below = (_MM,)

    def __init__(self) -> None:
        self.chosen = dict.fromkeys(CHOICES, "madvise")
        self.numbers = {file: most % 2 for file, most in _NUMBERS.items()}

    def controls(self) -> dict[str, Control]:
        return {
            **{
                file: Control(brackets(names, self.chosen[file]), partial(self._choose, file))
                for file, names in CHOICES.items()
            },
            **{
                file: Control(str(value), partial(self._set, file))
                for file, value in self.numbers.items()
            },
        }

    def _choose(self, file: str, text: str) -> None:
        if text.strip() not in CHOICES[file]:
            raise refuse(errno.EINVAL)
        self.chosen[file] = text.strip()

    def _set(self, file: str, text: str) -> None:
        number = unsigned(text)
        if number > _NUMBERS[file]:
            raise refuse(errno.EINVAL)
        self.numbers[file] = number

    def programs(self) -> Mapping[str, Program]:
        return {}

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {}


PART = Memory
