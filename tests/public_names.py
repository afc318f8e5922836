"""The names that docs/python.md calls public, and what docs/conf.py puts on the site of each."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).resolve().parents[1] / "docs"
_LINES = (_DOCS / "python.md").read_text("utf-8").splitlines()
PUBLIC = re.findall(r"`(\w+)`", next(line for line in _LINES if " are public: " in line))
SHOWN = re.findall(r"(?m)^\.\. auto\w+:: ([\w.]+)$", (_DOCS / "conf.py").read_text("utf-8"))
"""Each with its module."""
