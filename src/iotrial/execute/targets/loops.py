"""Loop devices: made by iotrial for a study, owed until they are removed.

The device gets a number above every existing one, so that no device that was there before is
touched, and the number is given back to the kernel afterwards.  Source: loop(4), drivers/block/
loop.c (LOOP_CTL_REMOVE), losetup(8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from iotrial.errors import OwedError, TargetRefused, TrialError
from iotrial.execute.settings.grounds import ground_of, need_mounted
from iotrial.execute.targets.making import fill
from iotrial.hosts.places import state_places
from iotrial.look import reading
from iotrial.look.identity import identify
from iotrial.look.places import laid_size, need_room, settle_folder, standing
from iotrial.look.targets import doubts
from iotrial.model.host import CompletedCommand, Host
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.trial import Doubt

_NAME = re.compile(r"iotrial-[A-Za-z0-9_-]+\.img")
_LOOP = re.compile(r"loop([0-9]+)")
_HIGHEST = 2**15  # far below the 2**20 minors of the driver, also with partitions
_GONE_WITHIN = 10.0  # seconds: the kernel detaches when the last opener has closed
_STEP = 0.05
_DELETED = " (deleted)"
_REMOVE_PERL = (
    'open(F,"+<","/dev/loop-control") or exit($!+0);'
    "defined(ioctl(F,0x4C81,$ARGV[0]+0)) or exit($!+0)"
)
_REMOVE_PYTHON = (
    "import fcntl,sys\n"
    "with open('/dev/loop-control','r+b',buffering=0) as f:\n"
    " fcntl.ioctl(f,0x4C81,int(sys.argv[1]))"
)
_MISSING = 127


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What will be made: journalled before it is.  ``file`` is the backing file (``size`` bytes),
    ``number`` that of the new loop device, ``on`` the mount point that the folder of a study's own
    choice lies on."""

    target: str
    file: str
    size: int
    number: int
    on: str = ""

    @property
    def node(self) -> str:
        return f"/dev/loop{self.number}"

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value != ""}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> LoopPlan:
        """Raises KeyError or ValueError for anything that :meth:`as_dict` did not write."""
        size, number = int(said["size"]), int(said["number"])
        return cls(str(said["target"]), str(said["file"]), size, number, str(said.get("on", "")))


class LoopInUse(TrialError):
    """The number planned was free, and is not any more: plan again."""


def plan_loop(host: Host, target: Target, token: str) -> LoopPlan:
    """Choose file and number; changes nothing.  ``token`` names the session.

    Raises TargetRefused: not root, no loop driver, missing folder, no room, no size.
    """
    if target.size <= 0:
        raise TargetRefused(
            "a loop target needs a size",
            target=target.name,
            advice='Write loop = { size = "1GiB" } in the study.',
        )
    _need_loops(host, target)
    folder = _folder(host, target)
    file = f"{folder}/iotrial-{token}.img"
    if not _NAME.fullmatch(PurePosixPath(file).name):
        raise TargetRefused(
            f"{token!r} does not name a file",
            target=target.name,
            advice="A token has letters, digits, - and _ only.",
        )
    on = ground_of(host, folder)["on"] if target.path else ""
    return LoopPlan(target.name, file, laid_size(target.size), free_number(_blocks(host)), on)


def _need_loops(host: Host, target: Target) -> None:
    if host.run(["id", "-u"]).text.strip() != "0":
        raise TargetRefused(
            "only root can create a loop device",
            target=target.name,
            advice="Run as root, or use a file target.",
        )
    if reading.status(host, "/dev/loop-control") is None:
        raise TargetRefused(
            "the kernel offers no loop devices here",
            target=target.name,
            evidence=("/dev/loop-control does not exist",),
            advice="modprobe loop; in a container use a file target.",
        )
    if host.run(["losetup", "--version"]).exit == _MISSING:
        raise TargetRefused(
            "losetup is not installed here",
            target=target.name,
            advice="On Debian: apt-get install mount; elsewhere it comes with util-linux.",
        )


def _folder(host: Host, target: Target) -> str:
    """The folder for the backing file, with room.  Only iotrial's own may still be missing."""
    if target.path:
        place = settle_folder(host, target, target.path)
        folder = place.path
    else:
        folder = state_places(host).files
        place = standing(host, reading.nearest(host, folder))
    need_room(target, place, laid_size(target.size))
    return folder


def free_number(blocks: Iterable[str]) -> int:
    """A number above every existing loop device; when those run high, the lowest unused one."""
    used = {int(match[1]) for name in blocks if (match := _LOOP.fullmatch(name))}
    above = max(used, default=-1) + 1
    if above < _HIGHEST:
        return above
    return next(number for number in range(_HIGHEST) if number not in used)


