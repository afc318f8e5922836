"""Mounts: fstab, mount options and NFS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iotrial_lint.rule import (
    ConfigFile,
    ConfigLine,
    LintContext,
    RuleMessage,
    Version,
    at,
    rule,
    since,
    spelled,
)

_KERNEL_NAME = re.compile(r"/dev/(?:[shv]d[a-z]+\d*|xvd[a-z]+\d*|nvme\d+n\d+(?:p\d+)?|dm-\d+)")


@rule(
    "fstab-kernel-name",
    "a disk by its kernel name",
    "note",
    ("fstab",),
    reason=(
        "sda is the disk that was found first.  Another order of discovery, and another disk is"
        " mounted there, or none."
    ),
    source="fstab(5): fs_spec; udev's /dev/disk/by-*",
    fix="UUID=…, LABEL=… or /dev/disk/by-id/…: `lsblk -f` shows them.",
)
def fstab_kernel_name(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Disks by names that may be another's tomorrow."""
    for group in sheet.groups():
        source = group[0].section[0]
        if _KERNEL_NAME.fullmatch(source):
            yield RuleMessage(
                group[0].line, source, "the kernel may give this name to another disk"
            )


@rule(
    "fstab-twice",
    "the same mount point twice",
    "warning",
    ("fstab",),
    reason=(
        "The second is mounted over the first, or instead of it: systemd makes one unit of a mount"
        " point, and takes one of the lines."
    ),
    source="fstab(5), systemd-fstab-generator(8)",
    fix="Keep one of them.",
)
def fstab_twice(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """The same mount point twice."""
    seen: dict[str, int] = {}
    for group in sheet.groups():
        point = group[0].section[1]
        if not point.startswith("/"):
            continue  # none, swap
        if point in seen:
            yield RuleMessage(group[0].line, point, f"line {seen[point]} mounts there too")
        seen.setdefault(point, group[0].line)


_SETS = (
    ("atime", "noatime", "relatime", "strictatime"),
    ("sync", "async"),
    ("rw", "ro"),
    ("hard", "soft"),
    ("discard", "nodiscard"),
    ("delalloc", "nodelalloc"),
    ("auto", "noauto"),
    ("diratime", "nodiratime"),
    ("tcp", "udp"),
    ("barrier", "nobarrier"),
    ("acl", "noacl"),
    ("ac", "noac"),
)


@rule(
    "mount-both-ways",
    "mount options that cancel each other",
    "warning",
    ("fstab",),
    reason=(
        "The last one counts.  noatime makes relatime moot, whichever is last is what is mounted."
    ),
    source="mount(8), nfs(5)",
    fix="Keep one of them.",
)
def mount_both_ways(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Options that cancel each other."""
    for group in sheet.groups():
        for options in _SETS:
            given = [entry for entry in group if entry.key in options]
            if len({entry.key for entry in given}) > 1:
                last = given[-1]
                yield at(given[0], f"{last.key} stands behind it, and wins")


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


@rule(
    "mount-option-inert",
    "a mount option that is ignored",
    "warning",
    ("fstab",),
    reason="It is accepted so that old files still mount, and does nothing.",
    source="fs/ext4/super.c (Opt_removed), fs/nfs/fs_context.c, fs/btrfs/super.c; nfs(5): intr",
    fix="Take the option out.",
)
def mount_option_inert(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Mount options that a filesystem ignores now."""
    for entry in sheet.entries:
        found = _IGNORED.get((entry.section[2], entry.key))
        if found and scene.kernel >= found:
            yield at(entry, f"{entry.section[2]} ignores it from {spelled(found)} on")


_REMOVED: dict[tuple[str, str], Version] = {
    **{
        ("xfs", name): (4, 0)
        for name in ("delaylog", "nodelaylog", "ihashsize", "irixsgid", "osyncisdsync")
    },
    ("xfs", "osyncisosync"): (4, 0),
    ("xfs", "barrier"): (4, 19),
    ("xfs", "nobarrier"): (4, 19),
}


@rule(
    "mount-option-removed",
    "a mount option that was removed",
    "error",
    ("fstab",),
    reason="The mount fails, and a machine whose fstab has it may not boot.",
    source="Documentation/admin-guide/xfs.rst: removed mount options",
    fix="Take the option out.",
)
def mount_option_removed(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Mount options that a filesystem refuses now."""
    for entry in sheet.entries:
        found = _REMOVED.get((entry.section[2], entry.key))
        if found and scene.kernel >= found:
            kind = entry.section[2]
            yield at(entry, f"{kind} refuses it from {spelled(found)} on: the mount fails")


_MODES = ("journal", "writeback")  # ordered is what it has without a word, and may be said again


@rule(
    "mount-root-data",
    "data= for the root filesystem, in fstab alone",
    "warning",
    ("fstab",),
    reason=(
        "ext4 changes its data mode on no remount, so that systemd-remount-fs fails: all options"
        " of the line are lost, and a root that is mounted `ro` stays so.  Only an initramfs that"
        " reads fstab itself (dracut's) mounts it as the line says."
    ),
    source=(
        "ext4(5): data; systemd-remount-fs.service(8); fs/ext4/super.c: Cannot change data mode on"
        " remount (tried on 6.18)"
    ),
    fix=(
        "rootflags=data=… on the kernel's command line, or once: tune2fs -o journal_data_writeback."
    ),
)
def mount_root_data(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """A data mode for the root filesystem that fstab cannot give it."""
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


_TAKES = ("ext3", "ext4", "btrfs", "reiserfs", "jfs", "gfs2", "nilfs2")


@rule(
    "mount-without-barrier",
    "barriers switched off",
    "warning",
    ("fstab",),
    reason=(
        "Flushes cost nothing where a cache is not volatile: the disk says so (queue/write_cache"
        " is `write through`), and the kernel sends none.  Elsewhere they keep the journal true."
    ),
    source=(
        "Documentation/admin-guide/ext4.rst: barrier;"
        " Documentation/block/writeback_cache_control.rst"
    ),
    fix="Take the option out.",
)
def mount_without_barrier(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Barriers switched off."""
    for entry in sheet.entries:
        off = entry.key == "nobarrier" or (entry.key == "barrier" and entry.value == "0")
        if off and entry.section[2] in _TAKES:
            yield at(entry, "after a power cut the filesystem may be broken")


_VERSIONS = ("vers", "nfsvers")


@rule(
    "nfs-over-udp",
    "NFS over UDP",
    "error",
    ("fstab",),
    reason=(
        "NFSv4 is not defined for UDP.  For older versions the kernel's NFS_DISABLE_UDP_SUPPORT,"
        " which is on by default, takes it away: on links of 1 Gbit/s and more a packet's number"
        " comes again before its fragments are given up, and wrong data pass the checksum."
    ),
    source=(
        "nfs(5): Using NFS over UDP on high-speed links; RFC 7530, 3.1; fs/nfs/Kconfig:"
        " NFS_DISABLE_UDP_SUPPORT (5.6); fs/nfs/fs_context.c"
    ),
    fix="proto=tcp, or remove it: TCP is the default.",
)
def nfs_over_udp(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """NFS over UDP, which kernels refuse."""
    for group in sheet.groups():
        udp = [e for e in group if e.key == "udp" or (e.key, e.value[:3]) == ("proto", "udp")]
        if group[0].section[2] not in ("nfs", "nfs4") or not udp:
            continue
        if _version(group).startswith("4"):
            what = "NFSv4 has no UDP: the mount is refused"
        elif since(scene, 5, 6):
            what = "kernels from 5.6 on are built without it, unless told otherwise: it is refused"
        else:
            what = "a fragment that is lost may be taken from another packet: data go wrong"
        yield at(udp[-1], what)


def _version(group: Sequence[ConfigLine]) -> str:
    said = [entry.value for entry in group if entry.key in _VERSIONS]
    said += [entry.key[1:] for entry in group if entry.key in ("v4", "v4.0", "v4.1", "v4.2")]
    return said[-1] if said else group[0].section[2].removeprefix("nfs")
