"""Links from a report to the files its numbers came from; none leads out of the results folder."""

from __future__ import annotations

import os
from urllib.parse import quote

from iotrial.model.results import ORIGINALS


def source(text: str) -> tuple[str, str]:
    """``originals/a.csv:12`` → the file and the line."""
    file, colon, line = text.rpartition(":")
    return (file, line) if colon and line.isdecimal() else (text, "")


def original(file: str) -> str:
    """A link to an original; empty where it would lead out of the folder."""
    parts = file.split("/")
    if parts[0] != ORIGINALS or {"", ".", ".."} & set(parts):
        return ""
    return "/".join(quote(os.fsencode(part), safe="") for part in parts)


def raw(folder: str, file: str) -> str:
    """``trials/0007-3fa9c1/fio.json``; empty where ``file`` would lead out of the folder."""
    parts = file.split("/")
    if not file or {"", ".", ".."} & set(parts):
        return ""
    return "/".join(["trials", folder, *(quote(os.fsencode(part), safe="") for part in parts)])
