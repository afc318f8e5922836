"""Parquet: the table of all trials (:mod:`iotrial.report.trial_table`), typed, for data frames.

``block`` is an integer, ``value`` a double (null: nothing was measured), ``started`` a time (UTC;
null: unknown), everything else text, coded by a dictionary since it repeats.  Labels of factors
stay text: ``4k`` and ``none`` are labels, and so is ``32``.  The schema's metadata names the study
and its question.
"""

from __future__ import annotations

import io

import pyarrow as pa
from pyarrow import parquet as files

from iotrial.model.results import Results
from iotrial.report.trial_table import BEFORE, Row, columns, factors, rows
from iotrial.report.visible import visible

_TEXT = pa.dictionary(pa.int32(), pa.string())


def parquet(results: Results) -> bytes:
    """The whole table as a file."""
    made = list(rows(results))
    told = {
        "trial": [row.trial for row in made],
        "block": [row.block for row in made],
        "workload": [row.workload for row in made],
        **_labels(results, made),
        "metric": [row.metric or None for row in made],
        "value": [row.value for row in made],
        "unit": [row.unit for row in made],
        "censored": [row.censored for row in made],
        "job": [row.job for row in made],
        "state": [row.state for row in made],
        "started": [None if row.started is None else round(row.started * 1e6) for row in made],
        "source": [row.source for row in made],
    }
    if results.pretended:
        told["pretended"] = [True] * len(made)
    typed = {
        "block": pa.int32(),
        "value": pa.float64(),
        "started": pa.timestamp("us", tz="UTC"),
        "pretended": pa.bool_(),
    }
    fields = [pa.field(name, typed.get(name, _TEXT)) for name in told]
    about = {
        "iotrial.study": visible(results.study.name),
        "iotrial.question": visible(results.study.question),
    }
    if results.pretended:
        about["iotrial.pretended"] = "yes"
    table = pa.table(
        [
            pa.array(values, type=field.type)
            for field, values in zip(fields, told.values(), strict=True)
        ],
        schema=pa.schema(fields, metadata=about),
    )
    into = io.BytesIO()
    files.write_table(table, into, compression="zstd")
    return into.getvalue()


def _labels(results: Results, made: list[Row]) -> dict[str, list[str | None]]:
    names = columns(results)[len(BEFORE) :]
    shown = names[: len(factors(results))]
    return {name: [row.labels[place] for row in made] for place, name in enumerate(shown)}
