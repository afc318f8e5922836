"""Which host a command line or a study means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

from iotrial.errors import HostUnreachable, UsageError
from iotrial.hosts.local import wakeup_pipe
from iotrial.hosts.via import connector, is_via, reached
from iotrial.model.host import Access, Connect, Host
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
    """The machine of a HOST argument: this one, one of a connector, or anything ssh(1) takes."""
    if not host or host in ("local", "localhost"):
        return HERE
    if is_via(host):
        return StudyHost(re.sub(r"[^A-Za-z0-9._+-]+", "-", host).strip("-."), via=host)
    return StudyHost(host, host)


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
            f"{word} is neither a file, nor a folder, nor a host known to ssh",
            advice="Check the spelling; ssh must know the host.",
        ) from error


@contextmanager
def machine(*, pretend: bool, place: StudyHost = HERE, purpose: str = "") -> Iterator[Host]:
    """The host at ``place``, or the made-up one of ``--pretend``.

    ``purpose`` is what the lock tells another iotrial.  Raises HostUnreachable.
    """
    with machines(pretend=pretend, purpose=purpose) as reach, reach(place) as host:
        yield host


@contextmanager
def machines(*, pretend: bool, purpose: str = "", several: bool = False) -> Iterator[Connect]:
    """How to get at hosts, each as :func:`machine` says, from any thread.  ``several``: this
    machine too has the name then that the study gives it, to tell it from the others."""
    made_up: dict[str, Host] = {}  # each stays the same, however often it is reached
    with nullcontext() if pretend else wakeup_pipe() as wakeup, ExitStack() as stack:

        def reach(place: StudyHost) -> AbstractContextManager[Host]:
            own = several or (place.way and not pretend)
            name = place.name if own else ""
            access = Access(name=name, wakeup=wakeup, purpose=purpose)
            if not pretend:
                return reached(place, access)
            if place.name not in made_up:
                made_up[place.name] = stack.enter_context(connector("fake").connect(access))
            return nullcontext(made_up[place.name])

        yield reach
