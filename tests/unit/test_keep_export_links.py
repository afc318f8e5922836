"""``keep … export`` into a folder of somebody else: no link in it is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial.cli.main import status

pytestmark = pytest.mark.usefixtures("state")

PROFILE = 'format = 1\nname = "p"\n[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = 10\n'
SAID = "precious\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "p.toml").write_text(PROFILE)
    (tmp_path / "precious").write_text(SAID)
    (tmp_path / "elsewhere").mkdir()
    return work


def export(*more: str) -> int:
    return status(["keep", "p.toml", "export", "-q", *more])


@pytest.mark.parametrize("more", [(), ("--out", "p-kept")])
@pytest.mark.parametrize("name", ["profile.toml", "apply.sh"])
def test_a_link_in_the_place_of_a_file_is_replaced(
    name: str, more: tuple[str, ...], here: Path
) -> None:
    path = here / "p-kept" / name
    path.parent.mkdir()
    path.symlink_to(here.parent / "precious")
    assert export(*more) == 0
    assert (here.parent / "precious").read_text() == SAID
    assert path.is_file()
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == (0o755 if name == "apply.sh" else 0o644)


@pytest.mark.parametrize("more", [(), ("--out", "p-kept")])
def test_nothing_is_written_through_a_linked_folder(
    more: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "p-kept").mkdir()
    (here / "p-kept" / "files").symlink_to(here.parent / "elsewhere")
    assert export(*more) == 2
    assert "p-kept/files: is a link" in capsys.readouterr().err
    assert not list((here.parent / "elsewhere").iterdir())


def test_only_a_folder_that_is_named_may_be_a_link(here: Path) -> None:
    (here / "p-kept").symlink_to(here.parent / "elsewhere")
    assert export() == 2
    assert not list((here.parent / "elsewhere").iterdir())
    assert export("--out", "p-kept") == 0
    assert (here.parent / "elsewhere" / "profile.toml").is_file()
