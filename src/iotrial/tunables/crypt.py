"""Family ``crypt``: the flags of an active dm-crypt device, by the name of its mapping.

By default dm-crypt hands every read and write to work queues and sorts writes in a thread of its
own; on fast disks that may cost more than the cipher.  Each flag is 1 or 0, read from the table of
the device and changed while it is mounted and in use.

*The key is never told.*  A table that is read hides it (dmsetup(8)).  A flag is part of the table,
so changing one loads the table again with the same key, in one of two ways:

1. where the kernel still has the key, the shell on the host hands the table from one dmsetup to the
   next by a pipe: no argument, file, log or journal ever holds the key;
2. where the table only names a key that the kernel's keyring has lost, as LUKS2 leaves it,
   ``cryptsetup refresh`` takes the key from the file that /etc/crypttab names for the device, or
   from a token of the header (TPM2, clevis).  A device that needs its passphrase typed is refused,
   before anything is changed.

A journal holds the name of the mapping, the flag and its value.  If the header of LUKS2 says a flag
itself (``cryptsetup --persistent``), refreshing turns it on whatever is asked: reading back tells.

Sources: the kernel's Documentation/admin-guide/device-mapper/dm-crypt.rst, drivers/md/dm-crypt.c;
dmsetup(8), cryptsetup-refresh(8), crypttab(5); I. Korchagin, Speeding up Linux disk encryption
(2020), for what no_read_workqueue and no_write_workqueue are for.
"""

from __future__ import annotations

import errno

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable, literal

FAMILY = "crypt"
TITLE = "dm-crypt: work queues, and on which CPU"

_SHOW = """\
said=$(dmsetup table "$1") || exit
case $said in
    *' crypt '*" $2" | *' crypt '*" $2 "*) echo 1 ;;
    *' crypt '*) echo 0 ;;
    *) echo "$1 is not a dm-crypt device: No such device" >&2; exit 1 ;;
esac
"""
"""Arguments: the mapping, the flag."""

# The table is in a variable of this shell and in pipes, and nowhere else.  An empty one would make
# the device empty, so it is looked at before it is loaded.
_SET = """\
set +x
name=$1 flag=$2 on=$3 refresh=
changed() {
    read -r start size kind cipher key iv device offset count options || return
    if read -r _ || [ "$kind" != crypt ]; then
        echo "$name is not one dm-crypt device: No such device" >&2
        return 1
    fi
    new= number=0
    for each in $options; do
        [ "$each" != "$flag" ] || continue
        new="$new $each" number=$((number + 1))
    done
    [ "$on" = 0 ] || new="$new $flag" number=$((number + 1))
    [ "$number" -eq 0 ] || new=" $number$new"
    printf '%s\\n' "$start $size $kind $cipher $key $iv $device $offset$new"
}
table=$(dmsetup table --showkeys "$name" | changed) || exit
case $table in *' crypt '*) ;; *) echo "$name: No such device" >&2; exit 1 ;; esac
case $(dmsetup info -c --noheadings -o attr "$name") in *r*) only=--readonly ;; *) only= ;; esac
if failed=$(printf '%s\\n' "$table" | dmsetup load $only "$name" 2>&1); then
    dmsetup resume "$name"
    exit
fi
case $table in
    *' crypt '*' :'*) ;;
    *) echo "$name: the kernel does not take $flag: Invalid argument" >&2; exit 1 ;;
esac
set -f
for each in ${table#* crypt }; do
    case $each in
        same_cpu_crypt | submit_from_crypt_cpus | no_read_workqueue | no_write_workqueue)
            refresh="$refresh --perf-$each" ;;
        allow_discards) refresh="$refresh --allow-discards" ;;
    esac
done
file=
while read -r known _ found _; do
    [ "$known" != "$name" ] || file=$found
done 2>/dev/null </etc/crypttab
case $file in /*) how="--key-file=$file" ;; *) how=--token-only ;; esac
cryptsetup refresh "$name" $refresh "$how" </dev/null && exit
echo "$name: Required key not available" >&2
exit 1
"""
"""Arguments: the mapping, the flag, 1 or 0.  What dmsetup says of a table is not passed on: it may
repeat it."""

_NO_KEY = (
    "the kernel's keyring has lost the key, and neither a key file in /etc/crypttab nor a token of"
    " the header gives it: close the device and open it with --disable-keyring, or add one of these"
)
_RST = "kernel Documentation/admin-guide/device-mapper/dm-crypt.rst; drivers/md/dm-crypt.c"


def _flag(name: str, summary: str, risk: str, moot: str) -> Tunable:
    def put(device: str, value: str) -> tuple[Change, ...]:
        return (Change("run", argv=("sh", "-c", _SET, "iotrial-crypt", device, name, value)),)

    return Tunable(
        f"crypt.{name}",
        "",
        summary,
        layer="dm-crypt",
        lasts="until the mapping is closed or refreshed by another process",
        risk=f"{risk} The device is suspended for a moment, which writes out what is dirty.",
        moot=moot,
        source=_RST,
        scope="crypt",
        domain=lambda _raw: Domain(choices=("0", "1")),
        read=("sh", "-c", literal(_SHOW), "iotrial-crypt-seen", "{device}", name),
        how=put,
        means=((errno.ENOKEY, _NO_KEY),),
    )


_SLOW = "The disk is slower than the cipher."

TUNABLES: tuple[Tunable, ...] = (
    _flag(
        "no_read_workqueue",
        "1: reads are decrypted where they complete, not by a work queue (5.9 and later)",
        "Decrypting in a soft interrupt keeps that CPU from other work.",
        f"The load writes. {_SLOW}",
    ),
    _flag(
        "no_write_workqueue",
        "1: writes are encrypted by the process that sends them, not by a work queue (5.9 and"
        " later)",
        "Writes are not sorted any more: bad for disks that turn.",
        f"The load reads. {_SLOW}",
    ),
    _flag(
        "same_cpu_crypt",
        "1: I/O is encrypted on the CPU that sent it, not on any that is idle",
        "One process gets no more than one CPU of the cipher.",
        f"no_read_workqueue and no_write_workqueue are 1. {_SLOW}",
    ),
    _flag(
        "submit_from_crypt_cpus",
        "1: writes are sent by the CPU that encrypted them, not sorted in a thread of their own",
        "Bad for disks that turn, and with the schedulers that expect sorted writes.",
        f"no_write_workqueue is 1, or the load reads. {_SLOW}",
    ),
)
