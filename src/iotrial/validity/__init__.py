"""Validity checks.  PLUGINS: one check, one function.

A function with ``@check`` or ``@study_check`` in a module of this package is a plugin
(:class:`~iotrial.model.validity.ValidityCheck`); what is read around a load, what is decided of it
and the page ``docs/validity.md`` follow from here.  Nothing here calls a host:
:mod:`iotrial.execute.load.part` reads all that all checks want in one round trip before the
load and one after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from iotrial.plugins import values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iotrial.model.results import Results
    from iotrial.model.trial import Doubt
    from iotrial.model.validity import CheckContext, CheckReading, LoadEvidence, ValidityCheck


@cache
def checks() -> Mapping[str, ValidityCheck]:
    """Every check by its name, in alphabetical order."""
    return values("validity")


@lru_cache(maxsize=256)
def readings(scene: CheckContext) -> tuple[CheckReading, ...]:
    """What all checks together want read, each place once.  It follows from the scene alone, and
    hosts that are alike have equal ones."""
    wanted = (reading for check in checks().values() for reading in check.reads(scene))
    return tuple({reading.probe.place: reading for reading in wanted}.values())


def judged(case: LoadEvidence, said: Iterable[str] = ()) -> tuple[Doubt, ...]:
    """What all checks hold against a load; ``said`` are the checks that have spoken already (a
    tool's own parser may have)."""
    spoken = frozenset(said)
    return tuple(
        doubt
        for check in checks().values()
        for doubt in check.judge(case)
        if doubt.check not in spoken
    )


def of_study(results: Results) -> tuple[Doubt, ...]:
    """What all checks hold against a study: a trial alone does not show it."""
    return tuple(doubt for check in checks().values() for doubt in check.study(results))
