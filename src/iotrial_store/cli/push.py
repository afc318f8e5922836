"""``iotrial push``: results folders into a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from iotrial.cli.output import Output, common
from iotrial.errors import UsageError
from iotrial_store.cli import store_at, store_option


@click.command()
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False)
)
@store_option
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="A name for these results.")
@common
def command(
    output: Output, folders: tuple[Path, ...], url: str | None, tags: tuple[str, ...]
) -> int:
    """Add results FOLDERS to a store: trials, settings, findings, doubts and machines.

    Raw files stay where they are; the store has their digest and place.  The same folder pushed
    twice is there once; one whose study went on replaces what was there.

    \b
    Example:
      iotrial push results/*
      iotrial push results/2026-11-20-scheduler --tag before-upgrade
      iotrial push results/* --store postgresql://db.example.org/iotrial
    """
    from iotrial_store.content import StoreContent, content_of

    if wrong := [tag for tag in tags if not tag.strip() or "," in tag]:
        raise UsageError(f"{wrong[0]!r} cannot be a tag", advice="Use a word, without a comma.")

    def contents() -> Iterator[StoreContent]:
        for number, folder in enumerate(folders, 1):
            content = content_of(folder, tags)
            output.note(f"{number}/{len(folders)}  {folder}: {len(content.trials)} trials")
            yield content

    with store_at(url) as store:
        counts = store.push(contents())
        output.document({
            "store": store.url, "added": counts.added, "replaced": counts.replaced,
            "same": counts.same,
        })  # fmt: skip
        said = [
            f"{number} {word}"
            for number, word in (
                (counts.added, "added"),
                (counts.replaced, "replaced"),
                (counts.same, "there already"),
            )
            if number
        ]
        output.answer(f"{', '.join(said)}; store {store.url}")
    return 0
