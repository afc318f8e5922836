"""Which names a folder has, where only the paths of files are known.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType


@lru_cache(maxsize=256)
def index(paths: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    """Folder → the names in it, of these files (folders end with a slash) and all that is above
    them; '' is what is above all.

    >>> sorted(index(("/sys/block/", "/sys/kernel/mm"))["/sys"])
    ['block', 'kernel']
    """
    found: dict[str, set[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, set()).update([name] if name else [])
        while folder:
            folder, _, name = folder.rpartition("/")
            found.setdefault(folder, set()).add(name)
    return MappingProxyType({folder: frozenset(names) for folder, names in found.items()})
