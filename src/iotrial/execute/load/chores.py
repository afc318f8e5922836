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

Upkeep: which chores are due before and after a trial, and that none is forgotten.

Chores of the study and of a block are done with the settings that the machine had at the start,
before the first trial that needs them; chores of a trial under that trial's settings, which they
must leave as they are: what a treatment set is read again after each.  Both are kept in that
trial's folder.  After the last trial of a block, and of the run, come their clean-ups.

A clean-up that is a *command* is owed: before anything is prepared, a file beside the journal says
that it is due, and the journal says what to run as long as that file is there.  So it runs after a
failed load, after an interrupted one, and after our death (by the guard, or ``iotrial restore``);
and not once more after it was done.  A command that fails stays owed, and is tried again at the
end.  Whatever else is cleaned up (a trim) owes nobody anything, and is not done after a death.

What a load leaves in its target: owed before there is a load, removed after it.

A tool says what that is (:class:`iotrial.model.tool.Leftover`).  What was there before us is never
owed, hence never removed: a file that a load only writes into is used and stays; a name that the
load would take for itself is refused.

What lies on a file system that iotrial made is not owed by itself: it goes with that.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from iotrial.errors import OwedError, TrialError
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.load import LoadWatch, execute_load, last_words
from iotrial.execute.session import HostSession
from iotrial.execute.settings.debris import file_debt, unmake
from iotrial.execute.settings.journal import SUFFIX, ResourceUndo, numbered
from iotrial.execute.targets.trees import TreePlan, make_tree, plan_tree
from iotrial.files import write_bytes, write_text
from iotrial.hosts.steps import beside
from iotrial.look import reading
from iotrial.model.host import Host
from iotrial.model.step import spoken
from iotrial.model.study import Options
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tool import (
    Leftover,
    Load,
    SupportsLayout,
    SupportsLeftovers,
    Tool,
    ToolTarget,
    aimed_at,
)
from iotrial.model.trial import Doubt, Trial
from iotrial.model.workload import Chore, Each, Workload
from iotrial.plan.design import workload_of
from iotrial.tools import tool
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
class _ChoreCommand:
    """What is executed for a chore: nothing where ``load.argv`` is empty.  ``within`` in seconds;
    ``makes`` are files that must be owed before; ``most`` bytes of what it prints are kept."""

    load: Load
    within: float
    makes: tuple[str, ...] = ()
    most: int = 256 * 1024


@dataclass(frozen=True, slots=True)
class ChoreSite:
    """Where a chore is done: the target as the study declares it, what it is aimed at, the files
    that fill it (of this session, by ``name``), and how a tool lays out files there."""

    host: Host
    target: Target
    aim: PreparedTarget
    name: str
    lay_out: Callable[[], Load | None] = field(default=lambda: None)


def deed(site: ChoreSite, chore: Chore) -> _ChoreCommand:
    """What this chore comes to now.  Raises TrialError where it cannot be done here."""
    match chore.kind:
        case "command":
            return _ChoreCommand(Load(chore.argv), COMMAND_WITHIN)
        case "trim":
            return _ChoreCommand(Load(_trimming(site)), _TRIM_WITHIN)
        case "fill":
            return _filling(site, chore.share)
        case "precondition":
            return _writing(site, chore.times)
        case "lay out":
            return _laying_out(site)


def _on_device(site: ChoreSite) -> bool:
    return site.target.under_load == "device"


def _folder(site: ChoreSite) -> str:
    if site.target.under_load == "directory":
        return site.aim.path
    return str(PurePosixPath(site.aim.path).parent)


def _trimming(site: ChoreSite) -> tuple[str, ...]:
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
        raise TrialError(f"the size of {path} is unknown")
    return int(size) * 512


def _writing(site: ChoreSite, times: float) -> _ChoreCommand:
    whole = capacity(site.host, site.target, site.aim.path) // MIB
    left = round(whole * times)
    # Not every file system can go past its cache; every device can.
    direct = ("oflag=direct",) if _on_device(site) else ()
    how = ("conv=fsync,notrunc,nocreat", *direct)
    words = ("iotrial-write", site.aim.path, str(whole), str(left), *how)
    return _ChoreCommand(Load(("sh", "-c", WRITE, *words)), 60.0 + left * MIB / _SLOWEST)


