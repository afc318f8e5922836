"""A lab from nothing to reachable nodes, its nodes' power and links, and its clean end.

The lab's folder says what there is to be; ``/proc`` says what runs.  So it does not matter who has
begun what: a lab whose ``up`` was killed is taken down, or brought up, like any other.

What a node finds on its root disk at its first boot (its name, its keys, its network) comes with
the kernel, as a second archive behind the first stage.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from iotrial.errors import HostError, RefusedError, UsageError
from iotrial.model.host import Host
from iotrial_vmlab import qemu
from iotrial_vmlab.image import ImageEntry, LabImage, archive, opened
from iotrial_vmlab.lab import (
    UNIT,
    WANTED,
    WHOLE,
    Lab,
    LabFolders,
    LabKind,
    LabNode,
    Link,
    checked_name,
    load,
    save,
)
from iotrial_vmlab.labs import kind_of
from iotrial_vmlab.qemu import card, command

# -- what a node finds -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SSHKeys:
    """``client`` may log in; ``host`` is what every node of the lab shows, with its public
    half."""

    client: str
    host: str
    host_public: str


def seed(lab: Lab, node: LabNode, kind: LabKind, keys: SSHKeys) -> bytes:
    """The archive, compressed."""
    files = {f"seed/{path}": entry for path, entry in seed_files(lab, node, kind, keys).items()}
    return gzip.compress(archive(files), 6, mtime=0)


def seed_files(lab: Lab, node: LabNode, kind: LabKind, keys: SSHKeys) -> dict[str, ImageEntry]:
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
    begun = {WANTED: ImageEntry(f"/{UNIT}".encode(), link=True)} if UNIT in texts else {}
    return {
        **{path: ImageEntry(text.encode()) for path, text in texts.items()},
        **begun,
        "root/.ssh/authorized_keys": ImageEntry(keys.client.encode(), 0o600),
        "etc/ssh/ssh_host_ed25519_key": ImageEntry(keys.host.encode(), 0o600),
    }


def _hosts(lab: Lab) -> str:
    nodes = "".join(f"{node.address} {node.name}\n" for node in lab.nodes)
    return f"127.0.0.1 localhost\n{nodes}"


def _network(node: LabNode, kind: LabKind) -> str:
    """Hardware address, address: for the node's own script.  10.0.2.15 is where QEMU's user
    network expects a guest (qemu(1), ``-netdev user``)."""
    own = "".join(f"{node.hardware(each)} {node.address_on(each)}/24\n" for each in kind.networks)
    return f"{node.hardware('ssh')} 10.0.2.15/24 10.0.2.2\n{own}"


def _options(kind: LabKind) -> str:
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


# -- power -----------------------------------------------------------------------------------------

READY = b"iotrial: ready"
READY_WITHIN = 300.0
_LOOKS_EVERY = 0.1
_STARTS_WITHIN = 60.0
_TRIES = 5
_TAKEN = "host forwarding"
_SSH_FAILS = 255
"""ssh(1)'s own exit status."""
State = Literal["off", "running", "paused"]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as it is: ``pid`` of its QEMU (0: off), and the memory that takes, in bytes."""

    node: LabNode
    state: State
    pid: int = 0
    memory: int = 0


def labs(places: LabFolders) -> tuple[Path, ...]:
    """The folders of all labs."""
    folder = places.labs
    return (
        tuple(sorted(each for each in folder.iterdir() if each.is_dir())) if folder.is_dir() else ()
    )


def named(places: LabFolders, name: str) -> Lab:
    """The lab of this name.  Raises UsageError where there is none."""
    folder = places.labs / checked_name(name)
    if not folder.is_dir():
        known = ", ".join(each.name for each in labs(places))
        raise UsageError(
            f"no lab {name!r} is up",
            advice=f"Up are: {known}"
            if known
            else "None is up; `iotrial vmlab list` says which there can be.",
        )
    return load(folder)


def meant(places: LabFolders, words: str) -> tuple[Lab, tuple[LabNode, ...]]:
    """The nodes that ``words`` mean: one by its name, or all of a lab.  Raises UsageError."""
    checked_name(words)
    for folder in labs(places):
        if words == folder.name:
            lab = load(folder)
            return lab, lab.nodes
        if words.startswith(f"{folder.name}-"):
            lab = load(folder)
            found = tuple(node for node in lab.nodes if node.name == words)
            if found:
                return lab, found
    return named(places, words), ()


def made(host: Host, lab: Lab, image: LabImage) -> None:
    """A planned lab's folder: keys, disks, what each node is told.  Nothing runs yet; the caller
    holds the lab's lock."""
    kind = kind_of(lab.kind)
    if "systemd-boot" in kind.loaders and not Path(qemu.UEFI[0]).exists():
        raise RefusedError(
            f"a lab {kind.name} needs firmware that is not installed here: {qemu.UEFI[0]}",
            advice="As root: apt-get install --no-install-recommends ovmf",
        )
    lab.folder.mkdir(mode=0o700, parents=True)
    save(lab)
    keys = _keys(host, lab)
    for node in lab.nodes:
        lab.place(node).mkdir()
        first = image.first.read_bytes() + seed(lab, node, kind, keys)
        (lab.place(node) / "initrd").write_bytes(first)
        _root(host, lab, node, image)
        for disk in kind.disks_of(node):
            with lab.disk_file(node, disk).open("ab") as file:
                file.truncate(disk.size)


