"""What runs on the host to mount with other options: three fixed scripts, POSIX sh.

Names and values are their arguments, never part of their text.  They ask findmnt(8) themselves,
because only what is mounted at that moment says how it is to be mounted again.

What must not be unmounted, since what is shown of it does not suffice to mount it again, is
refused before: a bind mount (it shows the source of the whole file system), a memory file system
(its files would go), a loop device with autoclear (it goes with its last user), options that the
kernel hides (``secret=<hidden>`` of ceph), types unknown here.  Of NFS ``addr``, ``clientaddr``,
``mountaddr`` and ``namlen`` are what was negotiated and are found anew (nfs(5), utils/mount of
nfs-utils); ``seclabel`` of SELinux and the owner of a FUSE mount are shown and never taken.
"""

from __future__ import annotations

import re

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


def escaped(script: str) -> str:
    """A row's words are formats (``{device}``): here braces are braces."""
    return script.replace("{", "{{").replace("}", "}}")
