"""What IOzone was told: its command line, as its text ("Command line used") and its ``-b``
spreadsheet repeat it.

Source: the ``getopt`` string and the cases below it in iozone.c of 3.398 to 3.508.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from iotrial.formats.iozone.table import TESTS

_WITH_VALUE = frozenset("KJjkVrtsfFdluUSLHPibXYgnyq") - {"K"}
_MOST = 4096  # words; -F names a file for each process
_KB = 1024
_SCALES = {"": _KB, "k": _KB, "m": _KB**2, "g": _KB**3}


@dataclass(frozen=True, slots=True)
class Command:
    """``tests`` are places in GROUPS, None: none was selected, so all.  ``counts`` are the numbers
    of processes, in their order; ``sizes`` and ``records`` are bytes."""

    tests: frozenset[int] | None
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    records: tuple[int, ...]
    flags: frozenset[str]

    @property
    def unit(self) -> str:
        """Of single-stream results."""
        return "ops" if "O" in self.flags else "us" if "N" in self.flags else "kB"


def command(text: str) -> Command | None:
    """The command, or None where it cannot be understood: a hand has been at it."""
    options = list(_options(text.split()[:_MOST]))
    values: dict[str, list[str]] = {}
    for letter, value in options:
        values.setdefault(letter, []).append(value)
    numbers = {
        letter: [int(v) for v in values.get(letter, []) if v.isdecimal()] for letter in "itlu"
    }
    if any(len(numbers[letter]) != len(values.get(letter, [])) for letter in "itlu"):
        return None
    if any(test >= len(TESTS) for test in numbers["i"]):
        return None
    tests = frozenset(place for test in numbers["i"] if (place := TESTS[test]) is not None)
    counts = tuple(numbers["t"])
    if numbers["l"] or numbers["u"]:
        low, high = (numbers["l"] or [1])[-1], (numbers["u"] or [0])[-1]
        counts = tuple(range(low, min(max(low, high), low + 1000) + 1))
    return Command(
        tests if numbers["i"] else None,
        counts,
        tuple(map(_bytes, values.get("s", []))),
        tuple(map(_bytes, values.get("r", []))),
        frozenset(letter for letter, _ in options),
    )


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """(letter, value): IOzone's letters may share a dash, a value may touch its letter."""
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word.startswith("-+"):
            continue  # -+u and its like; the names of -F
        for at, letter in enumerate(word[1:], 2):
            if letter in _WITH_VALUE:
                yield letter, word[at:] or next(rest, "")
                break
            yield letter, ""


def _bytes(text: str) -> int:
    """``64``, ``64k``, ``1g`` → bytes; 0 for anything else."""
    match = re.fullmatch(r"(\d{1,12})([kmgKMG]?)", text)
    return int(match[1]) * _SCALES[match[2].lower()] if match else 0
