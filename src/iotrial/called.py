"""Called: what a person types to start this very program again, and how as root.

Where iotrial lies in a folder of its own (``pipx``, ``uv tool``, ``.venv/bin``), sudo does not find
it: it looks in the folders of its ``secure_path`` alone.  So a command to be typed with sudo
names the whole path.  ``./dev`` says in ``IOTRIAL_CALLED`` how it was called itself.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

NAME = "iotrial"
PLACEHOLDER = "sudo IOTRIAL"
"""How a command for root is written in help texts, where the call is not yet known."""
_ANYWHERE = 'sudo "$(command -v iotrial)"'
"""What works wherever the shell finds iotrial: for when the call says nothing, and in the docs."""
_VERBS = (
    "check|compare|completion|demo|doctor|find|history|import|init|keep|knobs|lint|list|plan|plugins"
    "|pull|push|record|report|restore|run|saturate|site|sql|status|tune|vmlab|VERB"
)
_COMMAND = re.compile(rf"(?<![\w./\"'-])iotrial(?= (?:{_VERBS}|--help|--version)\b)")
_EXPLAINED = re.compile(r"^( +\S.*?)( {2,})(\S.*)$")


def called() -> str:
    """What to type for this program: ``iotrial`` where the shell finds it by that name."""
    if told := os.environ.get("IOTRIAL_CALLED"):
        return told
    program = _program()
    if not program or shutil.which(NAME) == program:
        return NAME
    return shlex.quote(program)


def as_root() -> str:
    """What to type for this program as root, where sudo does not know where it lies."""
    if os.geteuid() == 0:
        return called()
    if told := os.environ.get("IOTRIAL_CALLED"):
        return f"sudo {told}"
    program = _program()
    return f"sudo {shlex.quote(program)}" if program else _ANYWHERE


def as_called(text: str) -> str:
    """``text`` with the commands that it names (``iotrial restore``) as they are to be typed; of
    those that are written so already nothing is changed."""
    told = called()
    if told != NAME:
        text = _COMMAND.sub(lambda _: told, text.replace(told, NAME))
    return text.replace(PLACEHOLDER, as_root())


def help_as_called(text: str) -> str:
    """The same for a help text, whose examples have their explanations in a column."""
    return _in_columns(as_called(text))


def help_anywhere(text: str) -> str:
    """A help text whose commands work wherever iotrial is installed, whoever types them."""
    return _in_columns(text.replace(PLACEHOLDER, _ANYWHERE))


def _in_columns(text: str) -> str:
    lines = text.split("\n")
    pairs = [_EXPLAINED.fullmatch(line) for line in lines]
    found = [pair for pair in pairs if pair]
    width = max((len(pair[1]) for pair in found), default=0)
    gap = " " * min((len(pair[2]) for pair in found), default=0)
    return "\n".join(
        f"{pair[1]:<{width}}{gap}{pair[3]}" if pair else line
        for line, pair in zip(lines, pairs, strict=True)
    )


def _program() -> str:
    """The whole path of the script that was called; '' where another program uses this package."""
    script = Path(sys.argv[0] if sys.argv else "")
    return str(script.absolute()) if script.name == NAME else ""
