"""What lay at a file's place comes back as the very thing it was; what was made of ours is saved.
By both who pay: Python, and the guard in sh."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from iotrial.errors import OwedError, RefusedError
from iotrial.execute.keep.keeping import ASIDE, SAVED, aside, edited, former_file
from iotrial.execute.settings.guard import guard_argv
from iotrial.execute.settings.journal import SettingsUndo, open_journal
from iotrial.execute.settings.restore import boot_id, restore
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.local import LocalHost
from iotrial.keep.native import NativeFile

OURS = "# of keep\n"
FORMER = b"# mine\r\n\0\xff"


def by_python(folder: Path) -> None:
    restore(LocalHost(), str(folder))


def by_guard(folder: Path) -> None:
    argv = guard_argv(str(next(folder.glob("*.journal"))), str(folder / "lock"), 0)
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


Pay = Callable[[Path], None]
PAYERS: tuple[Pay, ...] = (by_python, by_guard)


def file(path: Path) -> None:
    path.write_bytes(FORMER)
    path.chmod(0o4640)
    with suppress(OSError):  # a file system without them
        os.setxattr(path, "user.who", b"me")
    with suppress(OSError):
        os.chown(path, 1, 2)
    os.utime(path, ns=(10**18, 10**18 + 5))


def empty(path: Path) -> None:
    path.touch()


def same(path: Path) -> None:
    path.write_text(OURS)
    path.chmod(0o600)


def hard_link(path: Path) -> None:
    file(path)
    path.with_name("other-name").hardlink_to(path)


def link(path: Path) -> None:
    path.with_name("elsewhere").write_text("# there\n")
    path.symlink_to("elsewhere")


def link_to_a_folder(path: Path) -> None:
    path.with_name("folder").mkdir()
    path.symlink_to("folder")


def dangling_link(path: Path) -> None:
    path.symlink_to("/nowhere/at all")


def nothing(_path: Path) -> None:
    """There is none."""


NODES = (file, empty, same, hard_link, link, link_to_a_folder, dangling_link, nothing)


def seen(folder: Path) -> dict[str, object]:
    """Everything in the folder, with all that a name is tied to."""
    found: dict[str, object] = {}
    for path in sorted(folder.iterdir()):
        what = path.lstat()
        said = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()  # noqa: PTH115
        extended = {each: os.getxattr(path, each, follow_symlinks=False)
                    for each in os.listxattr(path, follow_symlinks=False)}  # fmt: skip
        kept = (what.st_ino, what.st_mode, what.st_uid, what.st_gid, what.st_nlink)
        found[path.name] = (said, extended, *kept, 0 if path.is_dir() else what.st_mtime_ns)
    return found


def begin(tmp_path: Path) -> tuple[LocalHost, NativeFile, Path]:
    (tmp_path / "books").mkdir(mode=0o700)
    (tmp_path / "etc").mkdir()
    return LocalHost(), NativeFile(str(tmp_path / "etc" / "x.conf"), OURS, ()), tmp_path / "books"


def owe(host: LocalHost, each: NativeFile, books: Path) -> None:
    header = {"boot_id": boot_id(host), "token": "t"}
    journal = open_journal(host, str(books), header)
    debt = SettingsUndo("", None, (former_file(host, each, ()),))
    journal.owe_settings(debt)


def put(host: LocalHost, each: NativeFile, steps: int) -> None:
    """As keep does, up to a death after so many steps: nothing, moved aside, written."""
    for act in aside(host, each.path)[:steps]:
        assert host.run(act.argv).exit == 0
    if steps > 1:
        host.save(each.path, OURS.encode(), private=False)


@pytest.mark.parametrize("pay", PAYERS)
@pytest.mark.parametrize("make", NODES)
def test_every_kind_of_node_comes_back_as_it_was(make: Pay, pay: Pay, tmp_path: Path) -> None:
    for steps in (0, 1, 2):
        place = tmp_path / str(steps)
        place.mkdir()
        host, each, books = begin(place)
        make(Path(each.path))
        before = seen(place / "etc")
        owe(host, each, books)
        put(host, each, steps)
        if steps > 1:
            assert Path(each.path).read_text() == OURS
            assert not Path(each.path).is_symlink()
        pay(books)
        assert seen(place / "etc") == before, steps
        assert list(books.glob("*.journal")) == []


def another_content(path: Path) -> None:
    path.write_text("# of keep\n# and of mine\n")


def another_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def another_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "within").write_text("x")


@pytest.mark.parametrize("pay", PAYERS)
@pytest.mark.parametrize("make", [file, dangling_link, nothing])
@pytest.mark.parametrize("edit", [another_content, another_link, another_folder])
def test_what_was_made_of_our_file_since_is_saved_beside(
    edit: Pay, make: Pay, pay: Pay, tmp_path: Path
) -> None:
    host, each, books = begin(tmp_path)
    make(Path(each.path))
    before = seen(tmp_path / "etc")
    for _ in range(2):  # and what was saved before is saved still
        owe(host, each, books)
        put(host, each, 2)
        edit(Path(each.path))
        if edit is another_content:
            assert edited(host, [(each.path, OURS)])[0].endswith(f"saved as {each.path}{SAVED}")
        pay(books)
    after = seen(tmp_path / "etc")
    assert {name: after.get(name) for name in before} == before
    assert set(after) - set(before) == {f"x.conf{SAVED}", f"x.conf{SAVED}.~1~"}
    path = Path(f"{each.path}{SAVED}")
    told = path.is_symlink(), path.is_dir(), path.is_file()
    assert (
        told
        == {
            "another_content": (False, False, True),
            "another_link": (True, False, True),
            "another_folder": (False, True, False),
        }[edit.__name__]
    )


@pytest.mark.parametrize("pay", PAYERS)
@pytest.mark.parametrize("make", [file, empty, hard_link, link, dangling_link])
def test_what_was_removed_from_beside_is_owed_and_ours_stays_until_then(
    make: Pay, pay: Pay, tmp_path: Path
) -> None:
    host, each, books = begin(tmp_path)
    make(Path(each.path))
    owe(host, each, books)
    put(host, each, 2)
    Path(f"{each.path}{ASIDE}").unlink()
    with suppress(OwedError):  # the guard says it in its report
        pay(books)
    assert Path(each.path).read_text() == OURS
    assert len(list(books.glob("*.journal"))) == 1, "it is owed still"
    with pytest.raises(OwedError) as caught:
        restore(host, str(books))
    advice = f"gone from {each.path}{ASIDE}: put it there again, or remove {each.path}"
    assert advice in str(caught.value)
    Path(each.path).unlink()
    pay(books)
    assert list(books.glob("*.journal")) == []


@pytest.mark.parametrize("beside", [b"", FORMER, OURS.encode()])
@pytest.mark.parametrize("there", [b"", FORMER, OURS.encode()])
def test_the_made_up_host_answers_the_scripts_as_sh_does(
    there: bytes, beside: bytes, tmp_path: Path
) -> None:
    """What the enumeration of deaths shows is worth as much as this."""
    host, each, _ = begin(tmp_path)
    file(Path(each.path))
    owed = former_file(host, each, ())
    Path(each.path).unlink()
    fake = FakeHost()
    for path, content in ((each.path, there), (f"{each.path}{ASIDE}", beside)):
        if content:
            Path(path).write_bytes(content)
            fake.machine.put(path, content, mode=0o644)
    scripts = (owed.probe.argv, *(act.argv for act in owed.acts if act.argv[:1] == ("sh",)))
    assert len(scripts) == 3
    sums = ("sha256sum", "--", each.path)
    for argv in (*scripts[:2], sums, scripts[2], sums):
        real, said = host.run(argv), fake.run(argv)
        assert (said.exit, said.stdout) == (real.exit, real.stdout), argv[3:]
        assert said.complaint == real.complaint, argv[3:]


def test_what_is_no_file_or_would_be_in_the_way_is_refused(tmp_path: Path) -> None:
    host, each, _ = begin(tmp_path)
    Path(each.path).mkdir()
    with pytest.raises(RefusedError, match=r"x\.conf is a directory"):
        former_file(host, each, ())
    Path(each.path).rmdir()
    Path(f"{each.path}{ASIDE}").symlink_to("nowhere")
    with pytest.raises(RefusedError, match="the former file of an earlier keep"):
        former_file(host, each, ())
