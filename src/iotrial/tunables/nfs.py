"""Family ``nfs``: NFS beside its mount options: read-ahead of a mount, requests in flight, threads
of the server.

Options of the mount itself (rsize, nconnect, actimeo …) are in the family ``mount``.

Sources: kernel net/sunrpc/xprtsock.c (xs_tunables_table), fs/nfs/super.c (nfs_set_readahead,
max_session_slots), fs/nfsd/nfsctl.c (write_threads); nfs(5), nfsd(7), nfsrahead(5).  All
were held and restored on 6.1 in virtual machines, with NFS 4.2; what they move was not measured.
"""

from __future__ import annotations

from typing import Any

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable, literal

FAMILY = "nfs"
TITLE = "NFS: read-ahead of a mount, requests in flight, threads of the server"

_SUNRPC = "kernel net/sunrpc/xprtsock.c; nfs(5); held and restored on 6.1"
_NEXT = "Holds for connections made from then on: unmount all mounts of the server before."

BDI = """\
number=$(mountpoint -d "$1") || exit
case $number in
    0:*) ;;
    *) exit 1 ;;
esac
file=/sys/class/bdi/$number/read_ahead_kb
if [ -z "${2-}" ]; then cat "$file"; else printf '%s' "$2" >"$file"; fi
"""
"""Arguments: mount point, value (missing: say it).  Only for a file system that has a backing
device of its own; that of a disk is ``queue.read_ahead_kb``.  Its number is asked for each time:
mounting again gives another one."""


def _read_ahead(device: str, value: str) -> tuple[Change, ...]:
    return (Change("run", argv=("sh", "-c", BDI, "iotrial-bdi", device, value)),)


def _host(name: str, path: str, summary: str, low: int, high: int, **more: Any) -> Tunable:  # noqa: ANN401
    domain = Domain(low=low, high=high)
    return Tunable(
        f"nfs.{name}",
        path,
        summary,
        layer="NFS",
        scope="host",
        domain=lambda _raw: domain,
        **{"lasts": "until the machine reboots or the module goes", **more},
    )


TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        "nfs.read_ahead_kb",
        "",
        "how far the page cache reads ahead of a sequential reader of the mount",
        unit="KiB",
        layer="NFS",
        lasts="until it is remounted",
        risk="Since 5.4 an NFS mount begins with 128, before with 15 times rsize.",
        moot="Direct I/O, or reads that are not sequential.",
        source="kernel mm/backing-dev.c, fs/nfs/super.c; nfsrahead(5); held and restored on 6.1",
        rank=95,
        scope="mount",
        domain=lambda _raw: Domain(low=0, high=2**31 - 1),
        read=("sh", "-c", literal(BDI), "iotrial-bdi", "{device}"),
        how=_read_ahead,
    ),
    _host(
        "tcp_slot_table_entries",
        "/proc/sys/sunrpc/tcp_slot_table_entries",
        "requests in flight that a TCP connection has room for at the start",
        2,
        65536,
        risk=_NEXT,
        moot="The load has fewer requests in flight; NFS 4.1 and later: the session decides.",
        source=_SUNRPC,
    ),
    _host(
        "tcp_max_slot_table_entries",
        "/proc/sys/sunrpc/tcp_max_slot_table_entries",
        "requests in flight that a TCP connection may grow to",
        2,
        65536,
        risk=f"{_NEXT} Never below tcp_slot_table_entries.",
        moot="The load has fewer requests in flight; NFS 4.1 and later: the session decides.",
        source=_SUNRPC,
    ),
    _host(
        "max_session_slots",
        "/sys/module/nfs/parameters/max_session_slots",
        "requests in flight that a session of NFS 4.1 and later may have",
        1,
        1024,
        risk="A parameter of the module nfs, for sessions made from then on: unmount before.",
        moot="The load has fewer requests in flight; NFS 3 and 4.0; the server offers less.",
        source="kernel fs/nfs/super.c; nfs.max_session_slots; held and restored on 6.1",
    ),
    _host(
        "nfsd_threads",
        "/proc/fs/nfsd/threads",
        "threads of the NFS server on this host",
        1,
        8192,
        lasts="until the server is restarted",
        risk="Fewer than the clients' requests and they wait; each takes memory.",
        moot="This host serves no NFS, or fewer requests arrive at once.",
        source="nfsd(7); kernel fs/nfsd/nfsctl.c write_threads(); held and restored on 6.1",
    ),
)
