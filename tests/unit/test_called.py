"""Commands to type: as iotrial was called, and as root so that sudo finds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotrial.called import as_called, as_root, called, help_as_called
from iotrial.cli.main import VERBS

ROOT = Path(__file__).parent.parent.parent


def test_no_text_says_a_command_that_sudo_does_not_find() -> None:
    """sudo looks in the folders of its secure_path, where no install of ours puts iotrial."""
    wrong = "sudo " + "iotrial"
    texts = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(path for path in (ROOT / "src").rglob("*") if path.suffix != ".pyc" and path.is_file()),
    ]
    assert [str(path) for path in texts if wrong in path.read_text("utf-8", "replace")] == []


def test_commands_are_named_as_iotrial_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("IOTRIAL_CALLED", raising=False)
    monkeypatch.setattr(sys, "argv", ["/nowhere/my tools/iotrial"])
    assert called() == "'/nowhere/my tools/iotrial'"
    assert as_root() == "sudo '/nowhere/my tools/iotrial'"
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert called() == "iotrial"
    assert as_root() == 'sudo "$(command -v iotrial)"'
    monkeypatch.setenv("IOTRIAL_CALLED", "./dev iotrial")
    assert as_called("Mend it, then: iotrial restore") == "Mend it, then: ./dev iotrial restore"
    assert as_called("another iotrial is running") == "another iotrial is running"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert as_root() == "./dev iotrial"


def test_what_is_named_as_it_was_called_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTRIAL_CALLED", "./dev iotrial")
    once = as_called("Write one: iotrial init; then iotrial run it.")
    assert once == "Write one: ./dev iotrial init; then ./dev iotrial run it."
    assert as_called(once) == once


def test_explanations_of_a_help_text_stay_in_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTRIAL_CALLED", "./dev iotrial")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    text = "  iotrial plan x  looks\n  sudo IOTRIAL run x  does\nprose"
    assert help_as_called(text) == (
        "  ./dev iotrial plan x      looks\n  sudo ./dev iotrial run x  does\nprose"
    )


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_known_as_one_to_type(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTRIAL_CALLED", "./dev iotrial")
    assert as_called(f"iotrial {verb} x") == f"./dev iotrial {verb} x"


def test_a_called_script_says_how_it_was_called(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("iotrial")
    done = subprocess.run(
        [program, "report", "nowhere"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 2
    assert f"`{program} run`" in done.stderr
