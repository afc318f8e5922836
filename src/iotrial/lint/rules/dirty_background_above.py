"""Writing back in the background that would begin after writers are stopped."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, whole
from iotrial.lint.sheet import Sheet

_PAIRS = (
    ("vm.dirty_background_ratio", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_bytes"),
)


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    wins = sheet.last("sysctl")
    for begin, stop in _PAIRS:
        if begin not in wins or stop not in wins:
            continue
        first, last = whole(wins[begin].value), whole(wins[stop].value)
        if first is not None and last and first >= last:
            what = f"{first} is not below {stop} = {last}; the kernel takes half of {last}"
            yield at(wins[begin], what, f"{begin} = {last // 2}")


RULE = Rule(
    "dirty-background-above",
    "dirty_background_ratio not below dirty_ratio",
    "warning",
    ("sysctl", "tuned"),
    "Writing back must begin before writers are held up.  Where it does not, the kernel quietly"
    " takes half of the upper limit.",
    "mm/page-writeback.c: domain_dirty_limits()",
    "Keep the background limit below the other.",
    _judge,
    together=True,
)
