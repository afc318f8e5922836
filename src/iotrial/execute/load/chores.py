"""Doing one chore: what is executed for it, and what it left.

Each is executed as a load is: watched, ended with the run, found again by a restore when we are
killed.  Everything it was told and said is kept in a folder of its own (``prepare-1`` in the
trial's): command, stdout, stderr, exitcode.

What is written is random, since zeros are compressed or left out by some storage, and comes from
``/dev/urandom`` (0.1 to 0.2 GB/s seen on a busy virtual machine).  Devices are written past the
page cache.  To *precondition* is to write the whole device, as a rule twice, from its beginning to
its end, in large blocks: "workload independent preconditioning" of the SNIA Solid State Storage
Performance Test Specification.  The part of it that depends on the load is left to the load: a
ramp, or its steady state.

Sources: blkdiscard(8), fstrim(8), dd(1), stat(1).

Evidence: what commands of the study print after each load, while its settings still hold.

Kept with the trial as ``evidence-1.txt``, ``evidence-2.txt`` …; what a command said on stderr
beside it.  A command that fails, takes longer than :data:`WITHIN` or prints more than
:data:`MOST` is a doubt: the measurement was over by then.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from iotrial.errors import TrialError
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.load import Watch, execute_load, last_words
from iotrial.execute.settings.debris import file_debt
from iotrial.execute.settings.journal import MadeDebt
from iotrial.look import reading
from iotrial.model.host import Host
from iotrial.model.step import spoken
from iotrial.model.target import Aim, Target
from iotrial.model.tool import Load
from iotrial.model.trial import Doubt
from iotrial.model.workload import Chore
from iotrial.units import format_bytes, format_seconds

MIB = 2**20
COMMAND_WITHIN = 3600.0
"""Seconds that a command of the study may take."""
_TRIM_WITHIN = 3600.0
_SLOWEST = 4 * MIB  # bytes/s: below this a disk is broken rather than slow
_MARGIN = 64 * MIB  # left free, but for a file system of our own

WRITE = """\
path=$1 whole=$2 left=$3
shift 3
while [ "$left" -gt 0 ]; do
    count=$whole
    [ "$left" -gt "$whole" ] || count=$left
    dd if=/dev/urandom "of=$path" oflag=nofollow bs=1M "count=$count" iflag=fullblock "$@" || exit
    left=$((left - count))
