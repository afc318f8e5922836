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
from collections.abc import Callable, Iterable
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable, literal

FAMILY = "mount"
TITLE = "options of a mounted file system: ext4, xfs, NFS, any other"

# What runs on the host are three fixed scripts, POSIX sh; names and values are their arguments,
# never part of their text.  They ask findmnt(8) themselves, because only what is mounted at that
# moment says how it is to be mounted again.  Refused before is what must not be unmounted, since
# what is shown of it does not suffice to mount it again: a bind mount (it shows the source of the
# whole file system), a memory file system (its files would go), a loop device with autoclear (it
# goes with its last user), options that the kernel hides (secret=<hidden> of ceph), types unknown
# here.  Of NFS addr, clientaddr, mountaddr and namlen are what was negotiated and are found anew;
# seclabel of SELinux and the owner of a FUSE mount are shown and never taken.

_KINDS = "ext2|ext3|ext4|xfs|btrfs|f2fs|jfs|vfat|exfat|ntfs3|nfs|nfs4|fuse.*"

_BASE = f"""\
no() {{
    printf '%s\\n' "$*" >&2
    exit 1
}}
of() {{
    findmnt -n -v -o "$1" --mountpoint "$point"
}}
sift() {{ # LIST WANTED NAMES: of LIST the options that are (WANTED=1) or are not (0) in NAMES
    rest=$1, found=
    while [ -n "$rest" ]; do
        word=${{rest%%,*}} rest=${{rest#*,}} known=0
        case ,$3, in *",${{word%%=*}},"*) known=1 ;; esac
        [ "$known" = "$2" ] && found=$found${{found:+,}}$word
    done
    printf '%s\\n' "$found"
}}
see() {{
    source=$(of SOURCE) && type=$(of FSTYPE) && propagation=$(of PROPAGATION) &&
        options=$(of OPTIONS) && [ -n "$source" ] || return
    options=$(sift "$options" 0 addr,clientaddr,mountaddr,namlen,seclabel,user_id,group_id)
}}
again() {{ # may it be unmounted?
    said="$point ($type from $source) cannot be mounted again from what is shown of it"
    case $type in {_KINDS}) ;; *) no "$said: Operation not supported" ;; esac
    case $source$options in *'<'* | *'
'*) no "$said: Operation not supported" ;; esac
    case $type,$(findmnt -n -o SOURCE --mountpoint "$point") in
        btrfs,* | nfs,* | nfs4,* | fuse.*) ;;
        *,*'[/'*) no "$said, a part of it: Operation not supported" ;;
    esac
    case $source in
        /dev/loop*)
            read -r clears <"/sys/block/${{source#/dev/}}/loop/autoclear" || clears=0
            [ "$clears" = 0 ] || no "$said, a loop device with autoclear: Operation not supported"
            ;;
    esac
}}
leave() {{
    number=$(findmnt -n -o MAJ:MIN --mountpoint "$point" | tr -d ' ')
    if said=$(umount "$point" 2>&1); then
        alone
        return
    fi
    case $said in
        *busy*) no "$point is in use, see fuser -vm $point: Device or resource busy" ;;
        *) no "$(printf '%s' "$said" | tr '\\n' ' '): Input/output error" ;;
    esac
}}
alone() {{ # mounted anywhere else, as in a container, a file system lives on with its options
    case $type in nfs | nfs4) return ;; esac
    other=$(grep -ls " $number " /proc/[0-9]*/mountinfo | tr -dc '0-9\\n' | head -n 1)
    [ -n "$other" ] || return 0
    enter "$options"
    no "$source is mounted elsewhere too, seen by process $other: Device or resource busy"
}}
full() {{ # LIST: strictatime is never shown, and without a word for it relatime is meant
    case ,$1, in
        *,relatime,* | *,noatime,* | *,strictatime,*) printf '%s\n' "$1" ;;
        *) printf '%s\n' "$1,strictatime" ;;
    esac
}}
enter() {{ # OPTIONS
    said=$(mount -t "$type" -o "$(full "$1")" "$source" "$point" 2>&1) && return
    said=$(printf '%s' "$said" | head -n 1)
    return 1
}}
point=$1
"""