def powered(
    host: Host,
    lab: Lab,
    nodes: Sequence[LabNode],
    *,
    accelerator: str,
    within: float = READY_WITHIN,
) -> Lab:
    """Start those of ``nodes`` that do not run, and wait until all can be reached by ssh.

    The lab given back knows the ports.  Raises HostError, with what the node's console said last.
    """
    lab = _up(host, lab, nodes, accelerator, within)
    kind = kind_of(lab.kind)
    new = [each for each in nodes if kind.loader_of(each) and not lab.firmware(each).exists()]
    for node in new:
        _do(host, ["ssh", *lab.way(node).split(" "), "sync"], advice=_AGAIN)
    cut(lab, new)
    for node in new:
        if kind.loader_of(node) == "grub":
            lab.firmware(node).touch()
        else:
            shutil.copyfile(qemu.UEFI[1], lab.firmware(node))
    return _up(host, lab, new, accelerator, within) if new else lab


def _up(host: Host, lab: Lab, nodes: Sequence[LabNode], accelerator: str, within: float) -> Lab:
    image = opened(lab.image)
    up = running(lab)
    for node in nodes:
        if node.name not in up:
            lab = _started(host, lab, node, image, accelerator)
    deadline = time.monotonic() + within
    wanted = {node.name for node in nodes}
    for node in (each for each in lab.nodes if each.name in wanted):
        _await(host, lab, node, deadline)
    return lab


def running(lab: Lab) -> dict[str, int]:
    """Name → process of each node that runs."""
    found = qemu.processes(lab.folder)
    return {node.name: pids[0] for node in lab.nodes if (pids := found.get(lab.pid_file(node)))}


def cut(lab: Lab, nodes: Sequence[LabNode]) -> None:
    """As if the cable were pulled: QEMU is killed, and with it all that the guest had not yet
    written to its disks."""
    for node in nodes:
        qemu.end_processes(lab.place(node))


def pause(lab: Lab, nodes: Sequence[LabNode]) -> None:
    """Stop their processors: to all others they hang."""
    for node in nodes:
        qemu.ask(lab.place(node), "stop")


def resume(lab: Lab, nodes: Sequence[LabNode]) -> None:
    for node in nodes:
        qemu.ask(lab.place(node), "cont")


def link(lab: Lab, nodes: Sequence[LabNode], *, which: Link, state: Literal["up", "down"]) -> None:
    """Pull the cable of an interface, or plug it in again.  Raises UsageError for one that this
    kind of lab has not."""
    there = ("ssh", *kind_of(lab.kind).networks)
    if which not in there:
        raise UsageError(
            f"the nodes of {lab.name} have no link {which!r}",
            advice=f"They have: {', '.join(there)}",
        )
    for node in nodes:
        qemu.ask(lab.place(node), "set_link", name=card(which), up=state == "up")


def stood(lab: Lab) -> tuple[NodeState, ...]:
    """Each node as it is."""
    up = running(lab)
    return tuple(_stood(lab, node, up.get(node.name, 0)) for node in lab.nodes)


