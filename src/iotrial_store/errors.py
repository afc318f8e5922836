"""What goes wrong with a store."""

from __future__ import annotations

from iotrial.errors import IotrialError
from iotrial_store import schema


class StoreError(IotrialError):
    """A store that does not answer, or is none."""

    exit_code = 6


def newer(url: str, found: object) -> StoreError:
    """Of a store with another version of the schema."""
    return StoreError(
        f"{url} has version {found!r} of the schema; this iotrial knows {schema.VERSION}",
        advice="Use the version of iotrial that wrote it, or a later one.",
    )
