"""Real terminals (tmux) of 80, 100 and 160 columns: no word is broken, the bar and its ETA are
there in the middle of a run, and nothing dead is left on the screen."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from old_results import unpacked

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux: apt-get install tmux")

DATA = Path(__file__).parent.parent / "data" / "results-0.1.0"
RECORDED = ("troubled", "staged", "race", "fraction", "blocks-over-hosts", "aa", "full-half-done")
WIDTHS = (80, 100, 160)
HANGS = 120.0
"""Seconds after which a screen that does not show what it should counts as hanging."""
END = "it-has-ended"
"""Printed below the last word of a command."""
PLAY = """
import json, sys
from iotrial.cli.main import status
for arguments in json.loads(sys.argv[1]):
    status(arguments)
"""
RULES = set("─━│●├┤┼<>╞╡")
STUDY = """
question = "Which of five settings with long names makes small random reads from a disk faster?"
[targets.disk]
loop = {{ size = "64MiB" }}
[workloads.randread-of-small-blocks]
tool = "fio"
options = {{ rw = "randread", bs = "4k", direct = 1, ioengine = "libaio", runtime = "1s" }}
{factors}
[design]
blocks = 400
[decide]
primary = "read.iops"
"""
NAMES = (
    "depth-of-the-load", "batches-of-the-load", "events-taken-at-once-by-the-load",
    "how-many-of-them-at-the-least", "whether-the-load-is-to-think",
)  # fmt: skip
OPTIONS = ("iodepth", "iodepth_batch", "iodepth_batch_complete_max", "iodepth_low", "thinktime")


def study(factors: int) -> str:
    rows = [
        f'[factors.{name}]\noption = "{option}"\nlevels = [1, 2]\n'
        for name, option in zip(NAMES[:factors], OPTIONS, strict=False)
    ]
    return STUDY.format(factors="\n".join(rows))


class Screen:
    """A window of tmux in which one command runs; it stays when the command has ended."""

    def __init__(self, folder: Path, width: int) -> None:
        self._tmux = ("tmux", "-S", str(folder / f"tmux-{width}"), "-f", "/dev/null")
        self._folder, self._width = folder, width

    def start(self, *command: str) -> None:
        size = ("-x", str(self._width), "-y", "24")
        self._do("new-session", "-d", *size, "-c", str(self._folder), "sleep 600")
        self._do("set-option", "-g", "history-limit", "20000")
        # A pane of its own: a limit of history is that of panes made after it.
        self._do(
            "respawn-window", "-k", f"trap : INT; {shlex.join(command)}; echo {END}; sleep 600"
        )

    def _do(self, *words: str) -> str:
        done = subprocess.run(
            [*self._tmux, *words], capture_output=True, text=True, check=True, timeout=HANGS
        )
        return done.stdout

    def lines(self, *, history: bool = False) -> list[str]:
        more = ("-S", "-") if history else ()
        return [line.rstrip() for line in self._do("capture-pane", "-p", *more).splitlines()]

    def until(self, what: Callable[[list[str]], object]) -> list[str]:
        end = time.monotonic() + HANGS
        while not what(lines := self.lines()):
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.05)
        return lines

    def resize(self, width: int) -> None:
        self._do("resize-window", "-x", str(width), "-y", "24")

    def press(self, key: str) -> None:
        self._do("send-keys", key)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True, timeout=30)


@pytest.fixture
def screen(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], Screen]]:
    assert state.is_dir()  # tmux takes it from the environment
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    open_: list[Screen] = []

    def opened(width: int) -> Screen:
        open_.append(Screen(tmp_path, width))
        return open_[-1]

    yield opened
    for each in open_:
        each.close()


IOTRIAL = (sys.executable, "-c", "from iotrial.cli.main import main; main()")


# -- words ----------------------------------------------------------------------------------------


def asked(folder: Path) -> list[str]:
    """What says much: plans of 1, 2 and 5 factors, and results of every kind."""
    said = []
    for factors in (1, 2, 5):
        file = folder / f"{factors}.toml"
        file.write_text(study(factors), "utf-8")
        said.append(["plan", file.name, "--pretend", "--noise", "5%"])
    for name in RECORDED:
        (folder / name).mkdir()
        top = unpacked(DATA / f"{name}.tar.xz", folder / name).relative_to(folder)
        said += [["status", str(top)], ["compare", str(top)]]
    missing = "a-folder-with-a-rather-long-name/and-another-in-it/study.toml"
    said += [["run", missing], ["run", "1.toml", "--arms", "3"]]
    return [sys.executable, "-c", PLAY, json.dumps(said)]


def words(lines: list[str]) -> set[str]:
    """Without what only draws (the head above a strip says its ends, which a narrow one has
    elsewhere), and the marks by which a line goes on or a cell is named."""
    found = {
        word for line in lines if "change in % (interval) " not in line for word in line.split()
    }
    return {word.removesuffix(":") for word in found if not RULES.issuperset(word)} - {"\\", ""}


def test_no_word_is_broken_and_no_number_is_lost(
    tmp_path: Path, screen: Callable[[int], Screen]
) -> None:
    command = asked(tmp_path)
    screens = [(width, screen(width)) for width in WIDTHS]
    for _, each in screens:
        each.start(*command)
    piped = subprocess.run(
        command, cwd=tmp_path, check=True, timeout=HANGS, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ).stdout.splitlines()  # fmt: skip
    whole = words(piped)
    numbers = {word for word in whole if re.search(r"\d", word)}
    assert len(numbers) > 200
    for width, each in screens:
        each.until(lambda lines: END in lines)
        said = each.lines(history=True)
        shown = words(said[: said.index(END)])
        long = {word for word in whole if len(word) > width}
        broken = {word for word in shown - whole if not any(word in each for each in long)}
        assert not broken, width
        assert not {word for word in numbers - shown if len(word) <= width}, width


def test_a_pipe_has_no_width(tmp_path: Path, state: Path) -> None:
    assert state.is_dir()
    folder = tmp_path / ("a-long-name" * 10)
    folder.mkdir()
    top = unpacked(DATA / "full-half-done.tar.xz", folder)
    said = subprocess.run(
        [*IOTRIAL, "status", str(top)], check=True, timeout=HANGS, text=True,
        stdout=subprocess.PIPE, env={**os.environ, "COLUMNS": "80"},
    ).stdout  # fmt: skip
    assert f"To resume: iotrial run {top}/study.toml --out {top}" in said


# -- progress -------------------------------------------------------------------------------------


BAR = re.compile(r"^[━─]{10,} \d+/\d+  ETA \d\S*")


def done_so_far(lines: list[str]) -> int:
    """The highest number of trials that the screen says are done; -1: none."""
    found = [re.search(r"(\d+)/\d+  ETA", line) for line in lines]
    return max((int(each[1]) for each in found if each), default=-1)


def bars(lines: list[str]) -> list[str]:
    return [line for line in lines if BAR.match(line)]


@pytest.mark.parametrize("factors", [1, 5])
def test_the_bar_and_its_eta_stay_and_leave_nothing_behind(
    tmp_path: Path, screen: Callable[[int], Screen], factors: int
) -> None:
    (tmp_path / "study.toml").write_text(study(factors), "utf-8")
    narrow = screen(80)
    narrow.start(*IOTRIAL, "run", "study.toml", "--pretend", "--out", "r")
    narrow.until(lambda lines: bars(lines) and done_so_far(lines) > 1)
    for width in (160, 60, 100, 80):
        narrow.resize(width)
        before = done_so_far(narrow.lines())
        # Drawn anew since, and never twice.
        lines = narrow.until(lambda lines, before=before: done_so_far(lines) > before + 1)
        assert len(drawn(lines)) == 1
        assert bars(lines)
    narrow.press("C-c")
    lines = narrow.until(lambda lines: END in lines)
    assert not drawn(lines)
    assert not [line for line in lines if "ETA" in line]
    assert any("stopped by SIGINT" in line for line in lines)


def drawn(lines: list[str]) -> list[str]:
    return [line for line in lines if re.search("━━|────", line) or "ETA" in line]
