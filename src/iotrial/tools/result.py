"""Result: the file in a trial's folder in which a tool said what it measured."""

from __future__ import annotations

from pathlib import Path

from iotrial.errors import FormatError


def result(folder: Path, file: str, tool: str, *, what: str = "result") -> bytes:
    """The bytes of the file ``file`` of one execution of ``tool``.

    Raises FormatError where it is not there: the tool ended before it could write it.
    """
    path = folder / file
    try:
        return path.read_bytes()
    except FileNotFoundError:
        advice = f"look at stderr beside it: {tool} ended before its {what}"
        raise FormatError(f"{path}: {tool} wrote no {what}", advice=advice) from None
