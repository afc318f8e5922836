"""What a load leaves in its target: owed before there is a load, removed after it.

A tool says what that is (:class:`iotrial.model.tool.Left`).  What was there before us is never
owed, hence never removed: a file that a load only writes into is used and stays; a name that the
load would take for itself is refused.

What lies on a file system that iotrial made is not owed by itself: it goes with that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from iotrial.errors import OwedError, TrialError
from iotrial.execute.session import HostSession
from iotrial.execute.settings.debris import file_debt, unmake
from iotrial.execute.settings.journal import MadeDebt
from iotrial.execute.targets.trees import TreePlan, make_tree, plan_tree
from iotrial.model.target import Aim
from iotrial.model.tool import Aimed, Leaves, Left, Tool
from iotrial.model.workload import Workload


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
            session.left[left.path] = _owed(session, aim, left)
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


def _owed(session: HostSession, aim: Aim, left: Left) -> MadeDebt | None:
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
