"""Renderers: one module a shape, which gives the blocks of any report that shape."""

from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown

__all__ = ["html", "markdown"]
