"""Which host a command line or a study means."""

from __future__ import annotations

import os
import re
import socket
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from iotrial.errors import HostUnreachable, UsageError
from iotrial.model.host import Host
from iotrial.model.study import StudyHost

HERE = StudyHost("local")
_UNKNOWN = "Could not resolve hostname"
"""What ssh(1) says of a name that is in no ssh_config and in no DNS."""
_SUFFIXES = frozenset((
    ".cfg", ".conf", ".csv", ".fio", ".html", ".ini", ".json", ".jsonl", ".rules", ".service",
    ".toml", ".txt", ".yaml", ".yml",
))  # fmt: skip
"""Of files that people name to iotrial; no domain ends so."""


def place_of(host: str | None) -> StudyHost:
    """The machine of a HOST argument: this one, or anything ssh(1) takes."""
    return HERE if host in (None, "", "local", "localhost") else StudyHost(str(host), str(host))


def means_a_file(word: str) -> bool:
    """Whether the name of nothing that is there is one of a file or folder, and not of a host."""
    path = Path(word)
    if path.is_symlink():
        return True
    if re.search(r"\s|://", word):
        return False
    return "/" in word or path.suffix in _SUFFIXES


@contextmanager
def file_or_host(word: str | None) -> Iterator[None]:
    """Raises UsageError in place of HostUnreachable where a word that may have been meant for a
    file is the name of no host either."""
    try:
        yield
    except HostUnreachable as error:
        if word is None or "@" in word or _UNKNOWN not in error.message:
            raise
        raise UsageError(
            f"there is neither a file or folder nor a host {word}",
            advice="Look at its name; a host is one that ssh knows.",
        ) from error


@contextmanager
def machine(*, pretend: bool, place: StudyHost = HERE, purpose: str = "") -> Iterator[Host]:
    """The host at ``place``, or the made-up one of ``--pretend``.

    ``purpose`` is what the lock tells another iotrial.  Raises HostUnreachable.
    """
    with machines(pretend=pretend, purpose=purpose) as reach, reach(place) as host:
        yield host


@contextmanager
def machines(
    *, pretend: bool, purpose: str = "", several: bool = False
) -> Iterator[Callable[[StudyHost], AbstractContextManager[Host]]]:
    """How to get at hosts, each as :func:`machine` says, from any thread.  ``several``: this
    machine too has the name then that the study gives it, to tell it from the others."""
    if pretend:
        yield partial(_made_up, several=several)
        return
    from iotrial.hosts.local import wakeup_pipe

    with wakeup_pipe() as wakeup:
        yield partial(_real, wakeup=wakeup, purpose=purpose, several=several)


@contextmanager
def _made_up(place: StudyHost, *, several: bool) -> Iterator[Host]:
    from iotrial.hosts.fake import FakeHost

    host = FakeHost(seed=zlib.crc32(place.name.encode()) if several else 1)
    if several:
        host.name = place.name
    yield host


@contextmanager
def _real(place: StudyHost, *, wakeup: int, purpose: str, several: bool) -> Iterator[Host]:
    from iotrial.hosts.local import LocalHost

    if not place.ssh:
        here = LocalHost(wakeup=wakeup, purpose=purpose)
        if several:
            here.name = place.name
        yield here
        return
    from iotrial.hosts.bounds import started_on
    from iotrial.hosts.ssh import SSHHost

    doing = started_on(purpose, socket.gethostname(), os.getpid())
    with SSHHost(place.ssh, name=place.name, wakeup=wakeup, purpose=doing) as host:
        yield host
