"""The verbs of stores, one a file, and the option that they share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from iotrial_store.model import ResultStore
from iotrial_store.opened import opened, usual

store_option = click.option(
    "--store",
    "url",
    metavar="URL",
    help="file:FOLDER or postgresql://HOST/DATABASE; default: IOTRIAL_STORE, else a folder of"
    " your own.",
)


@contextmanager
def store_at(url: str | None) -> Iterator[ResultStore]:
    """The store, closed afterwards.  Raises as :func:`iotrial_store.opened.opened`."""
    found = opened(usual() if url is None else url)
    try:
        yield found
    finally:
        found.close()
