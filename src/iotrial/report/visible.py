"""Names from a study, a host or a file, made safe to look at.

Text that people did not choose (a device's model string, a file's name) may hold terminal
escapes, line breaks, lone surrogates or characters that turn the reading direction, so that a
line seems to say what it does not (CVE-2021-42574).  They are shown by their code instead.
Escaping for HTML or Markdown is another matter, and each renderer's own.
"""

from __future__ import annotations

import functools
import unicodedata

_TURNS = frozenset(map(chr, (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_HIDDEN = frozenset(("Cc", "Cs", "Zl", "Zp"))
_NO_XML = frozenset("\ufffe\uffff")  # XML 1.0, 2.2: a document that holds one is broken


def _shown(character: str) -> str:
    if character in _TURNS | _NO_XML or unicodedata.category(character) in _HIDDEN:
        return character.encode("unicode_escape").decode()
    return character


@functools.lru_cache(maxsize=4096)
def visible(text: str) -> str:
    """One line of ``text``: control characters, line breaks, surrogates and turns of direction
    are shown as ``\\x1b`` or ``\\u202e``."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def visible_lines(text: str) -> str:
    """As :func:`visible`, but line breaks and tabs stay what they are (a study file, a log)."""
    return "\n".join(
        "    ".join(visible(part) for part in line.split("\t")) for line in text.splitlines()
    )