def _filling(site: ChoreSite, share: float) -> _ChoreCommand:
    if _on_device(site):
        return _writing(site, share)
    total, used, room = space(site.host, _folder(site))
    wanted = int(total * share) - used
    if wanted < MIB:
        return _ChoreCommand(Load(()), 0.0)
    if wanted + (0 if site.target.filesystem else _MARGIN) > room:
        raise TrialError(
            f"not enough space to fill {_folder(site)} to {share:.0%}: {format_bytes(room)} free"
        )
    path, count = f"{_folder(site)}/{site.name}", str(wanted // MIB)
    words = ("iotrial-write", path, count, count, "conv=fsync")
    return _ChoreCommand(Load(("sh", "-c", WRITE, *words)), 60.0 + wanted / _SLOWEST, (path,))


def space(host: Host, folder: str) -> tuple[int, int, int]:
    """Of the file system of a folder, in bytes: all, used, and left for ordinary use.  Raises
    TrialError where it does not say."""
    done = host.run(["stat", "-f", "-c", "%b %f %a %S", folder])
    words = done.text.split()
    if done.exit != 0 or len(words) != 4 or not all(map(str.isdigit, words)):  # noqa: PLR2004
        raise TrialError(f"the used space of the file system of {folder} is unknown")
    blocks, free, room, size = map(int, words)
    return blocks * size, (blocks - free) * size, room * size


def _laying_out(site: ChoreSite) -> _ChoreCommand:
    if site.target.under_load != "directory":
        return _writing(site, 1.0)
    load = site.lay_out()
    if load is None:
        raise TrialError("the tool cannot lay out files without a load")
    return _ChoreCommand(load, COMMAND_WITHIN)


def do(
    host: Host,
    it: _ChoreCommand,
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
    write_text(folder / "command", shlex.join(argv) + "\n")
    if not argv:
        return ""
    for name, content in it.load.files:
        write_bytes(folder / name, content)
    watch = LoadWatch(it.within, lambda _elapsed: None, interruption)
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


def debts(site: ChoreSite, it: _ChoreCommand) -> tuple[ResourceUndo, ...]:
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
        deed = _ChoreCommand(Load(words), WITHIN, most=MOST + 1)
        problem = do(host, deed, there, token=token, interruption=interruption)
        said = there / "stdout"
        if said.exists() and said.stat().st_size > MOST:
            shorten(said, MOST)
            problem = f"prints more than {format_bytes(MOST)}; the rest is discarded"
        _keep(there, folder / f"evidence-{number}.txt")
        if problem:
            what = f"evidence `{' '.join(argv)}`: {problem}"
            doubts.append(
                Doubt("evidence", what, "The measurement is complete and valid; fix the command.")
            )
    return tuple(doubts)


def _keep(there: Path, path: Path) -> None:
    """What it printed, and what it complained of, beside each other; the rest goes."""
    if (there / "stdout").exists():
        (there / "stdout").rename(path)
    complaint = there / "stderr"
    if complaint.exists() and complaint.stat().st_size:
        complaint.rename(path.with_suffix(".stderr"))
    shutil.rmtree(there)


def lefts(
    driver: Tool, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]
) -> tuple[Leftover, ...]:
    """What one load of this tool leaves; nothing, unless the tool says so."""
    return driver.leaves(workload, aimed, facts) if isinstance(driver, SupportsLeftovers) else ()


def own(session: HostSession, aim: PreparedTarget, wanted: Sequence[Leftover]) -> None:
    """Owe what a load will leave, once a session, and make the folders that it works in.

    Raises TrialError where something else has the name, or is still there from another trial.
    """
    for left in wanted:
        if left.path not in session.left:
            session.left[left.path] = _left_debt(session, aim, left)
        debt = session.left[left.path]
        if left.kind == "folder" and debt:
            _have_folder(session, left, debt)


def clear(session: HostSession, wanted: Sequence[Leftover]) -> None:
    """Remove what is of one trial.  What stays is owed, and tried again before the next trial and
    at the end of the study."""
    for left in wanted:
        debt = session.left.get(left.path)
        if left.each == "trial" and debt:
            with suppress(OwedError):
                unmake(session.host, debt)


def _left_debt(session: HostSession, aim: PreparedTarget, left: Leftover) -> ResourceUndo | None:
    if session.host.run(["stat", "-c", "%F", left.path]).exit == 0:
        if left.kind == "file" and left.each == "study" and not left.ours:
            return None
        raise TrialError(
            f"{left.path} exists, and the load would replace it",
            advice="Move it, or remove it if an earlier run of iotrial left it.",
        )
    mounting = aim.target.mount
    if left.kind == "folder":
        plan = plan_tree(session.host, left.path, session.journal.token, mounting)
        debt = ResourceUndo("tree", plan.as_dict())
    else:
        debt = file_debt(session.host, left.path, mounting)
    if not aim.target.filesystem:
        session.journal.owe_made(debt)
    return debt


def _have_folder(session: HostSession, left: Leftover, debt: ResourceUndo) -> None:
    try:
        if left.each == "trial":
            unmake(session.host, debt)
    except OwedError as error:
        raise TrialError(f"of the trial before: {error.message}", advice=error.advice) from error
    if session.host.run(["stat", "-c", "%F", left.path]).exit != 0:
        make_tree(session.host, TreePlan.from_dict(debt.plan))


IF_DUE = """\
[ -e "$1" ] || exit 0
due=$1
shift
"$@" && rm -f "$due"
"""
"""Arguments: a file, a command that is due as long as that file is there."""


_WRITTEN = ("fill", "precondition", "trim")
"""Chores whose work a boot does not undo, where they are done to a device."""


@dataclass(frozen=True, slots=True)
class _ChoreScope:
    """Something that has chores before and after it: all trials of a workload on a target, those
    of one block, or one of them.  ``options`` are those that a stage gives the workload: with
    others, what was laid out is another file."""

    workload: str
    target: str
    each: Each
    options: Options = ()


@dataclass
class ChoreRunner:
    """``open`` maps what is prepared and not yet cleaned up to its block; ``_due`` each command of
    a clean-up to the file on the host that says it is due; ``took`` are the seconds of the last
    :meth:`begin`, where it did something.  ``said`` is told what may take long."""

    session: HostSession
    results: Path
    interruption: Interruption
    facts: dict[str, float]
    said: Callable[[str], None]
    open: dict[_ChoreScope, int] = field(default_factory=dict)
    took: float = 0.0
    _due: dict[tuple[_ChoreScope, Chore], str] = field(default_factory=dict)
    _shared: set[tuple[str, tuple[Chore, ...]]] = field(default_factory=set)
    _fills: int = 0

    def begin(self, trial: Trial, folder: Path) -> str:
        """What is due before a trial for its study and block, and after the blocks before it.

        Gives back why something failed, or ''.  Raises Interrupted.
        """
        each: tuple[Each, ...] = ("study", "block")
        wanted = [self._occasion(trial, when) for when in each]
        over = {(o.workload, o.target, o.each) for o in wanted if o not in self.open}
        past = [
            o
            for o, block in self.open.items()
            if (o.each == "block" and block != trial.block)
            or (o.each == "study" and (o.workload, o.target, o.each) in over)
        ]
        new = [o for o in wanted if (o in past or o not in self.open) and self._has(o)]
        self.took = 0.0
        if not past and not new:
            return ""
        began = self.session.host.clock()
        self.session.release()
        problems = [self._end(o, folder / f"after-{n}") for n, o in enumerate(past, 1)]
        for occasion in new:
            if not any(problems):
                problems.append(self._begin(occasion, trial, folder))
        self.took = self.session.host.clock() - began
        return next(filter(None, problems), "")

    def prepare(self, trial: Trial, folder: Path) -> str:
        """The chores before this trial; gives back why one failed, or ''."""
        occasion = self._occasion(trial, "trial")
        return self._begin(occasion, trial, folder) if self._has(occasion) else ""

    def clean(self, trial: Trial, folder: Path) -> str:
        """The chores after this trial; gives back why one failed, or ''."""
        occasion = self._occasion(trial, "trial")
        return self._end(occasion, folder) if occasion in self.open else ""

    def finish(self) -> list[str]:
        """Clean up what is left at the end of a run; gives back what failed, and stays owed."""
        if self.open:
            self.session.release()
        problems = []
        for occasion in list(self.open):
            number = len(list((self.results / "cleanup").glob("*"))) + 1
            problems.append(self._end(occasion, self.results / "cleanup" / f"{number:04d}"))
        return list(filter(None, problems))

    def resume(self, before: ChoreRunner) -> None:
        """The host was booted since: what was written to a whole device of its own is there still,
        and is not written again."""
        for occasion, block in before.open.items():
            declared = self.session.study.workload(occasion.workload)
            target = self.session.study.target(occasion.target)
            chores = [c for c in (*declared.prepare, *declared.cleanup) if c.each == "study"]
            stays = target.kind == "device" and not target.made and not target.filesystem
            if occasion.each == "study" and stays and all(c.kind in _WRITTEN for c in chores):
                self.open[occasion] = block
                self._shared.add((occasion.target, tuple(chores)))

    def _occasion(self, trial: Trial, each: Each) -> _ChoreScope:
        study = self.session.study
        own = study.stages[trial.stage - 1].options if trial.stage else ()
        return _ChoreScope(trial.workload, trial.target, each, dict(own).get(trial.workload, ()))

    def _has(self, occasion: _ChoreScope) -> bool:
        declared = self.session.study.workload(occasion.workload)
        return any(c.each == occasion.each for c in (*declared.prepare, *declared.cleanup))

    def _begin(self, occasion: _ChoreScope, trial: Trial, folder: Path) -> str:
        declared = self.session.study.workload(occasion.workload)
        self._owe(occasion, declared)
        self.open[occasion] = trial.block
        chores = tuple(c for c in declared.prepare if c.each == occasion.each)
        shared = (occasion.target, chores)
        alone = any(c.kind in ("lay out", "command") for c in chores)
        if occasion.each == "study" and shared in self._shared and not alone:
            return ""  # another workload has prepared the same target the same way
        if chores and occasion.each != "trial":  # they may take hours
            what = ", ".join(chore.words for chore in chores)
            self.said(f"{occasion.workload} on {occasion.target}, once a {occasion.each}: {what}")
        problem, workload = "", workload_of(self.session.study, trial)
        for chore in chores:
            place = _next(folder, "prepare")
            problem = problem or self._do(chore, workload, occasion, place)
            if occasion.each == "trial":
                problem = problem or self._displaced(chore, place)
        if not problem:
            self._shared.add(shared)
        elif occasion.each != "trial":
            self.open.pop(occasion)  # the next trial tries again; its clean-up stays due
        return problem

    def _displaced(self, chore: Chore, folder: Path) -> str:
        """Why a chore has spoilt the treatment that it was done under, or ''.  It would do so each
        time, so that the trial fails, and no load is executed under a label that is not true."""
        changed = self.session.displaced(self.session.observed())
        if not changed:
            return ""
        return (
            f"{folder.name} ({chore.words}) changed settings of the treatment:"
            f" {'; '.join(changed)}. Change them by the factor, or in a chore of the study"
        )

    def _end(self, occasion: _ChoreScope, folder: Path) -> str:
        """All of them, also after one that failed; gives back why the first failed, or ''."""
        declared = self.session.study.workload(occasion.workload)
        problems = []
        for chore in [c for c in declared.cleanup if c.each == occasion.each]:
            problems.append(self._do(chore, declared, occasion, _next(folder, "cleanup")))
            if not problems[-1] and chore.argv:
                self.session.host.remove(self._due[occasion, chore])
        self.open.pop(occasion)
        return next(filter(None, problems), "")

    def _do(self, chore: Chore, workload: Workload, occasion: _ChoreScope, folder: Path) -> str:
        """One chore, kept in ``folder``; gives back which failed and why, or ''."""
        session = self.session
        target, aim = session.study.target(occasion.target), session.aims[occasion.target]
        self._fills += chore.kind == "fill"
        name = f"iotrial-fill-{session.journal.token}-{self._fills}"

        def lay_out() -> Load | None:
            driver = tool(workload.tool)
            aimed = aimed_at(aim)
            if not isinstance(driver, SupportsLayout):
                return None
            own(session, aim, lefts(driver, workload, aimed, self.facts))
            return driver.lay_out(workload, aimed, self.facts)

        try:
            site = ChoreSite(session.host, target, aim, name, lay_out)
            it = deed(site, chore)
            for debt in debts(site, it):
                session.journal.owe_made(debt)
            token = session.journal.token
            why = do(session.host, it, folder, token=token, interruption=self.interruption)
        except TrialError as error:
            why = error.message
        return f"{folder.name} ({chore.words}): {why}" if why else ""

    def _owe(self, occasion: _ChoreScope, declared: Workload) -> None:
        """Say durably that the commands of this clean-up are due from now on.  Debts are paid from
        the last to the first."""
        commands = [c for c in declared.cleanup if c.each == occasion.each and c.argv]
        for chore in reversed(commands):
            if (occasion, chore) not in self._due:
                place = self.session.journal.path.removesuffix(SUFFIX)
                self._due[occasion, chore] = path = f"{place}-cleanup-{len(self._due) + 1}"
                for debt in _owed(path, chore.argv):
                    self.session.journal.owe_made(debt)
        for chore in commands:
            self.session.host.save(self._due[occasion, chore], f"{declared.name}\n".encode())


def _owed(path: str, argv: tuple[str, ...]) -> Iterator[ResourceUndo]:
    yield ResourceUndo(
        "file", {"file": beside(path)}
    )  # what a death in the middle of a save leaves
    words = ("sh", "-c", IF_DUE, "iotrial-cleanup", path, *argv)
    yield ResourceUndo("command", {"name": f"clean-up `{' '.join(argv)}`", **numbered(words)})


def _next(folder: Path, what: str) -> Path:
    """``prepare-2``, if ``prepare-1`` is there."""
    return folder / f"{what}-{len(list(folder.glob(f'{what}-*'))) + 1}"
