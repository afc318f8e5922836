"""Folders of state that somebody else could have written or could replace: refused, here and far
away, before anything in them is read or executed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrial.errors import RefusedError
from iotrial.execute.settings.guard import guard_argv, locked
from iotrial.execute.settings.journal import ResourceUndo, open_journal
from iotrial.execute.settings.restore import restore
from iotrial.hosts import agent
from iotrial.hosts.local import LocalHost
from iotrial.hosts.places import journal_folder

pytestmark = pytest.mark.root

HERE = LocalHost()
STRANGER = 61234
Plant = Callable[[Path], object]


def by_link(path: Path) -> None:
    path.rename(f"{path}-real")
    path.symlink_to(f"{path}-real")


def owned(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def mode(bits: int) -> Plant:
    return lambda path: path.chmod(bits)


def sticky_but_a_strangers(path: Path) -> None:
    path.chmod(0o1777)
    owned(path)


PLANTS: dict[str, Plant] = {
    "a link": by_link,
    "a dangling link": lambda path: (shutil.rmtree(path), path.symlink_to(f"{path}-no")),
    "a stranger's": owned,
    "writable by the group": mode(0o770),
    "writable by all": mode(0o707),
    "a file": lambda path: (shutil.rmtree(path), path.write_text("x")),
}
ABOVE: dict[str, Plant] = {
    "a stranger's": owned,
    "writable by the group": mode(0o770),
    "writable by all": mode(0o707),
    "sticky, but a stranger's": sticky_but_a_strangers,
}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder above those of state, all made as iotrial makes them, with a journal in them whose
    command must not be executed."""
    root = tmp_path / "above" / "state"
    monkeypatch.setenv("IOTRIAL_STATE", str(root))
    with locked(HERE):
        journal = open_journal(HERE, journal_folder(HERE), {"token": "t"})
    touch = {"name": "touch", "0": "touch", "1": str(tmp_path / "executed")}
    journal.owe_made(ResourceUndo("command", touch))
    (root / "files").mkdir(mode=0o700)
    return root


def refused(word: str) -> None:
    with pytest.raises(RefusedError, match=word) as caught, locked(HERE):
        restore(HERE, journal_folder(HERE))
    assert caught.value.exit_code == 3
    assert "IOTRIAL_STATE" in caught.value.advice
    executed = Path(os.environ["IOTRIAL_STATE"]).parents[1] / "executed"
    assert not executed.exists()


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["", "journal.d", "files"])
def test_a_folder_of_state_that_is_not_ours_is_refused(places: Path, name: str, plant: str) -> None:
    folder = places / name
    PLANTS[plant](folder)
    refused(str(folder) if plant != "a link" or name else "state")


@pytest.mark.parametrize("plant", ABOVE)
def test_a_folder_above_that_others_could_replace_it_in_is_refused(
    places: Path, plant: str
) -> None:
    ABOVE[plant](places.parent)
    refused(f"{places.parent}")


def test_a_sticky_folder_above_and_one_reached_through_our_own_link_are_taken(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.parent.chmod(0o1777)
    (tmp_path / "link").symlink_to(places.parent)
    monkeypatch.setenv("IOTRIAL_STATE", str(tmp_path / "link" / "state"))
    with locked(HERE):
        restore(HERE, journal_folder(HERE))
    assert (tmp_path / "executed").exists()


def test_a_link_of_a_strangers_above_is_not_followed(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)
    link = tmp_path / "open" / "link"
    link.symlink_to(places.parent)
    os.lchown(link, STRANGER, STRANGER)
    monkeypatch.setenv("IOTRIAL_STATE", str(link / "state"))
    refused(str(link))


@pytest.mark.parametrize(
    "plant",
    [
        owned,
        mode(0o620),
        mode(0o602),
        lambda path: (path.rename(f"{path}x"), path.symlink_to(f"{path}x")),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
    ],
    ids=["a stranger's", "group", "all", "link", "folder", "pipe"],
)
def test_a_journal_that_others_may_have_written_is_not_read(places: Path, plant: Plant) -> None:
    (journal,) = (places / "journal.d").glob("*.journal")
    plant(journal)
    refused(str(journal))


@pytest.mark.parametrize("plant", [owned, by_link])
def test_the_guard_executes_no_journal_of_a_strangers(places: Path, plant: Plant) -> None:
    (journal,) = (places / "journal.d").glob("*.journal")
    plant(journal)
    argv = guard_argv(str(journal), str(places / "lock"), 0)
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=200, check=False)
    assert not (places.parents[1] / "executed").exists()
    assert "is not ours" in (places / "journal.d" / "t.restored").read_text()


# Far away: the agent, in every shell.


def settled(shell: str, root: Path) -> str:
    """What the agent answers when it is told where its folders are."""
    told = agent.said("settle", f"{root}/state", f"{root}/state/files", "sign")
    text = agent.prelude().encode() + agent.encoded(told)
    done = subprocess.run(shell.split(), input=text, capture_output=True, timeout=200, check=False)
    return done.stdout.decode()


@pytest.mark.parametrize("shell", ["dash", "bash --posix", "busybox sh"])
@pytest.mark.parametrize("plant", [*PLANTS, *(f"above: {name}" for name in ABOVE)])
def test_the_agent_refuses_the_same(tmp_path: Path, shell: str, plant: str) -> None:
    above = tmp_path / "above"
    (above / "state" / "files").mkdir(mode=0o700, parents=True)
    (above / "state").chmod(0o700)
    assert settled(shell, above) == "0 0\n\n"
    if plant.startswith("above: "):
        ABOVE[plant.removeprefix("above: ")](above)
    else:
        PLANTS[plant](above / "state")
    said = settled(shell, above)
    assert not said.startswith("0 "), said
    assert str(above) in said or said.startswith("1 "), said
