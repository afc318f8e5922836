"""Mount options that a filesystem ignores now."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, Version, at, spelled
from iotrial.lint.sheet import Sheet

_IGNORED: dict[tuple[str, str], Version] = {
    **{
        ("ext4", name): (6, 1)
        for name in (
            *("bh", "nobh", "mblk_io_submit", "nomblk_io_submit", "reservation", "noreservation"),
            *("oldalloc", "orlov"),
        )
    },
    **{(kind, name): (2, 6, 25) for kind in ("nfs", "nfs4") for name in ("intr", "nointr")},
    ("btrfs", "inode_cache"): (5, 11),
}


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        found = _IGNORED.get((entry.section[2], entry.key))
        if found and scene.kernel >= found:
            yield at(entry, f"{entry.section[2]} ignores it from {spelled(found)} on")


RULE = Rule(
    "mount-option-inert",
    "a mount option that is ignored",
    "warning",
    ("fstab",),
    "It is accepted so that old files still mount, and does nothing.",
    "fs/ext4/super.c (Opt_removed), fs/nfs/fs_context.c, fs/btrfs/super.c; nfs(5): intr",
    "Take the option out.",
    _judge,
)
