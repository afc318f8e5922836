"""Inodes: is what a path leads to still what was looked at?

A file or directory target is known by file system and inode.  It is looked at again before every
trial, links not followed, and after every trial taken down anew, since a load may make its file
again.  The folder that a tool works in is known likewise from when we made it.  A file system
without a block device (NFS, btrfs) has a new number each time it is mounted; where we mount it
ourselves, which settings and cold caches do in the middle of a study, its source says that it is
the same.

Others: who else could change what a path leads to, between our look and a load's open.

A load opens its target by name, long after we have looked at it.  Whoever may write one of the
folders on the way there can put a link in its place, and root's load then writes wherever that
leads.  So every folder from ``/`` down must be root's or ours, and closed to others; a folder
with the sticky bit (``/tmp``) will do for what lies deeper, because only its owner may rename or
remove that.  A group counts as others, unless it is the private one of root or of ourselves.

Sources: inode(7), the sticky bit; acl(5): with an access list the bits of the group are its mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from iotrial.errors import TargetRefused
from iotrial.look import reading
from iotrial.look.mounts import parse_mountinfo
from iotrial.model.host import Reader
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tool import Leftover, inside


def settled(host: Reader, aim: PreparedTarget) -> PreparedTarget:
    """The aim with what lies at its path now.  Raises TargetRefused for a link, or another kind."""
    if aim.target.kind not in ("file", "directory"):
        return aim
    found = reading.itself(host, aim.path)
    if found is not None and not _is_meant(aim, found):
        raise _another(host, aim.target, aim.path, aim.inode)
    return replace(aim, inode=found.inode_of if found else "")


def need_same(host: Reader, aim: PreparedTarget) -> None:
    """Refuse when something else lies at the path of a file or directory target, or others can
    put it there now.  Raises TargetRefused."""
    found = reading.itself(host, aim.path)
    meant = found is None or _is_meant(aim, found)
    if not meant or not _is_it(host, aim.target, found, aim.inode):
        raise _another(host, aim.target, aim.path, aim.inode)
    if aim.target.kind == "file":
        need_kept(host, aim.target, str(PurePosixPath(aim.path).parent))
    else:
        need_closed(host, aim.target, aim.path)


def _is_meant(aim: PreparedTarget, found: reading.FileStatus) -> bool:
    return found.is_file if aim.target.kind == "file" else found.is_folder


def _is_it(host: Reader, target: Target, found: reading.FileStatus | None, was: str) -> bool:
    """Is it what was known as ``was``?"""
    if found is None or found.inode_of == was:
        return (found.inode_of if found else "") == was
    return was.rpartition(":")[2] == str(found.inode) and _mounted_anew(host, target, found)


def _mounted_anew(host: Reader, target: Target, found: reading.FileStatus) -> bool:
    """Does it lie on what the study mounts for the target, and the kernel numbers at each mount?"""
    point = reading.itself(host, target.path) if target.mount else None
    if target.mount is None or point is None or point.filesystem != found.filesystem:
        return False
    text = host.read("/proc/self/mountinfo").decode("utf-8", "surrogateescape")
    there = [each for each in parse_mountinfo(text) if each.point == target.path]
    source = target.mount.source
    meant = reading.resolve(host, source) if source.startswith("/") else source
    return bool(there) and not there[-1].on_block_device and _same_source(there[-1].source, meant)


def _same_source(one: str, other: str) -> bool:
    """A server's path loses its last slash."""
    return one.rstrip("/") == other.rstrip("/")


def folders_of(
    host: Reader, target: Target, wanted: Sequence[Leftover], known: dict[str, str]
) -> None:
    """Refuse a folder of a tool's own that is a link, or not the one that ``known`` has since we
    made it; and a link, a node or a file of several names where the load makes its files.  Raises
    TargetRefused."""
    for left in (each for each in wanted if each.kind == "folder"):
        for path in (left.path, inside(left.path)):
            found = reading.itself(host, path)
            was = known.get(path, "") if left.each == "study" else ""
            same = not was or _is_it(host, target, found, was)
            if found is None or not found.is_folder or not same:
                raise _another(host, target, path, was)
            known[path] = found.inode_of
    _need_plain(host, target, wanted)


def _need_plain(host: Reader, target: Target, wanted: Sequence[Leftover]) -> None:
    """What lies where a load makes its files is a file of one name, or a folder."""
    places = [inside(each.path) if each.kind == "folder" else each.path for each in wanted]
    if not places:
        return
    odd = ("(", "!", "-type", "f", "!", "-type", "d", "-o", "-type", "f", "-links", "+1", ")")
    found = host.run(["find", "-P", *places, *odd, "-print", "-quit"]).text.rstrip("\n")
    if found:
        raise _another(host, target, found, "")


