"""Checks as one page that needs nothing beside it: results on top, and behind each its evidence:
every command with what it said, and what the kernel said meanwhile.

Whatever a host said is shown with its control characters made visible; Jinja escapes it.
"""

from __future__ import annotations

import functools
import shlex

from jinja2 import Template

import iotrial
from iotrial.model.checked import Checked, Command
from iotrial.model.step import spoken
from iotrial.report import words
from iotrial.report.checked.words import (
    STYLES,
    changed,
    ended,
    last_time,
    lines,
    machines,
    seconds,
    summary,
    without_result,
)
from iotrial.report.page import hashed, sheet, templates
from iotrial.report.visible import visible, visible_lines

SHOWN = 2000
"""Characters of one output that stand on the page; the rest is in the evidence."""


def html(checked: Checked) -> str:
    """The page."""
    style = sheet()
    return _template().render(
        checked=checked,
        names=", ".join(name for name, _ in checked.suites),
        changed=changed,
        count=words.count,
        ended=ended,
        last_time=last_time,
        lines=lines,
        machines=machines(checked),
        outputs=_outputs,
        seconds=seconds,
        styles=STYLES,
        summary=summary(checked),
        told=_told,
        undone=without_result(checked),
        version=iotrial.__version__,
        style=style,
        style_hash=hashed(style),
    )


@functools.cache
def _template() -> Template:
    environment = templates()
    environment.filters.update(visible=visible, shown=_shown)
    return environment.get_template("checked.html.j2")


def _told(command: Command) -> str:
    """A command as one would type it; a script of ours by its name."""
    several = any("\n" in word for word in command.argv)
    return visible(spoken(command.argv) if several else shlex.join(command.argv))


def _outputs(command: Command, folder: str) -> list[tuple[str, str, str]]:
    """What a command said, output before errors: the text, its style, and where all of it is ('':
    it is all there)."""
    both = (
        (command.stdout, command.stdout_file, "said"),
        (command.stderr, command.stderr_file, "said err"),
    )
    return [
        (text, style, f"{folder}/{file or 'commands.jsonl'}" if file or len(text) > SHOWN else "")
        for text, file, style in both
    ]


def _shown(text: str) -> str:
    return visible_lines(text[:SHOWN]) + ("\n…" if len(text) > SHOWN else "")