def _stood(lab: Lab, node: LabNode, pid: int) -> NodeState:
    if not pid:
        return NodeState(node, "off")
    try:
        paused = qemu.ask(lab.place(node), "query-status")["status"] == "paused"
    except HostError:
        paused = False
    return NodeState(node, "paused" if paused else "running", pid, _memory(pid))


def _memory(pid: int) -> int:
    """Resident bytes; 0 where the process has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def down(folder: Path) -> None:
    """End all that runs of the lab, and remove its folder.  It needs nothing of what lies in it."""
    qemu.end_processes(folder)
    shutil.rmtree(folder)


def _keys(host: Host, lab: Lab) -> SSHKeys:
    for name in ("key", "host"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"iotrial-{lab.name}"]
        _do(host, [*argv, "-f", str(lab.folder / name)], advice="Install openssh-client.")
    public = (lab.folder / "host.pub").read_text("ascii")
    kind, key, *_ = public.split()
    (lab.folder / "known_hosts").write_text(f"iotrial-{lab.name} {kind} {key}\n", "ascii")
    client = (lab.folder / "key.pub").read_text("ascii")
    return SSHKeys(client, (lab.folder / "host").read_text("ascii"), public)


def _root(host: Host, lab: Lab, node: LabNode, image: LabImage) -> None:
    """The node's own root disk: what differs from the image."""
    path = str(lab.place(node) / "root.qcow2")
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image.base), "-F", "raw", path]
    _do(host, argv, advice="Is there room in the cache?")


def _do(host: Host, argv: Sequence[str], *, advice: str) -> None:
    done = host.run(argv)
    if done.exit != 0:
        raise HostError(f"{argv[0]}: {done.complaint}", advice=advice)


def _started(host: Host, lab: Lab, node: LabNode, image: LabImage, accelerator: str) -> Lab:
    """Start a node on a port that is free.  Between looking and taking, it may be taken."""
    kind = kind_of(lab.kind)
    said = ""
    for _ in range(_TRIES):
        lab = _with_port(lab, node, _free_port())
        now = next(each for each in lab.nodes if each.name == node.name)
        lab.serial(now).unlink(missing_ok=True)
        argv = command(lab, now, kind=kind, image=image, accelerator=accelerator)
        done = host.run(argv, timeout=_STARTS_WITHIN)
        if done.exit == 0:
            return lab
        said = done.stderr.decode("utf-8", "replace").strip()
        if _TAKEN not in said:
            break
    raise HostError(f"{node.name}: QEMU does not start: {said}", advice="Is there memory left?")


def _with_port(lab: Lab, node: LabNode, port: int) -> Lab:
    nodes = tuple(replace(n, port=port) if n.name == node.name else n for n in lab.nodes)
    lab = replace(lab, nodes=nodes)
    save(lab)
    lab.ssh_config.write_text(client_config(lab), "utf-8")
    return lab


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(host: Host, lab: Lab, node: LabNode, deadline: float) -> None:
    """Until it says on its console that it is ready, ssh gets in, and its role is fulfilled."""
    while not _says_ready(lab, node):
        if node.name not in running(lab):
            raise HostError(f"{node.name} ended while it booted{_last(lab, node)}", advice=_AGAIN)
        if time.monotonic() > deadline:
            raise HostError(f"{node.name} was not ready in time{_last(lab, node)}", advice=_AGAIN)
        host.sleep(_LOOKS_EVERY)
    argv = ["ssh", *lab.way(node).split(" "), f"udevadm settle; {WHOLE}"]
    while (done := host.run(argv, timeout=max(60.0, deadline - time.monotonic()))).exit != 0:
        if time.monotonic() > deadline:
            wrong = "ssh does not get in" if done.exit == _SSH_FAILS else "it is up, but"
            raise HostError(f"{node.name}: {wrong}: {done.complaint}", advice=_AGAIN)
        host.sleep(_LOOKS_EVERY)


_AGAIN = "If the host is very busy, run the same command again: it resumes."


def _says_ready(lab: Lab, node: LabNode) -> bool:
    try:
        return READY in lab.serial(node).read_bytes()
    except OSError:
        return False


def _last(lab: Lab, node: LabNode) -> str:
    try:
        lines = lab.serial(node).read_bytes().decode("utf-8", "replace").splitlines()[-8:]
    except OSError:
        return ""
    return "\n  ".join([":" if lines else "", *lines])
