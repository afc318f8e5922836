"""A fio job file that does what a trial's command did, for people to use.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_OURS = ("output", "output-format", "eta", "log_avg_msec", "write_bw_log", "write_iops_log")
"""What iotrial asks of fio for itself."""


def job_of(
    loads: Mapping[str, Sequence[str]], heading: Sequence[str], instead: Mapping[str, str]
) -> str:
    """The job file; ``loads`` are fio's commands, each a section of that name, which fio executes
    at the same time; ``heading`` lines of comment, ``instead`` options that get another value than
    the command's (added where it has none)."""
    lines = [f"# {line}" for line in heading]
    for name, argv in loads.items():
        said: dict[str, str] = {}
        for word in argv[1:]:
            if word.startswith("--"):
                option, _, value = word[2:].partition("=")
                if option not in (*_OURS, "name"):
                    said[option] = value
        said |= instead
        lines += [f"[{name}]", *(f"{key}={value}" for key, value in said.items())]
    return "\n".join([*lines, ""])
