"""What is known by name: kernel parameters, keywords of multipath.conf, parameters of modules.

Lists beside this file, made from the sources that their first lines name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from iotrial_lint.rule import Version

CLOSE = 0.84
"""How alike two names must be to be taken for one (difflib's ratio): one letter or two."""


def _rows(name: str) -> Iterator[list[str]]:
    text = (files(__package__) / name).read_text("utf-8")
    return (line.split() for line in text.splitlines() if not line.startswith("#"))


def version(text: str) -> Version:
    """``"0.9.4"`` → ``(0, 9, 4)``; what is no number ends it.

    >>> version("6.1.0-18-amd64")
    (6, 1, 0)
    """
    found = re.match(r"\d{1,6}(?:\.\d{1,6})*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


# --- kernel parameters -------------------------------------------------------------------------


@cache
def sysctls() -> frozenset[str]:
    """Names with dots; ``*`` stands for an interface or the like."""
    return frozenset(row[0] for row in _rows("sysctl.txt"))


_ANY = re.compile(
    r"(?P<head>net\.ipv[46]\.(?:conf|neigh)|net\.mpls\.conf|dev\.parport)\.(?P<name>.+)"
    r"\.(?P<tail>[^.]+)"
)


def general(key: str) -> str:
    """A key with ``*`` in place of an interface.

    >>> general("net.ipv4.conf.eth0.rp_filter")
    'net.ipv4.conf.*.rp_filter'
    """
    found = _ANY.fullmatch(key)
    return f"{found['head']}.*.{found['tail']}" if found else key


def is_sysctl(key: str) -> bool:
    """Whether a kernel has it; a pattern matches what it may."""
    if general(key) in sysctls():
        return True
    if not any(mark in key for mark in "*?["):
        return key.startswith(("kernel.sched_domain.", "fs.binfmt_misc.", "dev.parport."))
    head = re.split(r"[*?\[]", key)[0]
    return any(name.startswith(head) for name in sysctls())


@cache
def nearest_sysctl(key: str) -> str:
    """The real name that a wrong one may mean; '' when none is near."""
    wanted = general(key)
    folder, _, name = wanted.rpartition(".")
    found = nearest(name, _folders().get(folder, ()))
    if found:
        whole = f"{folder}.{found}"
        return whole.replace("*", key.split(".")[3]) if "*" in folder else whole
    elsewhere = _places().get(name, ())
    if len(elsewhere) == 1:
        return f"{elsewhere[0]}.{name}"
    kin = [each for each in sysctls() if each[:3] == wanted[:3]]
    return nearest(wanted, kin, 0.92)


@cache
def _folders() -> Mapping[str, tuple[str, ...]]:
    """Names by the folder that they are in."""
    found: dict[str, list[str]] = {}
    for each in sorted(sysctls()):
        folder, _, name = each.rpartition(".")
        found.setdefault(folder, []).append(name)
    return {folder: tuple(names) for folder, names in found.items()}


@cache
def _places() -> Mapping[str, tuple[str, ...]]:
    """Folders by a name that is in them."""
    found: dict[str, list[str]] = {}
    for folder, names in _folders().items():
        for name in names if "*" not in folder else ():
            found.setdefault(name, []).append(folder)
    return {name: tuple(folders) for name, folders in found.items()}


def nearest(name: str, known: Collection[str], cutoff: float = CLOSE) -> str:
    """The known name that is most alike; '' when none is near."""
    alike = [each for each in known if abs(len(each) - len(name)) <= max(3, len(name) // 5)]
    found = difflib.get_close_matches(name, alike, n=1, cutoff=cutoff)
    return found[0] if found else ""


# --- multipath.conf ----------------------------------------------------------------------------


class Keyword(NamedTuple):
    """``first`` and ``until``: the releases of multipath-tools that read it; () is no bound."""

    section: str
    name: str
    first: Version
    until: Version


@cache
def keywords() -> Mapping[tuple[str, str], Keyword]:
    """By section (``devices/device``) and name."""
    return {
        (row[0], row[1]): Keyword(row[0], row[1], version(row[2]), version(row[3]))
        for row in _rows("multipath.txt")
    }


@cache
def names_in(section: str) -> frozenset[str]:
    """Keywords that may stand in a section."""
    return frozenset(name for known, name in keywords() if known == section)


@cache
def sections_of(name: str) -> tuple[str, ...]:
    """Sections in which a keyword may stand."""
    return tuple(section for section, known in keywords() if known == name)


# --- fio -----------------------------------------------------------------------------------------


@cache
def fio_options() -> frozenset[str]:
    """Options beside those of :func:`iotrial.tools.fio_rules.option_table`: of rarer engines."""
    return frozenset(row[0] for row in _rows("fio.txt"))


# --- modules -----------------------------------------------------------------------------------


@cache
def modules() -> Mapping[str, frozenset[str]]:
    """Parameters by module, for a few that storage people set."""
    return {row[0]: frozenset(row[1:]) for row in _rows("modules.txt")}
