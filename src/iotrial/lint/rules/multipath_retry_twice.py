"""Waiting for paths, said twice."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for group in sheet.groups():
        keys = {entry.key: entry for entry in group}
        retry, features = keys.get("no_path_retry"), keys.get("features")
        if retry and features and "queue_if_no_path" in features.value:
            what = f"no_path_retry = {retry.value} stands beside it, and wins"
            yield at(features, what, 'features "0"')


RULE = Rule(
    "multipath-retry-twice",
    "queue_if_no_path beside no_path_retry",
    "warning",
    ("multipath",),
    "The feature and no_path_retry say the same; multipath takes the feature out where"
    " no_path_retry is set.",
    "multipath.conf(5): features, no_path_retry; libmultipath/propsel.c:"
    " reconcile_features_with_options()",
    "Keep no_path_retry.",
    _judge,
)
