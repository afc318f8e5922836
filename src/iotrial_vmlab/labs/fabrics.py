"""An NVMe over TCP target and its hosts, by two ports on two networks, with the kernel's own
multipath.

Node 1 is the target.  ``link fabrics-1 down`` takes the first path from all hosts, and with
``--of lab2`` the second; a delay on one of its interfaces (``tc qdisc``) makes one path worse.

Sources: NVM Express Base Specification 2.0, 4.5 (NVMe Qualified Names), nvme-connect(1);
Documentation/ABI/testing/sysfs-nvme, drivers/nvme/target/configfs.c of Linux 6.1.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping

from iotrial_vmlab.lab import Lab, LabDisk, LabKind, LabNode, Network, identity, role

_DISK = LabDisk("namespace", "scsi", only=1)
_NETWORKS: tuple[Network, ...] = ("lab", "lab2")
PORT = 4420


def name_of(lab: Lab) -> str:
    """The subsystem's qualified name."""
    return f"nqn.2026-01.org.iotrial:{lab.name}"


def uuid_of(lab: Lab, node: LabNode) -> str:
    """Of the namespace (node 1), or of a host: the same at every boot."""
    said = hashlib.sha256(f"{lab.name}/{node.name}".encode()).digest()
    return str(uuid.UUID(bytes=said[:16], version=4))


def _files(lab: Lab, node: LabNode) -> Mapping[str, str]:
    target = lab.nodes[0]
    both = {
        "NQN": name_of(lab),
        "ADDRESSES": " ".join(target.address_on(network) for network in _NETWORKS),
        "TRSVCID": str(PORT),
    }
    own = uuid_of(lab, node)
    if node is target:
        serial = identity(lab, node, _DISK)[0]
        return role("fabrics-target", SERIAL=serial, NAMESPACE=own, **both)
    return {
        **role("fabrics-host", **both),
        "etc/nvme/hostnqn": f"nqn.2014-08.org.nvmexpress:uuid:{own}\n",
        "etc/nvme/hostid": f"{own}\n",
    }


LAB = LabKind(
    name="fabrics",
    summary="an NVMe/TCP target with two ports on two networks, and hosts with native multipath",
    disks=(_DISK,),
    nodes=2,
    fewest=2,
    networks=_NETWORKS,
    files=_files,
)
