"""Which kernel modules must be loaded for some, and in which order.

Source: modules.dep(5): after a module's file stand those that it needs, the nearest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

_ENDINGS = re.compile(r"\.ko(\.(xz|gz|zst))?$")


def dependencies(text: str) -> dict[str, tuple[str, ...]]:
    """``modules.dep``: file → files it needs.

    >>> dependencies("a/x.ko: b/y.ko c/z.ko")
    {'a/x.ko': ('b/y.ko', 'c/z.ko')}
    """
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return {file: tuple(needed.split()) for file, _, needed in pairs}


def in_order(names: Iterable[str], needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The files to load for the modules ``names``, each after all that it needs.  A name that has
    no file is left out: it is built in, or this kernel has it not."""
    files = {module_name(file): file for file in needs}
    found: dict[str, None] = {}
    for name in names:
        file = files.get(name.replace("-", "_"))
        if file is not None:
            found.update(dict.fromkeys((*reversed(needs[file]), file)))
    return tuple(found)


def module_name(file: str) -> str:
    """The module's name, as ``/proc/modules`` has it.

    >>> module_name("kernel/block/kyber-iosched.ko.xz")
    'kyber_iosched'
    """
    return _ENDINGS.sub("", PurePosixPath(file).name).replace("-", "_")
