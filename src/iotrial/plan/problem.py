"""Problem: one thing in a study file that cannot be meant, where it stands, and the error that
tells them all.

``tomllib`` gives values without places.  The scanner here gives places without values: the line for
an error, the span for an edit.  It walks a text that ``tomllib`` has already accepted and therefore
need not judge it (TOML 1.0.0).  ``inline`` is the way back, for the few values that iotrial writes
into a study itself.
"""

from __future__ import annotations

import bisect
import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from iotrial.errors import StudyError

KeyPath = tuple[str | int, ...]
"""``("factors", "depth", "levels", 2)``: table names and keys, and positions in arrays."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
"""What an author may call things."""
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_KEY = re.compile(r'[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|\'[^\']*\'')
_SCALAR = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'"
    r"|\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*"  # a date and a time with a blank between them
    r"|[^\s,\]}#]+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _SourceSpan:
    """``line`` (from 1) of the key, or of the element; ``start`` and ``end`` delimit its value in
    the text (equal where a ``[table]`` header or a dotted key has no value of its own)."""

    line: int
    start: int
    end: int


@dataclass(slots=True)
class _Scan:
    """One walk over ``text``.  ``last`` is the index of the newest element of each array of
    tables, by its path."""

    text: str
    newlines: list[int]
    spans: dict[KeyPath, _SourceSpan] = field(default_factory=dict)
    last: dict[KeyPath, int] = field(default_factory=dict)

    def note(self, path: KeyPath, at: int, start: int, end: int) -> None:
        line = bisect.bisect_left(self.newlines, at) + 1
        self.spans.setdefault(path, _SourceSpan(line, start, end))

    def skip(self, pattern: re.Pattern[str], at: int) -> int:
        match = pattern.match(self.text, at)
        return match.end() if match else at


def locate(text: str) -> dict[KeyPath, _SourceSpan]:
    """The span of every key path of a TOML text that ``tomllib`` accepts."""
    scan = _Scan(text, [match.start() for match in re.finditer("\n", text)])
    table: KeyPath = ()
    at = scan.skip(_BLANK, 0)
    while at < len(text):
        if text.startswith("[", at):
            table, at = _header(scan, at)
        else:
            at = _pair(scan, table, at)
        at = scan.skip(_BLANK, at)
    return scan.spans


def line_of(spans: Mapping[KeyPath, _SourceSpan], path: KeyPath) -> int:
    """The line of ``path``, or of the innermost table around it that is written; 0 if none."""
    for length in range(len(path), 0, -1):
        if path[:length] in spans:
            return spans[path[:length]].line
    return 0


def inline(value: object) -> str:
    """A value (text, number, bool, list, dict) as TOML on one line."""
    if isinstance(value, Mapping):
        entries = ", ".join(f"{_name(str(key))} = {inline(item)}" for key, item in value.items())
        return f"{{ {entries} }}" if entries else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(inline(item) for item in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for DEL, which only TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def _name(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else inline(key)


def _header(scan: _Scan, start: int) -> tuple[KeyPath, int]:
    """``[a.b]`` or ``[[a.b]]`` at ``start`` → the path its keys belong to, and where it ends."""
    array = scan.text.startswith("[[", start)
    at = scan.skip(_BLANK, start + (2 if array else 1))
    names, at = _key(scan, at)
    path: KeyPath = ()
    for name in names[:-1]:
        path = _newest(scan, (*path, name))
        scan.note(path, start, start, start)
    path = (*path, names[-1])
    if array:
        scan.note(path, start, start, start)
        scan.last[path] = scan.last.get(path, -1) + 1
    path = _newest(scan, path)
    scan.note(path, start, start, start)
    return path, scan.text.index("]", at) + (2 if array else 1)


def _newest(scan: _Scan, path: KeyPath) -> KeyPath:
    return (*path, scan.last[path]) if path in scan.last else path


def _key(scan: _Scan, at: int) -> tuple[list[str], int]:
    """A key, dotted or not → its names, and where it ends."""
    names: list[str] = []
    while match := _KEY.match(scan.text, at):
        raw = match[0]
        names.append(tomllib.loads(f"k = {raw}")["k"] if raw[0] in "\"'" else raw)
        at = match.end()
        after = scan.skip(_DOT, at)
        if after == at:
            break
        at = after
    return names, at


def _pair(scan: _Scan, table: KeyPath, start: int) -> int:
    """``key = value`` at ``start`` → where it ends."""
    names, at = _key(scan, start)
    path = table
    for name in names[:-1]:
        path = (*path, name)
        scan.note(path, start, start, start)
    return _value(scan, (*path, names[-1]), start, scan.skip(_EQUALS, at))


def _value(scan: _Scan, path: KeyPath, key: int, start: int) -> int:
    """The value at ``start`` of the key at ``key`` → where it ends."""
    opening = scan.text[start]
    if opening == "[":
        end = _items(scan, path, start + 1)
    elif opening == "{":
        end = _entries(scan, path, start + 1)
    else:
        end = scan.skip(_SCALAR, start)
    scan.note(path, key, start, end)
    return end


def _items(scan: _Scan, path: KeyPath, at: int) -> int:
    index = 0
    at = scan.skip(_BLANK, at)
    while scan.text[at] != "]":
        at = scan.skip(_BLANK, _value(scan, (*path, index), at, at))
        index += 1
        at = _comma(scan, at)
    return at + 1


def _entries(scan: _Scan, path: KeyPath, at: int) -> int:
    at = scan.skip(_BLANK, at)
    while scan.text[at] != "}":
        at = scan.skip(_BLANK, _pair(scan, path, at))
        at = _comma(scan, at)
    return at + 1


def _comma(scan: _Scan, at: int) -> int:
    return scan.skip(_BLANK, at + 1) if scan.text[at] == "," else at


@dataclass(frozen=True, slots=True)
class StudyProblem:
    """``path`` is where, ``message`` what is wrong, ``advice`` what to write instead."""

    path: KeyPath
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class StudySource:
    """A study file's name and text, and where each key stands in it."""

    file: str
    text: str
    spans: Mapping[KeyPath, _SourceSpan]


def key_text(path: KeyPath) -> str:
    """``("factors", "depth", "levels", 2)`` → ``factors.depth.levels[2]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """``Did you mean X?  `` where something known resembles ``word``, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?  " if close else ""


def choices(word: str, known: Sequence[str], what: str) -> str:
    """Advice for a name that is not among ``known``: the nearest, then what is allowed."""
    listed = ", ".join(known) if known else "none"
    return f"{nearest(word, known)}{what}: {listed}"


def raise_all(problems: Iterable[StudyProblem], source: StudySource) -> None:
    """Raises StudyError where there are any."""
    if found := list(problems):
        raise study_error(found, source)


def study_error(problems: Sequence[StudyProblem], source: StudySource) -> StudyError:
    """All problems as one error: the first in the file is the message, the others follow."""
    placed = sorted(
        ((line_of(source.spans, problem.path), problem) for problem in problems),
        key=lambda pair: pair[0],
    )
    line, first = placed[0]
    others = [
        f"also {source.file}:{at}: {key_text(problem.path)}: {problem.message}"
        + (f" ({problem.advice})" if problem.advice else "")
        for at, problem in placed[1:]
    ]
    return StudyError(
        first.message,
        file=source.file,
        line=line,
        key=key_text(first.path),
        advice="\n  ".join([line for line in [first.advice, *others] if line]),
    )
