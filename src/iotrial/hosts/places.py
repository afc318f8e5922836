"""Where iotrial keeps its books on a host: lock, journal, and the files it makes.

As root these are the folders every iotrial on the machine agrees on; without root a user's own,
which suffices, because such a user cannot change the machine's settings either.  The environment
variable ``IOTRIAL_STATE`` moves all of them below one folder (tests; two hosts on one kernel).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from iotrial.errors import FileRefused, HostError
from iotrial.hosts.trust import need_trusted
from iotrial.model.host import Reader

STATE = "IOTRIAL_STATE"


@dataclass(frozen=True, slots=True)
class Places:
    """``lock`` is a file, ``journal`` and ``files`` are folders.  The lock lives where a reboot
    forgets it, the journal where a reboot does not."""

    lock: str
    journal: str
    files: str


def places(uid: int, environment: Mapping[str, str]) -> Places:
    """The places of a user with this numeric id and environment.

    >>> places(0, {}).journal
    '/var/lib/iotrial/journal.d'
    """
    if root := environment.get(STATE):
        return _below(root, root)
    if uid == 0:
        return _below("/run/iotrial", "/var/lib/iotrial")
    return _below(_runtime(uid, environment), _state(uid, environment))


def _runtime(uid: int, environment: Mapping[str, str]) -> str:
    base = environment.get("XDG_RUNTIME_DIR")
    return f"{base}/iotrial" if base else f"/tmp/iotrial-{uid}"  # noqa: S108 (0700, owner checked)


def _state(uid: int, environment: Mapping[str, str]) -> str:
    if base := environment.get("XDG_STATE_HOME"):
        return f"{base}/iotrial"
    home = environment.get("HOME")
    return f"{home}/.local/state/iotrial" if home else f"/var/tmp/iotrial-{uid}"  # noqa: S108


@lru_cache
def _below(volatile: str, lasting: str) -> Places:
    return Places(
        lock=str(PurePosixPath(volatile, "lock")),
        journal=str(PurePosixPath(lasting, "journal.d")),
        files=str(PurePosixPath(lasting, "files")),
    )


def state_places(host: Reader) -> Places:
    """The places on this host: of its user's id and environment.

    Raises :class:`~iotrial.errors.HostError` where ``id -u`` does not answer with a number.
    """
    answer = host.run(["id", "-u"])
    if answer.exit != 0 or not answer.text.strip().isdigit():
        raise HostError(
            f"{host.name}: `id -u` does not say who we are: {answer.complaint}",
            advice="Is coreutils installed there? Try it by hand.",
        )
    return places(int(answer.text), _environment(host))


def _environment(host: Reader) -> Mapping[str, str]:
    """The environment of the user there: on this machine, our own."""
    if not host.remote:
        return os.environ
    words = (line.partition("=") for line in host.run(["printenv"]).text.splitlines())
    return {name: value for name, _, value in words}


def journal_folder(host: Reader) -> str:
    """The folder of the host's journal.  Raises HostError as :func:`state_places` does."""
    return state_places(host).journal


def lock_path(host: Reader) -> str:
    """The file of the host's one lock.  Raises HostError as :func:`state_places` does."""
    return state_places(host).lock


def holder(host: Reader) -> str:
    """Who holds the host's lock now, such as ``pid 812 (scheduler)``; '' when nobody does.

    A killed holder leaves its number in the file: only a live process with our name counts.  Raises
    RefusedError where somebody else could have written it: nobody is owed what a stranger says.
    """
    path = lock_path(host)
    need_trusted(host, (path.rpartition("/")[0],))
    try:
        pid, _, purpose = host.read(path).decode("utf-8", "replace").partition(" ")
        name = host.read(f"/proc/{int(pid)}/cmdline") if pid.strip() else b""
    except (FileRefused, ValueError):
        return ""
    return f"pid {pid} ({purpose.strip()})" if b"iotrial" in name else ""


def unseen(host: Reader) -> str:
    """What this user cannot see of the books that root keeps on the host, in a sentence."""
    if _environment(host).get(STATE) or host.run(["id", "-u"]).text.strip() == "0":
        return ""
    return "Not root: what runs by root owe cannot be seen from here. Ask as root."
