"""What may be wrong in any file of settings."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial_lint.rule import KINDS, ConfigFile, ConfigLine, LintContext, RuleMessage, at, rule

_MAY_REPEAT = {
    # multipath.conf: each of them adds one to a list.
    "multipath": {"devnode", "wwid", "property", "protocol", "device", "multipath"},
    # fio adds up these.
    "fio": {"filename", "opendir", "include"},
}


@rule(
    "repeated-key",
    "the same key twice",
    "warning",
    ("sysctl", "multipath", "modprobe", "fstab", "tuned", "fio"),
    reason="Only the last one counts: whoever changes the first wonders why nothing happens.",
    source="sysctl.d(5), multipath.conf(5), modprobe.d(5), mount(8), tuned.conf(5), fio(1)",
    fix="Keep one of them.",
)
def repeated_key(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """The same key twice in one place."""
    seen: dict[tuple[object, ...], ConfigLine] = {}
    for entry in sheet.entries:
        if entry.key in _MAY_REPEAT.get(sheet.kind, ()) or _unnamed(sheet, entry):
            continue
        place = _place(sheet, entry)
        first = seen.setdefault(place, entry)
        if first.line < entry.line or (first is not entry and sheet.kind in ("fstab", "modprobe")):
            same = " with the same value" if first.value == entry.value else f" as {first.value!r}"
            yield at(entry, f"it stands in line {first.line} already{same}; the last one counts")
        seen[place] = entry


def _unnamed(sheet: ConfigFile, entry: ConfigLine) -> bool:
    """Whether it is no value that is given to something."""
    if sheet.kind == "modprobe":
        return entry.section[0] != "options"
    if sheet.kind == "tuned":
        return entry.section[1] in (
            "bootloader",
            "script",
            "systemd",
            "scheduler",
            "main",
            "service",
        )
    return any(mark in entry.key for mark in "*?[")


def _place(sheet: ConfigFile, entry: ConfigLine) -> tuple[object, ...]:
    if sheet.kind == "sysctl":
        return (entry.key.replace("/", "."),)
    if sheet.kind == "fio":
        return (entry.name, entry.section, entry.group if entry.section != ("global",) else -1)
    return (entry.key, entry.section, entry.group if sheet.kind in ("multipath", "fstab") else 0)


@rule(
    "syntax",
    "a line that cannot be read",
    "error",
    KINDS,
    reason=(
        "What cannot be read is skipped, mostly without a word, and sometimes all that follows too."
    ),
    source=(
        "sysctl.d(5), udev(7), multipath.conf(5), modprobe.d(5), fstab(5), tuned.conf(5), fio(1)"
    ),
    fix="Write the line as the manual page of the file has it.",
)
def syntax(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Lines that the program which reads the file cannot read."""
    for each in sheet.complaints:
        yield RuleMessage(each.line, "", each.what)
