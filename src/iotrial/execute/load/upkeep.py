"""Upkeep: which chores are due before and after a trial, and that none is forgotten.

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

A tool says what that is (:class:`iotrial.model.tool.Left`).  What was there before us is never
owed, hence never removed: a file that a load only writes into is used and stays; a name that the
load would take for itself is refused.

What lies on a file system that iotrial made is not owed by itself: it goes with that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from iotrial.errors import OwedError, TrialError
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.chores import Site, debts, deed, do
from iotrial.execute.session import HostSession
from iotrial.execute.settings.debris import file_debt, unmake
from iotrial.execute.settings.journal import SUFFIX, MadeDebt, numbered
from iotrial.execute.targets.trees import TreePlan, make_tree, plan_tree
from iotrial.hosts.steps import beside
from iotrial.model.study import Options
from iotrial.model.target import Aim
from iotrial.model.tool import Aimed, LaysOut, Leaves, Left, Load, Tool
from iotrial.model.trial import Trial
from iotrial.model.workload import Chore, Each, Workload
from iotrial.plan.design import workload_of
from iotrial.tools import tool


def lefts(
    driver: Tool, workload: Workload, aimed: Aimed, facts: Mapping[str, float]
) -> tuple[Left, ...]:
    """What one load of this tool leaves; nothing, unless the tool says so."""
    return driver.leaves(workload, aimed, facts) if isinstance(driver, Leaves) else ()


def own(session: HostSession, aim: Aim, wanted: Sequence[Left]) -> None:
    """Owe what a load will leave, once a session, and make the folders that it works in.

    Raises TrialError where something else has the name, or is still there from another trial.
    """
    for left in wanted:
        if left.path not in session.left:
            session.left[left.path] = _left_debt(session, aim, left)
        debt = session.left[left.path]
        if left.kind == "folder" and debt:
            _have_folder(session, left, debt)


def clear(session: HostSession, wanted: Sequence[Left]) -> None:
    """Remove what is of one trial.  What stays is owed, and tried again before the next trial and
    at the end of the study."""
    for left in wanted:
        debt = session.left.get(left.path)
        if left.each == "trial" and debt:
            with suppress(OwedError):
                unmake(session.host, debt)


def _left_debt(session: HostSession, aim: Aim, left: Left) -> MadeDebt | None:
    if session.host.run(["stat", "-c", "%F", left.path]).exit == 0:
        if left.kind == "file" and left.each == "study" and not left.ours:
            return None
        raise TrialError(
            f"{left.path} is there already, and the load would take its place",
            advice="Move it. If an iotrial left it whose debts were given up, remove it.",
        )
    mounting = aim.target.mount
    if left.kind == "folder":
        plan = plan_tree(session.host, left.path, session.journal.token, mounting)
        debt = MadeDebt("tree", plan.as_dict())
    else:
        debt = file_debt(session.host, left.path, mounting)
    if not aim.target.filesystem:
        session.journal.owe_made(debt)
    return debt


def _have_folder(session: HostSession, left: Left, debt: MadeDebt) -> None:
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


@dataclass(frozen=True, slots=True)
class Occasion:
    """Something that has chores before and after it: all trials of a workload on a target, those
    of one block, or one of them.  ``options`` are those that a stage gives the workload: with
    others, what was laid out is another file."""

    workload: str
    target: str
    each: Each
    options: Options = ()


@dataclass
class Upkeep:
    """``open`` maps what is prepared and not yet cleaned up to its block; ``_due`` each command of
    a clean-up to the file on the host that says it is due; ``took`` are the seconds of the last
    :meth:`begin`, where it did something.  ``said`` is told what may take long."""

    session: HostSession
    results: Path
    interruption: Interruption
    facts: dict[str, float]
    said: Callable[[str], None]
    open: dict[Occasion, int] = field(default_factory=dict)
    took: float = 0.0
    _due: dict[tuple[Occasion, Chore], str] = field(default_factory=dict)
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

    def _occasion(self, trial: Trial, each: Each) -> Occasion:
        study = self.session.study
        own = study.stages[trial.stage - 1].options if trial.stage else ()
        return Occasion(trial.workload, trial.target, each, dict(own).get(trial.workload, ()))

    def _has(self, occasion: Occasion) -> bool:
        declared = self.session.study.workload(occasion.workload)
        return any(c.each == occasion.each for c in (*declared.prepare, *declared.cleanup))

    def _begin(self, occasion: Occasion, trial: Trial, folder: Path) -> str:
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
            f"{folder.name} ({chore.words}) changed what the treatment had set: "
            f"{'; '.join(changed)}. Leave it to the factor, or to a chore of the study"
        )

    def _end(self, occasion: Occasion, folder: Path) -> str:
        """All of them, also after one that failed; gives back why the first failed, or ''."""
        declared = self.session.study.workload(occasion.workload)
        problems = []
        for chore in [c for c in declared.cleanup if c.each == occasion.each]:
            problems.append(self._do(chore, declared, occasion, _next(folder, "cleanup")))
            if not problems[-1] and chore.argv:
                self.session.host.remove(self._due[occasion, chore])
        self.open.pop(occasion)
        return next(filter(None, problems), "")

    def _do(self, chore: Chore, workload: Workload, occasion: Occasion, folder: Path) -> str:
        """One chore, kept in ``folder``; gives back which failed and why, or ''."""
        session = self.session
        target, aim = session.study.target(occasion.target), session.aims[occasion.target]
        self._fills += chore.kind == "fill"
        name = f"iotrial-fill-{session.journal.token}-{self._fills}"

        def lay_out() -> Load | None:
            driver = tool(workload.tool)
            aimed = Aimed(aim.path, target.under_load, aim.target.size)
            if not isinstance(driver, LaysOut):
                return None
            own(session, aim, lefts(driver, workload, aimed, self.facts))
            return driver.lay_out(workload, aimed, self.facts)

        try:
            site = Site(session.host, target, aim, name, lay_out)
            it = deed(site, chore)
            for debt in debts(site, it):
                session.journal.owe_made(debt)
            token = session.journal.token
            why = do(session.host, it, folder, token=token, interruption=self.interruption)
        except TrialError as error:
            why = error.message
        return f"{folder.name} ({chore.words}): {why}" if why else ""

    def _owe(self, occasion: Occasion, declared: Workload) -> None:
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


def _owed(path: str, argv: tuple[str, ...]) -> Iterator[MadeDebt]:
    yield MadeDebt("file", {"file": beside(path)})  # what a death in the middle of a save leaves
    words = ("sh", "-c", IF_DUE, "iotrial-cleanup", path, *argv)
    yield MadeDebt("command", {"name": f"clean-up `{' '.join(argv)}`", **numbered(words)})


def _next(folder: Path, what: str) -> Path:
    """``prepare-2``, if ``prepare-1`` is there."""
    return folder / f"{what}-{len(list(folder.glob(f'{what}-*'))) + 1}"
