"""What fio's name for a log says: ``x_clat.1.log`` is of ``x``, job 1.

``write_lat_log=x`` and its like name the files; without a name fio takes the job's.  The number
counts the threads of the fio process (``per_job_logs=0``: none), and a client adds the host:
``x_clat.1.log.box7``.  Source: ``log_name`` of fio's ``backend.c`` and ``client.c``; seen in 3.33.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HIST = "clat_hist"
_NAME = re.compile(
    rf"(?P<name>.+)_(?P<kind>{HIST}|bw|iops|clat|slat|lat)(?:\.(?P<job>\d+))?\.log(?:\.(?P<host>.+))?"
)
_PACKED = re.compile(r"\.(?:gz|bz2|xz)$")


@dataclass(frozen=True, slots=True)
class LogName:
    """``folder`` is '' or ends with ``/``; ``job`` and ``host`` '' where the name has none."""

    folder: str
    name: str
    kind: str
    job: str
    host: str

    @property
    def run(self) -> tuple[str, str, bool, bool]:
        """The same for the logs of one run."""
        return self.folder, self.name, bool(self.job), bool(self.host)


def log_name(file: str) -> LogName | None:
    """The parts of a log's name; None where fio does not name logs so."""
    folder, slash, base = file.rpartition("/")
    found = _NAME.fullmatch(_PACKED.sub("", base))
    if not found:
        return None
    name, kind, job, host = (found[each] or "" for each in ("name", "kind", "job", "host"))
    return LogName(folder + slash, name, kind, job, host)
