"""The parsers of lint.  PLUGINS: a module of this package has ``PARSERS``, one for a kind of
file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from types import MappingProxyType

from iotrial.plugins import modules
from iotrial_lint.rule import ConfigFile, Kind

Read = Callable[[str], str]
"""The text of a file; OSError where it cannot be read."""


@dataclass(frozen=True, slots=True)
class Parser:
    """``title`` is for people; ``knows`` tells whether a file is of this kind by its place and
    name; ``parse(text, file)`` gives a sheet for any text whatsoever: what cannot be parsed is a
    complaint with its line, never an exception.  ``gathered(text, file, read)``, where there is
    one, reads what the file includes too.
    """

    kind: Kind
    title: str
    knows: Callable[[PurePosixPath], bool]
    parse: Callable[[str, str], ConfigFile]
    gathered: Callable[[str, str, Read], ConfigFile] | None = None


@cache
def parsers() -> Mapping[Kind, Parser]:
    """Every parser by its kind."""
    found = (each for module in modules(__name__) for each in module.PARSERS)
    return MappingProxyType({each.kind: each for each in found})


def kind_of(path: str) -> Kind | None:
    """The kind of a file by its place and name; None when they do not tell."""
    place = PurePosixPath(path)
    return next((kind for kind, each in parsers().items() if each.knows(place)), None)


def parsed(kind: Kind, data: bytes, file: str = "", read: Read | None = None) -> ConfigFile:
    """A file of this kind, whatever its bytes are; with ``read`` also what it includes."""
    parser, text = parsers()[kind], data.decode("utf-8", "replace")
    if read is not None and parser.gathered:
        return parser.gathered(text, file, read)
    return parser.parse(text, file)
