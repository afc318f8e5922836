"""A limit of dirty memory said twice: as a share and in bytes."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_PAIRS = (
    ("vm.dirty_ratio", "vm.dirty_bytes"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
)


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    wins = sheet.last("sysctl")
    order = [each.name for each in sheet.of("sysctl")]
    for pair in _PAIRS:
        both = [wins[name] for name in pair if name in wins]
        if len(both) == len(pair) and all(each.value != "0" for each in both):
            first, last = sorted(both, key=lambda each: _last(order, each.name))
            yield at(first, f"{last.name} is written after it, and makes it 0")


def _last(order: list[str], name: str) -> int:
    return len(order) - order[::-1].index(name)


RULE = Rule(
    "dirty-twice",
    "dirty_ratio with dirty_bytes",
    "warning",
    ("sysctl", "tuned"),
    "Each is the counterpart of the other: the one written last counts, the other becomes 0.",
    "Documentation/admin-guide/sysctl/vm.rst: dirty_bytes, dirty_background_bytes",
    "Keep one of them.",
    _judge,
    together=True,
)
