"""Whatever gives a POSIX shell on stdin and stdout.

A study says the words of the command (``shell = ["podman", "exec", "-i", "box", "sh"]``), and they
are executed here: so they are taken from a study and a command line, which their user has chosen,
and from no profile and no folder of checks, which may come from anybody.
"""

from __future__ import annotations

import shlex

from iotrial.hosts.ssh import through
from iotrial.model.host import Connector


def check(to: str) -> str:
    try:
        found = shlex.split(to)
    except ValueError as error:
        return f"{to!r} is not a command: {error}"
    return "" if found else "it names no command"


HOST = Connector(
    "shell",
    "whatever gives a POSIX shell on stdin and stdout: 'shell://COMMAND WORD…'",
    through(shlex.split, is_shell=True),
    check,
    executes=True,
)
