"""The studies that ``iotrial init`` writes: one file each in ``templates/``, explained inside.

A template may have a full form, ``templates/full/NAME.toml``: the same study for disks and servers
that only the user can name.  Job files that a template names stand beside it, and so do the
studies of its line ``# Beside it:``, which belong to it.
"""

from __future__ import annotations

import re
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal

from iotrial.errors import UsageError
from iotrial.plan.problem import choices

Form = Literal["small", "full"]

PUBLISHED = ("redhawk", "violin", "bonnie", "panasas", "clustermd")
"""Templates that are published studies, oldest first; all others are named by what one wants to
know."""

_JOBFILE = re.compile(r'^jobfile = "([\w.-]+)"$', re.MULTILINE)
_STUDIES = re.compile(r"^# Beside it: (.+)$", re.MULTILINE)


def templates() -> list[tuple[str, str]]:
    """(name, what it is for) of every template, by name; the latter is its file's first line."""
    return [
        (name, template(name).partition("\n")[0].lstrip("# ")) for name in _names(_folder("small"))
    ]


def template(name: str, form: Form = "small") -> str:
    """The text of a template.  Raises UsageError, naming the nearest, for an unknown name, and
    for a form that it does not have."""
    known = _names(_folder("small"))
    if name not in known:
        advice = choices(name, known, "templates")
        raise UsageError(f"unknown template {name!r}", advice=advice)
    if name not in _names(_folder(form)):
        raise UsageError(
            f"template {name} has no full form",
            advice=f"Remove --full; it is for {', '.join(with_full_form())}.",
        )
    return (_folder(form) / f"{name}.toml").read_text("utf-8")


def with_full_form() -> tuple[str, ...]:
    """The templates that have one, by name."""
    known = _names(_folder("small"))
    return tuple(name for name in _names(_folder("full")) if name in known)


def beside(name: str, form: Form = "small") -> dict[str, str]:
    """The job files and studies that a template names, which belong beside it: name → text."""
    text = template(name, form)
    studies = [each for line in _STUDIES.findall(text) for each in line.split()]
    named = dict.fromkeys([*_JOBFILE.findall(text), *studies])
    return {each: (_folder(form) / each).read_text("utf-8") for each in named}


def _folder(form: Form) -> Traversable:
    small = resources.files("iotrial.plan") / "templates"
    return small / "full" if form == "full" else small


def _names(folder: Traversable) -> list[str]:
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))
