"""Whether fio kept its queue as deep as it was told: ``iodepth_level`` against ``iodepth``.

fio says what share of its I/Os it submitted with how many in flight: ``1``, ``2``, ``4`` … ``32``
and ``>=64``, where ``16`` stands for 16 to 31.  With a synchronous engine (``psync``) it is always
1, whatever ``iodepth`` says: a common mistake, and a silent one.  A job that is to be slow
(``rate``, ``thinktime``) is not to fill its queue.

Source: HOWTO of fio, "IO depths"; stat.c, ``io_u_map`` (levels are powers of two).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iotrial.model.trial import Doubt

SHARE = 0.5
"""Of the I/Os: so many with less than half the depth are no ramp at the ends."""


_SLOW = ("rate", "rate_iops", "thinktime", "latency_target")


def queue_doubts(report: Mapping[str, Any], entries: list[Any]) -> Iterator[Doubt]:
    """The doubt about each job of ``entries`` whose queue was seldom half full."""
    everywhere = report.get("global options")
    for entry in entries:
        options = {**_table(everywhere), **_table(entry.get("job options"))}
        asked, levels = _whole(options.get("iodepth")), _table(entry.get("iodepth_level"))
        shallow = sum(
            _number(share) for level, share in levels.items() if _highest(level) < asked / 2
        )
        held_back = options.keys() & set(_SLOW)
        if asked > 1 and not held_back and shallow > SHARE * 100:
            engine = str(options.get("ioengine", "its default engine"))[:40]
            what = (
                f"job {str(entry.get('jobname'))[:80]!r} was to keep {asked} I/Os in flight, but"
                f" {shallow:.0f} % of them were submitted with less than half of that ({engine})"
            )
            advice = (
                "Take an asynchronous engine (io_uring, libaio) with direct I/O; with a"
                " synchronous one, numjobs is the depth."
            )
            yield Doubt("queue-not-filled", what, advice)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 1  # noqa: PLR2004


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _highest(level: str) -> float:
    """The most I/Os in flight that a level stands for."""
    return 2 * int(level) - 1 if level.isascii() and level.isdigit() else float("inf")
