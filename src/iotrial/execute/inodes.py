"""Inodes: is what a path leads to still what was looked at?

A file or directory target is known by file system and inode.  It is looked at again before every
trial, links not followed, and after every trial taken down anew, since a load may make its file
again.  The folder that a tool works in is known likewise from when we made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from iotrial.errors import TargetRefused
from iotrial.execute import look
from iotrial.execute.others import need_closed, need_kept
from iotrial.model.host import Host
from iotrial.model.target import Aim, Target
from iotrial.model.tool import Left, inside


def settled(host: Host, aim: Aim) -> Aim:
    """The aim with what lies at its path now.  Raises TargetRefused for a link, or another kind."""
    if aim.target.kind not in ("file", "directory"):
        return aim
    found = look.itself(host, aim.path)
    if found is not None and not _is_meant(aim, found):
        raise _another(host, aim.target, aim.path, aim.inode)
    return replace(aim, inode=found.inode_of if found else "")


def need_same(host: Host, aim: Aim) -> None:
    """Refuse when something else lies at the path of a file or directory target, or others can
    put it there now.  Raises TargetRefused."""
    found = look.itself(host, aim.path)
    meant = found is None or _is_meant(aim, found)
    if not meant or (found.inode_of if found else "") != aim.inode:
        raise _another(host, aim.target, aim.path, aim.inode)
    if aim.target.kind == "file":
        need_kept(host, aim.target, str(PurePosixPath(aim.path).parent))
    else:
        need_closed(host, aim.target, aim.path)


def _is_meant(aim: Aim, found: look.Status) -> bool:
    return found.is_file if aim.target.kind == "file" else found.is_folder


def folders_of(host: Host, target: Target, wanted: Sequence[Left], known: dict[str, str]) -> None:
    """Refuse a folder of a tool's own that is a link, or not the one that ``known`` has since we
    made it; and a link, a node or a file of several names where the load makes its files.  Raises
    TargetRefused."""
    for left in (each for each in wanted if each.kind == "folder"):
        for path in (left.path, inside(left.path)):
            found = look.itself(host, path)
            was = known.get(path, "") if left.each == "study" else ""
            if found is None or not found.is_folder or (was and was != found.inode_of):
                raise _another(host, target, path, was)
            known[path] = found.inode_of
    _need_plain(host, target, wanted)


def _need_plain(host: Host, target: Target, wanted: Sequence[Left]) -> None:
    """What lies where a load makes its files is a file of one name, or a folder."""
    places = [inside(each.path) if each.kind == "folder" else each.path for each in wanted]
    if not places:
        return
    odd = ("(", "!", "-type", "f", "!", "-type", "d", "-o", "-type", "f", "-links", "+1", ")")
    found = host.run(["find", "-P", *places, *odd, "-print", "-quit"]).text.rstrip("\n")
    if found:
        raise _another(host, target, found, "")


def _another(host: Host, target: Target, path: str, was: str) -> TargetRefused:
    found = look.itself(host, path)
    now = f"a {found.kind}, inode {found.inode_of}" if found else "nothing"
    if found and found.kind == "symbolic link":
        now = f"a link to {host.run(['readlink', path]).text.strip()}"
    return TargetRefused(
        f"{path} is not what it was",
        target=target.name,
        evidence=(f"it was: {f'inode {was}' if was else 'nothing'}", f"it is:  {now}"),
        advice="Nothing was started. Somebody replaced it: find out who, then run again.",
    )
