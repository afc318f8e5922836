"""The JSON of ``iostat -o JSON`` and ``sadf -j``: every document in a text, whatever is around."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

BEGINS = re.compile(r'^[ \t]*\{\s{0,20}"sysstat"\s*:', re.MULTILINE)


def documents(text: str) -> Iterator[Any]:
    """Numbers stay as they are printed: how many digits there are says how exact they are.

    Raises ValueError for one that is not whole."""
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    match = BEGINS.search(text)
    while match:
        document, end = decoder.raw_decode(text, text.index("{", match.start()))
        yield document
        match = BEGINS.search(text, end)
