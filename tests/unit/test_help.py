"""The screen of help, the words for values, and what a shell completes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from iotrial.cli import completion
from iotrial.cli.main import GROUPS, SUMMARIES, VERBS, cli, describe, status


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_bare_iotrial_is_a_screen_of_help_with_every_verb_in_a_group(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(arguments) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 79
    assert "…" not in said.out
    assert "..." not in said.out
    for title, rows in GROUPS:
        at = lines.index(title)
        assert [line.split()[0] for line in lines[at + 1 : at + 1 + len(rows)]] == [
            verb for verb, _ in rows
        ]
    assert all(2 < len(summary.split()) < 8 for summary in SUMMARIES.values())


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        yield from commands(f"{name} {each.name}", each)


@pytest.mark.parametrize("verb", VERBS)
def test_what_an_option_takes_is_a_word_that_says_it(verb: str) -> None:
    for name, command in commands(verb, describe()[verb]):
        context = click.Context(command)
        for option in command.params:
            shown = option.make_metavar(context)
            odd = re.search(r"INTEGER|TEXT|DIRECTORY|PATH|FLOAT|PARSE|RANGE", shown)
            assert not odd, (name, option.name, shown)


def completed(*words: str) -> list[str]:
    *before, last = words
    found = ShellComplete(cli, {}, "iotrial", "_IOTRIAL_COMPLETE").get_completions(before, last)
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("re",), ["report", "restore", "record"]),
        (("init", "sc"), ["scheduler"]),
        (("init", "--full", "v"), ["violin"]),
        (("init", "--full", "sc"), []),
        (("knobs", "li"), []),
        (("knobs", "queue.sch"), ["queue.scheduler"]),
        (("check", "sch"), ["scheduler"]),
        (("check", "scheduler/bf"), ["scheduler/bfq"]),
        (("check", "nosuch/"), []),
        (("saturate", "lo"), ["loop"]),
        (("saturate", "/tmp/x"), ["/tmp/x"]),
        (("tune", "lo"), ["loop"]),
        (("tune", "loop", "--load", "randr"), ["randread", "randrw"]),
        (("tune", "loop", "--load", "job"), ["job"]),
        (("tune", "loop", "--not", "queue.sch"), ["queue.scheduler"]),
        (("completion", "f"), ["fish"]),
    ],
)
def test_a_shell_completes_verbs_templates_knobs_suites_and_targets(
    words: tuple[str, ...], wanted: list[str]
) -> None:
    assert completed(*words) == wanted


def test_the_only_family_that_begins_so_is_completed_with_its_knobs() -> None:
    found = completed("knobs", "mul")
    assert found[0] == "multipath"
    assert "multipath.prio" in found


def test_targets_are_completed_by_ids_that_cannot_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sdz").touch()
    for name in ("ata-DISK_1", "ata-DISK_1-part1", "wwn-0x5"):
        (tmp_path / name).symlink_to("sdz")
    monkeypatch.setattr(completion, "BY_ID", tmp_path)
    assert completed("saturate", f"{tmp_path}/ata") == [f"{tmp_path}/ata-DISK_1"]
    assert completed("check", "--devices", f"{tmp_path}/w") == [f"{tmp_path}/wwn-0x5"]
