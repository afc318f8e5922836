"""Rules of udev: how they are written."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial_lint.known import nearest
from iotrial_lint.known.queue import REMOVED
from iotrial_lint.rule import Said, Scene, at, named, rule, since
from iotrial_lint.sheet import Entry, Setting, Sheet


@rule(
    "udev-echo",
    "a setting written by a shell",
    "note",
    ("udev",),
    reason=(
        "RUN is done after all rules, in a process of its own: an echo that the kernel refuses is"
        " told to no one, and && leaves out what follows.  ATTR and SYSCTL are written by udev in"
        " order, and what fails is in its log."
    ),
    source="udev(7): RUN, ATTR, SYSCTL",
    fix='ATTR{queue/…}="…"',
)
def udev_echo(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    """A shell that writes what udev can write itself."""
    found: dict[Entry, list[str]] = {}
    for each in sheet.settings:
        if each.how == "echo":
            found.setdefault(each.entry, []).append(_itself(each, scene))
    for entry, words in found.items():
        what = "a shell is started to write settings, and nobody hears when it fails"
        yield at(entry, what, ", ".join(words))


def _itself(setting: Setting, scene: Scene) -> str:
    """The same as udev writes it, by the names of today."""
    if setting.family != "queue":
        return f'SYSCTL{{{setting.name}}}="{setting.value}"'
    value = setting.value
    if setting.name == "scheduler" and since(scene, 5, 0):
        value = REMOVED.get(value, value)
    return f'ATTR{{queue/{setting.name}}}="{value}"'


@rule(
    "udev-goto",
    "a GOTO that leads nowhere",
    "error",
    ("udev",),
    reason=(
        "udev goes forward only and within one file; a GOTO without a LABEL is left out, and the"
        " rules it should skip are applied."
    ),
    source="udev(7): LABEL, GOTO",
    fix="Put the LABEL behind the rules that are to be skipped.",
)
def udev_goto(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    """GOTO without its LABEL."""
    labels = {entry.value: entry.line for entry in sheet.entries if entry.key == "LABEL"}
    for entry in sheet.entries:
        if entry.key == "GOTO" and labels.get(entry.value, 0) <= entry.line:
            where = "stands before it" if entry.value in labels else "is not in this file"
            yield at(entry, f"its LABEL {entry.value!r} {where}")


@rule(
    "udev-name",
    "NAME for a block device",
    "warning",
    ("udev",),
    reason=(
        "Device nodes are made by the kernel.  Since udev 174 NAME counts for network interfaces"
        " only."
    ),
    source="udev(7): NAME",
    fix='Give it a link: SYMLINK+="…"',
)
def udev_name(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    """NAME on what is no network interface."""
    for group in sheet.groups():
        for entry in group:
            if entry.key != "NAME" or entry.sign not in ("=", ":=", "+="):
                continue
            if entry.value in ("%k", "$kernel"):
                yield at(entry, "it says nothing: a device has its kernel name", "Take NAME out.")
            elif _of_block(group):
                what = "the name of a block device cannot be changed: it is ignored"
                yield at(entry, what, f'SYMLINK+="{entry.value}"')


def _of_block(group: tuple[Entry, ...]) -> bool:
    return any(
        entry.sign == "=="
        and (
            (entry.key in ("SUBSYSTEM", "SUBSYSTEMS", "BUS") and entry.value in ("block", "scsi"))
            or (entry.key == "KERNEL" and entry.value.startswith(("sd", "dm-", "nvme", "hd")))
        )
        for entry in group
    )


_ASKED = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "SUBSYSTEM", "SUBSYSTEMS", "DRIVER", "DRIVERS",
    "ATTRS", "TAGS", "TEST", "RESULT", "CONST",
})  # fmt: skip

_SET = frozenset({"RUN", "OWNER", "GROUP", "MODE", "SECLABEL", "OPTIONS", "LABEL", "GOTO"})

_MATCH = ("==", "!=")


@rule(
    "udev-operator",
    "= where == is meant, or the other way round",
    "error",
    ("udev",),
    reason="udev leaves the whole rule out (invalid operator).",
    source="udev(7), operators; systemd src/udev/udev-rules.c",
    fix="Compare with ==, set with = or +=.",
)
def udev_operator(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    """Asking where something is to be set, and setting where something is to be asked."""
    for entry in sheet.entries:
        if entry.key in _ASKED and entry.sign not in _MATCH:
            what = f"{entry.key} can only be asked: {entry.sign} is no comparison"
            yield at(entry, what, f'{named(entry)}=="{entry.value}"')
        elif entry.key in _SET and entry.sign in _MATCH:
            right = "+=" if entry.key == "RUN" else "="
            what = f"{entry.key} can only be set: {entry.sign} is no assignment"
            yield at(entry, what, f'{named(entry)}{right}"{entry.value}"')


_INSTEAD = {
    "BUS": "SUBSYSTEMS",
    "ID": "KERNELS",
    "SYSFS": "ATTRS",
    "PLACE": "",
    "WAIT_FOR": "",
    "WAIT_FOR_SYSFS": "",
    "MODALIAS": "",
}

_KEYS_REMOVED = frozenset(_INSTEAD)


@rule(
    "udev-removed-key",
    "a key that udev reads no more",
    "error",
    ("udev",),
    reason=(
        "A rule with a key that udev does not know is left out altogether: all it would set stays"
        " as it is.  SYSFS, BUS and ID went in udev 174 (2011), WAIT_FOR in systemd 222."
    ),
    source="udev(7); systemd commit 289a1821a4a7 (udev 174), pull request 434 (WAIT_FOR)",
    fix=(
        "Write SUBSYSTEMS, KERNELS and ATTRS for a parent device; SUBSYSTEM and ATTR for the"
        " device itself."
    ),
)
def udev_removed_key(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    """Keys that udev reads no more."""
    for entry in sheet.entries:
        if entry.key in _KEYS_REMOVED:
            what = f"udev knows no {named(entry)} any more, and skips the whole rule"
            yield at(entry, what, _today(entry))


def _today(entry: Entry) -> str:
    instead = _INSTEAD[entry.key]
    if not instead:
        return f"Take {entry.key} out."
    part = f"{{{entry.part}}}" if entry.part else ""
    return f'{instead}{part}{entry.sign}"{entry.value}"'


_REMOVED = ("last_rule", "ignore_device", "ignore_remove", "all_partitions", "event_timeout")


@rule(
    "udev-removed-option",
    "an option that udev reads no more",
    "warning",
    ("udev",),
    reason=(
        "last_rule, ignore_device and the like went with udev 174 to 182: rules behind it are"
        " applied now."
    ),
    source="udev(7): OPTIONS",
    fix="Skip rules with GOTO and LABEL.",
)
def udev_removed_option(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    """OPTIONS that udev reads no more."""
    for entry in sheet.entries:
        if entry.key == "OPTIONS":
            for word in entry.value.replace(",", " ").split():
                if word.partition("=")[0] in _REMOVED:
                    yield at(entry, f"udev ignores {word}: it is no option any more")


KEYS = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "NAME", "SYMLINK", "SUBSYSTEM", "SUBSYSTEMS",
    "DRIVER", "DRIVERS", "ATTR", "ATTRS", "SYSCTL", "ENV", "CONST", "TAG", "TAGS", "TEST",
    "PROGRAM", "RESULT", "OWNER", "GROUP", "MODE", "SECLABEL", "RUN", "LABEL", "GOTO", "IMPORT",
    "OPTIONS",
})  # fmt: skip

_PARTS = frozenset({"ATTR", "ATTRS", "SYSCTL", "ENV", "CONST", "SECLABEL", "IMPORT"})

_NO_PART = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "NAME", "SYMLINK", "SUBSYSTEM", "SUBSYSTEMS",
    "DRIVER", "DRIVERS", "TAG", "TAGS", "PROGRAM", "RESULT", "OWNER", "GROUP", "MODE", "LABEL",
    "GOTO", "OPTIONS",
})  # fmt: skip


@rule(
    "udev-unknown-key",
    "a key that udev does not know",
    "error",
    ("udev",),
    reason="A rule with a key that udev does not know is left out altogether.",
    source="udev(7); systemd src/udev/udev-rules.c",
    fix="Take the real key.",
)
def udev_unknown_key(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    """Keys that udev never knew."""
    for entry in sheet.entries:
        if entry.key in _KEYS_REMOVED:
            continue
        if entry.key not in KEYS:
            near = nearest(entry.key.upper(), KEYS, 0.7)
            hint = f"; the nearest is {near}" if near else ""
            yield at(entry, f"udev has no key {entry.key}{hint}")
        elif entry.key in _PARTS and not entry.part:
            yield at(entry, f"{entry.key} needs a name in braces: {entry.key}{{name}}")
        elif entry.key in _NO_PART and entry.part:
            yield at(entry, f"{entry.key} takes nothing in braces: {named(entry)}")
