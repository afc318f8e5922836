"""The page: one file, its code and style inside, allowed by their hashes and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_PARTS = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    body: bytes
    policy: str


@cache
def page() -> Page:
    """The page and its Content-Security-Policy."""
    text = (files("iotrial.live") / "page.html").read_text("utf-8")
    found = {kind: _hash(content) for kind, content in _PARTS.findall(text)}
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{found['script']}'",
            f"style-src '{found['style']}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
    return Page(text.encode(), policy)


def _hash(content: str) -> str:
    """As CSP takes it: of the element's text, byte for byte."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
