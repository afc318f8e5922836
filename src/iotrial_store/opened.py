"""The store that an address names."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from iotrial.errors import UsageError
from iotrial.extras import extra
from iotrial_store.model import ResultStore


def opened(url: str) -> ResultStore:
    """``file:FOLDER``, a folder's path, or ``postgresql://…``.  Raises UsageError for another
    address, ExtraMissing."""
    if not url.removeprefix("file:").strip():
        raise UsageError(
            "--store is empty", advice="Name a store: file:FOLDER or postgresql://HOST/DATABASE."
        )
    if url.startswith(("postgresql://", "postgres://")):
        with extra("store", "a store in PostgreSQL"):
            from iotrial_store.postgres import PostgresStore  # noqa: PLC0415  an extra

            return PostgresStore(url)
    if url.startswith("file:"):
        url = unquote(url.removeprefix("file:").removeprefix("//"))
    elif "://" in url:
        raise UsageError(
            f"{url.partition('://')[0]}:// is no store that iotrial knows",
            advice="Use file:FOLDER or postgresql://HOST/DATABASE.",
        )
    with extra("store", "a store"):
        from iotrial_store.parquet import ParquetStore  # noqa: PLC0415  an extra

        return ParquetStore(Path(url).expanduser())


def usual() -> str:
    """The store where none is named: ``IOTRIAL_STORE``, else one in the user's data."""
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return os.environ.get("IOTRIAL_STORE") or f"file:{Path(data).expanduser()}/iotrial/store"
