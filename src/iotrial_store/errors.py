"""What goes wrong with a store."""

from __future__ import annotations

import shlex

from iotrial.errors import IotrialError, UsageError
from iotrial_store import schema
from iotrial_store.migrations import MIGRATIONS


class StoreError(IotrialError):
    """A store that does not answer, or is none."""

    exit_code = 6


def several_statements() -> UsageError:
    """Of a query that is more than one."""
    return UsageError("a query is one SELECT: these are several", advice="Ask one after another.")


def not_asked(said: str) -> UsageError:
    """Of a query with a mistake."""
    return UsageError(said, advice="iotrial sql --schema has the views and their columns.")


def to_migrate(url: str) -> str:
    """What to type to migrate a store."""
    return f"iotrial push --migrate --store {shlex.quote(url)}"


def none_there(url: str, why: str) -> StoreError:
    """Of an address where no store is."""
    made = f"iotrial push DIR --store {shlex.quote(url)}"
    return StoreError(f"{url} is no store: {why}", advice=f"Make one there: {made}")


def other_version(url: str, found: object) -> StoreError:
    """Of a store with another version of the schema."""
    said = f"{url} has version {found!r} of the schema; this iotrial works with {schema.VERSION}"
    if isinstance(found, int) and 0 < found < schema.VERSION:
        return StoreError(
            said,
            advice=f"Migrate it: {to_migrate(url)} (iotrial before {MIGRATIONS[-1].needs} cannot"
            " use it afterwards)",
        )
    return StoreError(said, advice="Use the version of iotrial that wrote it, or a later one.")
