"""Checks and studies together as plain data: ``report --as json`` of several folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from iotrial.report.document import FORMAT, document
from iotrial.report.together.view import Checks, Study, Together


def data(all_: Together, sessions: Sequence[Checks], studies: Sequence[Study]) -> dict[str, Any]:
    """What ``check --json`` and ``compare --json`` say of each folder, with the folder's name and
    what all of them do not show."""
    return {
        "format": FORMAT,
        "title": all_.title,
        "summary": list(all_.leads),
        "hosts": [asdict(each) for each in all_.hosts],
        "checks": [{"folder": each.name, **each.checked.as_dict()} for each in sessions],
        "studies": [{"folder": each.name, **document(each.view)} for each in studies],
        "gaps": list(all_.gaps),
    }
