"""Conformance: what every plugin of this wing must do, tried out (:mod:`iotrial.conformance`)."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.conformance import named, says
from iotrial.plugins import Plugin
from iotrial_suites.case import Suite


def of_suites(plugin: Plugin) -> Iterator[str]:
    suite: Suite = plugin.value
    yield from named(suite.name)
    yield from says(suite, "title")
    names = [case.name for case in suite.cases]
    if not names:
        yield "it has no case"
    for case in suite.cases:
        yield from (f"{case.name}: {problem}" for problem in named(case.name))
        yield from (f"{case.name}: {problem}" for problem in says(case, "title"))
        if names.count(case.name) > 1:
            yield f"{case.name}: two cases have this name"
        if not case.limit > 0:
            yield f"{case.name}: its limit is not more than 0 s"
