"""An iSCSI target and its initiators, by two portals on two networks; dm-multipath on top.

Node 1 is the target.  ``link san-1 down`` takes the first path from all initiators, and with
``--of lab2`` the second.

Sources: multipath.conf(5), iscsid.conf (its comments), RFC 3721 (names).
"""

from __future__ import annotations

from collections.abc import Mapping

from iotrial_vmlab.lab import Lab, LabDisk, LabKind, LabNode, Network, identity, role

_DISK = LabDisk("lun", "scsi", only=1)
_NETWORKS: tuple[Network, ...] = ("lab", "lab2")

# What was published for a Violin array in 2013, in today's words: udev has what getuid_callout
# asked for, rr_min_io is rr_min_io_rq, and its group_by_serial is one group of both paths.  Its
# timeouts of Fibre Channel are iSCSI's below.  It had "no_path_retry fail"; here I/O waits, so that
# a case can say what it wants.  multipath's own table knows LIO-ORG, and beats `defaults`: so
# `overrides`.
MULTIPATH = """\
defaults {
	user_friendly_names yes
	find_multipaths no
	polling_interval 2
	max_polling_interval 4
}
blacklist {
	devnode "^(vd|nvme|loop)"
}
overrides {
	path_grouping_policy multibus
	path_checker tur
	path_selector "round-robin 0"
	rr_min_io_rq 1
	failback immediate
	no_path_retry queue
}
"""

# A path that does not answer is given up after some ten seconds, not after the two minutes that
# suit a disk that has no other.
ISCSID = """\
iscsid.startup = /bin/systemctl start iscsid.socket
node.startup = manual
node.leading_login = No
node.session.timeo.replacement_timeout = 5
node.conn[0].timeo.login_timeout = 15
node.conn[0].timeo.logout_timeout = 15
node.conn[0].timeo.noop_out_interval = 2
node.conn[0].timeo.noop_out_timeout = 4
node.session.err_timeo.abort_timeout = 15
node.session.err_timeo.lu_reset_timeout = 30
node.session.err_timeo.tgt_reset_timeout = 30
node.session.initial_login_retry_max = 8
node.session.cmds_max = 128
node.session.queue_depth = 32
"""


def name_of(lab: Lab) -> str:
    """The target's iSCSI name; its domain has to have a dot in it."""
    return f"iqn.2026-01.org.iotrial:{lab.name}"


def portals(lab: Lab) -> tuple[str, ...]:
    """``address:port`` of each of the target's."""
    return tuple(f"{lab.nodes[0].address_on(network)}:3260" for network in _NETWORKS)


def _files(lab: Lab, node: LabNode) -> Mapping[str, str]:
    both = {"IQN": name_of(lab), "PORTALS": " ".join(portals(lab))}
    if node.number == 1:
        return role("san-target", SERIAL=identity(lab, node, _DISK)[0], **both)
    return {
        **role("san-initiator", **both),
        "etc/multipath.conf": MULTIPATH,
        "etc/iscsi/iscsid.conf": ISCSID,
        "etc/iscsi/initiatorname.iscsi": f"InitiatorName={name_of(lab)}.{node.name}\n",
    }


LAB = LabKind(
    name="san",
    summary="an iSCSI target with two portals on two networks, and initiators with dm-multipath",
    disks=(_DISK,),
    nodes=2,
    fewest=2,
    networks=_NETWORKS,
    files=_files,
)
