"""Files of a queue at values that the kernel refuses or ignores."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet
from iotrial.model.tunable import Domain

_DOMAINS = {
    "rq_affinity": Domain(low=0),
    "nomerges": Domain(low=0),
    "read_ahead_kb": Domain(low=0),
    "nr_requests": Domain(low=1),
    "max_sectors_kb": Domain(low=0),
    "write_cache": Domain(choices=("write back", "write through", "none")),
}


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for each in sheet.of("queue"):
        domain = _DOMAINS.get(each.name)
        if domain and not any(mark in each.value for mark in "$%") and each.value:
            why = domain.refusal(each.value)
            if why:
                yield at(each, why)


RULE = Rule(
    "queue-out-of-range",
    "a file of a queue at a value it does not take",
    "error",
    ("udev", "tuned"),
    "The kernel refuses it (Invalid argument).",
    "Documentation/ABI/stable/sysfs-block; block/blk-sysfs.c",
    "Take a value within the bounds.",
    _judge,
)
