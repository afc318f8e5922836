"""A setting whose value cannot be read now is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial.cli.main import status

STUDY = """
question = "Which?"
[targets.disk]
directory = "{folder}"
[workloads.load]
tool = "command"
argv = ["true"]
options = {{ seconds = "1s", reads_only = true }}
[workloads.load.metrics]
score = {{ pattern = "([0-9]+)", better = "higher" }}
[knobs.one]
file = "{folder}/one.conf"
content = "v {{value}}"
read = ["false"]
[factors.one]
tunable = "file.one"
levels = ["1", "2"]
[design]
blocks = 1
[decide]
primary = "score"
"""


@pytest.mark.root
def test_one_that_its_own_command_does_not_say_is_never_written(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one.conf"
    file.write_text("old\n")
    before = file.stat()
    (tmp_path / "study.toml").write_text(STUDY.format(folder=tmp_path))
    out = str(tmp_path / "results")
    assert status(["run", str(tmp_path / "study.toml"), "--out", out]) == 2
    assert "file.one cannot be read: `false`" in " ".join(capsys.readouterr().err.split())
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