def _another(host: Reader, target: Target, path: str, was: str) -> TargetRefused:
    found = reading.itself(host, path)
    now = f"a {found.kind}, inode {found.inode_of}" if found else "nothing"
    if found and found.kind == "symbolic link":
        now = f"a link to {host.run(['readlink', path]).text.strip()}"
    return TargetRefused(
        f"{path} was replaced",
        target=target.name,
        evidence=(f"it was: {f'inode {was}' if was else 'nothing'}", f"it is:  {now}"),
        advice="No load was started. Find the process that replaced it, then run again.",
    )


_FORMAT = "%u|%a|%G|%n"
_FIELDS = 4
_GROUP, _WORLD, _STICKY = 0o020, 0o002, 0o1000


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """Who may write a folder: its owner's number, its permission bits, the name of its group;
    ``private``: nobody but root and ourselves is in that."""

    path: str
    owner: int
    mode: int
    group: str
    private: bool = False

    @property
    def open(self) -> bool:
        """May others write it?"""
        return bool(self.mode & _WORLD or (self.mode & _GROUP and not self.private))

    @property
    def sticky(self) -> bool:
        return bool(self.mode & _STICKY)


def need_closed(host: Reader, target: Target, folder: str) -> None:
    """Refuse a real ``folder`` in which others could plant something, or that they could replace.

    Raises TargetRefused.
    """
    *above, last = _folders(host, folder)
    _refuse(target, folder, meddling([*above, last], _ours(host)))


def need_kept(host: Reader, target: Target, folder: str) -> None:
    """The same for a folder in which only a thing of ours is used, which nobody else may touch:
    it may be sticky.  Raises TargetRefused."""
    _refuse(target, folder, meddling(_folders(host, folder), _ours(host), bottom=True))


def meddling(chain: Sequence[FolderOwner], ours: frozenset[int], *, bottom: bool = False) -> str:
    """Why others can change what the last folder of ``chain`` holds, which begins with ``/``;
    '' when they cannot.  With ``bottom`` what it holds is ours, and the sticky bit will do."""
    for number, folder in enumerate(chain, start=1):
        if folder.owner not in ours:
            return f"{folder.path} belongs to user {folder.owner}"
        shielded = folder.sticky and (bottom or number < len(chain))
        if folder.open and not shielded:
            who = "everybody" if folder.mode & _WORLD else f"the group {folder.group}"
            return f"{folder.path} is writable by {who} (mode {folder.mode:04o})"
    return ""


def _refuse(target: Target, folder: str, why: str) -> None:
    if not why:
        return
    raise TargetRefused(
        f"other users could replace {target.path or folder}",
        target=target.name,
        evidence=(why,),
        advice="A load would follow a link that they create. Restrict the folder (chmod go-w,"
        f" chown), or create a private one: mkdir -m 0700 {folder.rstrip('/')}/mine",
    )


def _ours(host: Reader) -> frozenset[int]:
    if not host.unprivileged:
        return frozenset({0})
    said = host.run(["id", "-u"]).text.strip()
    return frozenset({0, int(said)} if said.isdigit() else {0})


def _folders(host: Reader, folder: str) -> list[FolderOwner]:
    """The folder and all above it, from the root down, in one round trip."""
    path = PurePosixPath(folder)
    chain = [str(each) for each in (*reversed(path.parents), path)]
    done = host.run(["stat", "-c", _FORMAT, *chain])
    found = [_folder(host, line) for line in done.text.splitlines()]
    if done.exit != 0 or len(found) != len(chain):
        raise TargetRefused(f"{folder} cannot be read: {done.complaint}")
    return found


def _folder(host: Reader, line: str) -> FolderOwner:
    owner, mode, group, path = line.split("|", _FIELDS - 1)
    bits = int(mode, 8)
    shared = bits & _GROUP and not bits & _WORLD
    return FolderOwner(path, int(owner), bits, group, bool(shared and _private(host, path, group)))


def _private(host: Reader, path: str, group: str) -> bool:
    """Whether a group is root's own or ours, with nobody else in it, and there is no access list
    that lets more users in."""
    ours = {"root", host.run(["id", "-un"]).text.strip()}
    said = host.run(["getent", "group", group])
    members = said.text.strip().rpartition(":")[2].split(",")
    listed = host.run(["ls", "-ld", "--", path])
    plain = listed.exit == 0 and not listed.text.split(" ", 1)[0].endswith("+")
    return group in ours and said.exit == 0 and plain and _within(members, ours)


def _within(members: Iterable[str], ours: set[str]) -> bool:
    return {member for member in members if member} <= ours
