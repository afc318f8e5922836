"""Family ``mount``: options of a mounted file system; any option, as ``mount.NAME``.

An option that a remount changes is changed by one, on the list that is in force, so that nothing
in fstab slips in.  One that needs more is changed by unmounting and mounting again, from the same
source, with the same other options; what is in use is refused and stays as it was.  A file system
forgets everything when it is unmounted, so every row *moves* ``mount.mounted``: what is mounted
there, from what, with which options.  That is journalled first and restored last: it mounts what
a death in between has left unmounted, and what else an option has changed (``data=journal`` of
ext4 brings ``nodelalloc`` with it) goes back with it.

The rows below are the options that storage people turn.  Any other is made into a row when it is
asked for (:func:`row`): for it a remount is not tried.  A value is what the kernel shows
(``allocsize=1m`` reads ``1024k``); ``unset`` is an option that is not shown.

Sources: mount(8), findmnt(8), ext4(5), xfs(5), nfs(5); kernel fs/ext4/super.c, fs/xfs/xfs_super.c,
fs/nfs/super.c (nfs_show_mount_options, nfs_compare_remount_data); utils/mount/stropts.c of
nfs-utils, which finds ``addr`` and ``clientaddr`` anew.  ext4 and xfs measured on 6.18; NFS and
FUSE not measured.
"""

from __future__ import annotations

import re

from iotrial.errors import UsageError
from iotrial.model.tunable import Tunable
from iotrial.tunables.mount.option import UNSET, choice, mounted, number, option
from iotrial.tunables.mount.option import row as any_row

FAMILY = "mount"
TITLE = "options of a mounted file system: ext4, xfs, NFS, any other"

