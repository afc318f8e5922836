"""Checks and studies together as plain data: ``report --as json`` of several folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from iotrial.judgement import Judged
from iotrial.report.document import FORMAT, document
from iotrial_suites.together.view import Checks, Together


def data(
    all_: Together, sessions: Sequence[Checks], studies: Sequence[tuple[str, Judged]]
) -> dict[str, Any]:
    """What ``check --json`` and ``compare --json`` say of each folder, with the folder's name and
    what all of them do not show.  ``studies`` are names of folders, and what they came to."""
    return {
        "format": FORMAT,
        "title": all_.title,
        "summary": list(all_.leads),
        "hosts": [asdict(each) for each in all_.hosts],
        "checks": [{"folder": each.name, **each.checked.as_dict()} for each in sessions],
        "studies": [{"folder": name, **document(judged)} for name, judged in studies],
        "gaps": list(all_.gaps),
    }
