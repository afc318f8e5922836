"""What many trials say alike, said once: a report has one line of it, and not one for each trial.

Sentences are alike where they differ in shares of a hundred only, up to the first colon.  Those
become a range; of what stands behind the colon (names, places) the sentence with the largest first
share gives an example.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_SHARE = re.compile(r"(?<![\w.,])[+−-]?\d+(?:\.\d+)?(?= ?%)")


def said_once(sentences: Iterable[str]) -> tuple[str, ...]:
    """The sentences, alike ones made one, in the order of the first of each."""
    alike: dict[str, list[str]] = defaultdict(list)
    for each in dict.fromkeys(sentences):
        head, _, tail = each.partition(": ")
        alike[_SHARE.sub("#", head) + (":" if tail else "")].append(each)
    return tuple(_merged(members) for members in alike.values())


def _merged(members: list[str]) -> str:
    if len(members) == 1:
        return members[0]
    parts = [each.partition(": ") for each in members]
    rows = [_SHARE.findall(head) for head, _, _ in parts]
    ranges = iter([_range(column) for column in zip(*rows, strict=True)])
    head = _SHARE.sub(lambda _: next(ranges), parts[0][0])
    tails = {tail for _, _, tail in parts}
    if len(tails) == 1:
        return ": ".join(filter(None, [head, *tails]))
    most = max(range(len(rows)), key=lambda place: abs(_number(rows[place][0])) if rows[0] else 0)
    return f"{head}, such as {parts[most][2]}"


def _range(column: tuple[str, ...]) -> str:
    low, high = min(column, key=_number), max(column, key=_number)
    return low if low == high else f"{low} to {high}"


def _number(text: str) -> float:
    return float(text.replace("−", "-"))
