"""Trust: whether a folder of state is really ours, so that nobody else says what we do.

What lies in the journal is executed by whoever pays it, a lock that another user may remove locks
nothing, and what is removed below a folder of ours is removed as us.  So such a folder must be a
real one and no link, of this user or root, closed to others' writing; so must be each file in it
that is read; and every folder above it must be of this user or root, and writable to others only
where it is sticky, as ``/tmp`` is: else somebody could put another in its place at any time.

Once all of that is so, nobody but this user and root can change it, so that it may be looked at by
path, on every kind of host.  Sources: open(2), unlink(2) and inode(7) on the sticky bit.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from iotrial.errors import HostError, RefusedError
from iotrial.model.host import Reader

_FORMAT = "%u|%a|%F|%n"
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Seen:
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


def _check_above(host: Reader, above: Sequence[str], seen: Mapping[str, Seen], uid: int) -> None:
    for path in above:
        if path in seen and (why := above_ours(seen[path], uid)):
            raise _refusal(host, path, why)


def not_ours(seen: Seen, uid: int, kind: str) -> str:
    """Why this is not a folder, or file, that only its owner can have written; '' where it is."""
    if not seen.kind.startswith(kind):
        return f"it is a {seen.kind}"
    if seen.owner not in (0, uid):
        return f"it belongs to user {seen.owner}"
    return f"others may write it (mode {seen.mode:04o})" if seen.mode & _OTHERS else ""


def above_ours(seen: Seen, uid: int) -> str:
    """Why somebody else could put another thing in the place of what is in here, or ''."""
    if seen.owner not in (0, uid):
        return f"it belongs to user {seen.owner}, who could replace what is in it"
    if seen.kind == "directory" and seen.mode & _OTHERS and not seen.mode & stat.S_ISVTX:
        return f"others may replace what is in it (mode {seen.mode:04o})"
    return ""


def _refusal(host: Reader, path: str, why: str) -> RefusedError:
    return RefusedError(
        f"{host.name}: {path} cannot be trusted with iotrial's state: {why}",
        advice="Nothing of it was read or executed. See who made it. If it is yours: chown it to"
        " yourself or root, and `chmod go-w` it. Or name another folder: IOTRIAL_STATE=FOLDER.",
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


def _seen(host: Reader, paths: Sequence[str]) -> Mapping[str, Seen]:
    if odd := [path for path in paths if "\n" in path]:
        raise _refusal(host, repr(odd[0]), "there is a line end in its name")
    found: dict[str, Seen] = {}
    for line in host.run(["stat", "-c", _FORMAT, "--", *paths]).text.splitlines():
        owner, mode, kind, path = line.split("|", 3)
        found[path] = Seen(int(owner), int(mode, 8), kind)
    return found


def _uid(host: Reader) -> int:
    said = host.run(["id", "-u"]).text.strip()
    if not said.isdigit():
        raise HostError(f"{host.name}: `id -u` does not say who we are", advice="Try it by hand.")
    return int(said)
