"""Native files: settings as an administrator would have written them.  PLUGINS: one format a file.

A module of this package with a ``NATIVE`` (:class:`NativeFormat`) is a plugin.  Each says which
settings it can hold (``takes``) and writes the files for them.  A setting goes to the first format
by ``order`` that takes it, unless formats are chosen; some are never chosen by themselves
(``order`` 0): they hold again what others hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from iotrial.errors import UsageError
from iotrial.keep.entry import KeptSetting, problem
from iotrial.keep.profile import Profile, plain
from iotrial.plugins import values


@dataclass(frozen=True, slots=True)
class NativeFile:
    """One file.  ``path`` is its place on the host; ``entries`` what it holds.

    ``reload`` are commands after which the host's programs know the file (also when it is gone),
    ``load`` those that put it in force at once, ``unload`` those to be run before it is removed;
    ``notes`` are what a person must know or do (an initramfs, a reboot); ``program``: it is
    executed.  ``people``: it is a note for people, and is put on no host.  ``loader``: its words
    are in force when that boot loader's menu has them, and the host has booted.
    """

    path: str
    text: str
    entries: tuple[KeptSetting, ...]
    reload: tuple[tuple[str, ...], ...] = ()
    load: tuple[tuple[str, ...], ...] = ()
    unload: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    program: bool = False
    people: bool = False
    loader: str = ""


@dataclass(frozen=True, slots=True)
class NativeFormat:
    """``about`` in a line; ``source`` where its rules stand; ``readers`` the units that read its
    files in a boot before sysinit.target (none: nobody does so early); ``longest`` the bytes of a
    line that every version of its readers takes as one line."""

    name: str
    about: str
    source: str
    order: int
    takes: Callable[[KeptSetting], bool]
    write: Callable[[Profile], tuple[NativeFile, ...]]
    readers: tuple[str, ...]
    longest: int = 4000


@cache
def formats() -> Mapping[str, NativeFormat]:
    """Every format by its name, in the order in which settings are offered to them."""
    found = values("native").values()
    ordered = sorted(found, key=lambda each: (each.order == 0, each.order, each.name))
    return MappingProxyType({each.name: each for each in ordered})


@dataclass(frozen=True, slots=True)
class NativeExport:
    """``files`` of a profile; ``left`` the settings that no chosen format holds."""

    files: tuple[NativeFile, ...]
    left: tuple[KeptSetting, ...]


def export(profile: Profile, names: Sequence[str] = ()) -> NativeExport:
    """The native files for a profile, by the formats chosen (none: those that fit).

    Raises UsageError for a format that does not exist, and for an entry that cannot be kept.
    """
    known = formats()
    for entry in profile.entries:
        if found := problem(entry):
            raise UsageError(f"{plain(str(entry))}: {found[1]}", advice="Remove it.")
    for name in names:
        if name not in known:
            raise UsageError(f"unknown format {name!r}", advice=f"Known: {', '.join(known)}")
    chosen = [known[name] for name in names] or [each for each in known.values() if each.order]
    files: list[NativeFile] = []
    left = list(profile.entries)
    for each in chosen:
        # Where formats are named, each writes all that it can: somebody wants to choose later.
        mine = [entry for entry in (profile.entries if names else left) if each.takes(entry)]
        if mine:
            written = each.write(profile.only(mine))
            _refuse_long_lines(each, written)
            files += written
            left = [entry for entry in left if entry not in mine]
    return NativeExport(tuple(files), tuple(left))


def _refuse_long_lines(form: NativeFormat, files: Iterable[NativeFile]) -> None:
    """What is beyond a reader's buffer would be read as a line of its own."""
    for file in files:
        for line in file.text.split("\n"):
            size = len(line.encode("utf-8", "surrogateescape"))
            if size > form.longest:
                raise UsageError(
                    f"{file.path}: a line of {size} bytes exceeds the limit of this format,"
                    f" {form.longest}: {line[:60]!r}…",
                    advice="Shorten the value, or remove it.",
                )


_WORD = re.compile(r"[A-Za-z0-9_.,:=+@/-]+")
_COMMENT, _MORE = 200, "…"
"""The bytes of a line of comment at most, and the sign that it was longer."""
_INTERFACE = re.compile(r"[A-Za-z0-9_.@][A-Za-z0-9_.@-]*")


def by_device(profile: Profile) -> Iterator[tuple[str, tuple[KeptSetting, ...]]]:
    """Each device, and the settings of it."""
    for device in dict.fromkeys(entry.device for entry in profile.entries):
        yield device, tuple(entry for entry in profile.entries if entry.device == device)


def is_word(text: str) -> bool:
    """Such that it stands for itself in any of the formats: no blank, quote, pattern, comment,
    escape, variable or specifier."""
    return _WORD.fullmatch(text) is not None


def is_phrase(text: str) -> bool:
    """Several such words, with one blank between them."""
    return all(map(is_word, text.split(" ")))


def is_interface(name: str) -> bool:
    """A name of an interface that is no pattern, where patterns are taken."""
    return _INTERFACE.fullmatch(name) is not None


def header(profile: Profile, entries: Iterable[KeptSetting], undo: str, mark: str = "#") -> str:
    """Lines of comment: the study, each effect with its interval, and how to undo this."""
    lines = [f"iotrial keep: {profile.name}"]
    lines += [f"asked: {profile.question}"] if profile.question else []
    lines += [f"from: {profile.source}"] if profile.source else []
    for entry in entries:
        former = f" (was {entry.former})" if entry.former else ""
        because = f": {entry.because}" if entry.because else ""
        lines.append(f"{entry}{former}{because}")
    lines += [f"undo: iotrial keep {profile.name} undo", f"or manually: {undo}"]
    # A backslash at the end of a line would take the next one into the comment (udev, systemd).
    return "".join(f"{mark} {_cut(plain(line))}".rstrip("\\ ") + "\n" for line in lines)


def _cut(line: str) -> str:
    """A reader with a buffer for a line takes what is beyond it for the next line, which is no
    comment: of the readers' buffers the smallest has 256 bytes."""
    whole = line.encode("utf-8", "replace")
    if len(whole) <= _COMMENT:
        return line
    return whole[: _COMMENT - len(_MORE.encode())].decode("utf-8", "ignore") + _MORE
