"""Files as they get damaged: cut, doubled, shuffled, mistyped.  For the tests of formats."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

_JUNK = (b"\x00", b"\xff\xfe\x80", b"nan", b"-1", b"{", b"}", b"1e400", b"9" * 400, b",", b"\n")


@st.composite
def mutants(draw: st.DrawFn, files: Sequence[bytes]) -> tuple[bytes, bytes]:
    """A whole file, and the same one damaged in one or two ways."""
    whole = draw(st.sampled_from(files))
    hurt = whole
    for _ in range(draw(st.integers(1, 2))):
        hurt = draw(st.sampled_from(_WAYS))(draw, hurt)
    return whole, hurt


def _cut(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    return data[:at] if draw(st.booleans()) else data[at:]


def _byte(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, max(0, len(data) - 1)))
    return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]


def _digit(draw: st.DrawFn, data: bytes) -> bytes:
    """One digit replaced, dropped, or doubled."""
    places = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        return data
    at = draw(st.sampled_from(places))
    new = draw(st.sampled_from([b"", data[at : at + 1] * 2, b"0", b"1", b"5", b"9", b"."]))
    return data[:at] + new + data[at + 1 :]


def _lines(draw: st.DrawFn, data: bytes) -> bytes:
    """A line removed, doubled, or moved."""
    lines = data.split(b"\n")
    at = draw(st.integers(0, len(lines) - 1))
    line = lines.pop(at)
    way = draw(st.sampled_from(["remove", "double", "move"]))
    if way == "double":
        lines[at:at] = [line, line]
    elif way == "move":
        lines.insert(draw(st.integers(0, len(lines))), line)
    return b"\n".join(lines)


def _junk(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    return data[:at] + draw(st.sampled_from(_JUNK)) + data[at:]


_WAYS = (_cut, _byte, _digit, _lines, _junk)
