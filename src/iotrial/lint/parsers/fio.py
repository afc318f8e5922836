"""fio's job files, read by :mod:`iotrial.formats.fio.jobfile` as fio reads them.

An entry's section is its job's name, or ``global`` where the job has it from there; its group is
the job's number.  ``name`` is fio's own name of an option; ``key`` is what was written.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from iotrial.errors import FormatError
from iotrial.formats.fio.jobfile import parse as parse_jobs
from iotrial.lint.sheet import Complaint, Entry, Sheet
from iotrial.tools.fio_rules import option_table

KIND = "fio"
TITLE = "fio's job files (`*.fio`, `*.job`)"


def knows(path: PurePosixPath) -> bool:
    return path.suffix in (".fio", ".job") and path.parent.name != "doc-base"


def parse(text: str, file: str = "") -> Sheet:
    try:
        jobs = parse_jobs(text, "job file")
    except FormatError as error:
        found = re.match(r"job file(?::(\d+))?: (.*)", error.message, re.DOTALL)
        line, what = (int(found[1] or 0), found[2]) if found else (0, error.message)
        return Sheet("fio", file, complaints=(Complaint(line, what),))
    table = option_table()
    entries = tuple(
        Entry(
            line,
            name,
            value,
            (job.name if line > job.line else "global",),
            name=table.canonical(name),
            group=number,
        )
        for number, job in enumerate(jobs.sections)
        for (name, value), line in zip(job.options, job.lines, strict=True)
    )
    return Sheet(
        "fio", file, entries, sections=tuple((job.line, job.name) for job in jobs.sections)
    )
