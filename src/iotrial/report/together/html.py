"""Checks and studies on one page.  As every page of ours: nothing is fetched, all text is escaped.

Its evidence lies beside it: links lead to the pages of the single folders and to the files in them.
"""

from __future__ import annotations

import functools

from jinja2 import Template

import iotrial
from iotrial.model.finding import Finding
from iotrial.report import words
from iotrial.report.checked.words import STYLES
from iotrial.report.html import STRIP, number, verdict_strip
from iotrial.report.page import hashed, sheet, templates
from iotrial.report.strip import scale
from iotrial.report.together.view import Measured, Together
from iotrial.units import format_change


def html(all_: Together) -> str:
    """The page."""
    style = sheet()
    return _template().render(
        all=all_,
        scales=[scale(_findings(each), each.margin, STRIP) for each in all_.measured],
        count=words.count,
        direction=words.direction,
        interval=words.interval,
        needs=words.needs,
        number=number,
        pretended_words=words.PRETENDED,
        plain_change=format_change,
        share=words.share,
        strip=verdict_strip,
        styles=STYLES,
        verdicts=words.VERDICTS,
        version=iotrial.__version__,
        style=style,
        style_hash=hashed(style),
    )


@functools.cache
def _template() -> Template:
    return templates().get_template("together.html.j2")


def _findings(study: Measured) -> list[Finding]:
    return [row.finding for part, _ in study.parts for row in part.findings]
