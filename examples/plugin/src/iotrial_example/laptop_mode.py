"""vm.laptop_mode on a server."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial_lint.rule import ConfigFile, LintContext, RuleMessage, at, rule


@rule(
    "laptop-mode",
    "laptop mode on a server",
    "warning",
    ("sysctl", "tuned"),
    reason=(
        "Laptop mode writes back everything while a disk spins anyway, so that it may stop later."
        "  A disk that never stops only gets bursts of writes beside its reads."
    ),
    source="kernel Documentation/admin-guide/laptops/laptop-mode.rst",
    fix="vm.laptop_mode = 0",
)
def laptop_mode(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Writeback whenever a disk is read."""
    for each in sheet.of("sysctl"):
        if each.name == "vm.laptop_mode" and each.value != "0":
            yield at(each, "each read of a disk also starts writing back all dirty pages")
