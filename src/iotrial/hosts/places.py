"""Where iotrial keeps its books on a host (lock, journal, and the files it makes), and whether such
a folder is really ours, so that nobody else says what we do.

As root these are the folders every iotrial on the machine agrees on; without root a user's own,
which suffices, because such a user cannot change the machine's settings either.  The environment
variable ``IOTRIAL_STATE`` moves all of them below one folder (tests; two hosts on one kernel).

What lies in the journal is executed by whoever pays it, a lock that another user may remove locks
nothing, and what is removed below a folder of ours is removed as us.  So such a folder must be a
real one and no link, of this user or root, closed to others' writing; so must be each file in it
that is read; and every folder above it must be of this user or root, and writable to others only
where it is sticky, as ``/tmp`` is: else somebody could put another in its place at any time.

Once all of that is so, nobody but this user and root can change it, so that it may be looked at by
path, on every kind of host.  Sources: open(2), unlink(2) and inode(7) on the sticky bit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from iotrial.errors import FileRefused, HostError, RefusedError
from iotrial.model.host import Reader

STATE = "IOTRIAL_STATE"


@dataclass(frozen=True, slots=True)
class StateFolders:
    """``lock`` is a file, ``journal`` and ``files`` are folders.  The lock lives where a reboot
    forgets it, the journal where a reboot does not."""

    lock: str
    journal: str
    files: str


def places(uid: int, environment: Mapping[str, str]) -> StateFolders:
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
def _below(volatile: str, lasting: str) -> StateFolders:
    return StateFolders(
        lock=str(PurePosixPath(volatile, "lock")),
        journal=str(PurePosixPath(lasting, "journal.d")),
        files=str(PurePosixPath(lasting, "files")),
    )


def state_places(host: Reader) -> StateFolders:
    """The places on this host: of its user's id and environment.

    Raises :class:`~iotrial.errors.HostError` where ``id -u`` does not answer with a number.
    """
    return places(_uid(host), _environment(host))


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
        if pid == "0":  # a guard outside the container that this is: it has no number in here
            free = host.run(["flock", "-n", path, "true"]).exit == 0
            return "" if free else f"pid 0 ({purpose.strip()})"
        name = host.read(f"/proc/{int(pid)}/cmdline") if pid.strip() else b""
    except (FileRefused, ValueError):
        return ""
    return f"pid {pid} ({purpose.strip()})" if b"iotrial" in name else ""


def unseen(host: Reader) -> str:
    """What this user cannot see of the books that root keeps on the host, in a sentence."""
    if _environment(host).get(STATE) or host.run(["id", "-u"]).text.strip() == "0":
        return ""
    return "Not root: settings left by runs of root are not visible. Run it as root."


# -- trust -----------------------------------------------------------------------------------------

_FORMAT = "%u|%a|%F|%n"
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """What stat(1) says of one path, links not followed."""

    owner: int
    mode: int
    kind: str


def need_trusted(host: Reader, folders: Iterable[str], files: Sequence[str] = ()) -> None:
    """Raise RefusedError unless the folders, and these files, are ours as far as they exist."""
    wanted = list(dict.fromkeys(folders))
    above = [path for path in _above(host, wanted) if path not in wanted]
    seen = _seen(host, [*above, *wanted, *files])
    uid = _uid(host)
    _check_above(host, above, seen, uid)
    for path in wanted:
        if path in seen and (why := not_ours(seen[path], uid, "directory")):
            raise _refusal(host, path, why)
    for path in files:
        if path in seen and (why := not_ours(seen[path], uid, "regular")):
            raise _refusal(host, path, why)


def need_safe_above(host: Reader, path: str) -> None:
    """The same of the folders above a path only, which is to be made."""
    above = _above(host, [path])
    _check_above(host, above, _seen(host, above), _uid(host))


def _check_above(
    host: Reader, above: Sequence[str], seen: Mapping[str, LinkStatus], uid: int
) -> None:
    for path in above:
        if path in seen and (why := above_ours(seen[path], uid)):
            raise _refusal(host, path, why)


def not_ours(seen: LinkStatus, uid: int, kind: str) -> str:
    """Why this is not a folder, or file, that only its owner can have written; '' where it is."""
    if not seen.kind.startswith(kind):
        return f"it is a {seen.kind}"
    if seen.owner not in (0, uid):
        return f"it belongs to user {seen.owner}"
    return f"it is writable by other users (mode {seen.mode:04o})" if seen.mode & _OTHERS else ""


def above_ours(seen: LinkStatus, uid: int) -> str:
    """Why somebody else could put another thing in the place of what is in here, or ''."""
    if seen.owner not in (0, uid):
        return f"it belongs to user {seen.owner}, who could replace its content"
    if seen.kind == "directory" and seen.mode & _OTHERS and not seen.mode & stat.S_ISVTX:
        return f"other users can replace its content (mode {seen.mode:04o})"
    return ""


def _refusal(host: Reader, path: str, why: str) -> RefusedError:
    return RefusedError(
        f"{host.name}: {path} cannot be trusted with iotrial's state: {why}",
        advice="No file in it was read or executed. Find who created it. If it is yours: chown"
        " it to yourself or root, and `chmod go-w` it. Or use another folder:"
        " IOTRIAL_STATE=FOLDER.",
    )


def _above(host: Reader, paths: Sequence[str]) -> list[str]:
    """Every folder above them, also by their real paths."""
    leads = [*paths, *(f"{real}/x" for real in _reals(host, paths))]
    found = dict.fromkeys(str(each) for path in leads for each in PurePosixPath(path).parents)
    return sorted(found, key=len)


def _reals(host: Reader, folders: Sequence[str]) -> list[str]:
    """Where they lie when links above them are followed."""
    found = host.run(["readlink", "-e", "--", *(str(PurePosixPath(f).parent) for f in folders)])
    return [each for each in found.text.splitlines() if each.startswith("/")]


def _seen(host: Reader, paths: Sequence[str]) -> Mapping[str, LinkStatus]:
    if odd := [path for path in paths if "\n" in path]:
        raise _refusal(host, repr(odd[0]), "its name contains a line break")
    found: dict[str, LinkStatus] = {}
    for line in host.run(["stat", "-c", _FORMAT, "--", *paths]).text.splitlines():
        owner, mode, kind, path = line.split("|", 3)
        found[path] = LinkStatus(int(owner), int(mode, 8), kind)
    return found


def _uid(host: Reader) -> int:
    answer = host.run(["id", "-u"])
    if answer.exit != 0 or not answer.text.strip().isdigit():
        raise HostError(
            f"{host.name}: `id -u` failed: {answer.complaint}",
            advice="Check that coreutils is installed there.",
        )
    return int(answer.text)