LOOK = (
    _BASE
    + """\
see && (again) || exit
source=$(findmnt -n -r -v -o SOURCE --mountpoint "$point")
options=$(printf '%s' "$options" | sed 's/\\\\/\\\\x5c/g;s/ /\\\\x20/g')
printf '%s %s %s %s\\n' "$source" "$type" "$propagation" "$options"
"""
)
"""Argument: the mount point.  Says source, type, propagation and options; fails for what cannot
be mounted again from these."""

SET = (
    _BASE
    + """\
names=$2 new=$3 live=$4 shown=$5
see || no "nothing is mounted on $point: No such device"
others=$(sift "$options" 0 "$names")
if [ -n "$live" ]; then
    said=$(mount -o "remount,$(full "$others,$live")" "$source" "$point" 2>&1)
    now=$(sift "$(of OPTIONS)" 1 "$names")
    [ "$now" = "$shown" ] || [ "$now" = "$new" ] && exit
fi
again
leave
enter "$others${new:+,$new}" && exit
why=$said
enter "$options" || no "$point is NOT mounted any more: $said: Input/output error"
no "it is mounted as before, since with ${new:-less} mount says: $why: Invalid argument"
"""
)
"""Arguments: mount point, the names of which one may be among the options, the word to mount with
('': none), the word to remount with ('': not tried), what is shown then."""

AGAIN = (
    _BASE
    + """\
wanted="$2 $3 $4 $5"
if see; then
    [ "$source $type" = "$2 $3" ] || no "$source is mounted on $point: Device or resource busy"
    [ "$source $type $propagation $options" = "$wanted" ] && exit
    case ,$options, in
        *,ro,*) case ,$5, in
            *,ro,*) ;;
            *) no "$point is read-only now, as after an error: Read-only file system" ;;
        esac ;;
    esac
    mount -o "remount,$(full "$5")" "$source" "$point" 2>/dev/null
    see
    if [ "$options" != "$5" ]; then
        again
        leave
        type=$3
        enter "$5" || no "$point is NOT mounted any more: $said: Input/output error"
    fi
else
    source=$2 type=$3
    enter "$5" || no "$point is not mounted: $said: Input/output error"
fi
[ "$(of PROPAGATION)" = "$4" ] && exit
case $4 in shared | private | slave) mount "--make-$4" "$point" ;; esac
"""
)
"""Arguments: mount point, source, type, propagation, options.  Mounts it so, whatever is there."""


def unescaped(word: str) -> str:
    r"""A word of LOOK as it is meant.

    >>> unescaped(r"srv:/a\x20b")
    'srv:/a b'
    """
    data = re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), word)
    return (
        data.encode("latin-1", "ignore").decode("utf-8", "surrogateescape")
        if data != word
        else word
    )


UNSET = "unset"
ON = "on"
LASTS = "until it is remounted"
ANY = "mount(8); measured on 6.18 with ext4 and xfs"
_VALUE = re.compile(r"[A-Za-z0-9_.:/+-]+")
_RISK_LIVE = "Remounting waits until what is dirty is written."
_RISK_AGAIN = (
    "Unmounted and mounted again: refused while anything there is in use, and what is cached of"
    " it is forgotten."
)

Words = Callable[[str], tuple[str, str, str]]
"""Value → the word to mount with, the word to remount with ('': a remount does not do), and what
is shown then."""


def _form(value: str) -> str:
    """Why a value cannot be one: a comma would be a second option."""
    return "" if _VALUE.fullmatch(value) else f"{value!r} cannot be the value of one option"


