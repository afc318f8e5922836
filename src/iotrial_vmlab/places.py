"""Where images and labs lie: in a cache folder, and nowhere else.

Source: XDG Base Directory Specification 0.8 (``XDG_CACHE_HOME``); FHS 3.0, 5.5 (/var/cache).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CACHE = "IOTRIAL_CACHE"
"""The environment variable that moves the cache (tests)."""
SYSTEM = Path("/var/cache/iotrial")


@dataclass(frozen=True, slots=True)
class Places:
    """``images``: folders in which images are looked for; new ones are built in the first.
    ``labs`` holds a folder for each lab, ``locks`` a file for each."""

    images: tuple[Path, ...]
    labs: Path
    locks: Path


def places(uid: int, environment: Mapping[str, str]) -> Places:
    """The places of a user with this numeric id and environment.  What root has built is there
    for everybody.

    >>> places(0, {}).labs
    PosixPath('/var/cache/iotrial/vmlab/labs')
    """
    root = _cache(uid, environment) / "vmlab"
    shared = SYSTEM / "vmlab/images"
    images = tuple(dict.fromkeys((root / "images", shared)))
    return Places(images, root / "labs", root / "locks")


def _cache(uid: int, environment: Mapping[str, str]) -> Path:
    if given := environment.get(CACHE):
        return Path(given)
    if uid == 0:
        return SYSTEM
    base = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '/')}/.cache"
    return Path(base) / "iotrial"
