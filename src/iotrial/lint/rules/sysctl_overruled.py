"""A kernel parameter that several files of a host set."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Setting


def _host(scene: Scene) -> Iterator[Said]:
    said: dict[str, list[tuple[str, Setting]]] = {}
    for sheet in scene.sheets:
        if sheet.kind == "sysctl":
            for each in sheet.of("sysctl"):
                said.setdefault(each.name, []).append((sheet.file, each))
    for name, places in said.items():
        file, last = places[-1]
        for other, each in places[:-1]:
            if other != file and each.value != last.value:
                what = f"{file}:{last.line} is read after it, and sets {last.value}"
                yield Said(each.line, name, what, file=other)


RULE = Rule(
    "sysctl-overruled",
    "a kernel parameter that another file sets too",
    "note",
    (),
    "Files are read by name, whatever their folder; of two with one name the one in /etc hides the"
    " others; /etc/sysctl.conf comes last.",
    "sysctl.d(5); sysctl(8): --system",
    "Keep the line in one file.",
    host=_host,
)
