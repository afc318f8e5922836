"""Checks as a document: results on top, and behind each its evidence: every command with what it
said, and what the kernel said meanwhile.

Whatever a host said is shown with its control characters made visible.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import quote

from iotrial.model.step import spoken
from iotrial.report import words
from iotrial.report.blocks import (
    Block,
    Column,
    Document,
    Fold,
    Items,
    Only,
    Pre,
    Section,
    Span,
    Table,
    Text,
    Words,
)
from iotrial.report.visible import visible, visible_lines
from iotrial_suites.report.words import (
    changed,
    ended,
    last_time,
    lines,
    machines,
    seconds,
    state,
    summary,
    without_result,
)
from iotrial_suites.result import Checked, Command, Result

SHOWN = 2000
"""Characters of one output that stand on the page; the rest is in the evidence."""


def document(checked: Checked) -> Document:
    """All of it."""
    names = visible(", ".join(name for name, _ in checked.suites))
    return Document(
        f"Checks: {names}",
        tuple(_head(checked)),
        (_results(checked), *(_case(checked, each) for each in checked.results)),
    )


def _head(checked: Checked) -> Iterator[Block]:
    yield Text(Span(f"{visible(summary(checked))}.", "strong"), "lead")
    for each in checked.mended:
        yield Text(Span(f"{visible(each.name)} was known to fail, and passes.", "strong"), "known")
    if checked.stopped:
        yield Text(f"Ended early: {visible(checked.stopped)}.", "fail")
    if undone := without_result(checked):
        yield Text(f"Without a result: {', '.join(undone)}.")
    about = list(machines(checked))
    if checked.seed is not None:
        about.append(f"shuffled with seed {checked.seed}")
    if checked.last_from:
        about.append(f"the last time: {visible(checked.last_from)}")
    yield Items(tuple(about))


def _results(checked: Checked) -> Block:
    head = (Column("case"), Column("result"), Column("time", "n"), Column("last time"))
    return Table(head, tuple(_row(checked, each) for each in checked.results), "Results")


def _row(checked: Checked, each: Result) -> tuple[Words, ...]:
    last = visible(last_time(checked, each).removeprefix("last "))
    name = Span(visible(each.name), href=f"#{quote(each.anchor)}")
    return (
        (name, Span(visible(each.title), "small")),
        state(each.state),
        seconds(each.seconds),
        Span(last, "changed" if changed(checked, each) else "note") if last else "",
    )


def _case(checked: Checked, each: Result) -> Block:
    """Where there is nothing to say of a case but its result, Markdown has it in the table."""
    blocks: list[Block] = [Text(visible(each.title))]
    if why := lines(each):
        blocks.append(Items(why))
    if each.folder:
        link = Span(f"{visible(each.folder)}/", href=f"{quote(each.folder)}/")
        blocks.append(Text(("evidence: ", link), "note"))
    if commands := checked.commands.get(each.key, ()):
        told = tuple(block for one in commands for block in _command(one, each.folder))
        many = words.count(len(commands), "command")
        blocks.append(Fold(many, told, open=each.state == "fail"))
    if log := checked.logs.get(each.key, ""):
        blocks.append(Fold("kernel log", (Pre(_shown(log), "said"),)))
    title = (f"{visible(each.name)}: ", state(each.state))
    section = Section(title, tuple(blocks), each.anchor)
    return section if why else Only("html", section)


def _command(command: Command, folder: str) -> Iterator[Block]:
    """A command as one would type it (a script of ours by its name), how it ended, and what it
    said."""
    several = any("\n" in word for word in command.argv)
    typed = visible(spoken(command.argv) if several else shlex.join(command.argv))
    good = command.exit == 0 and not command.late
    how = f"{ended(command)}, {command.seconds:.2f} s, {command.host}, {command.phase}"
    yield Text((Span(typed, "code"), " ", Span(visible(how), "note" if good else "fail")))
    if command.stdin:
        yield Pre(f"< {_shown(command.stdin)}", "note")
    for text, file, look in (
        (command.stdout, command.stdout_file, "said"),
        (command.stderr, command.stderr_file, "said err"),
    ):
        if text:
            yield Pre(_shown(text), look)
        if file or len(text) > SHOWN:
            rest = f"{folder}/{file or 'commands.jsonl'}"
            yield Text(("all of it: ", Span(visible(rest), href=quote(rest))), "note")


def _shown(text: str) -> str:
    return visible_lines(text[:SHOWN]) + ("\n…" if len(text) > SHOWN else "")
