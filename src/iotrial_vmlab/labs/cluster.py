"""Nodes that share disks: corosync, dlm, clustered md, ocfs2, gfs2, and LVM by lvmlockd.

There is no fencing: a node that is lost is given up by dlm at once.  The old clustered LVM mirror
is not here, as Debian has neither clvmd nor cmirrord any more.

Sources: corosync.conf(5), votequorum(5), dlm.conf(5), o2cb(7), ocfs2.cluster.conf(5), lvm.conf(5),
lvmlockd(8); md_mod's parameter start_ro: Documentation/admin-guide/md.rst of Linux 6.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotrial_vmlab.lab import Lab, LabDisk, LabKind, LabNode, role

NAME = "iotrial"
"""Of the cluster, for corosync, md, gfs2 and O2CB."""
TOKEN = 10_000
"""Milliseconds without a word until a node is lost.  Emulated nodes on a busy machine stand still
for seconds."""
_PAIR = 2
_DISKS = tuple(LabDisk(name, "scsi", shared=True) for name in "abcd")


def corosync(lab: Lab) -> str:
    """``corosync.conf``: two nodes are quorate while one of them lives, once both have met."""
    nodes = "".join(
        f"\tnode {{\n\t\tname: {each.name}\n\t\tnodeid: {each.number}\n"
        f"\t\tring0_addr: {each.address}\n\t}}\n"
        for each in lab.nodes
    )
    two = "\ttwo_node: 1\n" if len(lab.nodes) == _PAIR else ""
    return (
        f"totem {{\n\tversion: 2\n\tcluster_name: {NAME}\n\ttransport: udpu\n"
        f"\tcrypto_cipher: none\n\tcrypto_hash: none\n\ttoken: {TOKEN}\n}}\n"
        f"nodelist {{\n{nodes}}}\n"
        f"quorum {{\n\tprovider: corosync_votequorum\n{two}}}\n"
        "logging {\n\tto_logfile: no\n\tto_syslog: yes\n}\n"
    )


def ocfs2(lab: Lab) -> str:
    """``cluster.conf`` of O2CB, with its own heartbeat.  Its lines begin with a tab."""
    head = f"cluster:\n\theartbeat_mode = local\n\tnode_count = {len(lab.nodes)}\n\tname = {NAME}\n"
    return head + "".join(
        f"\nnode:\n\tnumber = {each.number - 1}\n\tcluster = {NAME}\n\tip_port = 7777\n"
        f"\tip_address = {each.address}\n\tname = {each.name}\n"
        for each in lab.nodes
    )


def _files(lab: Lab, node: LabNode) -> Mapping[str, str]:
    return {
        **role("cluster", NODES=str(len(lab.nodes)), DISKS=str(len(_DISKS))),
        "etc/corosync/corosync.conf": corosync(lab),
        "etc/dlm/dlm.conf": "enable_fencing=0\nenable_startup_fencing=0\n"
        "enable_quorum_lockspace=0\n",
        "etc/ocfs2/cluster.conf": ocfs2(lab),
        "etc/lvm/lvm.conf": "global {\n\tuse_lvmlockd = 1\n}\n",
        "etc/lvm/lvmlocal.conf": f"local {{\n\thost_id = {node.number}\n}}\n",
        # Debian's own file has it 1, with which members wait to be written to before they sync.
        "etc/modprobe.d/mdadm.conf": "options md_mod start_ro=0\n",
    }


LAB = LabKind(
    name="cluster",
    summary="2 or more nodes with shared disks: corosync, dlm, clustered md, ocfs2, gfs2, lvmlockd",
    disks=_DISKS,
    nodes=2,
    fewest=2,
    modules=(("configfs", ""), ("dlm", "")),
    files=_files,
)
