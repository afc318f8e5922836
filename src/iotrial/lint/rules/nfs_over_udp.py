"""NFS over UDP, which kernels refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Entry, Sheet

_VERSIONS = ("vers", "nfsvers")


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
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


def _version(group: Sequence[Entry]) -> str:
    said = [entry.value for entry in group if entry.key in _VERSIONS]
    said += [entry.key[1:] for entry in group if entry.key in ("v4", "v4.0", "v4.1", "v4.2")]
    return said[-1] if said else group[0].section[2].removeprefix("nfs")


RULE = Rule(
    "nfs-over-udp",
    "NFS over UDP",
    "error",
    ("fstab",),
    "NFSv4 is not defined for UDP.  For older versions the kernel's NFS_DISABLE_UDP_SUPPORT, which"
    " is on by default, takes it away: on links of 1 Gbit/s and more a packet's number comes again"
    " before its fragments are given up, and wrong data pass the checksum.",
    "nfs(5): Using NFS over UDP on high-speed links; RFC 7530, 3.1; fs/nfs/Kconfig:"
    " NFS_DISABLE_UDP_SUPPORT (5.6); fs/nfs/fs_context.c",
    "proto=tcp, or leave it out: TCP is the default.",
    _judge,
)
