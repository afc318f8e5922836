"""Page: what all HTML pages of ours have.

Nothing in one is fetched, and its content security policy forbids that anything be: only the page's
own style sheet and its own script, both named by their hashes, are let through.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from iotrial.report import palette


def templates() -> Environment:
    """The pages' templates: what they are given is escaped, and what they miss is an error."""
    return Environment(
        loader=PackageLoader("iotrial.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def resource(name: str) -> Markup:
    """A file beside the templates, as it is."""
    text = resources.files("iotrial.report").joinpath("templates", name).read_text("utf-8")
    return Markup(text)  # noqa: S704 -- the package's own


def sheet() -> Markup:
    """The style sheet, and for the dark the exchange of every colour the charts draw with."""
    dark = palette.dark("svg.chart")
    return resource("report.css") + Markup(dark)  # noqa: S704 -- the palette is ours


def hashed(text: str) -> str:
    """A content security policy's name for an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
