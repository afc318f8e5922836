"""vm.laptop_mode on a server."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        if each.name == "vm.laptop_mode" and each.value != "0":
            yield at(each, "each read of a disk also starts writing back all dirty pages")


RULE = Rule(
    name="laptop-mode",
    title="laptop mode on a server",
    severity="warning",
    kinds=("sysctl", "tuned"),
    reason="Laptop mode writes back everything while a disk spins anyway, so that it may stop"
    " later.  A disk that never stops only gets bursts of writes beside its reads.",
    source="kernel Documentation/admin-guide/laptops/laptop-mode.rst",
    fix="vm.laptop_mode = 0",
    judge=_judge,
)
