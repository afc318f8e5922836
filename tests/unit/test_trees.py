"""Folders that iotrial made for a load: what may be removed, by Python and by every shell at hand.

Each case stands in a folder of the test's own, is paid by one of them, and is looked at.  What may
not be removed stays whole, and owed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_guard import SHELLS

from iotrial.execute.settings.guard import guard_argv
from iotrial.execute.settings.journal import ResourceUndo, open_journal, read_session
from iotrial.execute.settings.restore import RestoreReport, pay
from iotrial.execute.targets.trees import MARK, TreePlan, make_tree, plan_tree
from iotrial.hosts.local import LocalHost

HERE = LocalHost()
MINE = "20261121T120000-abcd"
Payer = Callable[[TreePlan], str]
"""Pays this one debt; gives back what is owed after it, in words."""


@pytest.fixture(params=[pytest.param((), id="python"), *SHELLS])
def payer(request: pytest.FixtureRequest, tmp_path: Path) -> Payer:
    shell: tuple[str, ...] = request.param
    folder = tmp_path / "state" / "journal.d"

    def paid(plan: TreePlan) -> str:
        journal = open_journal(HERE, str(folder), {"token": MINE})
        journal.owe_made(ResourceUndo("tree", plan.as_dict()))
        if not shell:
            payment = RestoreReport()
            pay(HERE, read_session(journal.path, HERE.read(journal.path)), payment)
            said = "".join(payment.owed)
        else:
            argv = (*shell, *guard_argv(journal.path, str(tmp_path / "state" / "lock"), 0)[1:])
            subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=60, capture_output=True)  # noqa: PLW1510
            report = Path(journal.path.replace(".journal", ".restored")).read_text()
            said = "".join(line for line in report.splitlines() if line.startswith("owed: "))
        assert Path(journal.path).exists() is bool(said), said
        return said

    return paid


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "a target|with *\\ [odd] 'name'"
    path.mkdir()
    return path


def made(target: Path) -> TreePlan:
    """A tree in which a load has worked."""
    plan = plan_tree(HERE, f"{target}/iotrial-x", MINE)
    make_tree(HERE, plan)
    deep = Path(plan.tree, "data", "a", "b")
    deep.mkdir(parents=True)
    (deep / "-rf").write_text("x")
    return plan


def seen(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_it_goes_with_everything_that_is_in_it(payer: Payer, target: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis").write_text("years of work")
    plan = made(target)
    data = Path(plan.tree, "data")
    (data / "link").symlink_to(outside)
    (data / "to-file").symlink_to(outside / "thesis")
    os.link(outside / "thesis", data / "hard")
    assert payer(plan) == ""
    assert seen(target) == []
    assert (outside / "thesis").read_text() == "years of work"
    assert payer(plan) == "", "twice is once"


def test_a_folder_for_a_load_is_as_accessible_as_the_target(target: Path) -> None:
    target.chmod(0o1777)
    plan = made(target)
    assert Path(plan.tree, "data").stat().st_mode & 0o7777 == 0o1777
    assert Path(plan.tree).stat().st_mode & 0o7777 == 0o755
    assert Path(plan.tree, MARK).read_text() == MINE


@pytest.mark.parametrize("stage", range(5))
def test_what_a_death_while_making_or_removing_leaves_is_removed(
    payer: Payer, target: Path, stage: int
) -> None:
    plan = made(target)
    tree = Path(plan.tree)
    subprocess.run(["rm", "-rf", str(tree / "data")], check=True)
    if stage > 0:
        (tree / MARK).unlink()
    if stage == 2:
        (tree / f".{MARK}.new").write_text(MINE[:3])
    if stage > 2:
        tree.rmdir()
    if stage > 3:
        target.rmdir()
    assert payer(plan) == ""
    assert not tree.exists()


def no_mark(plan: TreePlan) -> TreePlan:
    Path(plan.tree, MARK).unlink()
    return plan


def anothers_mark(plan: TreePlan) -> TreePlan:
    Path(plan.tree, MARK).write_text(f"{MINE}0")
    return plan


def something_beside(plan: TreePlan) -> TreePlan:
    Path(plan.tree, "thesis").write_text("years of work")
    return plan


def a_link(plan: TreePlan) -> TreePlan:
    Path(plan.tree).rename(f"{plan.tree}-moved")
    Path(plan.tree).symlink_to(f"{plan.tree}-moved")
    return plan


def a_link_above(plan: TreePlan) -> TreePlan:
    Path(plan.below).rename(f"{plan.below}-moved")
    Path(plan.below).symlink_to(f"{plan.below}-moved")
    return plan


def a_file(plan: TreePlan) -> TreePlan:
    Path(plan.tree).rename(f"{plan.tree}-moved")
    Path(plan.tree).write_text("years of work")
    return plan


def changed(**words: str) -> Callable[[TreePlan], TreePlan]:
    def change(plan: TreePlan) -> TreePlan:
        filled = {name: word.format(**plan.as_dict()) for name, word in words.items()}
        return TreePlan(**{**plan.as_dict(), **filled})

    return change


STRANGE = {
    "no mark": (no_mark, "not empty"),
    "another's mark": (anothers_mark, "not empty"),
    "something beside its data": (something_beside, "not empty"),
    "a link": (a_link, "link"),
    "a link above": (a_link_above, "link"),
    "a file": (a_file, "no longer a folder"),
    "not below": (changed(below="{below}/iotrial-y"), "not below"),
    "a name that begins alike": (changed(below="{below}/iotrial"), "not below"),
    "the target itself": (changed(tree="{below}"), ""),
    "dots": (changed(tree="{below}/../{tree}"), "plain"),
    "dots behind": (changed(tree="{tree}/.."), "plain"),
    "one dot": (changed(tree="{below}/./iotrial-x"), "plain"),
    "relative": (changed(tree="iotrial-x"), "plain"),
    "nothing": (changed(tree=""), ""),
    "below nothing": (changed(below=""), "not below"),
    "no token": (changed(mark=""), "kind is unknown"),
    "no mount point": (changed(on=""), "kind is unknown"),
}  # fmt: skip


@pytest.mark.parametrize("case", STRANGE)
def test_what_may_be_somebody_else_s_stays_and_is_owed(
    payer: Payer, target: Path, case: str
) -> None:
    change, why = STRANGE[case]
    plan = change(made(target))
    before = [path for path in seen(target.parent) if "data/" in path or "thesis" in path]
    said = payer(plan)
    assert said
    assert why in said
    after = [path for path in seen(target.parent) if "data/" in path or "thesis" in path]
    if case == "something beside its data":
        assert Path(plan.tree, "thesis").exists()
    else:
        assert after == before


def test_where_its_file_system_is_not_mounted_it_stays_owed(payer: Payer, target: Path) -> None:
    plan = plan_tree(HERE, f"{target}/iotrial-x", MINE)
    gone = TreePlan(plan.tree, plan.below, f"{target}/no mount point", MINE)
    assert "is not mounted" in payer(gone)
