"""Sample: what a host's kernel counted at one moment of a load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """``values`` is one line of telemetry.jsonl: ``t`` in seconds since the load began, then
    counters as the kernel keeps them; only the difference of two says something.  ``device`` is
    the kernel name of the block device under the target ('': none, the target is remote)."""

    host: str
    target: str
    device: str
    values: Mapping[str, Any] = field(repr=False)
