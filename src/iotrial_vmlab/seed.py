"""What a node finds on its root disk at its first boot: its name, its keys, its network.  Pure.

It comes with the kernel, as a second archive behind the first stage.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass

from iotrial_vmlab.archive import Entry, archive
from iotrial_vmlab.lab import Kind, Lab, Node
from iotrial_vmlab.roles import UNIT, WANTED


@dataclass(frozen=True, slots=True)
class Keys:
    """``client`` may log in; ``host`` is what every node of the lab shows, with its public
    half."""

    client: str
    host: str
    host_public: str


def seed(lab: Lab, node: Node, kind: Kind, keys: Keys) -> bytes:
    """The archive, compressed."""
    files = {f"seed/{path}": entry for path, entry in seed_files(lab, node, kind, keys).items()}
    return gzip.compress(archive(files), 6, mtime=0)


def seed_files(lab: Lab, node: Node, kind: Kind, keys: Keys) -> dict[str, Entry]:
    """What the node finds, by path."""
    machine = hashlib.sha256(f"{lab.folder}/{node.name}".encode()).hexdigest()[:32]
    texts = {
        "etc/hostname": f"{node.name}\n",
        "etc/machine-id": f"{machine}\n",
        "etc/hosts": _hosts(lab),
        "etc/iotrial-net": _network(node, kind),
        "etc/ssh/ssh_host_ed25519_key.pub": keys.host_public,
        "etc/modules-load.d/iotrial-lab.conf": "".join(f"{name}\n" for name, _ in kind.modules),
        "etc/modprobe.d/iotrial-lab.conf": _options(kind),
        **kind.files(lab, node),
    }
    begun = {WANTED: Entry(f"/{UNIT}".encode(), link=True)} if UNIT in texts else {}
    return {
        **{path: Entry(text.encode()) for path, text in texts.items()},
        **begun,
        "root/.ssh/authorized_keys": Entry(keys.client.encode(), 0o600),
        "etc/ssh/ssh_host_ed25519_key": Entry(keys.host.encode(), 0o600),
    }


def _hosts(lab: Lab) -> str:
    nodes = "".join(f"{node.address} {node.name}\n" for node in lab.nodes)
    return f"127.0.0.1 localhost\n{nodes}"


def _network(node: Node, kind: Kind) -> str:
    """Hardware address, address: for the node's own script.  10.0.2.15 is where QEMU's user
    network expects a guest (qemu(1), ``-netdev user``)."""
    own = "".join(f"{node.hardware(each)} {node.address_on(each)}/24\n" for each in kind.networks)
    return f"{node.hardware('ssh')} 10.0.2.15/24 10.0.2.2\n{own}"


def _options(kind: Kind) -> str:
    return "".join(f"options {name} {words}\n" for name, words in kind.modules if words)


def client_config(lab: Lab) -> str:
    """An ssh_config(5) of the lab's nodes: their ports, its key, and nothing of the user's.

    Keys are exchanged in the way that costs an emulated processor least: 0.6 s a connection where
    ssh's own choice takes 0.95 s."""
    folder = lab.folder
    return "\n".join(
        f"Host {node.name}\n"
        f"    HostName 127.0.0.1\n"
        f"    Port {node.port}\n"
        f"    HostKeyAlias iotrial-{lab.name}\n"
        f"    User root\n"
        f'    IdentityFile "{folder}/key"\n'
        f"    IdentitiesOnly yes\n"
        f"    IdentityAgent none\n"
        f'    UserKnownHostsFile "{folder}/known_hosts"\n'
        f"    GlobalKnownHostsFile none\n"
        f"    StrictHostKeyChecking yes\n"
        f"    KexAlgorithms ecdh-sha2-nistp256\n"
        for node in lab.nodes
    )
