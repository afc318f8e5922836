"""``iotrial list``: the studies of a store."""

from __future__ import annotations

from collections.abc import Mapping

import click

from iotrial.cli.output import Output, common
from iotrial.report.layout import TextTable
from iotrial_store.cli import store_at, store_option


@click.command()
@store_option
@common
def command(output: Output, url: str | None) -> int:
    """List the studies of a store: how often, when, and on what machines they were executed.

    \b
    Example:
      iotrial list
      iotrial list --store postgresql://db.example.org/iotrial --json
    """
    from iotrial_store.asked import day, studies

    with store_at(url) as store:
        found = studies(store)
    output.document({"studies": found})
    table = TextTable("study", "results", "trials", "first", "last", "machines")
    for row in found:
        table.add_row(
            str(row["study"]), _counted(row), str(row["trials"]), day(row["first"]),
            day(row["last"]), str(row["machines"]),
        )  # fmt: skip
    output.answer(table if found else "no results; add some: iotrial push DIR")
    return 0


def _counted(row: Mapping[str, object]) -> str:
    return f"{row['results']}" + (f" ({row['pretended']} pretended)" if row["pretended"] else "")
