"""Opened: what the processes of a load hold open for writing, while it goes on.

Options say what a load will open; the kernel says what it did.  Soon after the start and at every
tick the links in /proc/PID/fd of all processes that carry the run's token are read, in one round
trip; the bits of a link say whether the file is open for writing (proc_pid_fd(5)).  A load may
write its target, the folders of its own, and what holds no data that lasts: pipes, sockets,
terminals, memory.  A file that a load has made since the first one of the run was started, such as
a log, is its own.  Any other block device or file is somebody's: the load is ended at once and the
run refused.

This sees what is held open at that moment, not what was opened and closed in between; what must not
happen at all is refused before the load, and sealed (:mod:`iotrial.execute.load.sealed`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from iotrial.errors import TargetRefused
from iotrial.execute.load.load import TOKEN
from iotrial.look.mounts import under
from iotrial.model.host import Host
from iotrial.model.tool import inside

if TYPE_CHECKING:
    from iotrial.execute.load.part import TrialPart

SHARE = 100
"""A look may take one in so many seconds: where there are very many files it is done less often."""

LOOK = """\
set -- $(grep -lsxzF -e "$1" /proc/[0-9]*/environ)
all=
for each; do
    each=${each%/environ}
    [ "$each" = "/proc/$$" ] || all="$all $each/fd/*"
done
[ -n "$all" ] || exit 0
export QUOTING_STYLE=literal
stat --printf '%a|%N\\0' $all 2>/dev/null
printf '|\\0'
stat -L --printf '%n|%F|%t:%T|%d:%i|%h|%W\\0' $all 2>/dev/null
exit 0
"""
"""Argument: the mark of the load in the environment.  What it says is split at NULs, since paths
may hold anything else."""
KNOW = 'date +%s && command -v grep >/dev/null && exec stat -L -c "%n|%t:%T|%d:%i" -- "$@"'
"""Arguments: the targets' paths.  Says the time, and who they are."""

