"""docs/boots.md: its study and its sessions, on the machine made up."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from test_docs import as_pattern, plain, steps

from iotrial.cli.main import status
from iotrial.hosts.fake.parts.boots import OTHER

PAGE = Path(__file__).resolve().parents[2] / "docs" / "boots.md"
INSTEAD = {
    "S4X1N0M123456": "FAKE0001",
    "6.1.0-56-amd64": OTHER,
    "6.12.95+deb12-amd64": "6.18.0-fake",
}
"""The disk and the kernels of that machine."""


def test_its_study_runs_and_its_sessions_say_what_they_show(
    tmp_path: Path,
    state: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    study = re.search(r"```toml\n(question.*?)```", text, re.DOTALL)
    assert study
    written = study[1]
    for shown, own in INSTEAD.items():
        assert shown in written
        written = written.replace(shown, own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    Path("boots.toml").write_text(written, encoding="utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    shown = list(steps(block))
    assert [command.split()[1] for command, _ in shown] == ["plan", "run", "report", "restore"]
    for command, expected in shown:
        words = shlex.split(command)[1:]
        pretended = [] if words[0] == "report" else ["--pretend"]
        assert status([*words, *pretended]) == 0
        printed = capfd.readouterr()
        said = plain(f"{printed.err} {printed.out}")
        pattern = ".*?".join(map(as_pattern, expected))
        assert re.search(pattern, said, re.DOTALL), f"$ {command}\n{printed}"
