"""The compiled reader of fio's logs: what it reads, it reads as the usual way does."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats.fio import log_rows
from iotrial.formats.fio.log import _LAYOUTS, KINDS, LogLayout
from iotrial_import.formats import fio_log, fio_log_ios
from iotrial_import.formats import fio_log_ios as log_kernel
from iotrial_import.formats.fio_log_ios import PAD, SECONDS, Reader

pytest.importorskip("numba", reason="numba, which is optional, is not installed")
DATA = Path(__file__).parent.parent / "data" / "fio-log"
LOGS = sorted(path for path in DATA.iterdir() if path.suffix == ".log" and "hist" not in path.name)
PLAIN = LogLayout(("time", "value", "direction", "size", "priority"))
LAYOUTS = [LogLayout(names) for names in _LAYOUTS]
LINE = b"%d, %d, 0, 4096, 0\n"
# At these the number of digits, the bin, the word or what a sum can hold changes.
EDGES = sorted(
    {0, 1, 39, 40, 41, 999, 1000, 10**15, 10**16, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**25}
    | {10**n + d for n in range(1, 16) for d in (-1, 0)}
    | {2**n + d for n in (7, 8, 32, 34, 40, 52, 53) for d in (-1, 0, 1)}
)


def reader(layout: LogLayout, kind: str) -> Reader:
    found = fio_log_ios.reader(layout, kind, fio_log_ios.WORTH)
    assert found
    return found


def plain(found: tuple[int, fio_log_ios.IOLog]) -> dict[str, object]:
    shown = asdict(found[1])
    for tally in shown["tallies"].values():
        tally["bins"] = tally["bins"].tolist()
    return {"lines": found[0], **shown}


def usual(block: bytes, layout: LogLayout, kind: str) -> dict[str, object] | None:
    """What the usual way finds; None where it finds a line wrong."""
    table = log_rows.LogTable(len(layout.names), partial(fio_log_ios.digest, layout, kind))
    try:
        return plain(log_rows._digested(block, table))
    except (pa.ArrowException, log_rows.RowError):
        return None


def compiled(block: bytes, layout: LogLayout, kind: str) -> dict[str, object] | None:
    found = reader(layout, kind)(block, 0, len(block))
    return found and plain(found)


@st.composite
def regular(draw: st.DrawFn) -> tuple[bytes, LogLayout, str]:
    """A block of lines that the kernel must read."""
    layout, kind = draw(st.sampled_from(LAYOUTS)), draw(st.sampled_from(KINDS))
    comma = draw(st.sampled_from([b", ", b","]))
    time = draw(st.sampled_from([0, 1, 999, 4_000_000, 1_795_276_662_445]))
    steps = draw(st.sampled_from([[0], [0, 0, 0, 1], [1, 7], [0, 1, -1], [999, 1000, 1001, -1500]]))
    values = [1] if kind == "iops" else [each for each in EDGES if each < 2**40]
    pools = {
        "value": values, "direction": draw(st.sampled_from([[0], [2], [0, 1], [0, 1, 2]])),
        "size": draw(st.sampled_from([[4096], [0, 512], [2**32 - 1], [4096, 1048576]])),
        "priority": [0, 1],
    }  # fmt: skip
    wide = [each for each in EDGES if each < 10**15]
    rng = random.Random(draw(st.integers(0, 2**32)))
    rows, words = [], {name: rng.choice(pools.get(name, wide)) for name in layout.names}
    for _ in range(draw(st.integers(1, 80))):
        time = max(0, time + rng.choice(steps))
        words |= {"time": time, "value": rng.choice(values)}
        if rng.random() < 0.3:
            name = rng.choice(layout.names[2:])
            words[name] = rng.choice(pools.get(name, wide))
        rows.append(comma.join(b"%d" % words[name] for name in layout.names))
    return b"\n".join(rows) + b"\n", layout, kind


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, LogLayout, str]:
    """A block with up to three changes; it still ends with a line's end."""
    block, layout, kind = draw(regular())
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            rows = block[:-1].split(b"\n")
            words = rows[draw(st.integers(0, len(rows) - 1))].split(b",")
            new = st.sampled_from(EDGES).map(b"%d".__mod__) | st.sampled_from(
                [b"-1", b"+1", b"", b" ", b"007", b"0" * 17 + b"1", b"1.0", b"1e3", b"0x1", b"1 "]
            )
            at = draw(st.integers(0, len(words) - 1))
            old, words[at] = b",".join(words), draw(st.sampled_from([b"", b" "])) + draw(new)
            block = block.replace(old, b",".join(words), draw(st.sampled_from([1, -1])))
        else:
            at = draw(st.integers(0, len(block) - 1))
            put = st.binary(max_size=3) | st.sampled_from(
                [b",", b"\n", b"\r", b" ", b"\t", b"\xff" * 32, b"0", b"\n\n", b";", b"/", b":"]
            )
            block = block[:at] + draw(put) + block[at + draw(st.integers(0, 4)) :]
    return block.rstrip(b"\n") + draw(st.sampled_from([b"\n", b"\r\n"])), layout, kind


