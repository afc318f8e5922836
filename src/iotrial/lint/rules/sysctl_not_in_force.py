"""A kernel parameter that is not as the files say."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.precedence import winners
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.tunables.sysctl import REFUSED


def _host(scene: Scene) -> Iterator[Said]:
    for file, each in winners(scene.sheets):
        there = scene.there.get(each.name)
        if there is None or each.name in REFUSED:
            continue
        now = " ".join(there.split())
        if now and now != each.value and _same_form(now, each.value):
            what = f"{each.value} is written here, and {now} is in force"
            yield Said(each.line, each.name, what, f"sysctl -w {each.name}='{each.value}'", file)


def _same_form(now: str, value: str) -> bool:
    """Numbers are compared with numbers: a text may be read back in another form."""
    return all(word.lstrip("-").isdecimal() for word in f"{now} {value}".split())


RULE = Rule(
    "sysctl-not-in-force",
    "a kernel parameter that is not as the files say",
    "warning",
    (),
    "Somebody else set it after boot (tuned, a service, a person), the kernel refused it, or the"
    " file is newer than the boot.",
    "/proc/sys of the host; sysctl.d(5)",
    "Find who sets it, or `sysctl --system`.",
    host=_host,
)
