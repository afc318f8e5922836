"""I/O that waits without end for a path."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for group in sheet.groups():
        keys = {entry.key: entry for entry in group}
        retry, features = keys.get("no_path_retry"), keys.get("features")
        if retry and retry.value == "queue":
            yield at(retry, "without a path I/O waits without end", "no_path_retry 12")
        elif features and not retry and "queue_if_no_path" in features.value:
            yield at(features, "without a path I/O waits without end", "no_path_retry 12")


RULE = Rule(
    "multipath-queues-forever",
    "queue_if_no_path, or no_path_retry queue",
    "note",
    ("multipath",),
    "I/O that waits for paths cannot be ended: a node of a cluster can then neither fail over nor"
    " unmount.  Where there is no cluster it may be what is wanted.",
    "multipath.conf(5): no_path_retry, features",
    "no_path_retry N: N times polling_interval, then errors.",
    _judge,
)
