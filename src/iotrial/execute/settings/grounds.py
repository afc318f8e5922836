"""Grounds: on which file system something was made, so that nothing else is removed in its place.

A path names another file once its file system is unmounted, or once a folder on the way has become
a link.  So a debt for what is made in somebody's directory says of the folder ``below`` it, which
has no link on its way, on which mount point that is (``on``) and its ``inode``; and, where iotrial
itself mounted that, how (``source``, ``type``, ``options``).  Its twin for the guard is
``grounded`` in ``debris.sh``; but only a restore mounts again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from iotrial.errors import OwedError, TrialError
from iotrial.look import reading
from iotrial.look.mounts import mount_of, parse_mountinfo
from iotrial.model.host import Host
from iotrial.model.target import MountSpec

_MOUNT_WITHIN = 300.0


def ground_of(host: Host, folder: str, mounting: MountSpec | None = None) -> dict[str, str]:
    """What a plan must say of the folder that something is to be made in.  ``mounting``: how
    iotrial mounted what it lies on.  Raises TrialError where it is not there."""
    real = reading.resolve(host, folder or "/")
    on = _on(host, real) if real else ""
    if not on:
        raise TrialError(f"{folder} no longer exists")
    found = {"below": real, "on": on, "inode": _inode(host, real)}
    if mounting:
        how = {"source": mounting.source, "type": mounting.type, "options": mounting.options}
        found |= {name: value for name, value in how.items() if value}
    return found


@contextmanager
def grounded(host: Host, plan: Mapping[str, Any], what: str) -> Iterator[bool]:
    """Within it the folder that ``plan`` names is the one that it was; gives False where it is not
    there any more, and all that was in it is gone.

    A file system that iotrial had mounted and that is not mounted now (a restore that died had
    come so far, or the machine was booted since) is mounted for as long.  Raises OwedError.
    """
    below, on = str(plan.get("below", "")), str(plan.get("on", ""))
    mounted = on in _points(host)
    if not mounted and plan.get("source"):
        _mount(host, plan, what)
    elif not mounted:
        need_mounted(host, on, what)
    try:
        yield _stands(host, plan, what) if below else True
    finally:
        if not mounted and plan.get("source"):
            # Its own debt would not know it by the name that the device has since a reboot.
            host.run(["umount", on])


def need_mounted(host: Host, on: str, what: str) -> None:
    """Raise OwedError where nothing is mounted on ``on``, so that nobody can say whether ``what``
    is still there."""
    if on not in _points(host):
        raise OwedError(
            f"{on}, the mount point of {what}, is not mounted",
            advice=f"Mount {on} again, then: iotrial restore",
        )


def _stands(host: Host, plan: Mapping[str, Any], what: str) -> bool:
    below, on = str(plan["below"]), str(plan["on"])
    done = host.run(["stat", "-c", "%i", below])
    if done.exit != 0 and done.complaint.endswith(("No such file or directory", "Not a directory")):
        return False
    if done.exit != 0:
        raise OwedError(done.complaint, advice="Repair its file system, then: iotrial restore")
    real, now = reading.resolve(host, below), _on(host, below)
    if real != below:
        why = f"the path of {below} now contains a link"
    elif now != on:
        why = f"{below} was on the file system at {on}, and is now on {now or 'nothing'}"
    elif plan.get("inode") and done.text.strip() != plan["inode"]:
        why = f"{below} is now another folder"
    else:
        return True
    raise OwedError(f"{why}, so {what} is not touched", advice="Check what it is.")


def _mount(host: Host, plan: Mapping[str, Any], what: str) -> None:
    options = ["-o", str(plan["options"])] if plan.get("options") else []
    argv = ["mount", "-t", str(plan.get("type", "auto")), *options, str(plan["source"])]
    host.run(["mkdir", "-p", str(plan["on"])])
    done = host.run([*argv, str(plan["on"])], timeout=_MOUNT_WITHIN)
    if done.exit != 0:
        raise OwedError(
            f"{plan['source']} cannot be mounted on {plan['on']}, where {what} was:"
            f" {done.complaint}",
            advice="Once it can be mounted: iotrial restore",
        )


def _inode(host: Host, folder: str) -> str:
    return host.run(["stat", "-c", "%i", folder]).text.strip()


def _on(host: Host, real: str) -> str:
    mount = mount_of(real, parse_mountinfo(_mountinfo(host)))
    return mount.point if mount else ""


def _points(host: Host) -> set[str]:
    return {mount.point for mount in parse_mountinfo(_mountinfo(host))}


def _mountinfo(host: Host) -> str:
    return host.read("/proc/self/mountinfo").decode("utf-8", "surrogateescape")