def _row(  # noqa: PLR0913 (a row of a table)
    name: str,
    summary: str,
    words: Words,
    *,
    family: Iterable[str] = (),
    choices: tuple[str, ...] = (),
    moves: tuple[str, ...] = (),
    live: bool = True,
    unit: str = "",
    moot: str = "",
    risk: str = "",
    source: str = ANY,
    low: int | None = None,
    words_too: tuple[str, ...] = (),
    aliases: tuple[tuple[str, str], ...] = (),
    key: str = "",
    column: str = "OPTIONS",
) -> Tunable:
    known = ",".join(family or (name,))
    domain = Domain(choices, low=low, words=words_too, rule=_form, aliases=aliases)

    def how(device: str, value: str) -> tuple[Change, ...]:
        if why := _form(value):
            raise UsageError(f"mount.{name}: {why}", advice="Write one value, as findmnt shows it.")
        new, remount, shown = words(value)
        argv = ("sh", "-c", SET, "iotrial-mount", device, known, new, remount, shown)
        return (Change("run", argv=argv),)

    return Tunable(
        f"mount.{name}",
        "",
        summary,
        unit=unit,
        layer="file system",
        lasts=LASTS,
        risk=f"{_RISK_LIVE if live else _RISK_AGAIN} {risk}".rstrip(),
        moot=moot[:1].upper() + moot[1:] + "." if moot else "",
        source=source,
        rank=45 if moves else 50,
        moves=(*(f"mount.{other}" for other in moves), "mount.mounted", "nfs.read_ahead_kb"),
        scope="mount",
        domain=lambda _raw: domain,
        read=("findmnt", "-n", "-o", column, "--mountpoint", "{device}"),
        pick="listed" if choices else "option",
        key=",".join(choices) if choices else key or name,
        how=how,
    )


def _one_of(*choices: str, live: bool = True) -> Words:
    """One of several bare words, of which the first may not be shown."""

    def words(value: str) -> tuple[str, str, str]:
        return value, value if live else "", "" if value == choices[0] else value

    return words


def choice(name: str, summary: str, *choices: str, **more: Any) -> Tunable:  # noqa: ANN401
    """A setting whose values are bare options, the kernel's own default first."""
    live = bool(more.get("live", True))
    return _row(
        name,
        summary,
        _one_of(*choices, live=live),
        family=choices,
        choices=choices,
        **more,
    )


def option(name: str, summary: str, *, off: str = "", **more: Any) -> Tunable:  # noqa: ANN401
    """An option with a value, or a bare one (value ``on``).  ``off`` is the word by which a
    remount takes it away ('': a remount does not do)."""

    def words(value: str) -> tuple[str, str, str]:
        word = {UNSET: "", ON: name}.get(value, f"{name}={value}")
        return word, (word or off) if off else "", word

    return _row(name, summary, words, live=bool(off), **more)


def number(name: str, summary: str, *, low: int = 0, **more: Any) -> Tunable:  # noqa: ANN401
    return option(name, summary, low=low, words_too=(UNSET,), **more)


def mounted() -> Tunable:
    def back(device: str, value: str) -> tuple[Change, ...]:
        source, kind, propagation, options = value.split(" ", 3)
        former = (unescaped(source), kind, propagation, unescaped(options))
        return (Change("run", argv=("sh", "-c", AGAIN, "iotrial-mount-back", device, *former)),)

    return Tunable(
        "mount.mounted",
        "",
        "what is mounted there: source, type, propagation, options; it goes back as a whole",
        layer="file system",
        lasts=LASTS,
        risk=(
            "Only what is not in use is mounted again. One that became read-only after an error"
            " is left so, and named."
        ),
        source="findmnt(8), mount(8), umount(8); measured on 6.18 with ext4 and xfs",
        rank=90,
        scope="mount",
        read=("sh", "-c", literal(LOOK), "iotrial-mounted", "{device}"),
        how=back,
        reload="it is what other mount options are undone by; set those",
    )


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

    return _row(
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
