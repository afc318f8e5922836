"""Extras: packages that only some of what iotrial does needs, and how one that is missing is named.

They take more room than everything else together (decision 0029), so they are the extras of
``pyproject.toml``.  A module that needs one imports it as usual; whoever imports that module does
so within :func:`extra`.  One that needs it for a part of what it does has it :class:`LazyModule`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from iotrial.errors import ExtraMissing

PACKAGES = {
    "charts": {"vl_convert": "vl-convert-python"},
    "xlsx": {"openpyxl": "openpyxl"},
    "parquet": {"pyarrow": "pyarrow"},
    "store": {"duckdb": "duckdb", "psycopg": "psycopg[binary]", "pyarrow": "pyarrow"},
}
"""Extra → module → the package that holds it."""


_OF_UV = "uv-receipt.toml"
"""What `uv tool install` leaves in the environment that it makes."""


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """``what`` is done within.  Raises ExtraMissing where a package of the extra is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in PACKAGES[name]:
            raise
        package = PACKAGES[name][module]
        said = f"{what} needs {package}, which is not installed"
        raise ExtraMissing(said, package=package, advice=advice(name)) from None


class LazyModule:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the module has)
        return getattr(import_module(self._module), name)


def advice(name: str) -> str:
    """What gets an extra: into the environment that uv or pipx made, or any other."""
    packages = shlex.join(PACKAGES[name].values())
    if Path(sys.prefix, _OF_UV).exists():
        return f"uv pip install --python {shlex.quote(sys.prefix)} {packages}"
    return f"pipx inject iotrial {packages}, or pip install 'iotrial[{name}]'"


def missing(name: str) -> tuple[str, ...]:
    """The packages of the extra that are not installed."""
    return tuple(package for module, package in PACKAGES[name].items() if not _there(module))


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
