"""Levels that only a person can set: a thread at the other end of a terminal is the person."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

STUDY = """
question = "Is the new firmware faster?"
[targets.data]
file = "{folder}/data"
size = "4MiB"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "0.2s" }}
[factors.firmware]
manual = "Flash the HBA with {{level}}"
verify = ["cat", "{folder}/firmware"]
levels = ["11.1", "11.4"]
[design]
blocks = 2
settle = "0s"
"""


class Person:
    """Reads what the terminal says, and does it: mostly."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.lies = 0
        self.screen = ""
        study = folder / "study.toml"
        study.write_text(STUDY.format(folder=folder))
        (folder / "firmware").write_text("11.1\n")
        self.terminal, end = pty.openpty()
        self.run = subprocess.Popen(
            [sys.executable, "-m", "iotrial.cli.main", "run", study, "--out", folder / "out"],
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=end,
            text=True,
        )
        os.close(end)
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.obeys = True

    def _work(self) -> None:
        seen = ""
        while self.run.poll() is None:
            try:
                said = os.read(self.terminal, 4096).decode("utf-8", "replace")
            except OSError:
                return
            self.screen += said
            seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
            while "press Enter." in seen:
                ask, _, seen = seen.partition("press Enter.")
                self._do(re.findall(r"Flash the HBA with (\S+)", ask)[-1])

    def _do(self, level: str) -> None:
        self.asked.append(level)
        if not self.obeys:
            return
        if self.lies:
            self.lies -= 1
        else:
            (self.folder / "firmware").write_text(f"{level}\n")
        os.write(self.terminal, b"\n")

    def wait(self) -> str:
        stdout, _ = self.run.communicate(timeout=200)
        self.thread.join(timeout=200)
        return stdout


@pytest.fixture
def person(tmp_path: Path, state: Path) -> Iterator[Person]:
    there = Person(tmp_path)
    yield there
    if there.run.poll() is None:
        there.run.kill()
    os.close(there.terminal)


def test_a_level_is_asked_for_verified_and_asked_back(person: Person, tmp_path: Path) -> None:
    person.lies = 1
    person.thread.start()
    person.wait()
    assert person.run.returncode == 0, person.screen
    # Once in vain; and at the end, whatever came last, 11.1 stands again.
    assert person.asked[0] == person.asked[1] == "11.4"
    assert (tmp_path / "firmware").read_text() == "11.1\n"
    held = set()
    for folder in (tmp_path / "out/trials").iterdir():
        treatment = json.loads((folder / "trial.json").read_text())["trial"]["treatment"]
        rows = json.loads((folder / "before.json").read_text())
        held.add(
            (treatment["firmware"], {name: value for _, name, value in rows}["manual.firmware"])
        )
    assert held == {("11.1", "11.1"), ("11.4", "11.4")}


def test_an_interrupted_run_names_what_the_person_still_owes(
    person: Person, tmp_path: Path
) -> None:
    person.thread.start()
    while "11.4" not in (tmp_path / "firmware").read_text():
        if person.run.poll() is not None:
            pytest.fail(person.screen)
        threading.Event().wait(0.02)
    person.run.send_signal(signal.SIGTERM)
    person.wait()
    assert person.run.returncode == 4, person.screen
    restore = [sys.executable, "-m", "iotrial.cli.main", "restore"]
    owed = subprocess.run(restore, capture_output=True, text=True, check=False, timeout=200)
    assert owed.returncode == 4
    assert "it is '11.4' now; only an operator can set '11.1' again" in " ".join(
        owed.stderr.split()
    )
    (tmp_path / "firmware").write_text("11.1\n")
    assert subprocess.run(restore, check=False, timeout=200).returncode == 0


def test_without_a_terminal_it_is_refused_before_anything(tmp_path: Path, state: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(folder=tmp_path))
    (tmp_path / "firmware").write_text("11.1\n")
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "run", study, "--out", tmp_path / "out"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 3
    assert "firmware is set manually, which needs a terminal" in done.stderr
    assert not (tmp_path / "out").exists()
