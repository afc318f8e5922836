"""A kernel parameter that both the active tuned profile and a sysctl file set."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.precedence import winners
from iotrial.lint.rule import Rule, Said, Scene


def _host(scene: Scene) -> Iterator[Said]:
    files = {each.name: (file, each) for file, each in winners(scene.sheets)}
    for sheet in scene.sheets:
        for each in sheet.of("sysctl") if sheet.kind == "tuned" else ():
            if each.name in files and files[each.name][1].value != each.value:
                file, other = files[each.name]
                what = f"tuned sets {each.value}, and {file}:{other.line} sets {other.value}"
                yield Said(each.line, each.name, what, file=sheet.file)


RULE = Rule(
    "tuned-and-sysctl",
    "a kernel parameter that tuned and a file set",
    "warning",
    (),
    "tuned applies its profile after the files are read.  With reapply_sysctl = 1 in"
    " tuned-main.conf (the default) it reads the files again, and they win; with 0 tuned wins.",
    "tuned-main.conf: reapply_sysctl; tuned/plugins/plugin_sysctl.py",
    "Keep it in one place: a profile of your own that includes the other.",
    host=_host,
)
