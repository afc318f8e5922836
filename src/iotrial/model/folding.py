"""Many names of hosts in few words: ``box[1-4,7]``, as clush and Slurm write them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")


def folded(names: Sequence[str]) -> str:
    """Names in brackets, as :mod:`iotrial.plan.hostlist` reads them: all of them, in few words.

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
