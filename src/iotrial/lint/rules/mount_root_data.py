"""A data mode for the root filesystem that fstab cannot give it."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_MODES = ("journal", "writeback")  # ordered is what it has without a word, and may be said again


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    flags = [
        flag
        for each in scene.sheets
        for said in each.of("cmdline")
        if said.name == "rootflags"
        for flag in said.value.split(",")
    ]
    for entry in sheet.entries:
        _, point, kind = entry.section
        wanted = f"data={entry.value}"
        of_root = point == "/" and kind in ("ext3", "ext4") and entry.key == "data"
        if of_root and entry.value in _MODES and wanted not in flags:
            what = "the root filesystem is mounted before fstab is read; the remount is refused"
            yield at(entry, what, f"rootflags={wanted} (on the kernel's command line)")


RULE = Rule(
    "mount-root-data",
    "data= for the root filesystem, in fstab alone",
    "warning",
    ("fstab",),
    "ext4 changes its data mode on no remount, so that systemd-remount-fs fails: all options of the"
    " line are lost, and a root that is mounted `ro` stays so.  Only an initramfs that reads fstab"
    " itself (dracut's) mounts it as the line says.",
    "ext4(5): data; systemd-remount-fs.service(8); fs/ext4/super.c: Cannot change data mode on"
    " remount (tried on 6.18)",
    "rootflags=data=… on the kernel's command line, or once: tune2fs -o journal_data_writeback.",
    _judge,
)
