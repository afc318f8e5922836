"""How programs that speak MPI are started here: on this host, as root as well, with more processes
than cores.

Open MPI refuses both unless told in words or in its environment; the environment is taken, since
other MPIs pass over it and would refuse the words.  Source: mpirun(1) of Open MPI 4.1.
"""

from __future__ import annotations

_OPEN_MPI = (
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "OMPI_MCA_rmaps_base_oversubscribe=1",
)


def started(processes: int, words: list[str]) -> tuple[str, ...]:
    """The command of ``processes`` of them."""
    return ("env", *_OPEN_MPI, "mpirun", "-n", str(processes), *words)