@settings(max_examples=400, deadline=None)
@given(regular())
@example((b"0, 1999, 0\n0, 2000, 0\n0, 2001, 0\n", LAYOUTS[0], "clat"))  # longer than the job
@example((b"0, 39, 0\n0, 40, 0\n0, 41, 0\n", LAYOUTS[0], "clat"))
@example((b"9, 1, 0\n5000, 1, 0\n9, 1, 0\n5000, 1, 0\n9, 1, 0\n", LAYOUTS[0], "clat"))  # two falls
def test_regular_lines_are_read_and_add_up_to_the_same(case: tuple[bytes, LogLayout, str]) -> None:
    found = compiled(*case)
    assert found is not None
    assert found == usual(*case)


@settings(max_examples=1500, deadline=None)
@given(mutated())
@example((b"1, 2, 0, 4096, 0\n" + b"\xff" * 40 + b"\n", PLAIN, "clat"))
@example((b"\xff" * 40 + b"\n", PLAIN, "clat"))
@example((b"1, 2, 0, 4096, 0\n1, 2, 0, 4096, 0, 0\n", PLAIN, "clat"))
@example((b"1, 2, 0, 4096, 0\n1, 2\n0, 0, 0, 4096, 0\n", PLAIN, "clat"))
@example((b"1, 2, 0, 4096, 0\n1, 2, 3, 4096, 0\n", PLAIN, "clat"))
@example((b"1, 2, 0, 4096, 0\n1, 2, 0, 4096, 2\n", PLAIN, "clat"))
@example((b"1, 2, 0, 4096, 0\n1, , 0, 4096, 0\n", PLAIN, "clat"))
@example((b"1, 2, 0, 4096, 0;1, 2, 0, 4096, 0\n", PLAIN, "clat"))
@example((b"1, 1, 0, 4096, 0\n1, 2, 0, 4096, 0\n", PLAIN, "iops"))
def test_other_lines_are_read_the_same_or_left_to_the_usual_way(
    case: tuple[bytes, LogLayout, str],
) -> None:
    found = compiled(*case)
    assert found is None or found == usual(*case)


@settings(max_examples=200, deadline=None)
@given(regular(), st.binary(max_size=40), st.binary(max_size=2 * PAD))
def test_what_stands_around_a_block_changes_nothing(
    case: tuple[bytes, LogLayout, str], before: bytes, after: bytes
) -> None:
    block, layout, kind = case
    found = reader(layout, kind)(before + block + after, len(before), len(before) + len(block))
    assert found is not None
    assert plain(found) == compiled(*case)


@pytest.mark.parametrize("cut", range(1, 19))
def test_a_block_that_does_not_end_with_a_line_is_left_to_the_usual_way(cut: int) -> None:
    block = LINE % (1, 80_000) * 3
    for after in (b"", b"9" * PAD):
        assert reader(PLAIN, "clat")(block + after, 0, len(block) - cut) is None


@pytest.mark.parametrize("before", range(24))
def test_a_regular_line_is_read_wherever_it_lies_in_a_word(before: int) -> None:
    block = LINE % (1, 80_000) * 3 + LINE % (1, 123_456_789_012) * 2
    data = b"x" * before + block + b"9" * PAD
    found = reader(PLAIN, "clat")(data, before, before + len(block))
    assert found is not None
    assert plain(found) == usual(block, PLAIN, "clat")


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        (LINE % (1, 2**40 - 1), True),
        (LINE % (1, 2**40), False),
        (LINE % (10**13, 9), True),
        (LINE % (10**15, 9), False),
        (b"1, 9, 0, %d, 0\n" % (2**32 - 1), True),
        (b"1, 9, 0, %d, 0\n" % 2**32, False),
        (LINE % (1000 * (SECONDS - 1), 9), True),
        (LINE % (1000 * SECONDS, 9), False),
    ],
)
def test_what_could_not_be_added_up_exactly_is_left_to_the_usual_way(
    line: bytes, *, taken: bool
) -> None:
    first = line if line[:1] == b"1" and line[:3] != b"1, " else LINE % (0, 9)
    assert (compiled(first + line, PLAIN, "clat") is not None) is taken


