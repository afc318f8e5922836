"""``iotrial lint``: what it takes for what, what it says, its JSON and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iotrial.cli.main import status

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = status(["lint", *arguments, "--kernel", "6.1", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_finding_has_file_line_key_why_fix_and_rule(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.sysctl.conf").write_text("# x\nvm.swapiness = 10\n")
    assert status(["lint", "x.sysctl.conf", "--kernel", "6.1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("x.sysctl.conf:2: error: vm.swapiness: unknown parameter")
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["why", "fix", "rule"]
    assert lines[2].strip() == "fix: vm.swappiness = 10"
    assert lines[-1] == "1 error, 0 warnings, 0 notes in 1 file"


def test_the_document_holds_all_of_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.sysctl.conf").write_text("vm.swapiness = 10\nvm.swappiness = 0\n")
    code, said = answer(capsys, "x.sysctl.conf")
    assert code == 1
    assert said["format"] == 1
    assert said["kernel"] == "6.1"
    assert said["files"] == [{"file": "x.sysctl.conf", "kind": "sysctl"}]
    assert said["counts"] == {"error": 1, "warning": 0, "note": 1}
    first = said["remarks"][0]
    assert first["rule"] == "sysctl-misspelt"
    assert (first["line"], first["key"], first["severity"]) == (1, "vm.swapiness", "error")
    assert first["what"]
    assert first["why"]
    assert first["source"]
    assert first["fix"] == "vm.swappiness = 10"


def test_warnings_and_notes_alone_are_no_failure(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.sysctl.conf").write_text("vm.drop_caches = 3\nvm.swappiness = 0\n")
    code, said = answer(capsys, "x.sysctl.conf")
    assert (code, said["counts"]) == (0, {"error": 0, "warning": 1, "note": 1})


def test_a_folder_stands_for_its_files_of_settings(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("etc/sysctl.d/a.conf", "etc/fstab", "etc/passwd", "etc/modprobe.d/b.conf"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("# nothing\n")
    code, said = answer(capsys, "etc")
    assert code == 0
    assert [each["kind"] for each in said["files"]] == ["fstab", "modprobe", "sysctl"]


def test_a_file_whose_name_does_not_tell_needs_its_kind(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("notes").write_text('BUS=="scsi", TAG+="x"\n')
    code, said = answer(capsys, "notes")
    assert code == 2
    assert "--as sysctl|udev|" in said["error"]["advice"]
    code, said = answer(capsys, "notes", "--as", "udev")
    assert code == 1
    assert said["remarks"][0]["fix"] == 'SUBSYSTEMS=="scsi"'


@pytest.mark.parametrize(
    "arguments",
    [
        ("nowhere/99-x.conf",),
        ("missing.fio",),
        ("box7", "box8"),
        ("box7", "--as", "fio"),
        ("--kernel", "new"),
        ("--as", "toml"),
    ],
)
def test_what_cannot_be_meant_is_a_wrong_usage(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert status(["lint", *arguments]) == 2
    assert capsys.readouterr().err


def test_a_folder_without_settings_and_a_huge_file_are_wrong_usage(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    assert answer(capsys, "empty")[0] == 2
    with Path("big.fio").open("wb") as file:
        file.truncate(5 * 2**20)
    assert answer(capsys, "big.fio")[0] == 2


def test_the_kernel_decides(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tuned.conf").write_text("[disk]\nelevator=cfq\n")
    assert status(["lint", "tuned.conf", "--kernel", "4.18"]) == 0
    assert status(["lint", "tuned.conf", "--kernel", "5.0"]) == 1
    capsys.readouterr()


def test_what_a_file_holds_cannot_act_on_a_terminal(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.sysctl.conf").write_text("vm.\x1b[31mred = 1\n")
    status(["lint", "x.sysctl.conf", "--kernel", "6.1"])
    assert "\x1b" not in capsys.readouterr().out


def test_without_arguments_the_machine_itself_is_read(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["lint", "--pretend", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {"file": "/etc/fstab", "kind": "fstab"} in said["files"]
    assert said["kernel"]


def test_one_file_that_is_not_known_does_not_hide_the_others(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.sysctl.conf").write_text("vm.drop_caches = 3\n")
    Path("notes.md").write_text("vm.swappiness = 10\n")
    code, said = answer(capsys, "x.sysctl.conf", "notes.md")
    assert code == 2
    assert [each["rule"] for each in said["remarks"]] == ["sysctl-act"]
    assert said["unread"] == ["notes.md: its place and name do not tell what it is"]
    Path("x.sysctl.conf").write_text("vm.swapiness = 10\n")
    assert answer(capsys, "x.sysctl.conf", "notes.md")[0] == 1
    assert status(["lint", "notes.md"]) == 2


@pytest.mark.parametrize("verb", ["lint", "status"])
def test_a_word_that_is_no_file_and_no_host_is_told_so(
    verb: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status([verb, "nofile.invalid"]) == 2
    assert "nofile.invalid is neither a file, nor a folder, nor a host" in capsys.readouterr().err
