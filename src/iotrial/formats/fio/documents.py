"""The reports of fio in a text: JSON documents with other text before, between and after them.

A report is a JSON object with a key "fio version".  It may stand alone, be one of several that
follow each other (``--status-interval``, or the output of many runs in one file), or lie inside
an array or object that another program put around it.  What cannot be decoded but holds the words
``"fio version"`` is a torn report: where it breaks is said, and what follows is still read.

Source of the oddities: stat.c and json.c of fio; it writes 0/0 as bare ``nan``, and before 2.2 it
wrote control characters in strings as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iotrial.errors import FormatError

MARK = '"fio version"'
AGAIN = "repeat the trial: fio did not end by itself, or the disk with the results is full"
_OPEN = re.compile(
    rf'(?:^[ \t]*|(?<=[}}\]])[\s,]*)(?:\{{(?=\s*")|\[(?=\s*\{{))|\{{(?=\s*{MARK})', re.MULTILINE
)
# printf("%f") of 0/0: bare nan, which no JSON parser takes.  NaN of the same length is taken.
_BARE_NAN = re.compile(r"-?(?:nan|inf)\b")
_NAN = re.compile(r"(?<=[:\s])-?(?:nan|inf)(?=\s*[,}\]])")
_FROM = re.compile(r"<[^<>\s]+> (?=fio: |note: )")
_DEEPEST = 6  # objects and arrays around a report; others wrap it once or twice
_TRIES = 2000  # documents that do not decode, after which the rest is not looked at
_GLANCE = 4096  # characters in which most of those show that they are none


@dataclass(frozen=True, slots=True)
class Report:
    """``line`` is where it begins; ``said`` what fio said before it (of the last one: and after
    it); ``repeated`` the keys of its document that have two values."""

    record: Mapping[str, Any]
    line: int
    said: tuple[str, ...]
    repeated: frozenset[str]


@dataclass(frozen=True, slots=True)
class Torn:
    """A report that breaks: why, ``at`` which character, in which ``line``, and how many whole
    reports stand before it."""

    what: str
    at: int
    line: int
    after: int


def reports(text: str, raw: str) -> tuple[tuple[Report, ...], tuple[Torn, ...]]:
    """The whole reports in ``text``, and the torn ones, each in order.

    Raises :class:`~iotrial.errors.FormatError`, with byte and line, where none is whole.
    """
    whole: list[Report] = []
    torn: list[Torn] = []
    first: Torn | None = None
    lines, documents, place, told, failed = _Lines(text), False, 0, 0, 0
    healed, decodable = False, text
    while failed < _TRIES and (match := _OPEN.search(text, place)) is not None:
        start = match.end() - 1
        try:
            value, end, repeated = _decode(decodable, start)
        except (ValueError, RecursionError) as error:
            at = _place(error, start)
            if not healed and _BARE_NAN.match(text, at):
                healed, decodable = True, _NAN.sub(lambda found: "NaN".rjust(len(found[0])), text)
                continue
            broken = Torn(getattr(error, "msg", "nested too deeply"), at, lines(at), len(whole))
            first = first or broken
            ours = text.find(MARK, start, at) >= 0
            inner = bool(torn) and torn[-1].after == len(whole)
            if ours or (text[start] == "{" and not inner and not text[at:].strip()):
                torn.append(broken)
            failed += 1 + _TRIES * (at - start) // (4 * len(text))
            place = start + 1
            continue
        documents, place = True, end
        said = text[told:start]
        for record in _inside(value, _DEEPEST):
            whole.append(Report(record, lines(start), tuple(messages(said)), repeated))
            said, told = "", end
    if not whole:
        raise _nothing(text, raw, first, documents=documents)
    last = whole[-1]
    said_last = (*last.said, *messages(text[told:]))
    whole[-1] = Report(last.record, last.line, said_last, last.repeated)
    return tuple(whole), tuple(torn)


class _Lines:
    """Place → line number, for places asked for nearly in order, without counting anew."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def __call__(self, at: int) -> int:
        if at < self._at:
            return self._line - self._text.count("\n", at, self._at)
        self._line += self._text.count("\n", self._at, at)
        self._at = at
        return self._line


def _nothing(text: str, raw: str, broken: Torn | None, *, documents: bool) -> FormatError:
    if documents and (broken is None or MARK not in text):
        return FormatError(f"{raw}: JSON, but not a report of fio: it has no 'fio version'")
    if broken is None:
        return FormatError(f"{raw}: no report of fio: there is no JSON at line 1 or later")
    offset = len(text[: broken.at].encode("utf-8", "surrogateescape"))
    place = f"byte {offset} (line {broken.line})"
    message = f"{raw}: no whole report of fio: {broken.what} at {place}"
    return FormatError(message, advice=AGAIN)


def _inside(value: object, depth: int) -> Iterator[Mapping[str, Any]]:
    """The reports in a decoded document."""
    if isinstance(value, dict) and "fio version" in value:
        yield value
    elif depth and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _inside(each, depth - 1)


def _decode(text: str, start: int) -> tuple[object, int, frozenset[str]]:
    """One JSON value, where it ends, and its repeated keys.  Raises ValueError, RecursionError."""
    repeated: set[str] = set()

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            repeated.update(_contradictions(pairs))
        return record

    decoder = json.JSONDecoder(object_pairs_hook=unique, strict=False)
    glance = text[start : start + _GLANCE]
    try:  # an error counts all lines before it: of a whole file, for each bracket in a log
        value, end = decoder.raw_decode(glance)
    except json.JSONDecodeError as error:
        if error.pos < _GLANCE // 2 and len(glance) == _GLANCE:
            raise _Broken(error.msg, start + error.pos) from None
    else:
        return value, start + end, frozenset(repeated)
    repeated.clear()
    value, end = decoder.raw_decode(text, start)
    return value, end, frozenset(repeated)


class _Broken(ValueError):
    """As json.JSONDecodeError, without counting lines: ``msg`` and ``pos``."""

    def __init__(self, msg: str, pos: int) -> None:
        super().__init__(msg)
        self.msg, self.pos = msg, pos


def _place(error: ValueError | RecursionError, start: int) -> int:
    """The character at which a document breaks."""
    at = getattr(error, "pos", start)
    return at if isinstance(at, int) else start


def _contradictions(pairs: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Keys with two different values.  Strings are the options of a job, where ``filename`` may
    well be there many times."""
    first: dict[str, Any] = {}
    for key, value in pairs:
        if first.setdefault(key, value) != value and not isinstance(value, str):
            yield key


def messages(text: str) -> Iterator[str]:
    """fio's own messages in the text around a report; of a server behind its host's name."""
    for line in (_FROM.sub("", each) for each in text.splitlines()):
        if line.startswith(("fio: ", "note: ")):
            yield printable(line[:200])


def printable(text: str) -> str:
    """Text that can be written anywhere: no lone surrogates, no control characters."""
    return "".join(
        char if char.isprintable() else "?" for char in text.encode("utf-8", "replace").decode()
    )
