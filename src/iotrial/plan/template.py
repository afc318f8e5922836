"""The studies that ``iotrial init`` writes: one file each in ``templates/``, explained inside."""

from __future__ import annotations

import difflib
from importlib import resources

from iotrial.errors import UsageError

_FOLDER = "templates"


def templates() -> list[tuple[str, str]]:
    """(name, what it is for) of every template, by name; the latter is its file's first line."""
    folder = resources.files("iotrial.plan") / _FOLDER
    names = sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )
    return [(name, template(name).partition("\n")[0].lstrip("# ")) for name in names]


def template(name: str) -> str:
    """The text of a template.  Raises UsageError, naming the nearest, for an unknown name."""
    path = resources.files("iotrial.plan") / _FOLDER / f"{name}.toml"
    if "/" in name or not path.is_file():
        known = [known for known, _ in templates()]
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"Did you mean {near[0]!r}?  " if near else ""
        raise UsageError(
            f"there is no template {name!r}", advice=f"{meant}templates: {', '.join(known)}"
        )
    return path.read_text("utf-8")