_NAME = re.compile(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*")
_EXT4 = "ext4(5); kernel fs/ext4/super.c; measured on 6.18"
_XFS = "xfs(5); kernel fs/xfs/xfs_super.c; measured on 6.18"
_NFS = "nfs(5); kernel fs/nfs/super.c; not measured"
_DATA = "the load only reads"
_META = "the load makes, removes and stats no files"

REFUSED = {
    **dict.fromkeys(("ro", "rw", "remount", "bind", "rbind", "move", "loop"), "is an act"),
    **dict.fromkeys(("user", "users", "owner", "group"), "says who may mount, not how"),
    **dict.fromkeys(("suid", "nosuid", "dev", "nodev", "exec", "noexec"), "is for safety"),
    **dict.fromkeys(("addr", "clientaddr", "mountaddr"), "is found by mount itself"),
    **dict.fromkeys(("pass", "password", "credentials", "secret", "keyfile"), "is a secret"),
}
"""Options that are no settings to try, and why."""


def _actimeo() -> Tunable:
    four = ("acregmin", "acregmax", "acdirmin", "acdirmax")

    def words(value: str) -> tuple[str, str, str]:
        return ("" if value == UNSET else f"actimeo={value}"), "", "(never shown)"

    return any_row(
        "actimeo",
        "all four times that attributes are believed at once; read back as acregmin",
        words,
        family=("actimeo", "noac", *four),
        moves=four,
        live=False,
        unit="s",
        low=0,
        words_too=(UNSET,),
        aliases=(("3", UNSET),),
        key="acregmin",
        column="FS-OPTIONS",
        risk="3, the default of acregmin, is not shown: set the four one by one.",
        source=_NFS,
    )


def row(name: str) -> Tunable | None:
    """The row of any option, made when asked for; None for a name that is no option.

    Raises UsageError for an option that is no setting to try.
    """
    known = name.removeprefix(f"{FAMILY}.")
    if known == name or not _NAME.fullmatch(known):
        return None
    if why := REFUSED.get(known):
        raise UsageError(f"{name}: {known} {why}", advice="Remove it from the study.")
    return option(
        known,
        "a mount option that iotrial knows nothing more of; `on` is the bare option",
        risk="What it changes beside itself is not known.",
    )


_SLOTS = "Each mount of a server shares its connections: what another mount has set counts."
_CACHED = "the load opens each file once, or attributes are not asked for again"

TUNABLES: tuple[Tunable, ...] = (
    # Any file system.
    choice(
        "atime",
        "when a read is noted in the file's access time",
        *("strictatime", "relatime", "noatime"),
        moot="the load opens a few files once: relatime writes once a day",
    ),
    choice("diratime", "the same for folders", "diratime", "nodiratime", moot=_META),
    option(
        "lazytime",
        "times of files are kept in memory, and written with the rest of the inode; on",
        off="nolazytime",
        moot=_META,
    ),
    choice("sync", "whether a write returns when it is on storage", "async", "sync", moot=_DATA),
    option(
        "discard",
        "the device is told of freed blocks at once; on (btrfs: async)",
        off="nodiscard",
        moot="the load frees no blocks, or the device knows no discard",
        risk="xfs does it by mounting again.",
    ),
    # ext4.
    number(
        "commit",
        "longest time that data and metadata wait before they are committed",
        low=1,
        off="commit=5",
        unit="s",
        aliases=(("5", UNSET),),
        moot=_DATA,
        risk="So many seconds of work are lost when the power fails. 5 is the default.",
        source=_EXT4,
    ),
    choice(
        "barrier",
        "whether a commit flushes the device's cache",
        *("barrier", "nobarrier"),
        moot="the device has no volatile cache (queue/write_cache: write through)",
        risk=(
            "Without barriers a power failure destroys the file system, unless the cache has a"
            " battery. xfs knows nobarrier until 4.18; 4.19 removed it."
        ),
        source=_EXT4,
    ),
    option(
        "data",
        "how data is journalled: journal, writeback; unset is ordered",
        moves=("delalloc", "dioread_nolock"),
        moot=_DATA,
        risk="journal brings nodelalloc and nodioread_nolock, and no direct I/O.",
        source=_EXT4,
    ),
    choice(
        "delalloc",
        "whether blocks are chosen only when data is written back",
        *("delalloc", "nodelalloc"),
        moot="direct I/O; the load only reads",
        risk="Refused together with data=journal.",
        source=_EXT4,
    ),
    choice(
        "dioread_nolock",
        "whether reads go on beside writes that allocate; the default since 5.6",
        *("dioread_nolock", "nodioread_nolock", "dioread_lock"),
        moot="no reads and writes of one file at once",
        source=_EXT4,
    ),
    option(
        "journal_async_commit",
        "the commit block does not wait for the others; on",
        moot=_DATA,
        risk="Brings journal_checksum. Refused with data=ordered since 3.19.",
        source=_EXT4,
    ),
    number(
        "stripe",
        "blocks of one stripe, that allocation is aligned to",
        low=1,
        off="stripe=0",
        unit="blocks",
        moot="one disk below, or files much smaller than a stripe",
        source=_EXT4,
    ),
    number(
        "max_batch_time",
        "longest that a commit waits for others to join it",
        off="max_batch_time=15000",
        unit="µs",
        aliases=(("15000", UNSET),),
        moot="one thread that syncs, or none",
        source=_EXT4,
    ),
    number(
        "min_batch_time",
        "shortest that a commit waits for others to join it",
        off="min_batch_time=0",
        unit="µs",
        aliases=(("0", UNSET),),
        moot="one thread that syncs, or none",
        source=_EXT4,
    ),
    # xfs.
    number("logbufs", "log buffers in memory", low=2, moot=_META, risk="2 to 8.", source=_XFS),
    option(
        "logbsize", "size of a log buffer: 16k to 256k, by powers of two", moot=_META, source=_XFS
    ),
    option(
        "allocsize",
        "space allocated beyond the end of a file that grows, in KiB (1m reads 1024k)",
        moot="direct I/O, or files that do not grow",
        source=_XFS,
    ),
    choice(
        "largeio",
        "whether stat(2) tells programs to do I/O of the stripe's width",
        *("nolargeio", "largeio"),
        live=False,
        moot="the load has a block size of its own",
        source=_XFS,
    ),
    choice(
        "inode64",
        "where inodes go: anywhere, or in the first TiB (inode32)",
        *("inode64", "inode32"),
        moot="less than a TiB, or no new files",
        source=_XFS,
    ),
    # NFS.
    number(
        "rsize",
        "bytes asked for in one read",
        low=1024,
        unit="bytes",
        moot="requests of the load are smaller; the server offers less",
        risk="A multiple of 1024 or of the page size; the server may give less.",
        source=_NFS,
    ),
    number(
        "wsize",
        "bytes sent in one write",
        low=1024,
        unit="bytes",
        moot="requests of the load are smaller; the server offers less",
        risk="A multiple of 1024 or of the page size; the server may give less.",
        source=_NFS,
    ),
    number(
        "nconnect",
        "TCP connections to the server, up to 16",
        low=1,
        moot="one connection fills the link",
        risk=f"{_SLOTS} Unmount all of them.",
        source=_NFS,
    ),
    _actimeo(),
    *(
        number(
            f"ac{what}{bound}",
            f"{least} time that attributes of a {of} are believed",
            unit="s",
            moot=_CACHED,
            aliases=((default, UNSET),),
            source=_NFS,
        )
        for what, of in (("reg", "file"), ("dir", "folder"))
        for bound, least, default in (
            ("min", "shortest", "3" if what == "reg" else "30"),
            ("max", "longest", "60"),
        )
    ),
    choice(
        "noac",
        "whether attributes are cached at all",
        *("ac", "noac"),
        live=False,
        moves=("sync",),
        moot=_CACHED,
        risk="noac makes every write wait for the server.",
        source=_NFS,
    ),
    option(
        "lookupcache",
        "which looked-up names are believed: none, pos; unset is all",
        moot=_META,
        source=_NFS,
    ),
    option("vers", "version of the protocol: 3, 4.0, 4.1, 4.2", source=_NFS),
    option("proto", "transport: tcp, rdma, udp (tcp6 …)", risk=_SLOTS, source=_NFS),
    choice(
        "hard",
        "what becomes of requests that time out: tried for ever, or failed",
        *("hard", "soft", "softerr"),
        live=False,
        moot="the server answers in time",
        risk="With soft an overloaded server loses data.",
        source=_NFS,
    ),
    number(
        "timeo",
        "time before a request is sent again",
        low=1,
        unit="1/10 s",
        moot="the server answers in time",
        source=_NFS,
    ),
    number(
        "retrans",
        "how often a request is sent again before more is done",
        moot="the server answers in time",
        source=_NFS,
    ),
    choice(
        "nocto",
        "whether a file's attributes are asked for when it is opened",
        *("cto", "nocto"),
        live=False,
        moot=_CACHED,
        risk="With nocto changes by other clients are seen late.",
        source=_NFS,
    ),
    mounted(),
)
