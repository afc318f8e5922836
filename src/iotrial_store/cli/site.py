"""``iotrial site``: a store as pages that need no server."""

from __future__ import annotations

from pathlib import Path

import click

from iotrial.cli.output import Output, common, writing
from iotrial_store.cli import store_at, store_option


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
        made = write_site(out, store_site(store, study or ""))
    output.document({"folder": str(out), "studies": made.studies, "pages": made.pages})
    output.answer(f"{made.pages} pages of {made.studies} studies: {out / 'index.html'}")
    return 0
