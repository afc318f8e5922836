"""Where words go: answers to stdout, progress and complaints to stderr, JSON as one document.

Lines at the bottom of a terminal that are drawn anew again and again.

The cursor waits at the beginning of the first of them: all that is below is erased, whatever a
window of another size made of it in the meantime.  Counting rows upwards from their end leaves some
behind as soon as the window is made narrower, and the terminal folds what is in it.

Writing: where a verb may put its files, and what is said where it may not.
"""

from __future__ import annotations

import errno
import functools
import json as jsonlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ClassVar

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.control import Control
from rich.segment import Segment
from rich.text import Text

from iotrial import files
from iotrial.called import as_called, as_root, called
from iotrial.errors import UsageError
from iotrial.report.layout import HANG, folded
from iotrial.report.words import visible
from iotrial.units import parse_bytes, parse_fraction, parse_seconds

_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""A window may be narrower already than it says (tmux says it a quarter of a second later): what
is too wide then is cut and takes one row."""


def can_move(console: Console) -> bool:
    """Whether what ``console`` writes to takes such codes; that colours are asked for by the
    environment makes no terminal of a file."""
    return console.is_terminal and console.file.isatty() and not console.is_dumb_terminal


class LiveLines:
    """The lines, which are shown until :meth:`end`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: RenderableType | None = None

    def show(self, shown: RenderableType | None) -> None:
        """What is shown from now on, as much of it as the window is high."""
        with self._console:
            self._erase()
            self._shown = shown
            self._draw()

    def end(self) -> None:
        self.show(None)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While something else is printed, which stays above."""
        self._erase()
        try:
            yield
        finally:
            with self._console:
                self._draw()

    def _erase(self) -> None:
        if self._shown is not None:
            self._codes(_WRAP + "\r\x1b[J")  # also where an interrupted drawing left it off

    def _draw(self) -> None:
        if self._shown is None:
            return
        console = self._console
        lines = console.render_lines(self._shown, console.options.update(height=None), pad=False)
        room = max(console.height - 1, 1)
        parts = [Text.assemble(*((s.text, s.style or "") for s in each)) for each in lines[:room]]
        self._codes(_NO_WRAP)
        for number, part in enumerate(parts, 1):
            console.print(part, end="\n" * (number < len(parts)), no_wrap=True, overflow="crop")
        self._codes(_WRAP + "\r" + f"\x1b[{len(parts) - 1}A" * (len(parts) > 1))

    def _codes(self, codes: str) -> None:
        control = Control()
        control.segment = Segment(codes, None, [])
        self._console.control(control)


UNREAD = 141
"""The exit code of a command whose answer nobody reads to its end: 128 + SIGPIPE, as a shell says
of ``cat`` before ``head``."""


class _Visible:
    """What rich renders, with the control characters of its text made visible.  Text is data (a
    host's answer, a file's name); what moves the cursor or colours is rich's own, and comes after.
    """

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 (anything rich renders)
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for each in console.render(self._inner, options):
            yield each if each.control else Segment(visible_parts(each.text), each.style)


class _OnlyVisible(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [each if isinstance(each, Control) else _Visible(each) for each in renderables]


def visible_parts(text: str) -> str:
    """``text`` as a terminal may be given it: line breaks and tabs stay, other control characters
    are shown by their codes."""
    return "".join(part if part in "\n\t" else visible(part) for part in _KEPT.split(text))


_KEPT = re.compile(r"([\n\t])")
_HIDDEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def json_text(document: Any, indent: int = 1) -> str:  # noqa: ANN401 (a JSON value)
    """JSON that people may read: what is invisible stands as ``\\uXXXX``, which means the same."""
    text = jsonlib.dumps(document, ensure_ascii=False, indent=indent)
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Stream(Console):
    """A stream that ends the command when its reader has gone.  Not by an OSError: what acts on
    machines must not take it for one of theirs.  All that it says is visible, and stays what it is:
    ``:x:`` is a name's own, and no picture."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 (what a Console takes)
        super().__init__(emoji=False, **options)
        self.push_render_hook(_OnlyVisible())

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
        raise SystemExit(UNREAD)


ENDLESS = 1_000_000
"""The width of what is no terminal: nothing is folded for a file or another program."""
GOES_ON = " \\"


