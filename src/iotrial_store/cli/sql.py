"""``iotrial sql``: any question to a store."""

from __future__ import annotations

from pathlib import Path

import click

from iotrial.cli.output import Output, common, writing
from iotrial.errors import UsageError
from iotrial.report.layout import TextTable
from iotrial.report.words import count
from iotrial_store.cli import store_at, store_option


@click.command()
@click.argument("query", required=False)
@click.option("--schema", "explained", is_flag=True, help="Say what can be asked: views, columns.")
@click.option(
    "--as",
    "shape",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    default="table",
    show_default=True,
    help="What the rows are written as.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Into this file; needed for parquet.",
)
@store_option
@common
def command(  # noqa: PLR0913, PLR0917 (click's parameters)
    output: Output,
    query: str | None,
    explained: bool,  # noqa: FBT001 (click's)
    shape: str,
    out: Path | None,
    url: str | None,
) -> int:
    """Ask a store with one SELECT over its views.  --schema says what these are.

    A query cannot change the store.  The dialect is DuckDB's, or PostgreSQL's.

    \b
    Example:
      iotrial sql --schema
      iotrial sql "SELECT study, count(*) FROM results GROUP BY study"
      iotrial sql "SELECT * FROM measurements WHERE metric = 'read.iops'" --as csv --out all.csv
    """
    from iotrial_store import schema
    from iotrial_store.rendered import rendered

    if explained == bool(query):
        raise UsageError("say a query, or --schema", advice="For example: iotrial sql --schema")
    if explained:
        rows = list(schema.told())
        keys = ("view", "column", "kind", "about")
        output.document(
            {"schema": schema.VERSION, "views": [dict(zip(keys, row, strict=True)) for row in rows]}
        )
        table = TextTable("view", "column", "kind", "meaning")
        for view, column, kind, about in rows:
            table.add_row("" if column else view, column, kind, about)
        output.answer(table)
        return 0
    if shape == "parquet" and out is None:
        raise UsageError("Parquet needs a file", advice="Name it with --out FILE.")
    with store_at(url) as store:
        found = store.query(query or "")
    output.document(
        {"columns": list(found.columns), "rows": [list(map(_plain, row)) for row in found.rows]}
    )
    if out is not None:
        with writing(out, "--out"):
            out.write_bytes(rendered(found, shape))
        output.note(f"{count(len(found.rows), 'row')} in {out}")
    elif shape == "table":
        table = TextTable(*found.columns)
        for row in found.rows:
            table.add_row(*("" if each is None else _said(each) for each in row))
        output.answer(table)
    elif not output.json:
        output.text(rendered(found, shape).decode())
    return 0


def _said(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(_plain(value))


def _plain(value: object) -> object:
    from iotrial_store.rendered import plain

    return plain(value)
