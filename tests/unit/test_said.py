"""What is said on a terminal: none of it instructs the terminal, whoever's text it is."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table
from test_hostile import RAW

import factories
import foreign
from iotrial.cli.output import Output, json_text
from iotrial.cli.progress import ProgressDisplay
from iotrial.errors import RefusedError
from iotrial.model.event import Message

SPITE = "\x1b[2J\x1b]52;c;cm0gLXJm\x07 \x9b31m \x9c \u202e \u2066 \x00 \x7f \r \x08 \ud800"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def unseen(text: str) -> str:
    """What of it a terminal would obey, but rich's own colours."""
    return "".join(RAW.findall(COLOUR.sub("", text)))


WAYS = {
    "answer": lambda output: output.answer(SPITE),
    "note": lambda output: output.note(SPITE),
    "notice": lambda output: output.notice(SPITE),
    "error": lambda output: output.error("X", SPITE, SPITE, 2),
    "document": lambda output: output.document({SPITE: [SPITE]}),
    "refusal": lambda output: output.error("X", str(RefusedError(SPITE)), SPITE, 3),
}


@pytest.mark.parametrize("json_", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_say_something_shows_controls(
    way: str, capfd: pytest.CaptureFixture[str], *, json_: bool
) -> None:
    output = Output(json=json_)
    WAYS[way](output)
    output.close()
    said = capfd.readouterr()
    assert not unseen(said.out + said.err)
    if way in {"note", "notice", "error"}:
        assert "\\x1b]52" in said.err


def test_a_name_between_colons_is_no_picture(capfd: pytest.CaptureFixture[str]) -> None:
    table = Table(title=":x:E")
    table.add_column(":smile:")
    table.add_row(":warning:")
    output = Output()
    output.answer(table, ":x:E")
    output.note(":x:E")
    said = capfd.readouterr()
    assert said.out.count(":x:E") == 2
    assert ":smile:" in said.out
    assert ":warning:" in said.out
    assert said.err == ":x:E\n"


@pytest.mark.parametrize("spite", foreign.SPITE, ids=range(len(foreign.SPITE)))
def test_tables_and_json_show_controls(spite: str, capfd: pytest.CaptureFixture[str]) -> None:
    table = Table(title=spite)
    table.add_column(spite)
    table.add_row(spite)
    Output().answer(table)
    said = capfd.readouterr()
    assert not unseen(said.out)
    assert json.loads(json_text({spite: spite})) == {spite: spite}
    assert not unseen(json_text({spite: spite}))


def test_a_question_to_a_person_shows_controls(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("select.select", lambda *_: ([sys.stdin], [], []))
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    terminal = ProgressDisplay(Output(), factories.study())
    ask = terminal.person()
    assert ask, "somebody is there"
    ask(f"Set it to {SPITE}", lambda: False)
    terminal(Message(SPITE))
    said = capfd.readouterr()
    assert not unseen(said.out + said.err)
    assert "Then press Enter" in said.err


def test_on_a_real_terminal_nothing_of_a_study_is_obeyed(tmp_path: Path) -> None:
    """Where colours are on: error messages with a file's name, a key, and a study's text."""
    study = tmp_path / "a\x1b[31mb.toml"
    study.write_text('question = "x"\n"\\u001b]0;owned\\u0007" = 1\n')
    argv = [sys.executable, "-m", "iotrial.cli.main", "plan", str(study), "--pretend"]
    leader, follower = pty.openpty()
    with subprocess.Popen(argv, stdout=follower, stderr=follower, stdin=follower) as process:
        os.close(follower)
        said = b""
        while select.select([leader], [], [], 30)[0]:
            try:
                more = os.read(leader, 65536)
            except OSError:  # EIO: the other end is closed
                break
            said += more
        assert process.wait() == 2
    os.close(leader)
    text = said.decode().replace("\r\n", "\n")
    assert not unseen(text)
    assert "\\x1b" in text
