"""A fio job file that does what a trial's command did, for people to use.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_OURS = ("output", "output-format", "eta", "log_avg_msec", "write_bw_log", "write_iops_log")
"""What iotrial asks of fio for itself."""


def job_of(argv: Sequence[str], heading: Sequence[str], instead: Mapping[str, str]) -> str:
    """The job file; ``argv`` is fio's command, ``heading`` lines of comment, ``instead`` options
    that get another value than the command's (added where it has none)."""
    said: dict[str, str] = {}
    for word in argv[1:]:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            if name not in _OURS:
                said[name] = value
    name = said.pop("name", "load")
    said |= instead
    lines = [*(f"# {line}" for line in heading), f"[{name}]"]
    return "\n".join([*lines, *(f"{key}={value}" for key, value in said.items()), ""])
