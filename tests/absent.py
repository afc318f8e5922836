"""Processes for which packages are not installed, whatever is: their environment says which."""

from __future__ import annotations

import os
from pathlib import Path

NAMES = "IOTRIAL_ABSENT"
_FOLDER = str(Path(__file__).resolve().parent / "without")


def without(*packages: str) -> dict[str, str]:
    """What the environment of such a process has beside what it had."""
    paths = [_FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), NAMES: " ".join(packages)}
