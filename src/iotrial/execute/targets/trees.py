"""Trees: folders that iotrial makes in somebody else's directory, for a load to work in.

A tree holds a *mark*, a file with this session's token, and beside it the folder ``data``, which
the load may fill.  It is removed with all that is in ``data``, but only where all of this is so:

- its path is absolute, without ``.`` and ``..``, and lies below the directory of the target;
- no part of the path is a link, and nothing is mounted on it or in it;
- the mark is there and has the token.  Without it the folder must be empty: a death just after it
  was made, or somebody else's.

The mark goes last but for the folder, so that a removal that was cut short can be done again.
Where nothing is, nothing is owed; but the file system on which it lay must be mounted, or else
nobody can say so: what iotrial had mounted itself is mounted once more to look
(:mod:`iotrial.execute.settings.grounds`).  Its twin for the guard is in ``debris.sh``.

Sources: rm(1) of coreutils (a link is removed, never followed; ``--one-file-system``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

from iotrial.errors import FileRefused, OwedError, TrialError
from iotrial.execute.settings.grounds import ground_of, grounded
from iotrial.hosts.steps import beside
from iotrial.look import reading
from iotrial.look.mounts import parse_mountinfo, under
from iotrial.model.host import Host
from iotrial.model.target import MountSpec
from iotrial.model.tool import inside

MARK = "made-by-iotrial"
"""The file in a tree that holds the token."""
REMOVE_WITHIN = 3600.0
"""Seconds that removing may take; ten million entries, on a slow server."""


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A tree before it is made: its ``tree`` path, the directory it lies ``below``, the mount
    point that this is ``on``, and the token that is its ``mark``; the rest says more of that
    ground (:mod:`iotrial.execute.settings.grounds`)."""

    tree: str
    below: str
    on: str
    mark: str
    inode: str = ""
    source: str = ""
    type: str = ""
    options: str = ""

    @classmethod
    def from_dict(cls, plan: Mapping[str, Any]) -> TreePlan:
        """A plan read back from a journal; what is missing is empty, and nothing is removed."""
        return cls(*(str(plan.get(each.name, "")) for each in dataclass_fields(cls)))

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}


def plan_tree(host: Host, path: str, token: str, mounting: MountSpec | None = None) -> TreePlan:
    """The plan of a tree at ``path``, on what iotrial mounted so (None: on what was there).

    Raises TrialError where its directory is not there."""
    folder, _, name = path.rpartition("/")
    ground = ground_of(host, folder, mounting)
    tree = f"{ground['below'].rstrip('/')}/{name}"
    return TreePlan.from_dict({**ground, "tree": tree, "mark": token})


def make_tree(host: Host, plan: TreePlan) -> None:
    """Make the folder, its mark, and ``data``, which is as accessible as the directory it lies in.

    Raises TrialError; what was made by then is owed."""
    _must(host, "mkdir", plan.tree)
    _must(host, "chmod", "755", plan.tree)  # whatever our umask is: a load may have another user
    try:
        host.save(f"{plan.tree}/{MARK}", plan.mark.encode())
    except FileRefused as refused:
        raise TrialError(refused.message) from refused
    data = inside(plan.tree)
    _must(host, "mkdir", data)
    for program in ("chown", "chmod"):
        # A server may refuse it to root; then it is the load that says what it cannot do.
        host.run([program, f"--reference={plan.below}", data])


def unmake_tree(host: Host, plan: TreePlan) -> list[str]:
    """Remove it, if it is there; says what was done.  Raises OwedError when it stays."""
    tree = plan.tree
    if why := _unsound(plan):
        raise OwedError(f"{tree or 'a tree'}: {why}", advice="Check the journal.")
    with grounded(host, plan.as_dict(), tree) as there:
        return _unmade(host, plan) if there and _kind(host, tree) else []


def _unmade(host: Host, plan: TreePlan) -> list[str]:
    tree = plan.tree
    if why := _strange(host, tree):
        raise OwedError(f"{tree} {why}", advice="Check what it is, then: iotrial restore")
    mark = f"{tree}/{MARK}"
    if _kind(host, mark) == "regular file" and host.read(mark) == plan.mark.encode():
        _remove(host, "rm", "-rf", "--one-file-system", inside(tree))
        host.remove(mark)
    else:
        host.remove(beside(mark))  # what a death in the middle of making it leaves
    _remove(host, "rmdir", tree)
    return [f"removed {tree}"]


def _unsound(plan: TreePlan) -> str:
    parts = plan.tree.split("/")[1:]
    if not plan.tree.startswith("/") or {"", ".", ".."}.intersection(parts):
        return "no plain absolute path"
    if not plan.below.startswith("/") or not under(plan.tree, plan.below):
        return f"not below {plan.below or 'anything'}"
    if plan.tree == plan.below or not plan.mark or not plan.on:
        return "its kind is unknown"
    return ""


def _kind(host: Host, path: str) -> str:
    """As stat(1) calls it, links not followed; '' when nothing is there.  Raises OwedError where
    that cannot be told."""
    done = host.run(["stat", "-c", "%F", path])
    if done.exit == 0:
        return done.text.strip()
    if done.complaint.endswith(("No such file or directory", "Not a directory")):
        return ""
    raise OwedError(done.complaint, advice="Repair its file system, then: iotrial restore")


def _strange(host: Host, tree: str) -> str:
    """Why this is not the folder that was made, or may not be emptied."""
    if _kind(host, tree) != "directory" or reading.resolve(host, tree) != tree:
        return "is no longer a folder, or its path contains a link"
    for mount in parse_mountinfo(_mountinfo(host)):
        if under(mount.point, tree):
            return f"contains a mount point: {mount.describe()}"
    return ""


def _mountinfo(host: Host) -> str:
    return host.read("/proc/self/mountinfo").decode("utf-8", "surrogateescape")


def _must(host: Host, *argv: str) -> None:
    done = host.run(argv)
    if done.exit != 0:
        raise TrialError(
            f"could not create a folder for the load: {done.complaint}",
            advice="Check that the directory of the target exists and is writable.",
        )


def _remove(host: Host, *argv: str) -> None:
    done = host.run(argv, timeout=REMOVE_WITHIN)
    if done.exit != 0:
        advice = "Check its content; files of iotrial carry its mark. Then: iotrial restore"
        raise OwedError(f"`{' '.join(argv)}`: {done.complaint}", advice=advice)
