"""Problem: one thing in a study file that cannot be meant, and the error that tells them all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iotrial.errors import StudyError
from iotrial.plan.locate import KeyPath, Span, line_of


@dataclass(frozen=True, slots=True)
class Problem:
    """``path`` is where, ``message`` what is wrong, ``advice`` what to write instead."""

    path: KeyPath
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A study file's name and text, and where each key stands in it."""

    file: str
    text: str
    spans: Mapping[KeyPath, Span]


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


def study_error(problems: Sequence[Problem], source: Source) -> StudyError:
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
