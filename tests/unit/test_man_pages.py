"""Manual pages and completion scripts of a wheel: made of the help texts, for every verb."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from iotrial.cli.main import GROUPS, SUMMARIES, VERBS, describe

ROOT = Path(__file__).resolve().parents[2]


def made(folder: Path, **env: str) -> Path:
    """As a build makes them: by a new process, in which no help was told."""
    subprocess.run(
        [sys.executable, "-m", "iotrial.cli.man_pages", folder],
        env={**os.environ, **env},
        check=True,
        timeout=60,
    )
    return folder


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("share"))


def read(share: Path, verb: str = "") -> str:
    """A page without what troff needs: the text that is printed, on long lines."""
    name = f"iotrial-{verb}" if verb else "iotrial"
    text = (share / f"man/man1/{name}.1").read_text("ascii")
    signs = {"\\-": "-", "\\(aq": "'", "\\(dq": '"', "\\(ga": "`", "\\(ti": "~"}
    for sign, plain in signs.items():
        text = text.replace(sign, plain)
    return re.sub(r"\\\[u([0-9A-F]{4})\]", lambda found: chr(int(found[1], 16)), text)


def test_iotrial_and_each_verb_have_a_page(share: Path) -> None:
    pages = {path.name for path in (share / "man/man1").iterdir()}
    assert pages == {"iotrial.1", *(f"iotrial-{verb}.1" for verb in VERBS)}
    first = read(share)
    for title, rows in GROUPS:
        assert f'.SS "{title}"\n' in first
        for verb, summary in rows:
            assert f".BR iotrial-{verb} (1)\n{summary}\n" in first
    assert ".SH EXIT STATUS\n0 success, 1 negative result" in first


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_says_what_help_says(share: Path, verb: str) -> None:
    page, command = read(share, verb), describe()[verb]
    assert f"iotrial-{verb} \\- {SUMMARIES[verb]}".replace("\\-", "-") in page
    commands = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
    for each in commands:
        for option in each.params:
            if isinstance(option, click.Option):
                assert max(option.opts, key=len) in page
                assert not option.help or " ".join(option.help.split()) in page
        words = " ".join((each.help or "").partition("\b")[0].split())
        assert words in page.replace("\n.PP\n", " ")
    assert page.count("Examples\n") + page.count("EXAMPLES\n") == len(commands)


def test_a_page_is_the_same_whoever_makes_it(share: Path, tmp_path: Path) -> None:
    odd = {"HOME": "/nowhere", "COLUMNS": "40", "LC_ALL": "C", "IOTRIAL_CALLED": "/x/dev iotrial"}
    other = made(tmp_path, **odd)
    for path in (each for each in share.rglob("*") if each.is_file()):
        assert path.read_bytes() == (other / path.relative_to(share)).read_bytes(), path
    assert 'sudo "$(command -v iotrial)" demo ' in read(other)


def test_a_page_bears_the_date_that_the_maker_gives(tmp_path: Path) -> None:
    assert ' 1 "2020-02-02" ' in read(made(tmp_path, SOURCE_DATE_EPOCH="1580601600"), "run")


def test_man_shows_every_page_without_a_warning(share: Path) -> None:
    if not shutil.which("man") or not shutil.which("groff"):
        pytest.skip("man and groff are not both installed: apt-get install man-db groff")
    for page in sorted((share / "man/man1").iterdir()):
        done = subprocess.run(
            ["man", "--warnings", "--local-file", page],
            env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, ""), page.name
        assert "NAME" in done.stdout
        assert not re.search(r"\\[-&(e]|\x08\n", done.stdout), page.name


@pytest.mark.parametrize(
    ("shell", "path"),
    [
        ("bash", "bash-completion/completions/iotrial"),
        ("zsh", "zsh/site-functions/_iotrial"),
        ("fish", "fish/vendor_completions.d/iotrial.fish"),
    ],
)
def test_what_completion_prints_lies_where_the_shell_looks(
    share: Path, shell: str, path: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "completion", shell],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (share / path).read_text("ascii") == f"{done.stdout.rstrip()}\n"
