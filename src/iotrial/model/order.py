"""Order: which levels are numbers, and which of them comes first."""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.units import parse_bytes

UNSET = "unset"
"""The level of a tunable factor that leaves the tunable as it was at the start."""


def ordered(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels that are numbers or sizes, ascending; none where any other but ``unset`` is
    neither.

    >>> ordered(["unset", "1MiB", "64k"])
    ('64k', '1MiB')
    """
    try:
        sizes = {label: parse_bytes(label) for label in labels if label != UNSET}
    except ValueError:
        return ()
    return tuple(sorted(sizes, key=sizes.__getitem__)) if len(sizes) > 1 else ()
