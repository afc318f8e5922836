"""The appendix: the native files that keep the recommended treatment, ready to be copied.

Made by :mod:`iotrial.keep`; nothing where the study recommends what was in force already.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iotrial.called import called
from iotrial.errors import RefusedError, UsageError
from iotrial.judgement import Judged
from iotrial.keep.fleet import grouped
from iotrial.keep.native import export
from iotrial.keep.winner import profile
from iotrial.report.blocks import (
    Block,
    Collapsible,
    Preformatted,
    Section,
    ShapeOnly,
    Text,
    TextSpan,
)
from iotrial.report.words import visible, visible_lines


@dataclass(frozen=True, slots=True)
class _KeptFile:
    """One native file: its place on the host, its text, what must be known; ``hosts`` names those
    that it is for ('': the study's only one)."""

    path: str
    text: str
    notes: tuple[str, ...]
    hosts: str = ""


@dataclass(frozen=True, slots=True)
class KeepSummary:
    """``settings`` in words, ``files`` that hold them, ``left`` what no file holds, and the
    ``command`` that puts it all on probation; where a boot is needed (``booted``), for good."""

    settings: tuple[str, ...]
    files: tuple[_KeptFile, ...]
    left: tuple[str, ...]
    command: str
    booted: bool = False


def keepsake(judged: Judged) -> KeepSummary | None:
    """The appendix of a study; None where there is nothing to keep."""
    if judged.results.study.design.kind == "recorded":
        return None
    try:
        found = profile(judged)
    except (RefusedError, UsageError):
        return None
    exported = {place: export(share) for place, share in found.shares.items()}
    shares = {place: (each, exported[place].files) for place, each in found.shares.items()}
    left = [
        f"{each} on {place.name}" if found.hosts else str(each)
        for place, one in exported.items()
        for each in one.left
    ]
    booted = any(file.loader for one in exported.values() for file in one.files)
    action = "apply" if booted else "try"
    return KeepSummary(
        tuple(visible(str(entry)) for entry in found.entries),
        tuple(
            _KeptFile(
                visible(each.path),
                visible_lines(each.text),
                tuple(map(visible, each.notes)),
                visible(", ".join(place.name for place in places)) if len(shares) > 1 else "",
            )
            for places in grouped(shares).values()
            for each in exported[places[0]].files
        ),
        tuple(map(visible, left)),
        visible(f"{called()} keep {shlex.quote(str(judged.results.folder))} {action}"),
        booted,
    )


def document(kept: KeepSummary) -> dict[str, Any]:
    """For JSON."""
    files = [
        {
            "path": f.path,
            "text": f.text,
            "notes": list(f.notes),
            **({"hosts": f.hosts} if f.hosts else {}),
        }
        for f in kept.files
    ]
    return {"settings": list(kept.settings), "files": files, "left": list(kept.left)}


def section(kept: KeepSummary | None) -> Section | None:
    """The appendix, as part of a report."""
    return Section("To keep it", tuple(_blocks(kept)), "keep") if kept else None


def _blocks(kept: KeepSummary) -> Iterator[Block]:
    yield Text(f"{'; '.join(kept.settings)}.")
    undone = "; unless confirmed in time, the host restores its former settings. The same manually:"
    first = "Trial period first: "
    if kept.booted:
        first, undone = "To apply: ", "; then boot the host. The same manually:"
    yield Text((first, TextSpan(kept.command, "code"), undone), "note")
    for each in kept.files:
        name = (f"{each.hosts}: " if each.hosts else "", TextSpan(each.path, "code"))
        notes = tuple(Text(note, "note") for note in each.notes)
        yield ShapeOnly("html", Collapsible(name, (Preformatted(each.text), *notes)))
        yield ShapeOnly("markdown", Text((*name, *(f" – {note}" for note in each.notes))))
        yield ShapeOnly("markdown", Preformatted(each.text))
    if kept.left:
        yield Text(f"Not representable in a native file: {'; '.join(kept.left)}.", "note")
