"""What others plant in the place of a file or directory target, before a run and in the middle."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrial.errors import TargetRefused, TrialError
from iotrial.execute.targets.making import fill, lay_out
from iotrial.hosts.local import LocalHost
from iotrial.look.inodes import folders_of
from iotrial.look.targets import ready, same
from iotrial.model.target import Target
from iotrial.model.tool import Leftover, LoadAccess, inside

HOST = LocalHost()
READS = LoadAccess(reads=True, writes=False)
WRITES = LoadAccess(reads=True, writes=True)
MIB = 2**20
STRANGER = 54321


def file(path: Path) -> Target:
    return Target("data", "file", str(path), MIB)


def folder(path: Path) -> Target:
    return Target("data", "directory", str(path))


def opened(path: Path, mode: int) -> None:
    path.chmod(mode)


OPEN: dict[str, Callable[[Path], None]] = {
    "everybody": lambda path: path.chmod(0o777),
    "write only": lambda path: path.chmod(0o733),
    "a group": lambda path: (os.chown(path, -1, STRANGER), path.chmod(0o775))[1],
    "a stranger's": lambda path: os.chown(path, STRANGER, -1),
}


@pytest.mark.root
@pytest.mark.parametrize("how", OPEN)
@pytest.mark.parametrize("where", ["itself", "above"])
@pytest.mark.parametrize("reach", [READS, WRITES], ids=["reads", "writes"])
def test_a_folder_that_others_may_write_is_refused(
    tmp_path: Path, how: str, where: str, reach: LoadAccess
) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    aims = [ready(HOST, file(inner / "f"), reach), ready(HOST, folder(inner), reach)]
    OPEN[how](inner if where == "itself" else inner.parent)
    for target in (file(inner / "f"), folder(inner)):
        with pytest.raises(TargetRefused, match="other users could replace") as caught:
            ready(HOST, target, reach)
        assert "mkdir -m 0700" in caught.value.advice
    for aim in aims:
        with pytest.raises(TargetRefused, match="other users could replace"):
            same(HOST, aim)


@pytest.mark.root
def test_a_sticky_folder_shields_what_is_ours_and_nothing_else(tmp_path: Path) -> None:
    sticky = tmp_path / "tmp"
    (sticky / "mine").mkdir(parents=True)
    sticky.chmod(0o1777)
    ready(HOST, folder(sticky / "mine"), WRITES)
    same(HOST, lay_out(HOST, ready(HOST, file(sticky / "new"), WRITES)))  # made with O_EXCL
    for target in (folder(sticky), file(sticky / "new")):
        with pytest.raises(TargetRefused, match="other users could"):
            ready(HOST, target, READS)
    network = LoadAccess(reads=True, writes=True, storage=False)
    assert ready(HOST, folder(sticky), network).path == str(sticky)


def link(path: Path, victim: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(victim)


def dangling(path: Path, victim: Path) -> None:
    del victim
    link(path, path.parent / "not-there")


def hard(path: Path, victim: Path) -> None:
    path.unlink(missing_ok=True)
    path.hardlink_to(victim)


def another(path: Path, victim: Path) -> None:
    shutil.copy(victim, beside := path.with_name("beside"))
    beside.replace(path)


def fifo(path: Path, victim: Path) -> None:
    del victim
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def gone(path: Path, victim: Path) -> None:
    del victim
    path.unlink()


PLANTED = [link, dangling, hard, another, fifo, gone]


@pytest.mark.parametrize("plant", PLANTED)
def test_what_is_planted_after_it_was_laid_out_is_seen(
    tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "f"
    victim.write_bytes(b"v" * MIB)
    aim = lay_out(HOST, ready(HOST, file(path), WRITES))
    same(HOST, aim)
    plant(path, victim)
    with pytest.raises(TargetRefused, match="f was replaced") as caught:
        same(HOST, aim)
    was, now = caught.value.evidence
    assert aim.inode in was
    assert "is:" in now
    assert victim.read_bytes() == b"v" * MIB


@pytest.mark.parametrize("plant", [link, dangling, hard, another])
def test_what_is_planted_before_it_is_laid_out_is_not_written(
    tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "f"
    victim.write_bytes(b"v" * MIB)
    aim = ready(HOST, file(path), WRITES)
    plant(path, victim)
    with pytest.raises(TargetRefused, match="was replaced"):
        lay_out(HOST, aim)
    if plant in (link, dangling):  # also by whoever does not look first
        with pytest.raises(TrialError, match="symbolic links"):
            fill(HOST, str(path), MIB)
    assert victim.read_bytes() == b"v" * MIB
    assert not (tmp_path / "not-there").exists()


@pytest.mark.parametrize("which", ["itself", "data"])
@pytest.mark.parametrize("each", ["study", "trial"])
@pytest.mark.parametrize("kind", ["link", "another"])
def test_a_tools_own_folder_is_looked_at_before_every_load(
    tmp_path: Path, which: str, each: str, kind: str
) -> None:
    own, elsewhere = tmp_path / "iotrial-fio", tmp_path / "elsewhere"
    for path in (Path(inside(str(own))), Path(inside(str(elsewhere)))):
        path.mkdir(parents=True)
    left = Leftover(str(own), "folder", each)  # type: ignore[arg-type]
    known: dict[str, str] = {}
    folders_of(HOST, folder(tmp_path), [left], known)
    folders_of(HOST, folder(tmp_path), [left], known)
    planted = own if which == "itself" else Path(inside(str(own)))
    shutil.move(planted, tmp_path / "former")
    if kind == "link":
        planted.symlink_to(elsewhere)
    else:
        Path(inside(str(own))).mkdir(parents=True)
    if kind == "another" and each == "trial":  # we make it anew ourselves for every trial
        folders_of(HOST, folder(tmp_path), [left], known)
        return
    with pytest.raises(TargetRefused, match="was replaced"):
        folders_of(HOST, folder(tmp_path), [left], known)


@pytest.mark.parametrize("plant", [link, dangling, hard])
@pytest.mark.parametrize("where", ["the tool's file", "in the tool's folder", "deep in it"])
def test_a_link_where_a_load_makes_its_file_is_refused(
    tmp_path: Path, plant: Callable[[Path, Path], None], where: str
) -> None:
    own, victim = tmp_path / "iotrial-fio", tmp_path / "victim"
    data = Path(inside(str(own)))
    (data / "sub").mkdir(parents=True)
    victim.write_bytes(b"v")
    lefts = [
        Leftover(str(own), "folder", "study"),
        Leftover(str(tmp_path / "j.0.0"), "file", "study"),
    ]
    places = {
        "the tool's file": tmp_path / "j.0.0",
        "in the tool's folder": data / "load.0.0",
        "deep in it": data / "sub" / "load.0.0",
    }
    path = places[where]
    path.write_bytes(b"its own")
    known: dict[str, str] = {}
    folders_of(HOST, folder(tmp_path), lefts, known)
    plant(path, victim)
    with pytest.raises(TargetRefused, match="was replaced") as caught:
        folders_of(HOST, folder(tmp_path), lefts, known)
    assert str(path) in caught.value.message
