"""The tutorial is executed: its study file, its commands in their order, on a loop device of the
test's own.  What it shows is what is printed, but for the numbers and what a busy machine adds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import new_loop, remove_loop

pytestmark = [pytest.mark.root, pytest.mark.alone]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text("utf-8")
FILES = re.findall(r"<!-- file: (\S+) -->\n```toml\n(.*?)```", PAGE, re.DOTALL)
SESSION = re.compile(r"<!-- tutorial(: until it can tell)? -->\n```console\n(.*?)```", re.DOTALL)
MOST = 4
"""How often the study is extended at most: once where nobody else uses the CPUs."""


@pytest.fixture
def number() -> Iterator[int]:
    """Of a loop device that does not exist yet; it is removed afterwards."""
    number = new_loop()
    yield number
    remove_loop(number)


def steps() -> Iterator[tuple[bool, str, list[str]]]:
    """(may have to be repeated, command, lines it is said to print)."""
    for again, block in SESSION.findall(PAGE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *printed = part.splitlines()
            yield bool(again), command, printed


def blank(line: str) -> str:
    """Numbers with their units, pictures of intervals and the width of columns are left out."""
    line = re.sub(r"[+−-]?(≤|×|\b)\d[\d,.]*×?( ?([kMG]i?B/s|[mµ]?s|%)(?!\w))?", "#", line)
    return " ".join(re.sub(r"[─│├┤┼●<>]+", " ", line).split())


def missing(shown: list[str], said: str) -> list[str]:
    """The lines of the page that were not printed, in their order.  ``…`` stands for anything;
    between two lines there may be more: what iotrial doubts here."""
    left = iter([blank(line) for line in said.splitlines()])
    for at, line in enumerate(shown):
        if line.strip() == "…":
            continue
        wanted = ".*".join(re.escape(part.strip()) for part in blank(line).split("…"))
        if not any(re.fullmatch(wanted, each) for each in left):
            return shown[at:]
    return []


def shell(command: str, place: Path) -> str:
    """What a command prints on either stream."""
    path = f"{place}:/usr/sbin:/sbin:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}"
    return done.stdout


def until_told(command: str, place: Path) -> str:
    """What the last of so many extensions prints: the one that gave an answer."""
    for _ in range(MOST):
        said = shell(command, place)
        (finding,) = json.loads((place / "results/first/findings.json").read_text())["findings"]
        if finding["verdict"] == "better":
            break
    return said


def test_the_tutorial_is_what_happens(number: int, state: Path, tmp_path: Path) -> None:
    own = f"loop{number}"
    program = tmp_path / "iotrial"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m iotrial.cli.main "$@"\n')
    program.chmod(0o755)
    for name, text in FILES:
        shorter = (
            text.replace("loop77", own).replace('"1s"', '"500ms"').replace('"200ms"', '"100ms"')
        )
        (tmp_path / name).write_text(shorter, "utf-8")
    for again, command, printed in steps():
        act = until_told if again else shell
        said = act(command.replace("loop77", own), tmp_path).replace(own, "loop77")
        assert missing(printed, said) == [], f"$ {command}\n{said}"
    assert not (tmp_path / "disk.img").exists()
    assert not list(state.glob("*.d/*.journal"))


def test_what_the_tutorial_does_not_show_is_seen() -> None:
    shown = ["1024  +983.8 (+769.3 … +1251.2)  better  6 …", "report: …"]
    said = "1024  −3 % (−9 … +2)   {}   5   ├──●──┤\ndoubt\nreport: x\n"
    assert missing(shown, said.format("better")) == []
    assert missing(shown, said.format("cannot tell")) == shown
