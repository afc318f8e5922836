"""The catalogue of tunables.  PLUGINS: one file per family.

A family is a module of this package with ``FAMILY`` (its name), ``TITLE`` (for people) and
``TUNABLES`` (its rows).  Adding one is adding a file, or a row to one; listings, documentation
and tests follow from here.  A family of which no table can be complete (sysctl) also has
``row(name)``, which makes a row for a name that has none.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from inspect import getdoc
from types import ModuleType
from typing import NamedTuple, cast

from iotrial.errors import UsageError
from iotrial.model.tunable import Tunable
from iotrial.plugins import plugins


@cache
def _modules() -> tuple[ModuleType, ...]:
    return tuple(plugin.module for plugin in plugins("tunables"))


class Family(NamedTuple):
    """A family, its docstring, and its rows in rank order."""

    name: str
    title: str
    about: str
    rows: tuple[Tunable, ...]


def catalogue() -> tuple[Family, ...]:
    """Every family, by name."""
    return tuple(
        Family(str(each.FAMILY), str(each.TITLE), getdoc(each) or "", families()[each.FAMILY])
        for each in sorted(_modules(), key=lambda module: str(module.FAMILY))
    )


@cache
def families() -> dict[str, tuple[Tunable, ...]]:
    """Every family's rows by the family's name, in rank order."""
    return {str(module.FAMILY): _in_rank_order(module.TUNABLES) for module in _modules()}


def all_tunables() -> tuple[Tunable, ...]:
    """The whole catalogue, in rank order."""
    return _in_rank_order(row for rows in families().values() for row in rows)


_OF_STUDY: dict[str, Tunable] = {}


def define(rows: Iterable[Tunable]) -> None:
    """Make these the rows that a study defines itself, in place of those of any study before."""
    _OF_STUDY.clear()
    _OF_STUDY.update((row.name, row) for row in rows)
    _closure.cache_clear()


def of_study() -> tuple[Tunable, ...]:
    """The rows that the study defines itself."""
    return tuple(_OF_STUDY.values())


def by_command_of_study(name: str) -> bool:
    """Whether only a command of the study's own says what is in force: that is for a run."""
    return name in _OF_STUDY and bool(_OF_STUDY[name].read)


@cache
def _catalogue() -> dict[str, Tunable]:
    return {row.name: row for row in all_tunables()}


def _by_name() -> dict[str, Tunable]:
    return {**_catalogue(), **_OF_STUDY}


def tunable(name: str) -> Tunable:
    """The tunable of this name.

    Raises :class:`~iotrial.errors.UsageError`, naming the nearest ones, for a name unknown.
    """
    known = _OF_STUDY.get(name) or _catalogue().get(name) or _made(name)
    if known is None:
        raise UsageError(f"there is no tunable {name!r}", advice=_nearest(name))
    return known


@cache
def _made(name: str) -> Tunable | None:
    """The row that a family makes for a name its table does not have."""
    for module in _modules():
        if hasattr(module, "row") and (made := module.row(name)) is not None:
            return cast("Tunable", made)
    return None


def _nearest(name: str) -> str:
    words = sorted(re.split(r"[._-]", name))
    near = [known for known in _by_name() if sorted(re.split(r"[._-]", known)) == words]
    near = near or difflib.get_close_matches(name, list(_by_name()), n=3, cutoff=0.75)
    near += [known for known in _by_name() if known.endswith(f".{name}") and known not in near]
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{meant}`iotrial knobs` lists them all."


def group(names: Iterable[str]) -> tuple[Tunable, ...]:
    """The named tunables and everything they move, transitively, in rank order.

    This is what must be snapshotted before the first write: the law of settings, point 3.
    Raises :class:`~iotrial.errors.UsageError` for an unknown name.
    """
    return _closure(tuple(names))


@lru_cache(maxsize=1024)
def _closure(names: tuple[str, ...]) -> tuple[Tunable, ...]:
    """Asked for the same names on every one of a thousand hosts."""
    found = {name: tunable(name) for name in names}
    fresh, known = list(found.values()), tuple(_by_name().values())
    while fresh:
        mover = fresh.pop()
        for row in known if mover.moves else ():
            if row.name not in found and row.moved_by(mover):
                found[row.name] = row
                fresh.append(row)
    return _in_rank_order(found.values())


def _in_rank_order(rows: Iterable[Tunable]) -> tuple[Tunable, ...]:
    return tuple(sorted(rows, key=lambda row: (row.rank, row.name)))