def make_loop(
    host: Host, plan: LoopPlan, target: Target
) -> tuple[PreparedTarget, tuple[Doubt, ...]]:
    """Make the backing file, attach it, and say what to hold against it.

    The plan must be in the journal already.  Raises TrialError; what was made until then stays
    owed to :func:`unmake_loop`.
    """
    _must(host.run(["mkdir", "-p", str(PurePosixPath(plan.file).parent)]), "create its folder")
    found = reading.status(host, plan.file)
    if found is None or found.size != plan.size:
        fill(host, plan.file, plan.size)
    _attach(host, plan)
    if attached_to(host, plan.file) != [plan.number]:
        raise TrialError(f"{plan.node} was attached, but not to {plan.file}")
    aim = PreparedTarget(target, plan.node, f"loop{plan.number}", identify(host, plan.node))
    return aim, doubts(host, aim)


def _attach(host: Host, plan: LoopPlan) -> None:
    """Raises LoopTaken when somebody else was faster with the number, or removed the new device
    before it had a file."""
    attached = host.run(["losetup", "--direct-io=on", plan.node, plan.file])
    if attached.exit != 0 and "busy" not in attached.complaint:
        # Not every filesystem under it can do direct I/O; the doubts say so then.
        attached = host.run(["losetup", plan.node, plan.file])
    if attached.exit != 0 and "busy" in attached.complaint:
        raise LoopInUse(f"{plan.node} was taken by another program meanwhile")
    gone = "No such" in attached.complaint  # file (ENOENT) or device (ENXIO)
    if attached.exit != 0 and gone and reading.status(host, plan.file) is not None:
        raise LoopInUse(f"{plan.node} was removed by another program meanwhile")
    _must(attached, f"attach {plan.node}")


def _must(done: CompletedCommand, what: str) -> None:
    if done.exit != 0:
        raise TrialError(
            f"could not {what}: {done.complaint}",
            advice=f"The command was: {' '.join(done.argv)}",
        )


def attached_to(host: Host, file: str) -> list[int]:
    """Numbers of the loop devices whose backing file this is, or was before it was unlinked."""
    found = []
    for name in _blocks(host):
        match = _LOOP.fullmatch(name)
        backing = reading.text(host, f"/sys/block/{name}/loop/backing_file") if match else ""
        if match and backing.removesuffix(_DELETED) == file:
            found.append(int(match[1]))
    return sorted(found)


def unmake_loop(host: Host, plan: LoopPlan) -> list[str]:
    """Undo :func:`make_loop`, whatever of it was done; twice is once.  Says what it did.

    Raises OwedError when something still has the device open.
    """
    if not _NAME.fullmatch(PurePosixPath(plan.file).name):
        raise OwedError(f"{plan.file} is not a file created by iotrial")
    did = []
    for number in attached_to(host, plan.file):
        host.run(["losetup", "-d", f"/dev/loop{number}"])
        _wait_detached(host, plan, number)
        did.append(f"detached /dev/loop{number} from {plan.file}")
    did += _give_back(host, plan)
    if plan.on:
        need_mounted(host, plan.on, plan.file)
    if reading.status(host, plan.file) is not None:
        host.remove(plan.file)
        did.append(f"removed {plan.file}")
    own = state_places(host).files
    if PurePosixPath(plan.file).parent == PurePosixPath(own):
        host.run(["rmdir", own])  # stays while another session's file is in it
    return did


def _wait_detached(host: Host, plan: LoopPlan, number: int) -> None:
    until = host.clock() + _GONE_WITHIN
    while number in attached_to(host, plan.file):
        if host.clock() > until:
            raise OwedError(
                f"/dev/loop{number} is still open, so it cannot be detached",
                owed=(f"/dev/loop{number} with {plan.file}",),
                advice=(
                    f"Find the process with `fuser -v /dev/loop{number}`; stop it, then run"
                    " `iotrial restore`."
                ),
            )
        host.sleep(_STEP)


def _give_back(host: Host, plan: LoopPlan) -> list[str]:
    """Remove the device number, which only the kernel's own control can.  Never a device that
    has a file attached: that number was taken by somebody else since."""
    name = f"loop{plan.number}"
    if name not in _blocks(host) or reading.text(host, f"/sys/block/{name}/loop/backing_file"):
        return []
    done = host.run(["perl", "-e", _REMOVE_PERL, str(plan.number)])
    if done.exit == _MISSING:
        done = host.run(["python3", "-c", _REMOVE_PYTHON, str(plan.number)])
    if done.exit == _MISSING:
        return [f"left the unused node {plan.node} (neither perl nor python3 to remove it)"]
    return [f"removed {plan.node}"] if done.exit == 0 else [f"left the unused node {plan.node}"]


def _blocks(host: Host) -> list[str]:
    return reading.names(host, "/sys/block")
