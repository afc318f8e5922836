"""``docs/knobs.md``: every tunable, from the tables alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.plan.knobs import about
from iotrial.tunables import TunableFamily, every_family

_HEAD = """# Knobs

Every tunable that this version knows, by family.
A study names them in `tunable = "…"` or in a group of a level ([the study file](study-file.md)).
`iotrial knobs NAME` shows the same, with the value and the domain on this host.
[Adding a knob](adding-a-knob.md) is adding a row.

<!-- Made from the tables in src/iotrial/tunables/: change them, then
     IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_knobs.py -->
"""


def reference() -> str:
    """The whole page as Markdown.  Pure; the same for the same version of iotrial."""
    known = every_family()
    index = [f"- [`{each.name}`](#{_anchor(each)}): {each.title}" for each in known]
    return "\n".join([_HEAD, *index, "", *(line for each in known for line in _family(each))])


def _heading(family: TunableFamily) -> str:
    return f"`{family.name}`: {family.title}"


def _anchor(family: TunableFamily) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", _heading(family).lower()).strip().replace(" ", "-")


def _family(family: TunableFamily) -> Iterator[str]:
    yield from (f"## {_heading(family)}", "", *_prose(family.about))
    for knob in family.rows:
        yield from (f"### `{knob.name}`", "", f"{_sentence(knob.summary)}", "")
        yield from ("| | |", "|---|---|")
        for title, words in about(knob).items():
            yield f"| {title} | {_cell(title, words)} |"
        yield ""


def _sentence(text: str) -> str:
    whole = text[:1].upper() + text[1:]
    return whole if whole.endswith((".", "…")) else f"{whole}."


def _cell(title: str, words: str) -> str:
    if title in ("read", "moves") and "`" not in words:
        words = ", ".join(f"`{word}`" for word in words.split(", "))
    return _inline(words).replace("|", "\\|")


def _prose(text: str) -> Iterator[str]:
    """A docstring as Markdown: what is set off in it stays as it is."""
    for part in re.split(r"\n\s*\n", text):
        set_off = all(line.startswith(" ") for line in part.splitlines()) or "====" in part
        if set_off:
            yield from ("```text", part, "```", "")
        else:
            yield from (_inline(" ".join(part.split())).replace("::", ":"), "")


def _inline(text: str) -> str:
    text = re.sub(r":[a-z]+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return re.sub(r"``(.+?)``", r"`\1`", text)
