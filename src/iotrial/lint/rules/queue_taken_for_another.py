"""Files of a queue at numbers that the kernel takes without a word, for another or for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_HIGHEST = 2
_TAKEN = {
    "nomerges": "is taken for 1: 2 alone looks for no merge at all",
    "rq_affinity": "changes nothing: what was in force stays",
}


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for each in sheet.of("queue"):
        taken = _TAKEN.get(each.name)
        if taken and re.fullmatch(r"\d{1,9}", each.value) and int(each.value) > _HIGHEST:
            yield at(each, f"{each.value} {taken}")


RULE = Rule(
    "queue-taken-for-another",
    "a file of a queue at a number that the kernel takes for another",
    "warning",
    ("udev", "tuned"),
    "The kernel knows 0, 1 and 2, and answers to a higher number with no error (seen on 6.18).",
    "block/blk-sysfs.c: queue_nomerges_store, queue_rq_affinity_store",
    "Write 0, 1 or 2.",
    _judge,
)
