"""How a store of an earlier version of the schema becomes one of this version: a step a version.

A step says which columns it adds, and what results have in them that were pushed before.  Both
kinds of store do all steps that a store lacks at once, or nothing (``migrate`` of each).  A version
that needs another kind of step, such as a new view, is the one that teaches it to both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iotrial_store import schema


@dataclass(frozen=True, slots=True)
class StoreMigration:
    """To ``version`` from the one before.  ``added``: of a view its new columns, which are its
    last, each with the constant, in SQL, that former rows have there.  ``needs`` is the first
    version of iotrial that works with it."""

    version: int
    needs: str
    added: Mapping[str, Mapping[str, str]]


MIGRATIONS = (StoreMigration(2, "1.0.0", {"results": {"pushed_by": "''"}}),)
"""In order: the last leads to :data:`schema.VERSION`."""


def steps_from(version: int) -> tuple[StoreMigration, ...]:
    """Those that a store of this version lacks."""
    return tuple(each for each in MIGRATIONS if each.version > version)


def changed(view: str, version: int = schema.VERSION) -> int:
    """The version in which the columns of a view were changed last, up to this one."""
    every = (each for each in MIGRATIONS if each.version <= version)
    return max((each.version for each in every if view in each.added), default=1)


def added_since(version: int) -> Iterator[tuple[schema.StoreView, schema.StoreColumn, str]]:
    """What a store of this version lacks: view, column, and the constant of former rows."""
    views = {view.name: view for view in schema.VIEWS}
    for step in steps_from(version):
        for name, constants in step.added.items():
            columns = {column.name: column for column in views[name].columns}
            for column, constant in constants.items():
                yield views[name], columns[column], constant
