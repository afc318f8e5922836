"""The scripts of execute/former.py, and sha256sum(1), as the fake host understands them.

They are held against what sh makes of the scripts by ``tests/unit/test_keep_former.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from iotrial.hosts.fake.machine import Machine, Program, Said

_ARGUMENTS = 3
"""Where ``-c SCRIPT NAME ARGUMENT…`` has its arguments."""


def _look(machine: Machine, arguments: Sequence[str], _stdin: bytes) -> Said:
    """Whether a file was moved aside, or is gone from there."""
    beside, *ours = arguments[_ARGUMENTS:]  # journals of earlier versions say no more than this
    if machine.kind(beside):
        return Said(0, "moved aside\n")
    lost = ours and _sum(machine, ours[0]) == ours[1]
    return Said(0, "lost\n" if lost else "as it was\n")


def _needs(machine: Machine, arguments: Sequence[str], _stdin: bytes) -> Said:
    """Goes on only where something lies beside."""
    beside, path = arguments[_ARGUMENTS:]
    if machine.kind(beside):
        return Said()
    what = f"what was there before is gone from {beside}: put it there again, or remove {path}"
    return Said(1, "", f"{what}\n")


def _save(machine: Machine, arguments: Sequence[str], _stdin: bytes) -> Said:
    """Saves a file whose content has not this sum."""
    path, digest, saved = arguments[_ARGUMENTS:]
    if _sum(machine, path) not in {"", digest}:
        machine.files[saved] = machine.files.pop(machine.real(path))
    return Said()


def _sha256sum(machine: Machine, arguments: Sequence[str], _stdin: bytes) -> Said:
    path = arguments[-1]
    if found := _sum(machine, path):
        return Said(0, f"{found}  {path}\n")
    return Said(1, "", f"sha256sum: {path}: No such file or directory\n")


def _sum(machine: Machine, path: str) -> str:
    """'' where there is no file."""
    file = machine.files.get(machine.real(path))
    return "" if file is None else hashlib.sha256(file.data).hexdigest()


FORMER = {
    "iotrial-former": Program(_look, changes=False),
    "iotrial-needed": Program(_needs, changes=False),
    "iotrial-saved": Program(_save, changes=True),
    "sha256sum": Program(_sha256sum, changes=False),
}
