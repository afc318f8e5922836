"""``iotrial pull``: results out of a store, as a results folder."""

from __future__ import annotations

from pathlib import Path

import click

from iotrial.cli.output import Output, common, writing
from iotrial.errors import UsageError
from iotrial_store.cli import store_at, store_option


@click.command()
@click.argument("name", metavar="RESULT")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Into this folder, which must not exist or be empty; default: RESULT.",
)
@store_option
@common
def command(output: Output, name: str, out: Path | None, url: str | None) -> int:
    """Make a results folder of RESULT in a store: its first digits, or a tag.

    `compare` and `report` work on it.  Raw files are not in a store: they stay where they were when
    the folder was pushed, and that is said.

    \b
    Example:
      iotrial list
      iotrial pull 3fa9c1 --out old
      iotrial pull before-upgrade && iotrial compare before-upgrade
    """
    from iotrial_store.asked import one_result
    from iotrial_store.folder import made_again

    into = out or Path(name)
    if into.exists() and any(into.iterdir()):
        raise UsageError(f"{into} is not empty", advice="Name another folder with --out.")
    with store_at(url) as store:
        row = one_result(store, name)
        with writing(into, "--out"):
            made_again(store, str(row["result"]), into)
    output.document({"folder": str(into), **row})
    output.answer(f"{row['study']}: {row['trials']} trials in {into}")
    output.answer(f"raw files were in {row['place']}")
    return 0
