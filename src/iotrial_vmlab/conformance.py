"""Conformance: what every plugin of this wing must do, tried out (:mod:`iotrial.conformance`)."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.conformance import named, says
from iotrial.plugins import Plugin


def of_labs(plugin: Plugin) -> Iterator[str]:
    yield from named(plugin.value.name)
    yield from says(plugin.value, "summary")
    if not 1 <= plugin.value.fewest <= plugin.value.nodes:
        yield "fewest is not between 1 and nodes"