class Output:
    """The two streams of one command.  ``quiet`` keeps only answers and errors."""

    pending: ClassVar[dict[str, Any] | None] = None
    """The document of the command that is at work: there is one command in a process."""

    def __init__(self, *, json: bool = False, quiet: bool = False, verbose: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.verbose = verbose
        self.answers = _Stream(highlight=False, width=None if sys.stdout.isatty() else ENDLESS)
        self.notes = _Stream(
            stderr=True, highlight=False, width=None if sys.stderr.isatty() else ENDLESS
        )
        self.moving = LiveLines(self.notes)

    def answer(self, *renderables: Any) -> None:  # noqa: ANN401 (anything rich renders)
        """What was asked for, for people; nothing in JSON mode."""
        if self.json:
            return
        with self.moving.aside():
            for each in renderables:
                self._say(self.answers, each)

    def command(self, text: str) -> None:
        """A command as it may be typed: a line of it that goes on ends as a shell wants it."""
        if not self.json:
            with self.moving.aside():
                self._print(self.answers, folded(text, self.answers.width, mark=GOES_ON))

    def _say(self, stream: _Stream, said: Any) -> None:  # noqa: ANN401 (anything rich renders)
        if isinstance(said, str):
            said = Text(as_called(said))
        if isinstance(said, Text):
            said = Text("\n").join(
                part
                for line in said.split("\n", allow_blank=True)
                for part in _lines(line, stream.width)
            )
        self._print(stream, said)

    @staticmethod
    def _print(stream: _Stream, said: Any) -> None:  # noqa: ANN401 (anything rich renders)
        if isinstance(said, Text):  # it is folded already
            said.no_wrap, said.overflow = True, "ignore"
        stream.print(said, crop=False)

    def text(self, text: str) -> None:
        """Plain text (files, scripts): as it is, but on a terminal all of it visible."""
        shown = visible_parts(text) if sys.stdout.isatty() else text
        whole = shown.encode("utf-8", "backslashreplace").decode()
        click.echo(whole, nl=not text.endswith("\n"))

    def document(self, document: dict[str, Any]) -> None:
        """The one JSON document; nothing for people.  It is said when the verb has ended: what
        goes wrong after it is in it, as ``error``."""
        if self.json:
            Output.pending = document

    def close(self) -> None:
        """Say the document, if there is one."""
        document, Output.pending = Output.pending, None
        if document is not None:
            click.echo(json_text({"format": 1, **document}, 2))

    def note(self, text: str) -> None:
        """What happens meanwhile."""
        if not self.quiet:
            self.notice(text)

    def notice(self, text: str) -> None:
        """What was asked for and is needed while the verb is at work, quiet or not."""
        with self.moving.aside():
            self._say(self.notes, text)

    def error(self, kind: str, message: str, advice: str, code: int) -> None:
        advice = as_called(advice)
        if self.json:
            error = {"kind": kind, "message": message, "advice": advice, "exit": code}
            self.document({**(Output.pending or {}), "error": error})
            self.close()
        text = f"iotrial: {message}" + (f"\n  {advice}" if advice else "")
        self.notice(text)


def _lines(line: Text, width: int) -> Iterator[Text]:
    """One line, folded where it is too long.  A command that ends it stands by itself then, and
    can be copied from there."""
    found = _command_at_end(line.plain) if cell_len(line.plain) > width else 0
    if not found:
        yield folded(line, width)
        return
    before, command = line.divide([found])
    before.rstrip()
    yield folded(before, width)
    indent = len(before.plain) - len(before.plain.lstrip()) + HANG
    yield folded(Text(" " * indent) + command, width, mark=GOES_ON)


def _command_at_end(text: str) -> int:
    """Where the command begins with which ``text`` ends; 0 where it ends with other words."""
    calls = "|".join(map(re.escape, sorted({called(), as_root()}, key=len, reverse=True)))
    found = re.search(rf": (?:{calls}) (?!.*: )[^;`]*[^;`.]$", text)
    return found.start() + 2 if found else 0


def common(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options every verb has; the verb is called with an :class:`Output` first."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only results and errors.")
    @click.option("-v", "--verbose", is_flag=True, help="Print more detail.")
    @functools.wraps(verb)
    def wrapped(*args: Any, as_json: bool, quiet: bool, verbose: bool, **kwargs: Any) -> Any:  # noqa: ANN401
        Output.pending = None
        output = Output(json=as_json, quiet=quiet, verbose=verbose)
        answer = verb(output, *args, **kwargs)
        output.close()
        return answer

    return wrapped


pretend = click.option(
    "--pretend",
    is_flag=True,
    help="Run on a simulated host inside iotrial; this host is not changed.",
)


DURATION = click.types.FuncParamType(parse_seconds)


def latency(text: str) -> float:
    """Seconds.  A number alone would be seconds, which nobody who types ``2`` means."""
    seconds = parse_seconds(text)
    if not text.strip()[-1].isalpha():
        raise ValueError(f"{text!r} has no unit; for example {text.strip()}ms")
    return seconds


p99_limit = click.option(
    "--p99",
    type=click.types.FuncParamType(latency),
    metavar="TIME",
    help="Upper limit of the 99th percentile of latency, for example 2ms.",
)
margin_of_search = click.option(
    "--margin",
    type=click.types.FuncParamType(parse_fraction),
    default="3%",
    show_default=True,
    metavar="SHARE",
    help="Equivalence margin: the smallest difference that matters.",
)
target_size = click.option(
    "--size",
    type=click.types.FuncParamType(parse_bytes),
    metavar="SIZE",
    help="Size of a file or loop device; in a directory, of the file of each job.",
)
may_write = click.option(
    "--write", is_flag=True, help="Allow the load to write. Default: it only reads."
)


def resumable_out(verb: str) -> Callable[..., Any]:
    """The results folder of a search, whose name follows from the verb and the target."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help=f"The results folder.  [default: results/DATE-{verb}-TARGET; an unfinished one is"
        " resumed]",
    )


_OWNER = "Check the owner and mode of {folder}, or name another path with {option}."
_ADVICE = {
    errno.ENOENT: (
        "Folder {folder} does not exist: create it, or name another path with {option}."
    ),
    errno.EACCES: _OWNER,
    errno.EPERM: _OWNER,
}
_ELSE = "Name another path with {option}."
_PLACES = (*_ADVICE, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP)


@contextmanager
def writing(path: Path, option: str = "--out") -> Iterator[None]:
    """Around what writes ``path``, which the ``option`` names.

    Raises UsageError where nothing can be written at such a place; other errors (a full disk) go
    on as they are.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _PLACES:
            raise
        folder = _missing(path)
        odd = error.errno == errno.ENOENT and folder.exists()  # /proc says so
        said = _ELSE if odd else _ADVICE.get(error.errno, _ELSE)
        advice = said.format(folder=folder, option=option)
        raise UsageError(
            f"{path} cannot be written: {os.strerror(error.errno)}", advice=advice
        ) from error


def write(path: Path, content: bytes, *, option: str = "--out", top: Path | None = None) -> None:
    """Write a file of ours, in place of whatever has its name: a link is replaced, not followed.
    ``top`` is the results folder it belongs to, below which no folder may be a link.

    A pipe or a terminal that the ``option`` names is written to itself; so is what /dev and /proc
    lend the name of one (``/dev/stdout``).  Raises UsageError where nothing can be written.
    """
    with writing(path, option):
        if top is None and _is_stream(path):
            path.write_bytes(content)
            return
        files.write_bytes(path, content, top)


def check_place(path: Path, option: str) -> None:
    """Before hours of measuring: that :func:`write` can write there.  Raises UsageError."""
    with writing(path, option):
        if not _is_stream(path):
            with TemporaryFile(dir=path.parent):
                pass


def _is_stream(path: Path) -> bool:
    """Whether what has this name is no file.  Raises UsageError for a disk."""
    lent = path.absolute().parts[1:2] in (("dev",), ("proc",))
    try:
        mode = path.stat().st_mode if lent else path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISBLK(mode):
        raise UsageError(
            f"{path} is a disk; iotrial does not write a report to it", advice="Name a file."
        )
    return lent or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _missing(path: Path) -> Path:
    """The folder that is not there, or the one that would hold ``path``."""
    every = [*reversed(path.parents)]
    return next((each for each in every if not each.exists()), path.parent)
