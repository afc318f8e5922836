"""A part of the fake machine: the state behind one family of settings.

PLUGINS: one file each in ``parts``, with a class ``PART``.  Its control files and programs join
those of the machine; a reboot makes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from iotrial.hosts.fake.names import index
from iotrial.plugins import modules

if TYPE_CHECKING:
    from iotrial.hosts.fake.machine import Machine


class Said(NamedTuple):
    """What a command says: exit status, stdout, stderr."""

    exit: int = 0
    stdout: str = ""
    stderr: str = ""


Command = Callable[["Machine", Sequence[str], bytes], Said]


class Program(NamedTuple):
    """``changes``: does it change the state of the machine?  (Or: do these arguments?)  ``torn``
    is what it does when it is killed in the middle (None: nothing)."""

    command: Command
    changes: bool | Callable[[Sequence[str]], bool]
    torn: Command | None = None


@dataclass
class Control:
    """A control file: what it reads (without the newline), and how it takes a write: the new
    text, or an OSError raised as the kernel answers (None: it cannot be written, EACCES)."""

    value: str
    take: Callable[[str], str | None] | None = None


class Lasting(dict[str, Control]):
    """Control files whose names never change while the machine runs (what they read may)."""

    @cached_property
    def folders(self) -> Mapping[str, frozenset[str]]:
        return index(tuple(self))


def folders(files: Mapping[str, Control]) -> Mapping[str, frozenset[str]]:
    """Folder → the names in it, of all that control files are in or below."""
    return files.folders if isinstance(files, Lasting) else index(tuple(files))


class Part(Protocol):
    """The state of one family, as after a boot."""

    def __init__(self) -> None: ...

    @property
    def below(self) -> tuple[str, ...]:
        """Folders that are always there, and that all its control files are in or below: elsewhere
        nobody asks for them."""
        ...

    def controls(self) -> Mapping[str, Control]:
        """Control files by absolute path.  ``take`` gives back the file's new text, or None where
        it has updated the part itself (then ``controls`` is asked again)."""
        ...

    def programs(self) -> Mapping[str, Program]:
        """Programs by name, in addition to those every fake machine has."""
        ...

    def links(self) -> Mapping[str, str]:
        """Symbolic links of /sys: path → absolute path."""
        ...

    def settings(self) -> Mapping[str, str]:
        """What no control file shows and must read the same after a restore (name → value)."""
        ...


@runtime_checkable
class Mounting(Protocol):
    """A part that has mounts."""

    def mounts(self, machine: Machine) -> list[tuple[str, str, str, str]]:
        """(device number, point, type, source)."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A part that a reboot does not make forget everything."""

    def remember(self, former: Part, machine: Machine) -> None:
        """Take over what lasts from the one that was there before the boot."""
        ...


def all_parts() -> dict[str, Part]:
    """A fresh one of each, by the name of its file."""
    return {name: made() for name, made in _kinds().items()}


def mounting(parts: Mapping[str, Part]) -> list[Mounting]:
    """Those of the parts that have mounts."""
    return [part for name in _mounting() if isinstance(part := parts[name], Mounting)]


@cache
def _mounting() -> tuple[str, ...]:
    # To ask a protocol is slow, and there may be a thousand machines.
    return tuple(name for name, kind in _kinds().items() if issubclass(kind, Mounting))


@cache
def _kinds() -> Mapping[str, type[Part]]:
    from iotrial.hosts.fake import parts  # noqa: PLC0415 (the plugins import this module)

    found = modules(parts.__name__)
    return {each.__name__.rpartition(".")[2]: each.PART for each in found}
