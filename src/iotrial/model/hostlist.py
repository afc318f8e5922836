"""Host lists: ``box[1-4,7]`` for box1, box2, box3, box4 and box7, as clush and Slurm write them.

A number keeps its leading zeros (``n[08-10]``).  Several brackets multiply out, from the left.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

MOST = 10_000
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)-(\d+)")
_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")


def expanded(given: str | Sequence[str]) -> tuple[str, ...]:
    """Every name, in order.

    >>> expanded("box[1-3]")
    ('box1', 'box2', 'box3')
    >>> expanded(["a", "r[1,2]n[08-09]"])
    ('a', 'r1n08', 'r1n09', 'r2n08', 'r2n09')

    Raises ValueError for a bracket that is not closed, is empty, or goes down.
    """
    several = _apart(given) if isinstance(given, str) else given
    names = tuple(itertools.islice((name for each in several for name in _names(each)), MOST + 1))
    if len(names) > MOST:
        raise ValueError(f"more than {MOST:,} hosts")
    return names


def _apart(text: str) -> list[str]:
    """At the commas outside of brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text)] if text.strip() else []


def _names(text: str) -> Iterator[str]:
    fixed = _BRACKET.split(text)
    if any(sign in part for part in fixed[::2] for sign in "[]"):
        raise ValueError(f"{text!r}: a bracket is not closed")
    choices = [list(_choices(text, each)) for each in fixed[1::2]]
    for chosen in itertools.product(*choices):
        yield fixed[0] + "".join(a + b for a, b in zip(chosen, fixed[2::2], strict=True))


def _choices(text: str, inside: str) -> Iterator[str]:
    for each in inside.split(","):
        word = each.strip()
        match = _RANGE.fullmatch(word)
        if not match:
            if not word:
                raise ValueError(f"{text!r}: empty brackets")
            yield word
            continue
        low, high = int(match[1]), int(match[2])
        if high < low:
            raise ValueError(f"{text!r}: {word} is a descending range")
        for number in range(low, min(high, low + MOST) + 1):
            yield str(number).zfill(len(match[1]))


def folded(names: Sequence[str]) -> str:
    """Names in brackets, as :mod:`iotrial.model.hostlist` reads them: all of them, in few words.

    >>> folded(["box1", "box2", "box3", "box7", "gate"])
    'box[1-3,7], gate'
    >>> folded(["n08", "n09", "n10"])
    'n[08-10]'
    """
    plain: dict[str, None] = {}
    numbered: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(names):
        if match := _NUMBERED.fullmatch(name):
            numbered.setdefault((match[1], match[3]), []).append(match[2])
        else:
            plain[name] = None
    return ", ".join([*itertools.chain(*map(_bracketed, numbered.items())), *plain])


def _bracketed(group: tuple[tuple[str, str], list[str]]) -> Iterator[str]:
    (before, after), digits = group
    padded = any(each.startswith("0") and len(each) > 1 for each in digits)
    for width in sorted({len(each) for each in digits}) if padded else [0]:
        found = sorted(int(each) for each in digits if not padded or len(each) == width)
        runs: list[list[int]] = []
        for number in found:
            if runs and number == runs[-1][-1] + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        said = ",".join(
            "-".join(str(n).zfill(width) for n in dict.fromkeys((run[0], run[-1]))) for run in runs
        )
        yield f"{before}[{said}]{after}" if len(found) > 1 else f"{before}{said}{after}"
