"""A tunnel: a socket here whose connections end at a socket on the far side of an SSH connection.

Asked of the ssh that holds the connection (``-O forward``), and taken back (``-O cancel``).  No
configuration is read for that: forwardings of the user's own are not to be made twice.  Both ends
are sockets of unix(7) in folders that nobody else can look into, so that nobody else on either
machine, and nobody on the network, reaches what listens there.

Sources: ssh(1), -L and -O; unix(7).
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from iotrial.errors import HostError, HostUnreachable
from iotrial.hosts.bounds import converse

LONGEST = 107
"""Bytes of a socket's path (sun_path of unix(7))."""
WITHIN = 15.0
_numbers = itertools.count()


@contextmanager
def tunnel(host: str, folder: Path, path: str) -> Iterator[str]:
    """The path of a socket in ``folder``, where the connection's own socket ``c`` is, that leads
    to ``path`` on ``host``.

    Raises HostError where that cannot be, HostUnreachable where there is no connection.
    """
    if len(path.encode("utf-8", "surrogateescape")) > LONGEST:
        raise HostError(
            f"{host}: {path} is too long for a socket", advice="Move IOTRIAL_STATE there."
        )
    here = folder / f"t{next(_numbers)}"
    way = f"{_spelled(str(here))}:{_spelled(path)}"
    _tell(host, folder, "forward", way)
    try:
        yield str(here)
    finally:
        with suppress(HostUnreachable, HostError):  # then it went with the connection
            _tell(host, folder, "cancel", way)
        here.unlink(missing_ok=True)


def _tell(host: str, folder: Path, what: str, way: str) -> None:
    command = ["ssh", "-F", "none", "-S", f"{folder}/c", "-O", what, "-L", way, "--", "iotrial"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as asked:
        try:
            _, complaint = converse(host, asked, b"", WITHIN)
        except subprocess.TimeoutExpired:
            raise HostUnreachable(f"{host}: its ssh does not answer any more") from None
        finally:
            asked.kill()
    if asked.returncode:
        words = complaint.decode("utf-8", "replace").strip() or f"exit {asked.returncode}"
        if not (folder / "c").exists():
            raise HostUnreachable(f"{host}: the connection is lost: {words}")
        raise HostError(
            f"{host}: no tunnel through its SSH connection: {words}",
            advice="It needs OpenSSH 6.7 or newer on both sides.",
        )


def _spelled(path: str) -> str:
    """A path in the argument of ``-L``, where a colon parts."""
    return path.replace("\\", "\\\\").replace(":", "\\:")
