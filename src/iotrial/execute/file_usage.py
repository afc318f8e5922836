"""File usage: evidence that a file belongs to somebody who would miss what is in it.

A file may be a disk: of a loop device with a mounted file system, of a virtual machine, of a swap
space, of a client over the network.  Whoever writes to it then writes below them.  All of that is
compared by file system and inode, so that neither another name of the file (a hard link, a bind
mount, a link, another root) nor one that is gone hides it.  A file on an overlay has two: its own,
and that of the upper layer, where it is really kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from iotrial.execute import look
from iotrial.execute.backing import attached
from iotrial.execute.holders import openers, servers
from iotrial.execute.mounts import Mount, mount_of, parse_swaps
from iotrial.execute.usage import all_mounts, own_mounts, used
from iotrial.model.host import Host


def file_usages(host: Host, path: str) -> tuple[str, ...]:
    """Everything that speaks against writing to an existing file, one sentence each; none: free.

    ``path`` is real.  Raises FileRefused when the tables of mounts or swaps cannot be read.
    """
    mounts = [mount for _, mount in all_mounts(host)]
    inodes = _inodes(host, path, mounts)
    return (
        *_named_twice(host, path),
        *_in_tables(host, path, mounts),
        *(line for inode in inodes for line in servers(host, inode=inode)),
        *(line for inode in inodes for line in openers(host, inode=inode)),
    )


def file_busy(host: Host, path: str) -> tuple[str, ...]:
    """The cheap part of :func:`file_usages`, for use before every trial: what the kernel's own
    tables say, in this namespace only."""
    return _in_tables(host, path, [mount for _, mount in own_mounts(host)])


def _in_tables(host: Host, path: str, mounts: Sequence[Mount]) -> tuple[str, ...]:
    inodes = _inodes(host, path, mounts)
    return (
        *_looped(host, inodes, mounts),
        *_swapped(host, inodes),
        *_bound(host, path, inodes, mounts),
    )


def _inodes(host: Host, path: str, mounts: Sequence[Mount]) -> tuple[str, ...]:
    """The file by file system and inode; on an overlay also in its upper layer."""
    found = look.status(host, path)
    below = _upper(path, mounts)
    kept = look.status(host, below) if below else None
    return tuple(dict.fromkeys(each.inode_of for each in (found, kept) if each))


def _upper(path: str, mounts: Sequence[Mount]) -> str:
    """Where a file on an overlay is really kept; '' for any other."""
    mount = mount_of(path, mounts)
    if mount is None or mount.fstype != "overlay":
        return ""
    told = (option.partition("=") for option in mount.options)
    upper = next((value for name, _, value in told if name == "upperdir"), "")
    inside = str(PurePosixPath(path).relative_to(mount.point))
    return f"{upper}{mount.root.rstrip('/')}/{inside}" if upper else ""


def _named_twice(host: Host, path: str) -> tuple[str, ...]:
    said = host.run(["stat", "-c", "%h", path]).text.strip()
    if said.isdigit() and int(said) > 1:
        return (f"it has {said} names (hard links), and its content is theirs as well",)
    return ()


def _looped(host: Host, inodes: Sequence[str], mounts: Sequence[Mount]) -> tuple[str, ...]:
    found = []
    for loop in attached(host):
        behind = (
            {loop.inode}
            if _upper(loop.path, mounts) == ""
            else {loop.inode, *_inodes(host, loop.path, mounts)}
        )
        if behind.intersection(inodes):
            devno = look.text(host, f"/sys/block/{loop.name}/dev")
            found += [f"{loop.name} is attached to it", *(used(host, devno) if devno else ())]
    return tuple(dict.fromkeys(found))


def _swapped(host: Host, inodes: Sequence[str]) -> tuple[str, ...]:
    table = host.read("/proc/swaps").decode("utf-8", "surrogateescape")
    files = [swap.path for swap in parse_swaps(table) if swap.kind == "file"]
    told = {path: look.status(host, path) for path in files}
    return tuple(
        f"it is swap space ({path})"
        for path, found in told.items()
        if found and found.inode_of in inodes
    )


def _bound(
    host: Host, path: str, inodes: Sequence[str], mounts: Sequence[Mount]
) -> tuple[str, ...]:
    """Mounts of the file itself, under another name."""
    own = mount_of(path, mounts)
    points = [
        mount.point
        for mount in mounts
        if mount.root != "/" and own and mount.devno == own.devno and mount.point != own.point
    ]
    told = {point: look.status(host, point) for point in dict.fromkeys(points)}
    return tuple(
        f"it is mounted on {point}"
        for point, found in told.items()
        if found and found.is_file and found.inode_of in inodes and point != path
    )
