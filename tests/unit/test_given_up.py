"""What tests/given_up.py finds, in a project that is made up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

import given_up  # noqa: E402 (tests are no package)
from assertions import said_in  # noqa: E402
from given_up import renamed  # noqa: E402

PARTS = "tests/one -k 'not slow'\ntests/one -k slow\n"
BEFORE = """
import pytest
ROUNDS = 40

def holds(n):
    assert n >= 0

def test_a():
    for n in range(ROUNDS):
        assert n < 50
    holds(3)
    with pytest.raises(ValueError, match="x"):
        int("x")

@pytest.mark.parametrize("n", [1, 2])
def test_cases(n):
    assert n

def test_moves():
    assert len("this is long enough to be no chance") == 35
    assert ROUNDS
"""


def git(folder: Path, *words: str) -> None:
    me = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *me, *words], cwd=folder, check=True, timeout=30, capture_output=True)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A project of one commit."""
    (tmp_path / "tests/one").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests/conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--all', action='store_true')\n"
    )
    (tmp_path / "tests/one/test_x.py").write_text(BEFORE)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "--quiet", "--message", "x")
    (tmp_path / "tests/given_up.txt").write_text("base HEAD\n")
    return tmp_path


def told(made: Path, *changes: tuple[str, str], parts: str = PARTS) -> tuple[int, str]:
    text = BEFORE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (made / "tests/one/test_x.py").write_text(text)
    command = [sys.executable, TESTS / "given_up.py", "--root", made]
    done = subprocess.run(
        command, input=parts, capture_output=True, text=True, check=False, timeout=120
    )
    assert not done.stderr
    return done.returncode, done.stdout


def test_where_nothing_changed_nothing_is_given_up(made: Path) -> None:
    code, said = told(made)
    assert code == 0, said
    assert "no test is given up" in said


def test_a_name_that_is_said_to_be_another_is_no_loss(made: Path) -> None:
    renaming = [("ROUNDS", "TURNS")]
    code, said = told(made, *renaming)
    assert code == 1, said
    (made / "tests/given_up.txt").write_text("base HEAD\nnames ROUNDS TURNS\n")
    code, said = told(made, *renaming)
    assert code == 0, said
    code, said = told(made, *renaming, ("assert n >= 0", "pass"))
    assert code == 1, said


def differences(folder: Path, changes: list[tuple[str, str]]) -> list[str]:
    """Without pytest, which takes a second each time."""
    text, said = BEFORE, []
    for old, new in [("", ""), *changes]:
        assert old in text
        text = text.replace(old, new)
        (folder / "tests/one").mkdir(parents=True, exist_ok=True)
        (folder / "tests/one/test_x.py").write_text(text)
        said.append(said_in(folder))
    before, after = said[0], said[-1]
    return [each.key for each in given_up.differences(before, after, renamed(before, after))]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([("        assert n < 50\n", "        n < 50\n")],
         "test_a | for n in range(ROUNDS): assert n < 50"),
        ([("n < 50", "n < 60")], "test_a | for n in range(ROUNDS): assert n < 50"),
        ([("    holds(3)\n", "")], "test_a | holds(3)"),
        ([("assert n >= 0", "pass")], "holds | assert n >= 0"),
        ([('match="x"', 'match=""')],
         "test_a | with pytest.raises(ValueError, match='x'): int('x')"),
        ([("ROUNDS = 40", "ROUNDS = 4")], "test_x.py | 40 in ROUNDS = 40"),
        ([("    assert n\n", "    if n > 1:\n        assert n\n")], "test_cases | assert n"),
        ([("    assert n\n", "    if n > 1:\n        return\n    assert n\n")],
         "test_cases | new: if n > N: return"),
        ([("    holds(3)\n", "    pytest.skip('x')\n    holds(3)\n")],
         "test_a | new: pytest.skip('x')"),
        ([("def test_moves", "def test_other"), ("assert ROUNDS", "pass")],
         "test_moves | assert ROUNDS"),
    ],
)  # fmt: skip
def test_what_is_lost_is_told(tmp_path: Path, changes: list[tuple[str, str]], line: str) -> None:
    found = differences(tmp_path, changes)
    assert any(each.endswith(line) for each in found), found


@pytest.mark.parametrize(
    "changes",
    [
        [("def test_a(", "def test_b(")],
        [("    assert len(", "    assert ROUNDS\n\ndef test_more():\n    assert len(")],
        [("ROUNDS = 40", "MOST = 40\nROUNDS = MOST")],
    ],
    ids=["another name", "a test of two", "a number elsewhere"],
)
def test_what_is_only_elsewhere_is_not_given_up(
    tmp_path: Path, changes: list[tuple[str, str]]
) -> None:
    assert differences(tmp_path, changes) == []


def test_what_is_gone_or_not_run_is_told_with_what_to_write_until_it_is_named(made: Path) -> None:
    changes = [("[1, 2]", "[1]"), ("n < 50", "n < 60"), ("def test_moves", "def test_other")]
    code, said = told(made, *changes, parts="tests/one -k 'not other'\n")
    assert code == 1
    assert "no part of the tests runs tests/one/test_x.py::test_other" in said
    assert "tests/one/test_x.py:10: tests/one/test_x.py::test_a\n" in said
    keys = [each for each in said.splitlines() if each.startswith("tests/") and " | " in each]
    assert "tests/one/test_x.py::test_cases | case [2]" in keys
    now = "  now tests/one/test_x.py::test_a | for n in range(ROUNDS): assert n < 60"
    assert now in said
    named = [f"base HEAD\n\n# a reason\n{keys[0]}", now, *keys[1:], "# one more", "tests/x | y"]
    named += ["  now tests/x | z", "", "tests/x | without"]
    (made / "tests/given_up.txt").write_text("\n".join(named))
    code, said = told(made, *changes)
    assert code == 1
    assert "given up without a reason" not in said
    assert "nothing needs it any more: tests/x | y" in said
    assert "no reason stands above it" in said
    assert "is not there: tests/x | z" in said


def test_a_reworded_text_is_named_once_and_must_be_said(made: Path) -> None:
    changes = [('match="x"', 'match="y"'), ('int("x")', 'int("y")')]
    named = "base HEAD\n\n# other words\nsaid 'x' => 'y'\n"
    (made / "tests/given_up.txt").write_text(named)
    assert told(made, *changes)[0] == 0
    code, said = told(made)
    assert code == 1
    assert "is not there: said 'y'" in said
    (made / "tests/given_up.txt").write_text(f"{named}said 'no such' => 'y'\n")
    assert "nothing needs it any more: said 'no such'" in told(made, *changes)[1]


def test_renamed_cases_may_be_named_at_once_and_fewer_may_not(made: Path) -> None:
    listed = made / "tests/given_up.txt"
    listed.write_text("base HEAD\n# Other words.\ntests/one/test_x.py::test_cases | case *\n")
    code, said = told(made, ("[1, 2]", "[3, 4]"))
    assert "fewer cases" not in said
    code, said = told(made, ("[1, 2]", "[3]"))
    assert code == 1
    assert "1 of 2 fewer cases" in said
