"""Results folders and studies that somebody made to do harm, from real ones.

``SPITE`` is text that does something where it is not escaped; :func:`texts` puts it into every text
of a JSON value.  :func:`flipped` changes, cuts, moves or doubles bytes; :func:`retyped` and
:func:`put` exchange values for those of other types (``VALUES``, ``RAW``); :func:`broken` does
either to a file of a folder, and :func:`like` copies a folder to do it in.  Everything is seeded.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SPITE = (
    "<script>document.title='PWNED'</script>",
    '"><img src=x onerror="document.title=\'PWNED\'">',
    "'><meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "</style></title></svg><svg onload=alert(1)>",
    "javascript:document.title='PWNED'",
    "[x](javascript:alert(1)) ![y](http://evil.example/) <b>b</b> | cell",
    "a\n\n# head\n\n<i>i</i>\n|a|b|\n|-|-|",
    '=HYPERLINK("http://evil.example/")',
    "+1+cmd|'/C calc'!A0",
    "@SUM(1)",
    "\t=1+1",
    "\r-2+3",
    "\x1b[2J\x1b]52;c;cm0gLXJm\x07\x1b]8;;http://evil.example\x1b\\x\x1b]8;;\x1b\\",
    "\x9b31m\x90+q\x9c",
    "\u202etxt.exe\u2066 \u2028 \ufffe",
    "\x00 nul",
    "{{ 7*7 }} {% raw %} ${jndi:x} $(touch pwned) `touch pwned` ; touch pwned",
    'a"} 1\nevil_metric 2',
    "x" * 3000,
)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63, 10**30, 1e308, -0.5, "", "x", "\x00", "\x1b[31m", "../..", [],
    {}, [None], {"a": {}}, [[[[]]]], "\u202e",
)  # fmt: skip
RAW = (b"NaN", b"Infinity", b"1e999", b"9" * 5000, b"[" * 20000, b'"\\ud800"', b"{", b"\xff\xfe")


def texts(value: Any, swap: Callable[[str], str]) -> Any:  # noqa: ANN401 (JSON)
    """``value`` with every text, and every key that a study does not fix, exchanged."""
    if isinstance(value, str):
        return swap(value)
    if isinstance(value, list):
        return [texts(each, swap) for each in value]
    if isinstance(value, dict):
        return {key: texts(each, swap) for key, each in value.items()}
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """The way to every part of a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value[:3]):
            yield from places(each, (*path, at))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:  # noqa: ANN401
    """A copy of ``value`` with something else in one place."""
    if not path:
        return new
    found = copy.deepcopy(value)
    at = found
    for step in path[:-1]:
        at = at[step]
    if new is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return found


def flipped(data: bytes, dice: random.Random) -> bytes:
    """A few bytes of ``data`` broken, as a bad disk, a torn write or somebody would."""
    out = bytearray(data or b"x")
    at = dice.randrange(len(out))
    match dice.randrange(6):
        case 0:
            for _ in range(dice.randrange(1, 4)):
                out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
        case 1:
            del out[at:]
        case 2:
            del out[at : at + dice.randrange(1, 80)]
        case 3:
            out[at:at] = dice.choice(RAW)
        case 4:
            out[at:at] = out[at : at + 200] * 3
        case _:
            out[at:at] = dice.choice(SPITE).encode("utf-8", "surrogatepass")
    return bytes(out)


def retyped(data: bytes, dice: random.Random) -> bytes:
    """JSON, or JSON lines, with one value of another type, or without it."""
    lines = data.split(b"\n")
    try:
        json.loads(data)
        lines, at = [data], 0
    except ValueError:
        at = dice.randrange(max(1, len(lines) - 1))
    row = json.loads(lines[at] or b"{}")
    path = dice.choice(list(places(row)))
    new = ... if path and dice.random() < 0.15 else dice.choice((*VALUES, *SPITE))
    lines[at] = json.dumps(put(row, path, new)).encode()
    return b"\n".join(lines)


def broken(folder: Path, names: tuple[str, ...], dice: random.Random) -> str:
    """One file of a results folder broken; gives back how, to repeat it."""
    name = dice.choice(names)
    path = folder / name
    data = path.read_bytes()
    kind = dice.choice((flipped, retyped)) if name.endswith((".json", ".jsonl")) else flipped
    path.write_bytes(kind(data, dice))
    return f"{name}: {kind.__name__}"


def like(folder: Path, to: Path) -> Path:
    """A copy of a folder."""
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(folder, to))