_STAT_FIELDS = 6
_WRITING = 0o200
_PASSING = ("/proc/", "/sys/", "/run/", "/dev/shm/")  # noqa: S108 (holds nothing that lasts)
# SCSI and NVMe commands, raw devices and memory write as well as a block device does.
_RAW = re.compile(r"/dev/(sg[0-9]|bsg/|ng[0-9]|nvme[0-9]+$|raw/|mtd|mem$|kmem$|port$)")
_RAW_MAJORS = ("15:", "a2:")  # sg, raw; hexadecimal, as stat(1) says them


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that a process holds open for writing.  ``devno`` is that of a device node, in
    hexadecimal as stat(1) says it, ``inode`` file system and inode; ``links`` is how many names it
    has, ``born`` when it was made, in seconds since the epoch (0: nobody knows)."""

    pid: int
    path: str
    kind: str
    devno: str
    inode: str
    links: int
    born: int

    @property
    def what(self) -> str:
        major, _, minor = self.devno.partition(":")
        block = self.kind.startswith("block")
        return f"block device {int(major, 16)}:{int(minor, 16)}" if block else self.kind


@dataclass(frozen=True, slots=True)
class AllowedWrites:
    """What a load may write: devices by number, files by inode and path, folders with all that is
    in them; and what was made ``since`` the first load."""

    since: int
    devnos: frozenset[str] = frozenset()
    inodes: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()


def held(said: str) -> list[OpenFile]:
    """What :data:`LOOK` found, of what is open for writing.  What was closed between the two looks
    is left out."""
    links, _, files = said.partition("\0|\0")
    goals = {}
    for entry in links.split("\0"):
        mode, _, rest = entry.partition("|")
        name, arrow, goal = rest.partition(" -> ")
        if arrow and int(mode, 8) & _WRITING:
            goals[name] = goal
    found = []
    for entry in files.split("\0"):
        fields = entry.split("|")
        if len(fields) == _STAT_FIELDS and fields[0] in goals:
            name, kind, devno, inode, names, born = fields
            pid, goal = int(name.split("/")[2]), goals[name]
            when = int(born) if born.isdigit() else 0
            found.append(OpenFile(pid, goal, kind, devno, inode, int(names), when))
    return found


def strange(every: Iterable[OpenFile], allowed: AllowedWrites) -> list[OpenFile]:
    """What of it the load may not write."""
    return [each for each in every if not _is_own(each, allowed)]


def _is_own(file: OpenFile, allowed: AllowedWrites) -> bool:
    if file.kind.startswith("block"):
        return file.devno in allowed.devnos
    if file.kind.startswith("character"):
        return not (_RAW.match(file.path) or file.devno.startswith(_RAW_MAJORS))
    if not file.kind.startswith("regular") or not file.links:
        return True
    if not file.path.startswith("/"):
        # A pipe, a socket, the kernel's own (anon_inode:[landlock-ruleset], which a load's start
        # has): it was closed between the two looks, and a file has got its number.
        return True
    return (
        file.path.startswith(_PASSING)
        or file.inode in allowed.inodes
        or file.path in allowed.paths
        or any(under(file.path, folder) for folder in allowed.folders)
        or file.born >= allowed.since
    )


def watching(host: Host, parts: Sequence[TrialPart], working: str) -> Callable[[], None] | None:
    """What looks at the loads of ``parts`` on one host, which work in the folder ``working``; None
    where the host cannot be asked so.  It raises TargetRefused."""
    session = parts[0].session
    mine = [part for part in parts if _writes(part)]
    paths = [part.aim.path for part in mine]
    done = host.run(["sh", "-c", KNOW, "iotrial-know", *(paths or ["/"])])
    time, *lines = done.text.splitlines() or [""]
    if not time.isdigit():
        return None
    session.began = session.began or int(time)
    told = dict(_told(line) for line in lines if paths)
    on_device = {part.aim.path for part in mine if part.aim.target.under_load == "device"}
    lasting = PurePosixPath(session.journal.path).parent.parent
    allowed = AllowedWrites(
        since=session.began,
        devnos=frozenset(told[path][0] for path in on_device & told.keys()),
        inodes=frozenset(told[path][1] for path in told.keys() - on_device),
        paths=frozenset(paths) | {left.path for part in parts for left in part.leaves},
        folders=(
            f"{lasting}/files" if host.remote else working,
            *(inside(each.path) for part in parts for each in part.leaves if each.kind == "folder"),
            *(part.aim.path for part in mine if part.aim.target.under_load == "directory"),
            *(part.aim.path for part in mine if part.aim.target.kind == "directory"),
        ),
    )
    return _Look(host, f"{TOKEN}={session.journal.token}", allowed, parts[0].aim.target.name)


def _told(line: str) -> tuple[str, tuple[str, str]]:
    path, devno, inode = line.rsplit("|", 2)
    return path, (devno, inode)


def _writes(part: TrialPart) -> bool:
    """May the load write what it is aimed at?  What iotrial made is nobody's loss."""
    session, aim = part.session, part.aim
    ours = {aim.path, aim.device} & session.gone_with or aim.target.name in session.laid
    return bool(ours or aim.target.destroy or part.driver.reach(part.workload).writes)


class _Look:
    def __init__(self, host: Host, mark: str, allowed: AllowedWrites, target: str) -> None:
        self._host = host
        self._mark = mark
        self._allowed = allowed
        self._target = target
        self._due = 0.0

    def __call__(self) -> None:
        began = self._host.clock()
        if began < self._due:
            return
        done = self._host.run(["sh", "-c", LOOK, "iotrial-opened", self._mark])
        self._due = began + SHARE * (self._host.clock() - began)
        found = strange(held(done.stdout.decode("utf-8", "surrogateescape")), self._allowed)
        if not found:
            return
        lines = [
            f"process {each.pid} has {each.path} open for writing: {each.what}" for each in found
        ]
        raise TargetRefused(
            "the load opened a file or device other than its target for writing, and was stopped",
            target=self._target,
            evidence=tuple(dict.fromkeys(lines))[:10],
            advice="Check the content of that file or device. Let the load write to its target,"
            " its working folder, or a file that it creates.",
        )
