"""What is removed is removed where it was made: not in the folder below an unmounted mount point,
not through a link, not in another folder of that name.  By Python and by every shell at hand."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_guard import SHELLS

from iotrial.errors import OwedError
from iotrial.execute.settings.debris import file_debt, unmake
from iotrial.execute.settings.guard import guard_argv
from iotrial.execute.settings.journal import ResourceUndo, open_journal, sessions
from iotrial.execute.settings.restore import RestoreReport, forget, pay, restore
from iotrial.execute.targets.trees import make_tree, plan_tree
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.mounts import EXT4
from iotrial.hosts.local import LocalHost
from iotrial.hosts.places import journal_folder
from iotrial.model.target import MountSpec

HERE = LocalHost()
Payer = Callable[[ResourceUndo], str]


@pytest.fixture(params=[pytest.param((), id="python"), *SHELLS])
def payer(request: pytest.FixtureRequest, tmp_path: Path) -> Payer:
    """Pays one debt; gives back what is owed after it, in words."""
    shell: tuple[str, ...] = request.param
    folder = tmp_path / "state" / "journal.d"

    def paid(debt: ResourceUndo) -> str:
        journal = open_journal(HERE, str(folder), {"token": "T0"})
        journal.owe_made(debt)
        if not shell:
            payment = RestoreReport()
            (session,) = sessions(HERE, str(folder))
            pay(HERE, session, payment)
            return "".join(payment.owed)
        argv = (*shell, *guard_argv(journal.path, str(tmp_path / "state" / "lock"), 0)[1:])
        subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=60, capture_output=True)  # noqa: PLW1510
        report = Path(journal.path.replace(".journal", ".restored")).read_text()
        return "".join(line for line in report.splitlines() if line.startswith("owed: "))

    return paid


def link_in_its_place(folder: Path) -> None:
    folder.rename(f"{folder}-moved")
    folder.symlink_to(f"{folder}-moved")


def another_folder(folder: Path) -> None:
    folder.rename(f"{folder}-moved")
    folder.mkdir()


def folder_gone(folder: Path) -> None:
    folder.rename(f"{folder}-moved")


def file_is_a_link(folder: Path) -> None:
    (folder / "f").unlink(missing_ok=True)
    (folder / "f").symlink_to(folder.parent / "thesis")


CASES = {
    "as it was": (lambda _folder: None, ""),
    "a link in its place": (link_in_its_place, "link"),
    "a link to a stranger's": (
        lambda folder: (
            folder.rename(f"{folder}-moved"),
            folder.symlink_to(folder.parent / "other"),
        ),
        "link",
    ),
    "another folder": (another_folder, "another folder"),
    "gone": (folder_gone, ""),
    "the file is a link": (file_is_a_link, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_removed_where_it_was_made_and_nowhere_else(
    payer: Payer, tmp_path: Path, case: str
) -> None:
    folder, other = tmp_path / "a |b", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    debt = file_debt(HERE, f"{folder}/f")
    (folder / "f").write_text("ours")
    change, why = CASES[case]
    change(folder)
    (tmp_path / "thesis").write_text("years of work")
    (other / "f").write_text("years of work")
    if case == "another folder":
        (folder / "f").write_text("years of work")
    said = payer(debt)
    assert (why in said) if why else said == "", said
    assert (other / "f").read_text() == "years of work"
    assert (tmp_path / "thesis").read_text() == "years of work"
    there = os.path.lexists(folder / "f")
    assert there is (case in ("a link in its place", "a link to a stranger's", "another folder"))


# What is unmounted, on the pretended machine.


@pytest.mark.parametrize("ours", [None, MountSpec("/dev/fakedata", "ext4")], ids=["theirs", "ours"])
@pytest.mark.parametrize("what", ["file", "tree"])
def test_what_lies_on_an_unmounted_file_system_is_not_taken_for_what_lies_under_it(
    what: str, ours: MountSpec | None
) -> None:
    host = FakeHost()
    path = f"{EXT4}/ours"
    if what == "file":
        debt = file_debt(host, path, ours)
        host.machine.put(path, b"ours")
    else:
        plan = plan_tree(host, path, "t", ours)
        debt = ResourceUndo("tree", plan.as_dict())
        make_tree(host, plan)
    host.run(["umount", EXT4])
    theirs = path if what == "file" else f"{path}/thesis"
    host.machine.put(theirs, b"years of work")
    under = host.machine.files[theirs]
    if ours is None:
        with pytest.raises(OwedError, match=f"{EXT4}, the mount point of {path}, is not mounted"):
            unmake(host, debt)
        assert host.machine.files[theirs] is under
        return
    del host.machine.files[theirs]
    host.machine.folders.pop(path, None)
    assert unmake(host, debt) == [f"removed {path}"], "mounted once more, to remove it"
    assert EXT4 not in {point for _, point, *_ in host.machine.mounts()}


def test_a_backing_file_on_what_is_not_mounted_is_owed_and_not_taken_for_gone(
    payer: Payer, tmp_path: Path
) -> None:
    file = f"{tmp_path}/iotrial-t-0.img"
    Path(file).write_text("ours")
    plan = {"target": "t", "file": file, "size": 4, "number": 30999}
    assert f"{tmp_path}, the mount point of" in payer(
        ResourceUndo("loop", {**plan, "on": tmp_path})
    )
    assert Path(file).exists()


# Whatever one debt is up against, the others are paid, and a person can get out.


def never(number: int) -> ResourceUndo:
    return ResourceUndo("command", {"name": f"never {number}", "0": "false"})


NO = {"file": "/mnt/no/f", "below": "/mnt/no", "on": "/mnt/no"}
LOOP = {"target": "t", "file": "/x", "size": 1, "number": 1}
HOPELESS = {
    "a command that fails": never(1),
    "a program that is not there": ResourceUndo("command", {"name": "x", "0": "nosuch"}),
    "a kind of another version": ResourceUndo("portal", {"name": "x"}),
    "a tree without its plan": ResourceUndo("tree", {"tree": "/var/tmp/x"}),
    "a loop that is not ours": ResourceUndo("loop", LOOP),
    "a loop without its plan": ResourceUndo("loop", {"file": "/x"}),
    "a process without a word": ResourceUndo("process", {"pidfile": "/run/x.pid", "word": ""}),
    "a file without a name": ResourceUndo("file", {}),
    "a mount without a point": ResourceUndo("mount", {}),
    "a file on what is not mounted": ResourceUndo("file", NO),
    "one that cannot be mounted": ResourceUndo("file", {**NO, "source": "/dev/no", "type": "no"}),
}


@pytest.mark.parametrize("case", HOPELESS)
def test_one_debt_that_cannot_be_paid_keeps_no_other_from_it_and_can_be_given_up(case: str) -> None:
    host = FakeHost()
    host.machine.put("/var/tmp/first", b"x")
    host.machine.put("/var/tmp/last", b"x")
    journal = open_journal(host, journal_folder(host), {"token": "t"})
    for debt in (
        ResourceUndo("file", {"file": "/var/tmp/first"}),
        HOPELESS[case],
        ResourceUndo("file", {"file": "/var/tmp/last"}),
    ):
        journal.owe_made(debt)
    with pytest.raises(OwedError, match=r"To discard the records\b.*restore --forget") as owed:
        restore(host, journal_folder(host))
    assert len(owed.value.owed) == 1
    assert not {"/var/tmp/first", "/var/tmp/last"} & set(host.machine.files)
    payment = forget(host, journal_folder(host))
    assert payment.notes == [f"discarded: {owed.value.owed[0]}"]
    restore(host, journal_folder(host))
