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
from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import getdoc
from types import ModuleType
from typing import NamedTuple, cast

from iotrial.errors import UsageError
from iotrial.model.study import Study
from iotrial.model.tunable import Tunable
from iotrial.plugins import Plugin, conflict, plugins


@cache
def _modules() -> tuple[ModuleType, ...]:
    return tuple(plugin.module for plugin in plugins("tunables"))


class TunableFamily(NamedTuple):
    """A family, its docstring, and its rows in rank order."""

    name: str
    title: str
    about: str
    rows: tuple[Tunable, ...]


def every_family() -> tuple[TunableFamily, ...]:
    """Every family, by name."""
    return tuple(
        TunableFamily(
            str(each.FAMILY), str(each.TITLE), getdoc(each) or "", families()[each.FAMILY]
        )
        for each in _modules()
    )


@cache
def families() -> dict[str, tuple[Tunable, ...]]:
    """Every family's rows by the family's name, in rank order."""
    return {str(module.FAMILY): _in_rank_order(module.TUNABLES) for module in _modules()}


def all_tunables() -> tuple[Tunable, ...]:
    """Every row of every family, in rank order."""
    return _in_rank_order(row for rows in families().values() for row in rows)


@cache
def _by_name() -> dict[str, Tunable]:
    """Raises UsageError where two families have a row of one name."""
    found: dict[str, Plugin] = {}
    for plugin in plugins("tunables"):
        for row in plugin.value:
            if other := found.get(row.name):
                raise conflict(row.name, other, plugin)
            found[row.name] = plugin
    return {row.name: row for row in all_tunables()}


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every tunable that a name may mean: the rows of the families, and those that a study defines
    itself (``own``), which win."""

    own: tuple[Tunable, ...] = ()

    def tunable(self, name: str) -> Tunable:
        """The tunable of this name.

        Raises :class:`~iotrial.errors.UsageError`, naming the nearest ones, for a name unknown.
        """
        own = next((row for row in self.own if row.name == name), None)
        known = own or _by_name().get(name) or _made(name)
        if known is None:
            raise UsageError(f"unknown tunable {name!r}", advice=self._nearest(name))
        return known

    def said_by_command(self, name: str) -> bool:
        """Whether only a command of the study's own says what is in force: that is for a run."""
        return any(row.name == name and row.read for row in self.own)

    def group(self, names: Iterable[str]) -> tuple[Tunable, ...]:
        """The named tunables and everything they move, transitively, in rank order.

        This is what must be snapshotted before the first write: the law of settings, point 3.
        Raises :class:`~iotrial.errors.UsageError` for an unknown name.
        """
        return _closure(self, tuple(names))

    def _nearest(self, name: str) -> str:
        words, names = sorted(re.split(r"[._-]", name)), [*_by_name(), *(r.name for r in self.own)]
        near = [known for known in names if sorted(re.split(r"[._-]", known)) == words]
        near = near or difflib.get_close_matches(name, names, n=3, cutoff=0.75)
        near += [known for known in names if known.endswith(f".{name}") and known not in near]
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        return f"{meant}`iotrial knobs` lists them all."


CATALOGUE = Catalogue()
"""Without those of a study."""


def catalogue_of(study: Study) -> Catalogue:
    """With those of the study."""
    return _with(study.knobs) if study.knobs else CATALOGUE


@lru_cache(maxsize=64)
def _with(own: tuple[Tunable, ...]) -> Catalogue:
    return Catalogue(own)


def tunable(name: str) -> Tunable:
    """:meth:`Catalogue.tunable` of :data:`CATALOGUE`."""
    return CATALOGUE.tunable(name)


def group(names: Iterable[str]) -> tuple[Tunable, ...]:
    """:meth:`Catalogue.group` of :data:`CATALOGUE`."""
    return CATALOGUE.group(names)


def written(name: str) -> str:
    """The name of the tunable that a level of this one writes: of a rule another, else its own."""
    known = _by_name().get(name)
    return known.written if known else name


@cache
def _made(name: str) -> Tunable | None:
    """The row that a family makes for a name its table does not have."""
    for module in _modules():
        if hasattr(module, "row") and (made := module.row(name)) is not None:
            return cast("Tunable", made)
    return None


@lru_cache(maxsize=1024)
def _closure(catalogue: Catalogue, names: tuple[str, ...]) -> tuple[Tunable, ...]:
    """Asked for the same names on every one of a thousand hosts."""
    found = {name: catalogue.tunable(name) for name in names}
    fresh, known = list(found.values()), (*all_tunables(), *catalogue.own)
    while fresh:
        mover = fresh.pop()
        for row in known if mover.moves else ():
            if row.name not in found and row.moved_by(mover):
                found[row.name] = row
                fresh.append(row)
    return _in_rank_order(found.values())


def _in_rank_order(rows: Iterable[Tunable]) -> tuple[Tunable, ...]:
    return tuple(sorted(rows, key=lambda row: (row.rank, row.name)))
