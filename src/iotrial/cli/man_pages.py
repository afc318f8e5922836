"""Manual pages and completion scripts, made of what ``--help`` and ``completion`` say: nothing of
them is written by hand.  A wheel holds them as files below ``share``; ``hatch_build.py`` calls this
in a process of its own, in which no help was told yet.

The text is ASCII, and the same on every machine and for every user: a command for root is written
as it works anywhere.

Source: man(7), groff_char(7).  click-man was tried: it knows no groups of verbs that are imported
late, prints click's sign for lines that are not to be wrapped, and escapes nothing.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from iotrial import __version__
from iotrial.called import help_anywhere
from iotrial.cli.completion import script_of
from iotrial.cli.main import BELOW, GROUPS, SUMMARIES, VERBS, as_written, cli

_LITERAL = "\b\n"
_CHARACTERS = {
    "\\": "\\e",
    "-": "\\-",
    "'": "\\(aq",
    "`": "\\(ga",
    "^": "\\(ha",
    "~": "\\(ti",
    '"': "\\(dq",
}
"""Those that troff would take for a sign of its own, or print as another one."""
_COMPLETIONS = {
    "bash": "bash-completion/completions/iotrial",
    "zsh": "zsh/site-functions/_iotrial",
    "fish": "fish/vendor_completions.d/iotrial.fish",
}
"""Where each shell looks below ``share``."""


def files() -> dict[str, str]:
    """Path below ``share`` → text."""
    pages = {"iotrial": _first(), **{f"iotrial-{verb}": _page(verb) for verb in VERBS}}
    return {
        **{f"man/man1/{name}.1": text for name, text in pages.items()},
        **{path: f"{script_of(shell).rstrip()}\n" for shell, path in _COMPLETIONS.items()},
    }


def _first() -> str:
    """The page of iotrial itself: the verbs, and what the screen of help says below them."""
    title = inspect.cleandoc(cli.help or "").removesuffix(".")
    lines = [*_head("iotrial", title), ".B iotrial", _plain(cli.subcommand_metavar), ".SH VERBS"]
    for group, rows in GROUPS:
        lines.append(f'.SS "{_plain(group)}"')
        for verb, summary in rows:
            lines += [".TP", f".BR {_plain(f'iotrial-{verb}')} (1)", _plain(summary)]
    heading = ""
    for paragraph in help_anywhere(BELOW).strip("\n").split("\n\n"):
        if paragraph.startswith("Exit codes: "):
            lines += [".SH EXIT STATUS", *_filled(paragraph.removeprefix("Exit codes: "))]
        else:
            lines += _example(paragraph.removeprefix("Example\n"), heading or ".SH EXAMPLES")
            heading = ".PP"
    return _ended(lines)


def _page(verb: str) -> str:
    """The page of a verb; its own sub-commands are sections of it."""
    command = as_written(verb)
    above = click.Context(cli, info_name="iotrial", **cli.context_settings)
    lines = _head(f"iotrial-{verb}", SUMMARIES[verb])
    lines += _of(command, click.Context(command, parent=above, info_name=verb))
    beside = next(dict(rows) for _, rows in GROUPS if verb in dict(rows))
    others = (f".BR {_plain(f'iotrial-{other}')} (1)" for other in beside if other != verb)
    return _ended([*lines, ".SH SEE ALSO", " ,\n".join([".BR iotrial (1)", *others])])


def _of(command: click.Command, context: click.Context) -> Iterator[str]:
    """Synopsis, description, options and examples of a command, and of those below it."""
    yield f".B {_plain(context.command_path)}"
    yield _plain(" ".join(command.collect_usage_pieces(context)))
    text, _, example = _help(command).partition(f"{_LITERAL}Example:\n")
    below = context.parent is not None and context.parent.command is not cli
    yield ".PP" if below else ".SH DESCRIPTION"
    yield from _paragraphs(text)
    if not below:
        yield ".SH OPTIONS"
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    records = [each.get_help_record(context) for each in options]
    for names, about in (record for record in records if record):
        yield from (".TP", f".B {_plain(names)}", *_filled(about))
    if example:
        yield from _example(example, ".SS Examples" if below else ".SH EXAMPLES")
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for name, each in command.commands.items():
            yield f'.SS "{_plain(f"{context.command_path} {name}")}"'
            yield from _of(each, click.Context(each, parent=context, info_name=name))


def _help(command: click.Command) -> str:
    return help_anywhere(inspect.cleandoc(command.help or ""))


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(filter(str.strip, text.split("\n\n"))):
        yield from [".PP"] * (number > 0)
        if paragraph.startswith(_LITERAL):
            yield from (".nf", *map(_line, paragraph.removeprefix(_LITERAL).split("\n")), ".fi")
        else:
            yield from _filled(paragraph)


def _example(text: str, heading: str) -> Sequence[str]:
    lines = inspect.cleandoc(f"\n{text}").split("\n")
    return (heading, ".nf", *map(_line, lines), ".fi")


def _head(name: str, title: str) -> list[str]:
    # Without a time that the maker gives there is no date: the same source is the same page.
    moment = os.environ.get("SOURCE_DATE_EPOCH", "")
    date = time.strftime("%Y-%m-%d", time.gmtime(int(moment))) if moment else ""
    about = f"{_plain(title[:1].lower())}{_plain(title[1:])}"
    return [
        f'.TH {_plain(name.upper())} 1 "{date}" "iotrial {__version__}" "iotrial"',
        *(".SH NAME", f"{_plain(name)} \\- {about}", ".SH SYNOPSIS"),
    ]


def _filled(text: str) -> tuple[str, ...]:
    return (_line(" ".join(text.split())),)


def _line(text: str) -> str:
    """A line of text, which is no request even where it begins like one."""
    plain = _plain(text)
    return f"\\&{plain}" if plain.startswith(".") else plain


def _plain(text: str) -> str:
    signs = (_CHARACTERS.get(sign, sign) for sign in text)
    return "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in signs)


def _ended(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def main(folder: str) -> None:
    """Write all of them below ``folder``."""
    for path, text in files().items():
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "ascii")


if __name__ == "__main__":
    main(sys.argv[1])
