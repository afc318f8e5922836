"""``iotrial site``: a store as pages that need no server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Group

from iotrial.cli.output import Output, can_move, common, writing
from iotrial.cli.progress import bar
from iotrial.report.words import count
from iotrial.units import format_wait
from iotrial_store.cli import store_at, store_option

_EVERY = 10.0
"""Seconds between two lines where no bar moves."""


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="Into this folder: a new one, an empty one, or a site made before, which is replaced.",
)
@click.option("--study", metavar="NAME", help="Of this study alone; default: of all.")
@store_option
@common
def command(output: Output, out: Path, study: str | None, url: str | None) -> int:
    """Write a static site of a store: its studies, what changed over time, and every report.

    It needs no server and nothing from elsewhere: open index.html.  Raw files are not in it.

    \b
    Example:
      iotrial site --out site
      iotrial site --out /srv/www/iotrial --store postgresql://db.example.org/iotrial
      iotrial site --out nightly --study nightly
    """
    from iotrial_store.site import check_site_folder, store_site, write_site

    check_site_folder(out)
    with store_at(url) as store, writing(out, "--out"):
        try:
            made = write_site(out, store_site(store, study or "", told=_progress(output)))
        finally:
            output.moving.end()
    output.document({"folder": str(out), "studies": made.studies, "pages": made.pages})
    studies = "1 study" if made.studies == 1 else f"{made.studies} studies"
    output.answer(f"{count(made.pages, 'page')} of {studies}: {out / 'index.html'}")
    return 0


def _progress(output: Output) -> Callable[[int, int, str], None]:
    """Shows how many reports of how many there are, the last one, and when all will be."""
    moves = can_move(output.notes) and not output.quiet
    began = last = 0.0

    def told(number: int, total: int, what: str) -> None:
        nonlocal began, last
        now = time.monotonic()
        began, last = began or now, last or now
        head = f"{number}/{total}"
        if 1 < number < total:
            head += f"  ETA {format_wait((now - began) / (number - 1) * (total - number))}"
        if moves:
            output.moving.show(Group(*bar(number / total, head, what, output.notes.width)))
        elif now >= last + _EVERY:
            last = now
            output.note(f"{head}  {what}")

    return told
