"""The operands of a dd, as far as they say what its report means.

Sources: POSIX ``dd``; GNU coreutils 9.1, ``info dd``: a number may end in c (1), w (2), b (512),
kB, K, KiB, MB, M, MiB …, be a product (``2x512``) and, as a count, end in B for bytes (``NEWS`` of
9.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

_SOURCES = frozenset({"/dev/zero", "/dev/urandom", "/dev/random"})
_NOWHERE = frozenset({"/dev/null", "/dev/zero"})
_FACTOR = re.compile(r"([0-9]{1,18})(c|w|b|[kKmMgGtT](?:B|iB)?)?")
_SMALL = {"": 1, "c": 1, "w": 2, "b": 512}
_LIMIT = 2**63
_KEPT = ("bs", "ibs", "obs", "cbs", "count", "skip", "seek", "iflag", "oflag", "conv")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a dd was to do.  ``operations`` are ``read`` and ``write``, or ``total`` where nothing
    says which; ``block`` and ``size`` are bytes, 0 where they are not said.  ``cached``: those
    operations that memory may have answered.  ``path`` is what was read or written, ``operands``
    the others, by name."""

    operations: tuple[str, ...] = ("total",)
    block: int = 0
    size: int = 0
    cached: tuple[str, ...] = ()
    path: str = ""
    operands: tuple[tuple[str, str], ...] = ()


def asked(words: Sequence[str]) -> Asked:
    """What the operands in ``words`` say; other words are passed over.

    >>> asked(["dd", "if=/dev/sdx", "of=/dev/null", "bs=1M", "count=8", "iflag=direct"])
    Asked(operations=('read',), block=1048576, size=8388608, cached=(), path='/dev/sdx', \
operands=(('bs', '1M'), ('count', '8'), ('iflag', 'direct')))
    """
    said = dict(word.split("=", 1) for word in words if "=" in word)
    operations = _operations(said.get("if", ""), said.get("of", ""))
    block = _number(said.get("bs", "512" if "count" in said else ""))
    if said.keys() & {"ibs", "obs"} and "bs" not in said:
        block = 0
    flags = {name: set(said.get(name, "").split(",")) for name in ("iflag", "oflag", "conv")}
    synced = flags["conv"] & {"fsync", "fdatasync"} or flags["oflag"] & {"direct", "sync", "dsync"}
    cold = {"read": "direct" in flags["iflag"], "write": bool(synced), "total": True}
    cached = tuple(each for each in operations if not cold[each])
    size = _size(said, block, flags["iflag"])
    return Asked(operations, block, size, cached, _path(said), _operands(said))


def _operations(source: str, sink: str) -> tuple[str, ...]:
    if not source or not sink or (source in _SOURCES and sink in _NOWHERE):
        return ("total",)
    if sink in _NOWHERE:
        return ("read",)
    return ("write",) if source in _SOURCES else ("read", "write")


def _path(said: Mapping[str, str]) -> str:
    """The one path that is not a device of the kernel's memory."""
    memory = _SOURCES | _NOWHERE
    return next((said[key] for key in ("of", "if") if said.get(key, "/dev/null") not in memory), "")


def _operands(said: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, said[key]) for key in _KEPT if key in said)


def _size(said: Mapping[str, str], block: int, flags: set[str]) -> int:
    count = said.get("count", "")
    if count.endswith("B"):
        # Bytes since coreutils 9.1, where 1MB was a number of blocks before; 8B was an error.
        return _number(count[:-1]) if count[:-1].isdecimal() else 0
    return _number(count) * (1 if "count_bytes" in flags else block)


def _number(text: str) -> int:
    """0 for what is no number of dd's, or too large for a file."""
    factors = [_FACTOR.fullmatch(part) for part in text.split("x")]
    found = prod(int(f[1]) * _unit(f[2] or "") for f in factors if f)
    return found if all(factors) and found < _LIMIT else 0


def _unit(name: str) -> int:
    if name in _SMALL:
        return _SMALL[name]
    power = "kmgt".index(name[0].lower()) + 1
    return int((1000 if name[1:] == "B" else 1024) ** power)
