"""What a query came to, as CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from collections import Counter
from decimal import Decimal

from iotrial.errors import UsageError
from iotrial.report.trials import inert
from iotrial_store.model import StoreAnswer


def plain(value: object) -> object:
    """As JSON has it."""
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):  # sum() of integers is one in PostgreSQL
        value = int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        value = None  # JSON has no other word
    return value if value is None or isinstance(value, str | int | float) else str(value)


def rendered(found: StoreAnswer, shape: str) -> bytes:
    """``shape`` is csv, json or parquet; a table is CSV with tabs.  Raises UsageError for columns
    of one name, of which an object of JSON has one."""
    if shape == "json":
        if twice := [name for name, count in Counter(found.columns).items() if count > 1]:
            raise UsageError(
                f"two columns are called {twice[0]}", advice="Give each a name: … AS NAME"
            )
        rows = [{name: plain(each) for name, each in row.items()} for row in found.dicts()]
        return (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode()
    if shape == "parquet":
        return _parquet(found)
    into = io.StringIO()
    write = csv.writer(
        into, delimiter="," if shape == "csv" else "\t", lineterminator="\n"
    ).writerow
    write([inert(name) for name in found.columns])
    for row in found.rows:
        write([_cell(each) for each in row])
    return into.getvalue().encode(errors="backslashreplace")


def _cell(value: object) -> object:
    if isinstance(value, float):
        return value
    value = plain(value)
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return inert(value) if isinstance(value, str) else "" if value is None else value


def _parquet(found: StoreAnswer) -> bytes:
    import pyarrow as pa  # noqa: PLC0415  an extra
    from pyarrow import parquet  # noqa: PLC0415

    columns = list(zip(*found.rows, strict=True)) or [()] * len(found.columns)
    arrays = [pa.array(list(column)) for column in columns]
    into = io.BytesIO()
    parquet.write_table(pa.table(arrays, names=list(found.columns)), into, compression="zstd")
    return into.getvalue()
