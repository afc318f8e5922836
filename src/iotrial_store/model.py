"""What every kind of store does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from iotrial_store.content import StoreContent


@dataclass(frozen=True, slots=True)
class PushCounts:
    """Results that a push added, that it replaced since their study had gone on, and that were
    there already, as they are."""

    added: int = 0
    replaced: int = 0
    same: int = 0


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """What a query came to: the names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]

    def dicts(self) -> list[dict[str, object]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class ResultStore(Protocol):
    """A store that is open.  Every method raises StoreError for one that does not answer, or is no
    store."""

    url: str

    def push(self, contents: Iterable[StoreContent]) -> PushCounts:
        """All of it or, where this is interrupted, nothing that can be seen.  The same results
        twice are once."""

    def query(self, sql: str, values: Sequence[object] = ()) -> StoreAnswer:
        """One SELECT over the views; ``values`` stand for its question marks.  It can change
        nothing.  Raises UsageError for one that the store does not understand, and for any other
        statement."""

    def migrate(self) -> int:
        """Make the schema this iotrial's: all of it or, where this is interrupted, nothing.  Gives
        the version that the store had, which may be this one."""

    def close(self) -> None: ...
