"""What iotrial made on a host, and how each kind of it is removed again.

Every kind exists twice, here and in ``debris.sh``.  A ``made`` line is written before the thing is
made, so it may never have been; and twice is once.

=========  ==============================  ======================================================
kind       its plan                        undone by
=========  ==============================  ======================================================
file       file, below, on, inode, …       removing it, where it was made (``grounds``)
loop       file, number, on                detaching it, removing number and file (``loops``)
folder     folder                          rmdir(1): it must be empty
tree       tree, mark, below, on, …        removing it and what is in it, if it is ours (``trees``)
mount      point, source                   umount(8), while that source is what is mounted there
command    name, 0, 1, 2, …                the command of the numbered words; it must succeed
process    pidfile, word                   ending the process, if its command line has the word
by-hand    name, was, 0, 1, 2, …           a person; the command says whether it is done
=========  ==============================  ======================================================

What a person changed, as a debt: seen by the study's own command, paid by the person alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iotrial.errors import FileRefused, OwedError
from iotrial.execute.settings.grounds import ground_of, grounded
from iotrial.execute.settings.journal import ResourceUndo
from iotrial.execute.targets.loops import LoopPlan, unmake_loop
from iotrial.execute.targets.trees import TreePlan, unmake_tree
from iotrial.look import reading
from iotrial.look.mounts import MountEntry, parse_mountinfo
from iotrial.model.host import CompletedCommand, Host
from iotrial.model.step import spoken
from iotrial.model.target import MountSpec

KIND = "by-hand"
"""What such a debt is called in the journal: its plan holds ``name``, ``was`` (what the command
said at the start) and the words of the command by their number."""


def verified(host: Host, argv: tuple[str, ...]) -> str:
    """What a verifying command prints, blanks normalised; its complaint where it fails."""
    done = host.run(argv)
    return " ".join(done.text.split()) if done.exit == 0 else f"({done.complaint})"


def still_owed(host: Host, debt: ResourceUndo) -> str:
    """Why what a person changed is still owed; '' when it stands as it was."""
    said = verified(host, debt.argv)
    was = str(debt.plan["was"])
    return "" if said == was else f"it is {said!r} now; only an operator can set {was!r} again"


GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_STEP = 0.1
_BUSY_TRIES = 20
"""How often a busy thing is tried: what was just ended may need a moment to let go."""


def unmake(host: Host, debt: ResourceUndo) -> list[str]:
    """Remove what one ``made`` line names, if it is still there; says what was done.

    Raises OwedError when it stays.
    """
    undo = _KINDS.get(debt.what)
    if undo is None:
        raise OwedError(
            "unknown kind of entry in this version",
            advice="Restore with the version of iotrial that created it.",
        )
    try:
        return undo(host, debt)
    except (KeyError, ValueError) as error:
        raise OwedError(
            f"the journal does not name it: {error}", advice="Search for it manually."
        ) from error


def file_debt(host: Host, path: str, mounting: MountSpec | None = None) -> ResourceUndo:
    """What a file is owed that will be made in somebody's directory, on what iotrial mounted so
    (None: on what was there).  Raises TrialError where the directory is not there."""
    folder, _, name = path.rpartition("/")
    ground = ground_of(host, folder, mounting)
    return ResourceUndo("file", {"file": f"{ground['below'].rstrip('/')}/{name}", **ground})


def _file(host: Host, debt: ResourceUndo) -> list[str]:
    """One in a folder of iotrial's own has no ground to say."""
    path = str(debt.plan["file"])
    if not debt.plan.get("on"):
        return _removed(host, path)
    with grounded(host, debt.plan, path) as there:
        return _removed(host, path) if there else []


def _removed(host: Host, path: str) -> list[str]:
    there = host.run(["stat", "-c", "%F", path]).exit == 0
    host.remove(path)
    return [f"removed {path}"] if there else []


def _loop(host: Host, debt: ResourceUndo) -> list[str]:
    return unmake_loop(host, LoopPlan.from_dict(debt.plan))