done
"""
"""Arguments: a path, its MiB, the MiB to write, more of dd's operands.  From its beginning to its
end, again and again."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What is executed for a chore: nothing where ``load.argv`` is empty.  ``within`` in seconds;
    ``makes`` are files that must be owed before; ``most`` bytes of what it prints are kept."""

    load: Load
    within: float
    makes: tuple[str, ...] = ()
    most: int = 256 * 1024


@dataclass(frozen=True, slots=True)
class Site:
    """Where a chore is done: the target as the study declares it, what it is aimed at, the files
    that fill it (of this session, by ``name``), and how a tool lays out files there."""

    host: Host
    target: Target
    aim: Aim
    name: str
    lay_out: Callable[[], Load | None] = field(default=lambda: None)


def deed(site: Site, chore: Chore) -> Deed:
    """What this chore comes to now.  Raises TrialError where it cannot be done here."""
    match chore.kind:
        case "command":
            return Deed(Load(chore.argv), COMMAND_WITHIN)
        case "trim":
            return Deed(Load(_trimming(site)), _TRIM_WITHIN)
        case "fill":
            return _filling(site, chore.share)
        case "precondition":
            return _writing(site, chore.times)
        case "lay out":
            return _laying_out(site)


def _on_device(site: Site) -> bool:
    return site.target.under_load == "device"


def _folder(site: Site) -> str:
    if site.target.under_load == "directory":
        return site.aim.path
    return str(PurePosixPath(site.aim.path).parent)


def _trimming(site: Site) -> tuple[str, ...]:
    if _on_device(site):
        return ("blkdiscard", site.aim.path)
    return ("fstrim", "--verbose", _folder(site))


def capacity(host: Host, target: Target, path: str) -> int:
    """Bytes of a device (a partition's own), or of a file as the study has it."""
    if target.under_load == "file":
        return target.size
    name = PurePosixPath(path).name
    size = reading.text(host, f"/sys/class/block/{name}/size")
    if not size.isdigit() or size == "0":
        raise TrialError(f"{path} does not say how large it is")
    return int(size) * 512


def _writing(site: Site, times: float) -> Deed:
    whole = capacity(site.host, site.target, site.aim.path) // MIB
    left = round(whole * times)
    # Not every file system can go past its cache; every device can.
    direct = ("oflag=direct",) if _on_device(site) else ()
    how = ("conv=fsync,notrunc,nocreat", *direct)
    words = ("iotrial-write", site.aim.path, str(whole), str(left), *how)
    return Deed(Load(("sh", "-c", WRITE, *words)), 60.0 + left * MIB / _SLOWEST)


def _filling(site: Site, share: float) -> Deed:
    if _on_device(site):
        return _writing(site, share)
    total, used, room = space(site.host, _folder(site))
    wanted = int(total * share) - used
    if wanted < MIB:
        return Deed(Load(()), 0.0)
    if wanted + (0 if site.target.filesystem else _MARGIN) > room:
        raise TrialError(
            f"no room to fill {_folder(site)} to {share:.0%}: {format_bytes(room)} are left"
        )
    path, count = f"{_folder(site)}/{site.name}", str(wanted // MIB)
    words = ("iotrial-write", path, count, count, "conv=fsync")
    return Deed(Load(("sh", "-c", WRITE, *words)), 60.0 + wanted / _SLOWEST, (path,))


def space(host: Host, folder: str) -> tuple[int, int, int]:
    """Of the file system of a folder, in bytes: all, used, and left for ordinary use.  Raises
    TrialError where it does not say."""
    done = host.run(["stat", "-f", "-c", "%b %f %a %S", folder])
    words = done.text.split()
    if done.exit != 0 or len(words) != 4 or not all(map(str.isdigit, words)):  # noqa: PLR2004
        raise TrialError(f"the file system of {folder} does not say how full it is")
    blocks, free, room, size = map(int, words)
    return blocks * size, (blocks - free) * size, room * size


def _laying_out(site: Site) -> Deed:
    if site.target.under_load != "directory":
        return _writing(site, 1.0)
    load = site.lay_out()
    if load is None:
        raise TrialError("the tool lays out no files without a load")
    return Deed(load, COMMAND_WITHIN)


def do(
    host: Host,
    it: Deed,
    folder: Path,
    *,
    token: str,
    interruption: Interruption,
) -> str:
    """Execute a deed and keep in ``folder`` what it said; gives back why it failed, or ''.

    Raises Interrupted, HostUnreachable.
    """
    folder.mkdir(parents=True)
    argv = it.load.argv
    (folder / "command").write_text(shlex.join(argv) + "\n", encoding="utf-8")
    if not argv:
        return ""
    for name, content in it.load.files:
        (folder / name).write_bytes(content)
    watch = Watch(it.within, lambda _elapsed: None, interruption)
    try:
        ended = execute_load(host, argv, folder=folder, token=token, watch=watch)
    except TrialError as error:
        (folder / "stderr").write_text(f"{error}\n", encoding="utf-8")
        return error.message
    (folder / "exitcode").write_text(f"{ended.exit}\n", encoding="utf-8")
    for name in ("stdout", "stderr"):
        shorten(folder / name, it.most)
    if ended.timed_out:
        return f"did not end within {format_seconds(it.within)}: `{spoken(argv)}`"
    return last_words(folder, ended) if ended.exit else ""


def shorten(path: Path, most: int) -> None:
    """Keep the first ``most`` bytes of a file."""
    if path.exists() and path.stat().st_size > most:
        with path.open("r+b") as file:
            file.truncate(most)


def debts(site: Site, it: Deed) -> tuple[MadeDebt, ...]:
    """What must be in the journal before the deed is executed.  What is on a file system of
    iotrial's own goes with that."""
    if site.target.filesystem:
        return ()
    return tuple(file_debt(site.host, path, site.target.mount) for path in it.makes)


WITHIN = 60.0
"""Seconds."""
MOST = 4 * 2**20
"""Bytes."""

LIMITED = """\
most=$1
shift
exec 5>&1
status=$(
    {
        {
            { "$@" 3>&- 4>&- 5>&-; echo "$?" >&4; } 2>&3 | head -c "$most" >&5
        } 3>&1 >/dev/null | head -c "$most" >&2
    } 4>&1
)
exit "$status"
"""
"""Arguments: a number of bytes, a command.  What it prints beyond them is not taken, and the
command ends for it (SIGPIPE)."""


def gather_evidence(
    host: Host,
    commands: Sequence[tuple[str, ...]],
    folder: Path,
    *,
    token: str,
    interruption: Interruption,
) -> tuple[Doubt, ...]:
    """Run each command and keep what it prints.  Raises Interrupted, HostUnreachable."""
    doubts = []
    for number, argv in enumerate(commands, 1):
        there = folder / f"evidence-{number}"
        words = ("sh", "-c", LIMITED, "iotrial-limited", str(MOST + 1), *argv)
        deed = Deed(Load(words), WITHIN, most=MOST + 1)
        problem = do(host, deed, there, token=token, interruption=interruption)
        said = there / "stdout"
        if said.exists() and said.stat().st_size > MOST:
            shorten(said, MOST)
            problem = f"prints more than {format_bytes(MOST)}; the rest is not kept"
        _keep(there, folder / f"evidence-{number}.txt")
        if problem:
            what = f"evidence `{' '.join(argv)}`: {problem}"
            doubts.append(Doubt("evidence", what, "The measurement was over; mend the command."))
    return tuple(doubts)


def _keep(there: Path, path: Path) -> None:
    """What it printed, and what it complained of, beside each other; the rest goes."""
    if (there / "stdout").exists():
        (there / "stdout").rename(path)
    complaint = there / "stderr"
    if complaint.exists() and complaint.stat().st_size:
        complaint.rename(path.with_suffix(".stderr"))
    shutil.rmtree(there)
