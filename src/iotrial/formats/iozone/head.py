"""The head of IOzone's output: the unit of its numbers, what it was run with, what it warns of.

Source: every ``splash`` line of iozone.c of 3.508, and those of 3.398 that are spelled otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from iotrial.formats.iozone.command import Command
from iotrial.formats.iozone.table import KB
from iotrial.model.trial import Doubt, Treatment

_MOST = 400  # lines; a head has some forty
_LONGEST = 400
_UNITS = (
    (re.compile(r"Output is in [kK][bB](ytes)?/sec"), "kB"),
    (re.compile(r"OPS Mode\. Output is in operations per second\."), "ops"),
    (re.compile(r"Microseconds/op Mode\. Output is in microseconds per operation\."), "us"),
)
_SETTINGS = (
    (r"(O_DIRECT|O_DIRECTIO|VxFS advanced|F_NOCACHE=1).*(enabled|caching off)", "direct"),
    (r"Include fsync in write timing", "include_flush"),
    (r"Include close in write timing", "include_close"),
    (r"SYNC Mode\.", "sync"),
    (r">>> O_DSYNC mode enabled\. <<<", "dsync"),
    (r"Read & Write sync mode active\.", "rsync"),
    (r"Using mmap files", "mmap"),
    (r"Using msync\(MS_A?SYNC\) on mmap files", "msync"),
    (r"Purge Mode On", "purge"),
    (r"Stonewall disabled", "no_stonewall"),
    (r"Disrupted read patterns selected\.", "disrupt"),
    (r"Lock file when reading/writing\.", "lock"),
    (r">>> Shared file mode enabled\. <<<", "shared"),
    (r">>> Sequential Mixed workload\. <<<", "sequential_mix"),
    (r">>> I/O Sparse mode enabled\. <<<", "sparse"),
    (r"Multi_buffer\. Work area \d+ bytes", "multi_buffer"),
)
_NUMBERS = (
    (r"POSIX [Aa]sync I/O \((?:no bcopy|with bcopy)\)\. Depth (\d{1,6})", "async_depth"),
    (r"Percent read in mix test is (\d{1,3})", "mix_read"),
    (r"Dedup activated (\d{1,3}) percent\.", "dedup"),
    (r"Rate control active (\d{1,9}) Ops/sec \.", "rate"),
)
_INVALID = (
    (r"Verify Mode\. Pattern", "IOzone verified its data, and says that its rates do not count"),
    (r">>> I/O Diagnostic mode enabled", "IOzone ran in its diagnostic mode: no rates count"),
    (r"Using old data sets\.", "IOzone used old data, and says that its rates may not count"),
)


def head_of(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line[:_LONGEST].strip() for line in lines[-_MOST:] if line.strip())


def unit_of(head: Sequence[str], told: Command | None) -> tuple[str, tuple[Doubt, ...]]:
    """``kB``, ``ops`` or ``us`` of the single-stream table; kB with a doubt where nothing says."""
    found = {unit for line in head for pattern, unit in _UNITS if pattern.fullmatch(line)}
    if len(found) == 1:
        return found.pop(), ()
    if found == {"ops", "us"}:  # both asked for: IOzone gives microseconds
        return "us", ()
    if told is not None and not found:
        return told.unit, ()
    what = "nothing says in which unit IOzone's numbers are; they are taken as kB/s, its default"
    return "kB", (Doubt("unit", what, "Give the whole output, with its head."),)


def treatment_of(sizes: tuple[int, int, int], head: tuple[str, ...]) -> Treatment:
    """``sizes``: file, record (bytes), processes; 0 is unknown, or single stream."""
    size, record, threads = sizes
    found = [("record", f"{record // KB}k"), ("size", f"{size // KB}k"), ("threads", str(threads))]
    return (*(pair for pair in found if pair[1] not in ("0", "0k")), *_settings(head))


@lru_cache(maxsize=8)
def _settings(head: tuple[str, ...]) -> Treatment:
    found = []
    for pattern, name in _SETTINGS:
        if any(re.match(pattern, line) for line in head):
            found.append((name, "1"))
    for pattern, name in _NUMBERS:
        values = [match[1] for line in head if (match := re.match(pattern, line))]
        found += [(name, value) for value in values[-1:]]
    if any(re.match(r"Each thread writes", line) for line in head):
        found.append(("posix_threads", "1"))
    return tuple(found)


def doubts_of(head: Sequence[str], said: Sequence[str]) -> Iterator[Doubt]:
    """``said``: lines among the results that are none."""
    for pattern, what in _INVALID:
        if any(re.match(pattern, line) for line in head):
            yield Doubt("no-rates", what, "Run it again without that option.", invalid=True)
    if any(line.startswith("Selected test not available") for line in head):
        what = "IOzone left out a test that its build does not have"
        yield Doubt("left-out", what, "Take it out of the operations.")
    if any(line.startswith("Timer resolution is poor") for line in (*head, *said)):
        what = "IOzone says that its timer is too coarse for transfers this small"
        yield Doubt("timer", what, "Take larger files.")
    for line in dict.fromkeys(said):
        readable = "".join(c if c.isprintable() else "?" for c in line[:200])
        what = f"IOzone said among its results: {readable}"
        yield Doubt("iozone-said", what, "Read it: not all tests may have run.")