def both(data: bytes, name: str) -> tuple[object, object]:
    """A file read in the usual way, and with the kernel: the runs, or what the error says."""
    found: list[object] = []
    for swift in (lambda *_: None, fio_log_ios.reader):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_kernel, "reader", swift)
            try:
                found.append(fio_log.FORMAT.read(data, name))
            except FormatError as error:
                found.append((str(error), error.advice))
    return found[0], found[1]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """From here on, logs of any size are read by the kernel."""
    assert fio_log_ios.load()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each block, whether the kernel read it."""
    seen: list[bool] = []
    made = fio_log_ios.reader

    def watched(layout: LogLayout, kind: str, size: int) -> Reader | None:
        read = made(layout, kind, size)

        def watching(*place: object) -> object:
            found = read(*place)  # type: ignore[arg-type, misc]
            seen.append(found is not None)
            return found

        return read and watching  # type: ignore[return-value]

    monkeypatch.setattr(log_kernel, "reader", watched)
    return seen


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
@pytest.mark.parametrize("block", [200, 4 * 2**20])
def test_every_recorded_log_is_read_the_same(
    log: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rows, "_BLOCK", block)
    before, after = both(log.read_bytes(), log.name)
    assert before == after


def long_log(seed: int, count: int) -> Iterator[bytes]:
    """Reads and writes of two sizes by workers whose times fall back, values of 2 to 11 digits."""
    rng = random.Random(seed)
    for number in range(count):
        time = number // 50 - (1500 if rng.random() < 0.001 and number > 100_000 else 0)
        value = int(rng.lognormvariate(11, 2)) + 10
        yield b"%d, %d, %d, %d, 0\n" % (
            time, value, rng.random() < 0.1, 4096 if rng.random() < 0.9 else 65536,
        )  # fmt: skip


@pytest.mark.parametrize("block", [50_000, 4 * 2**20])
def test_a_long_log_is_read_the_same_and_by_the_kernel(
    block: int, monkeypatch: pytest.MonkeyPatch, taken: list[bool]
) -> None:
    monkeypatch.setattr(log_rows, "_BLOCK", block)
    before, after = both(b"".join(long_log(1, 200_000)), "x_clat.1.log")
    assert before == after
    assert isinstance(after, tuple)
    assert taken
    assert all(taken)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="ends of another system"),
        pytest.param(lambda data: data[:-5], id="torn"),
        pytest.param(lambda data: data + b"\n\n\r\n", id="empty lines at the end"),
        pytest.param(lambda data: data + b"9, x, 0, 4096, 0\n" + data, id="a word"),
        pytest.param(lambda data: data + b"9, -5, 0, 4096, 0\n" + data, id="a negative number"),
        pytest.param(lambda data: data + b"9, 9, 3, 4096, 0\n" + data, id="a direction"),
        pytest.param(lambda data: data + LINE % (9, 2**63) + data, id="a huge number"),
        pytest.param(lambda data: data + LINE % (9, 2**41) + data, id="a large number"),
        pytest.param(lambda data: data + data, id="two jobs"),
        pytest.param(lambda data: data + LINE % (2**52, 1), id="a late time"),
        pytest.param(lambda data: data + LINE % (9000, 1) + LINE % (7500, 1), id="a fall"),
        pytest.param(lambda data: data + b"9, 9, 0, 4096\n", id="a number less"),
        pytest.param(lambda data: data.replace(b", 0\n", b", 0x0004\n"), id="priorities"),
    ],
)
def test_a_changed_log_gives_the_same_numbers_doubts_and_errors(
    change: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rows, "_BLOCK", 9000)
    before, after = both(change(b"".join(long_log(2, 8000))), "x_clat.1.log")
    assert before == after


def test_only_the_block_with_the_irregular_line_is_read_in_the_usual_way(
    monkeypatch: pytest.MonkeyPatch, taken: list[bool]
) -> None:
    monkeypatch.setattr(log_rows, "_BLOCK", 9000)
    data = b"".join(long_log(3, 8000))
    before, after = both(data + b"160,  9, 0, 4096, 0\n" + data, "x_clat.1.log")
    assert before == after
    assert taken.count(False) == 1
    assert taken.count(True) > 20


def test_a_log_is_read_by_the_kernel_where_that_is_worth_loading_it() -> None:
    code = """
import sys
from iotrial.formats import formats
from iotrial_import.formats import fio_log_ios as log_kernel
from iotrial.formats.fio.log import LogLayout
log = formats()["fio-log"]
log.read(b"1, 2, 0, 4096, 0\\n" * 9, "x_clat.1.log")
layout = LogLayout(("time", "value", "direction"))
print(log_kernel.reader(layout, "clat", log_kernel.WORTH - 1) is None, "numba" in sys.modules)
print(log_kernel.reader(layout, "clat", log_kernel.WORTH) is None, "numba" in sys.modules)
print(log_kernel.reader(layout, "clat", 1) is None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False", "True", "False"]


def test_without_numba_logs_are_read_in_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert fio_log_ios.load.__wrapped__() is None
    monkeypatch.setattr(log_kernel, "load", fio_log_ios.cache(fio_log_ios.load.__wrapped__))
    assert fio_log_ios.reader(PLAIN, "clat", fio_log_ios.WORTH) is None


def test_a_machine_of_another_byte_order_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    assert fio_log_ios.load.__wrapped__() is None
