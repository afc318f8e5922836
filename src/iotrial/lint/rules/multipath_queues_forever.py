"""I/O that waits without end for a path."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for group in sheet.groups():
        keys = {entry.key: entry for entry in group}
        retry, features = keys.get("no_path_retry"), keys.get("features")
        if features and "queue_if_no_path" in features.value:
            if retry:
                what = f"no_path_retry = {retry.value} stands beside it, and wins"
                yield at(features, what, 'features "0"')
            else:
                yield at(features, "without a path I/O waits without end", "no_path_retry 12")
        elif retry and retry.value == "queue":
            yield at(retry, "without a path I/O waits without end", "no_path_retry 12")


RULE = Rule(
    "multipath-queues-forever",
    "queue_if_no_path, or no_path_retry queue",
    "warning",
    ("multipath",),
    "I/O that waits for paths cannot be ended: a node of a cluster can then neither fail over nor"
    " unmount.  The feature and no_path_retry say the same, and no_path_retry wins.",
    "multipath.conf(5): no_path_retry, features",
    "no_path_retry N: N times polling_interval, then errors.",
    _judge,
)
