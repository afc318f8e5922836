"""A setting that lives in a configuration file, or that a command writes, for real: a script stands
for the client."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

CLIENT = """#!/bin/sh
# client reload: read the configuration; client set N; client show: say what is in force
cd "$(dirname "$0")" || exit
case $1 in
reload) sed -n 's/^rsize //p' client.conf >now.new && mv now.new now ;;
set) echo "$2" >now.new && mv now.new now ;;
show) echo "rsize: $(cat now)" ;;
esac
"""

STUDY = """
question = "Does the client's rsize matter here?"
[targets.data]
file = "{folder}/data"
size = "4MiB"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "{runtime}" }}
[knobs.rsize]
file = "{folder}/client.conf"
content = "# a trial's\\nrsize {{value}}\\n"
reload = ["{folder}/client", "reload"]
read = ["{folder}/client", "show"]
field = "rsize:"
[factors.rsize]
tunable = "file.rsize"
levels = [65536, 131072]
[design]
blocks = 1
settle = "0s"
"""
FORMER = b"# by hand, without a newline at the end\nrsize 4096"


@pytest.fixture
def client(tmp_path: Path) -> Path:
    program = tmp_path / "client"
    program.write_text(CLIENT)
    program.chmod(0o755)
    configuration = tmp_path / "client.conf"
    configuration.write_bytes(FORMER)
    configuration.chmod(0o640)
    subprocess.run([program, "reload"], check=True)
    return tmp_path


def iotrial(client: Path, runtime: str) -> subprocess.Popen[str]:
    study = client / "study.toml"
    study.write_text(STUDY.format(folder=client, runtime=runtime))
    return subprocess.Popen(
        [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", client / "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def as_before(client: Path) -> bool:
    configuration = client / "client.conf"
    return (
        configuration.read_bytes() == FORMER
        and configuration.stat().st_mode & 0o777 == 0o640
        and (client / "now").read_text().strip() == "4096"
    )


def kill_when_changed_and_restore(client: Path) -> None:
    run = iotrial(client, "600s")
    deadline = time.monotonic() + 200
    while (client / "now").read_text().strip() == "4096" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (client / "now").read_text().strip() != "4096"
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=200)
    subprocess.run([sys.executable, "-m", "iotrial.cli.main", "restore"], check=True, timeout=200)


def test_each_level_is_in_force_in_its_trial_and_the_file_comes_back(
    client: Path, state: Path
) -> None:
    run = iotrial(client, "0.2s")
    _, complaint = run.communicate(timeout=200)
    assert run.returncode == 0, complaint
    held = {}
    for folder in (client / "out/trials").iterdir():
        treatment = json.loads((folder / "trial.json").read_text())["trial"]["treatment"]
        rows = json.loads((folder / "before.json").read_text())
        held[treatment["rsize"]] = {name: value for _, name, value in rows}
    assert {label: values["file.rsize"] for label, values in held.items()} == {
        "65536": "65536",
        "131072": "131072",
    }
    assert held["65536"]["file.rsize.content"] == "# a trial's\nrsize 65536\n"
    assert as_before(client)


def test_a_killed_run_gives_the_file_back(client: Path, state: Path) -> None:
    kill_when_changed_and_restore(client)
    assert as_before(client)


def test_a_link_or_a_missing_folder_is_refused_before_anything(client: Path, state: Path) -> None:
    real, link = client / "client.conf", client / "link.conf"
    link.symlink_to(real)
    text = STUDY.format(folder=client, runtime="0.2s")
    study = client / "study.toml"
    asked = {
        "link.conf": f"is a symbolic link: write file = the path it leads to, {real}",
        "nodir/client.conf": "does not exist",
    }
    for name, said in asked.items():
        study.write_text(text.replace('client.conf"', f'{name}"'))
        for verb in (["plan"], ["run", "--out", str(client / "out")]):
            done = subprocess.run(
                [sys.executable, "-m", "iotrial.cli.main", verb[0], str(study), *verb[1:]],
                capture_output=True,
                text=True,
                check=False,
                timeout=200,
            )
            assert done.returncode == 2, done.stderr
            assert said in " ".join(done.stderr.split())
    assert link.is_symlink()
    assert not (client / "nodir").exists()
    assert as_before(client)


@pytest.fixture
def by_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same study, but for the file: a command writes the value."""
    head, rest = STUDY.split("[knobs.rsize]")
    _, factor = rest.split("[factors.rsize]")
    knob = (
        '[knobs.rsize]\nread = ["{folder}/client", "show"]\nfield = "rsize:"\n'
        'write = ["{folder}/client", "set", "{{value}}"]\n'
    )
    text = f"{head}{knob}[factors.rsize]{factor.replace('file.rsize', 'command.rsize')}"
    monkeypatch.setattr(sys.modules[__name__], "STUDY", text)


def test_what_a_command_writes_is_in_force_in_its_trial_and_written_back(
    client: Path, state: Path, by_command: None
) -> None:
    run = iotrial(client, "0.2s")
    _, complaint = run.communicate(timeout=200)
    assert run.returncode == 0, complaint
    held = set()
    for folder in (client / "out/trials").iterdir():
        treatment = json.loads((folder / "trial.json").read_text())["trial"]["treatment"]
        rows = json.loads((folder / "before.json").read_text())
        held.add((treatment["rsize"], {name: value for _, name, value in rows}["command.rsize"]))
    assert held == {("65536", "65536"), ("131072", "131072")}
    assert as_before(client)


def test_several_values_could_not_be_written_back_and_are_refused(
    client: Path, state: Path, by_command: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = STUDY.replace('field = "rsize:"\n', "")
    monkeypatch.setattr(sys.modules[__name__], "STUDY", text)
    (client / "now").write_text("4096\nrsize: 8192\n")
    run = iotrial(client, "0.2s")
    _, complaint = run.communicate(timeout=200)
    assert run.returncode == 2
    assert "`read` prints 2 lines, and only one value can be written back" in complaint
    assert (client / "now").read_text() == "4096\nrsize: 8192\n"
    assert not list(client.glob("state/journal.d/*"))


def test_a_killed_run_gives_back_what_a_command_wrote(
    client: Path, state: Path, by_command: None
) -> None:
    kill_when_changed_and_restore(client)
    assert as_before(client)
