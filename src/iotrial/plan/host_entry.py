"""A host that an inventory names, and the error for what an inventory cannot mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from iotrial.errors import StudyError
from iotrial.model.hostlist import expanded
from iotrial.plan.problem import NAME, nearest

MOST_HOSTS = 10_000
MOST_BYTES = 4 * 2**20
_WILD = re.compile(r"[*?]")
_ODD = re.compile(r"[^\S ]|[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class InventoryHost:
    """``ssh`` is how ssh(1) reaches it, as words of a shell, or the ``NAME://TO`` of another
    connector ('': it is this machine)."""

    name: str
    ssh: str


def refuse(file: str, line: int, message: str, advice: str = "") -> StudyError:
    """The error for ``line`` (from 1; 0: none) of an inventory."""
    return StudyError(message, file=file, line=line, advice=advice)


def text_of(raw: bytes, file: str) -> str:
    """The text of an inventory.  Raises StudyError."""
    if len(raw) > MOST_BYTES:
        raise refuse(file, 0, "is larger than 4 MiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise refuse(file, line, "is not UTF-8", "Save it as UTF-8 text.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise refuse(file, line, "holds a NUL byte: not text")
    return text


def check_name(name: str, file: str, line: int) -> None:
    """Raises StudyError for what cannot be a host's name in a study."""
    if not NAME.fullmatch(name):
        advice = "Letters, digits, and . _ + - inside; give it such a name, and ansible_host."
        raise refuse(file, line, f"{name[:60]!r} is not a valid host name", advice)


def check_word(word: str, what: str, file: str, line: int) -> str:
    """A word for ssh without blanks.  Raises StudyError as :func:`check_value`."""
    if " " in check_value(word, what, file, line):
        raise refuse(file, line, f"{what} cannot be {word[:60]!r}")
    return word


def check_value(word: str, what: str, file: str, line: int) -> str:
    """A word for ssh: no option in disguise, no control character, no template.

    Raises StudyError.
    """
    if "{{" in word:
        raise refuse(
            file, line, f"{what} is a template: {word[:60]!r}", "Write its value; iotrial does"
                                                                " not evaluate templates."
        )  # fmt: skip
    if not word or word.startswith("-") or _ODD.search(word):
        raise refuse(file, line, f"{what} cannot be {word[:60]!r}")
    return word


def chosen(names: Sequence[str], wanted: str | Sequence[str], file: str) -> tuple[str, ...]:
    """Those of ``names`` that are ``wanted`` (``box[1-4]``, ``box*``), in the order wanted.

    Raises StudyError for one that is not there.
    """
    known = dict.fromkeys(names)
    found: dict[str, None] = {}
    for each in ranged(wanted, file):
        if _WILD.search(each):
            matches = [name for name in known if fnmatchcase(name, each)]
        else:
            matches = [each] if each in known else []
        if not matches:
            listed = ", ".join(list(known)[:10]) + (" …" if len(known) > 10 else "")  # noqa: PLR2004
            advice = f"{nearest(each, known)}Known hosts: {listed or 'none'}"
            raise refuse(file, 0, f"does not contain host {each!r}", advice)
        found.update(dict.fromkeys(matches))
    return tuple(found)


def ranged(wanted: str | Sequence[str], file: str) -> tuple[str, ...]:
    """The names and patterns, ranges written out.  Raises StudyError."""
    try:
        return expanded(wanted)
    except ValueError as error:
        advice = 'For example hosts = "box[1-4]"'
        raise refuse(file, 0, f"[inventory] hosts: {error}", advice) from None
