"""An NFS server and its clients.

Node 1 is the server: it exports the folder ``/srv/export`` on its disk.  Clients can mount it, and
have it not mounted.

Sources: exports(5), nfs.conf(5), nfs(5).
"""

from __future__ import annotations

from collections.abc import Mapping

from iotrial_vmlab.lab import Lab, LabDisk, LabKind, LabNode, identity, role

EXPORT = "/srv/export"
GRACE = 10
"""Seconds after a start in which the server waits for clients to claim what they had: the least
that it takes, where 90 are usual."""
_DISK = LabDisk("export", "scsi", size=512 * 2**20, only=1)


def _files(lab: Lab, node: LabNode) -> Mapping[str, str]:
    if node.number > 1:
        return role("nas-client", SERVER=lab.nodes[0].address, EXPORT=EXPORT)
    return {
        **role("nas-server", SERIAL=identity(lab, node, _DISK)[0], EXPORT=EXPORT),
        "etc/exports": f"{EXPORT} 10.77.0.0/24(rw,sync,no_subtree_check,no_root_squash)\n",
        "etc/nfs.conf": f"[nfsd]\nthreads=8\ngrace-time={GRACE}\nlease-time={GRACE}\n"
        f"[lockd]\ngrace-time={GRACE}\n",
    }


LAB = LabKind(
    name="nas",
    summary="an NFS server with a disk of its own, and clients",
    disks=(_DISK,),
    nodes=2,
    fewest=2,
    files=_files,
)
