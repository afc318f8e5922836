"""Steps: how a setting is read and changed, as data.

Nothing here calls a host.  A :class:`Probe` says where a value is read, a :class:`Change` how it
is changed; a batch of :data:`Step` goes to :meth:`~iotrial.model.host.Host.batch` in one round
trip. Because they are data, the journal holds them, and the guard on the changed machine (a small
POSIX shell script) can undo everything without Python and without us: so every kind of pick exists
twice, here and in ``execute/settings/guard.sh``, and a test compares the two.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

ABSENT = "(absent)"
"""The value of what is not there and may be made, such as a file."""

NOT_HERE = (
    errno.ENOENT,
    errno.ENODEV,
    errno.ENXIO,
    errno.EOPNOTSUPP,
    errno.EINVAL,
    errno.ENOTDIR,
)
"""What the kernel answers when there is no such setting now."""

Pick = Literal["text", "chosen", "field", "item", "option", "listed", "mask", "yes", "whole"]


def spoken(argv: Sequence[str]) -> str:
    """A command for people; a script of ours by its name, a text of several lines as ``…``.

    >>> spoken(("sh", "-c", "a long script", "iotrial-latency", "7"))
    'iotrial-latency 7'
    """
    ours = tuple(argv[:2]) == ("sh", "-c") and len(argv) > 3  # noqa: PLR2004 (sh -c SCRIPT NAME)
    return " ".join("…" if "\n" in word else word for word in (argv[3:] if ours else argv))


@dataclass(frozen=True, slots=True)
class Probe:
    """Where a value is read: the file ``path``, or what the command ``argv`` prints (it must
    change nothing; an exit status other than 0 means: not here).

    ``pick`` says which part of that is the value:

    ========  ===============================================================================
    text      all words, joined by one blank
    chosen    the word in [brackets]; without any, as ``text``
    field     the first word after ``key``, in the last line that begins with ``key``
    item      ``key`` is ``LINE NAME``: in the last line whose first word is LINE, what
              stands behind ``NAME=``
    option    in a list separated by commas: what stands behind ``key=``; ``on`` for a bare
              ``key``; else ``unset``
    listed    ``key`` is a list separated by commas, and so is the text: the last of ``key``
              that the text has; else the first of ``key``
    mask      a hexadecimal mask without its commas and leading zeros
    yes       ``1`` for Y, ``0`` for N; else as ``text``
    whole     everything, exactly (a file that holds a NUL cannot be a setting)
    ========  ===============================================================================

    ``absent`` is the value where the file is not there, or the pick finds nothing ('': then there
    is no such setting here).
    """

    path: str = ""
    argv: tuple[str, ...] = ()
    pick: Pick = "text"
    key: str = ""
    absent: str = ""

    def value(self, raw: bytes) -> str | None:
        """The value in what was read, or None where it is not there."""
        found = _PICKS[self.pick](raw.decode("utf-8", "surrogateescape"), self.key)
        if found is None:
            return self.absent or None
        return found

    @property
    def place(self) -> str:
        """Where it is read, for people."""
        return self.path or f"`{spoken(self.argv)}`"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    ``write``: ``data`` into the existing control file ``path``, in one write(2).  ``save``: the
    ordinary file ``path`` has the content ``data`` from now on, whole or not at all; owner and
    mode of one that exists are kept.  ``remove``: there is no file ``path`` from
    now on.  ``run``: execute ``argv``.
    """

    kind: Literal["write", "save", "remove", "run"] = "write"
    path: str = ""
    data: str = ""
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """Read a probe."""

    probe: Probe


@dataclass(frozen=True, slots=True)
class Ensure:
    """Unless the probe reads as ``value`` at this moment already, do ``acts``, up to the first
    that is refused."""

    probe: Probe
    value: str
    acts: tuple[Change, ...]


Step = Read | Ensure


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step came to.  ``raw`` is what was read (of a Hold: before its acts).  ``errno``
    is 0, or why reading (Look) or an act (Hold) was refused; ``complaint`` says so in words."""

    raw: bytes = b""
    errno: int = 0
    complaint: str = ""


def _text(raw: str, _key: str) -> str:
    return " ".join(raw.replace("\0", "").split())


def _chosen(raw: str, key: str) -> str:
    found = re.search(r"\[([^\]]*)\]", raw)
    return found[1] if found else _text(raw, key)


def _field(raw: str, key: str) -> str | None:
    found = None
    for line in raw.splitlines():
        if line.strip().startswith(key):
            words = line.strip()[len(key) :].split()
            found = words[0] if words else None
    return found


def _item(raw: str, key: str) -> str | None:
    head, _, name = key.partition(" ")
    found = None
    for line in raw.splitlines():
        words = line.split()
        if words[:1] == [head]:
            behind = (word.partition("=") for word in words[1:])
            found = next((value for known, _, value in behind if known == name), None)
    return found


def _option(raw: str, key: str) -> str:
    for word in _text(raw, "").split(","):
        name, separator, value = word.partition("=")
        if name == key:
            return value if separator else "on"
    return "unset"


def _listed(raw: str, key: str) -> str:
    known, there = key.split(","), _text(raw, "").split(",")
    return ([known[0]] + [name for name in known if name in there])[-1]


def _mask(raw: str, _key: str) -> str:
    return raw.strip().replace(",", "").lstrip("0").lower() or "0"


def _yes(raw: str, key: str) -> str:
    return {"Y": "1", "N": "0"}.get(raw.strip(), _text(raw, key))


def _whole(raw: str, _key: str) -> str:
    return raw


_PICKS: dict[Pick, Callable[[str, str], str | None]] = {
    "text": _text,
    "chosen": _chosen,
    "field": _field,
    "item": _item,
    "option": _option,
    "listed": _listed,
    "mask": _mask,
    "yes": _yes,
    "whole": _whole,
}
PICKS: tuple[Pick, ...] = tuple(_PICKS)
