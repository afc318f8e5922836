"""Mounts that iotrial made are unmounted, by the guard and by ``iotrial restore`` alike."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotrial.execute.settings.guard import guard_argv
from iotrial.execute.settings.journal import ResourceUndo, open_journal, sessions
from iotrial.execute.settings.restore import RestoreReport, pay
from iotrial.execute.targets.trees import make_tree, plan_tree
from iotrial.hosts.local import LocalHost

pytestmark = pytest.mark.root

HERE = LocalHost()
Payer = Callable[[Path], None]


def by_guard(state: Path) -> None:
    argv = guard_argv(str(state / "journal.d" / "T0.journal"), str(state / "lock"), 0)
    subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=200, check=False, capture_output=True)


def by_python(state: Path) -> None:
    (session,) = sessions(HERE, str(state / "journal.d"))
    pay(HERE, session, RestoreReport())


def mount(source: str, point: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", source, str(point)], check=True, timeout=200)


def mounted(point: Path) -> list[str]:
    """Sources of what is mounted there, as the kernel lists them."""
    escaped = str(point).replace("\\", "\\134").replace(" ", "\\040")
    lines = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [words[words.index("-") + 2] for words in lines if words[4] == escaped]


@pytest.fixture(params=[by_guard, by_python])
def payer(request: pytest.FixtureRequest) -> Payer:
    return request.param


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "a point\\of it"
    folder.mkdir()
    yield folder
    while mounted(folder):
        subprocess.run(["umount", str(folder)], check=True, timeout=200)


def owe(state: Path, point: Path, source: str) -> Path:
    journal = open_journal(HERE, str(state / "journal.d"), {"token": "T0"})
    journal.owe_made(ResourceUndo("folder", {"folder": str(point)}))
    journal.owe_made(ResourceUndo("mount", {"point": str(point), "source": source}))
    return Path(journal.path)


def test_what_was_mounted_is_unmounted_and_its_folder_goes(
    payer: Payer, point: Path, state: Path
) -> None:
    journal = owe(state, point, "ours")
    mount("ours", point)
    mount("ours", point)
    payer(state)
    assert mounted(point) == []
    assert not point.exists()
    assert not journal.exists()


def test_what_somebody_else_mounted_stays(payer: Payer, point: Path, state: Path) -> None:
    journal = owe(state, point, "ours")
    mount("theirs", point)
    payer(state)
    assert mounted(point) == ["theirs"]
    assert journal.exists(), "the folder is still owed"


def test_under_somebody_elses_mount_it_stays_owed(payer: Payer, point: Path, state: Path) -> None:
    journal = owe(state, point, "ours")
    mount("ours", point)
    mount("theirs", point)
    payer(state)
    assert sorted(mounted(point)) == ["ours", "theirs"]
    assert journal.exists()
    subprocess.run(["umount", str(point)], check=True, timeout=200)
    payer(state)
    assert mounted(point) == []
    assert not journal.exists()


def test_a_busy_mount_is_owed(payer: Payer, point: Path, state: Path) -> None:
    journal = owe(state, point, "ours")
    mount("ours", point)
    with (point / "open").open("w"):
        payer(state)
        assert mounted(point) == ["ours"]
        assert journal.exists()
    payer(state)
    assert not journal.exists()


@pytest.mark.parametrize("where", ["", "data", "data/a"])
def test_a_tree_with_something_mounted_in_it_stays_whole(
    payer: Payer, point: Path, state: Path, where: str
) -> None:
    plan = plan_tree(HERE, f"{point}/iotrial-x", "T0")
    make_tree(HERE, plan)
    tree = Path(plan.tree)
    (tree / "data" / "a").mkdir()
    (tree / "data" / "z").write_text("years of work")
    mount("theirs", tree / where)
    try:
        (tree / where / "thesis").write_text("years of work")
        before = sorted(tree.rglob("*"))
        journal = open_journal(HERE, str(state / "journal.d"), {"token": "T0"})
        journal.owe_made(ResourceUndo("tree", plan.as_dict()))
        payer(state)
        assert sorted(tree.rglob("*")) == before
        assert Path(journal.path).exists()
    finally:
        subprocess.run(["umount", str(tree / where)], check=True, timeout=200)
    payer(state)
    assert not tree.exists()
    assert not Path(journal.path).exists()
