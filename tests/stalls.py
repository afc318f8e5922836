"""Trials during which the machine stood still, as a virtual one does at times.

They are INVALID, rightly, and done again: a test that asks what becomes of undisturbed trials looks
at the others.  Nothing else that makes a trial INVALID is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def stalled(trial: Mapping[str, Any]) -> bool:
    """Whether a trial (of ``trial.json``) was spoilt by a standstill, and by nothing else."""
    spoilt = {check for check, _, _, invalid in trial["doubts"] if invalid}
    return bool(trial["state"] == "invalid" and spoilt == {"standstill"})
