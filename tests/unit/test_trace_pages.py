"""Pages of the kernel's trace buffer against what the kernel itself prints of the same events.

``tests/data/trace``: 441 events of Linux 6.18 (x86-64, two CPUs) of a loop device: the pages as
``trace_pipe_raw`` gave them, ``trace`` of the same buffer just before, and the formats.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from iotrial_record.pages import EventFormat, PageEvents, event_format, events_of
from iotrial_record.trace import EVENTS, letters

DATA = Path(__file__).parents[1] / "data/trace"
PAGE = 4096
LINE = re.compile(
    r"^.*-(?P<pid>\d+) +\[\d+\] \S+ +(?P<at>\d+\.\d+): (?P<event>\w+): 7,0 (?P<rwbs>\w+)"
    r"(?: \d+)?(?: \(\))? (?P<sector>\d+) \+ (?P<sectors>\d+)",
    re.MULTILINE,
)


def formats() -> dict[str, EventFormat]:
    text = (DATA / "formats.txt").read_text()
    blocks = [f"ID:{part}" for part in text.split("ID:")[1:]]
    return dict(zip([*EVENTS, "print"], map(event_format, blocks), strict=True))


def found() -> PageEvents:
    return events_of((DATA / "pages.bin").read_bytes(), PAGE)


def numbers(
    events: PageEvents, which: npt.NDArray[np.bool_], field: tuple[int, int], kind: str
) -> npt.NDArray[Any]:
    return np.ascontiguousarray(events.column(which, field)).view(kind)[:, 0]


def test_every_event_that_the_kernel_prints_is_found_with_its_values() -> None:
    events, shapes, seen = found(), formats(), []
    for name in EVENTS:
        which, fields = events.number == shapes[name].number, shapes[name].fields

        rwbs = [row.tobytes().partition(b"\0")[0] for row in events.column(which, fields["rwbs"])]
        rows = zip(
            events.at[which], numbers(events, which, fields["common_pid"], "<i4"), rwbs,
            numbers(events, which, fields["sector"], "<u8"),
            numbers(events, which, fields["nr_sector"], "<u4"), strict=True,
        )  # fmt: skip
        seen += [
            (name, round(int(at) / 1e9, 6), int(pid), said.decode(), int(sector), int(count))
            for at, pid, said, sector, count in rows
        ]
    printed = [
        (m["event"], float(m["at"]), int(m["pid"]), m["rwbs"], int(m["sector"]), int(m["sectors"]))
        for m in LINE.finditer((DATA / "trace.txt").read_text())
    ]
    assert len(printed) == 441 - 2
    # The kernel cuts to microseconds.
    assert sorted((e[0], *e[2:]) for e in seen) == sorted((e[0], *e[2:]) for e in printed)
    by_time = zip(sorted(e[1] for e in seen), sorted(e[1] for e in printed), strict=True)
    assert max(abs(ours - theirs) for ours, theirs in by_time) < 2e-6


def test_there_are_marks_at_both_ends_and_long_pauses_between() -> None:
    """A pause of more than 2^27 ns is an event of its own in the buffer."""
    events = found()
    marks = events.at[events.number == formats()["print"].number]
    assert len(marks) == 2
    assert marks.min() == events.at.min()
    assert marks.max() == events.at.max()
    assert np.diff(np.sort(events.at)).max() > 1 << 27
    assert events.gaps == 0


@pytest.mark.parametrize("size", [PAGE - 1, PAGE + 100])
def test_what_are_no_whole_pages_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="are no page of"):
        events_of((DATA / "pages.bin").read_bytes()[:size], PAGE)


def test_bytes_that_are_no_pages_end_with_an_error_or_with_nothing() -> None:
    """Whatever lies there, no step is endless, and none reads beyond the end."""
    chance = np.random.default_rng(1)
    for _ in range(200):
        events_or_error(chance.bytes(PAGE * 2))
    whole = bytearray((DATA / "pages.bin").read_bytes())
    for _ in range(300):
        broken = bytearray(whole)
        for at in chance.integers(0, len(whole), 40):
            broken[at] = int(chance.integers(0, 256))
        events_or_error(bytes(broken))


def events_or_error(pages: bytes) -> None:
    try:
        events = events_of(pages, PAGE)
    except ValueError:
        return
    assert len(events.at) == len(events.number) <= len(pages) // 4
    events.column(events.number == 1, (0, 64))


def test_a_flag_of_the_page_counts_as_a_gap() -> None:
    page = bytearray((DATA / "pages.bin").read_bytes()[:PAGE])
    page[11] |= 0x80  # bit 31 of the word behind the time
    assert events_of(bytes(page), PAGE).gaps == 1


@pytest.mark.parametrize(
    ("said", "operation"),
    [(b"R", "R"), (b"RA", "R"), (b"WS", "W"), (b"WFS", "W"), (b"FWS", "W"), (b"FWFSM", "W"),
     (b"DS", "D"), (b"DE", "D"), (b"FF", "F"), (b"N", "N"), (b"ZRA", "Z"), (b"?", "N"), (b"", "N")],
)  # fmt: skip
def test_the_letters_of_the_kernel_are_an_operation(said: bytes, operation: str) -> None:
    assert chr(letters(said)[0]) == operation


def test_a_file_that_is_no_format_is_refused() -> None:
    with pytest.raises(ValueError, match="no ID"):
        event_format("name: x\n")
