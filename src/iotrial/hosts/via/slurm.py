"""A node of a job of Slurm's, by srun(1).

A step of the job for each session, beside others (``--overlap``), with all its CPUs and memory and
bound to none: what is measured is the node.  What our environment says of iotrial is ours.

srun passes our environment on, and users of a cluster have one home on all nodes.  Without root the
books of iotrial would be in there: one lock for all of them, and each node's folders those of dead
processes for the others.  So an ordinary user's are on the node.

``ProctrackType=proctrack/linuxproc`` ends every process that descends from a step's, wherever it
went; then no guard outlives the job (slurm.conf(5)).
"""

from __future__ import annotations

import os
import re
from functools import cache

from iotrial.errors import UsageError
from iotrial.hosts.places import STATE
from iotrial.hosts.slurm import configured, job_here
from iotrial.hosts.ssh import through
from iotrial.model.host import Connector

_TO = re.compile(r"(?:(\d+)/)?([A-Za-z0-9][A-Za-z0-9_.-]*)")
_STEP = [
    "--overlap",
    "--nodes=1",
    "--ntasks=1",
    "--cpu-bind=none",
    "--mem=0",
    "--mpi=none",
    "--unbuffered",
    "--quiet",
    "--chdir=/",
    "--input=all",
]
_OURS = (STATE, "IOTRIAL_PLUGINS", "IOTRIAL_AGENT", "IOTRIAL_LOAD")


def words(to: str) -> list[str]:
    """``[JOB/]NODE`` → what executes a command there.  Raises UsageError where there is no job."""
    found = _TO.fullmatch(to)
    own, node = found.groups() if found else (None, to)
    job = own or job_here()
    if not job:
        raise UsageError(
            f"slurm://{to}: this is no job of Slurm",
            advice='Run it in an allocation (salloc, sbatch), or: iotrial run STUDY --slurm "…"',
        )
    cleared = [word for name in _OURS for word in ("-u", name)]
    user = os.geteuid()
    own = [f"{STATE}=/var/tmp/iotrial-{user}"] if user else []
    return ["srun", f"--jobid={job}", f"--nodelist={node}", *_STEP, "--", "env", *cleared, *own]


def check(to: str) -> str:
    return "" if _TO.fullmatch(to) else f"{to!r} is not [JOB/]NODE"


@cache
def unguarded() -> str:
    if configured("ProctrackType") != "proctrack/linuxproc":
        return ""
    return "the job ends every descendant of its steps (proctrack/linuxproc), a guard too"


HOST = Connector(
    "slurm",
    "a node of a job of Slurm's: slurm://NODE, or slurm://JOB/NODE",
    through(words, unguarded=unguarded),
    check,
)