def _tree(host: Host, debt: ResourceUndo) -> list[str]:
    return unmake_tree(host, TreePlan.from_dict(debt.plan))


def _by_hand(host: Host, debt: ResourceUndo) -> list[str]:
    if why := still_owed(host, debt):
        raise OwedError(why, advice="Set it back manually, then: iotrial restore")
    return []


def _folder(host: Host, debt: ResourceUndo) -> list[str]:
    folder = str(debt.plan["folder"])

    def there() -> bool:
        return host.run(["stat", "-c", "%F", folder]).exit == 0

    return [f"removed {folder}"] if _until_gone(host, there, "rmdir", folder) else []


def _mount(host: Host, debt: ResourceUndo) -> list[str]:
    point, source = str(debt.plan["point"]), str(debt.plan["source"])

    def there() -> bool:
        return source in _sources(host, point)

    if there() and _sources(host, point)[-1] != source:
        raise OwedError(
            f"{_sources(host, point)[-1]} is mounted over it on {point}",
            advice="Unmount that, then: iotrial restore",
        )
    return [f"unmounted {source} from {point}"] if _until_gone(host, there, "umount", point) else []


def _sources(host: Host, point: str) -> list[str]:
    """What is mounted on exactly this point, the topmost last."""
    text = host.read("/proc/self/mountinfo").decode("utf-8", "surrogateescape")
    left = [mount for mount in parse_mountinfo(text) if mount.point == point]
    pile: list[MountEntry] = []
    while left:
        lower = {mount.ident for mount in left}
        pile += (layer := [m for m in left if m.parent not in lower or m.parent == m.ident] or left)
        left = [mount for mount in left if mount not in layer]
    return [mount.source for mount in pile]


def _until_gone(host: Host, there: Callable[[], bool], *argv: str) -> bool:
    """Run ``argv`` until it is not there; whether it ever was.  Raises OwedError."""
    done: CompletedCommand | None = None
    for _ in range(_BUSY_TRIES):
        if not there():
            return done is not None
        if done is not None and done.exit != 0:
            host.sleep(_STEP)
        done = host.run(argv)
    if there():
        raise OwedError(f"`{' '.join(argv)}`: {done.complaint if done else 'still there'}")
    return True


def _command(host: Host, debt: ResourceUndo) -> list[str]:
    argv = debt.argv
    done = host.run(argv)
    if done.exit != 0:
        raise OwedError(f"`{spoken(argv)}`: {done.complaint}")
    return [f"ran `{spoken(argv)}`"]


def _process(host: Host, debt: ResourceUndo) -> list[str]:
    file, word = str(debt.plan["pidfile"]), str(debt.plan["word"])
    if not word:
        raise OwedError(f"{file}: no process id")
    pid = reading.text(host, file)

    def there() -> bool:
        line = reading.content(host, f"/proc/{pid}/cmdline").replace(b"\0", b" ")
        return word.encode("utf-8", "surrogateescape") in line

    was = pid.isdigit() and there()
    if was:
        _end(host, pid, there)
    try:
        host.remove(file)
    except FileRefused as refused:
        raise OwedError(refused.message) from refused
    return [f"ended process {pid} ({word})"] if was else []


def _end(host: Host, pid: str, there: Callable[[], bool]) -> None:
    for signal in ("-TERM", "-KILL"):
        host.run(["kill", signal, pid])
        until = host.clock() + GRACE
        while there() and host.clock() < until:
            host.sleep(_STEP)
        if not there():
            return
    raise OwedError(
        f"process {pid} does not terminate", advice="It waits for I/O that does not complete."
    )


_KINDS: Mapping[str, Callable[[Host, ResourceUndo], list[str]]] = {
    "file": _file,
    "loop": _loop,
    "folder": _folder,
    "tree": _tree,
    "mount": _mount,
    "command": _command,
    "process": _process,
    KIND: _by_hand,
}
KINDS = tuple(_KINDS)
