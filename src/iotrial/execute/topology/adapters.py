"""What disks hang on: SCSI hosts and remote ports, iSCSI sessions, NVMe controllers.

The folder of a disk in /sys names all of them, so nothing has to be searched.  Sources: the
kernel's drivers/scsi (scsi_transport_fc.c, scsi_transport_iscsi.c, scsi_transport_sas.c for the
names), drivers/nvme/host (multipath.c nvme_mpath_set_disk_name(), sysfs.c), and
Documentation/ABI/testing/sysfs-class-iscsi*, sysfs-nvme.
"""

from __future__ import annotations

import re
from posixpath import basename

from iotrial.execute.topology.draft import Draft, Facts, Grown, Key
from iotrial.execute.topology.functions import metal
from iotrial.execute.topology.network import interface, known, towards

_HOST = re.compile(r"/(host\d+)(?=/)")
_RPORT = re.compile(r"/(rport-[\d:-]+)/")
_SESSION = re.compile(r"/session(\d+)/")
_CONTROLLER = re.compile(r"^nvme\d+$")
_SIGNS = (("/ata", "ata"), ("/end_device-", "sas"), ("/usb", "usb"), ("/virtio", "virtio"))


def hung_on(draft: Draft, folder: str) -> tuple[tuple[Key, ...], Facts]:
    """What the disk whose folder this is hangs on; where that is no adapter that has a name of
    its own (virtio), its interrupts and the facts of its PCI function."""
    controller = basename(folder.rpartition("/")[0])
    if _CONTROLLER.match(controller):
        key = draft.node("nvme", controller, lambda: _nvme(draft, folder.rpartition("/")[0]))
        return (key,), ()
    if _HOST.search(folder):
        return (_port(draft, folder),), (("transport", _transport(folder)),)
    return metal(draft, folder)


def _port(draft: Draft, folder: str) -> Key:
    """What is between the SCSI disk and its host: a remote port, a session, or nothing."""
    rport, session = _RPORT.search(folder), _SESSION.search(folder)
    if rport:
        name = rport[1]
        place = folder[: folder.index(f"/{name}/")]
        return draft.node("remote-port", name, lambda: _remote_port(draft, name, place))
    if session:
        number = session[1]
        return draft.node(
            "iscsi-session", f"session{number}", lambda: _session(draft, number, folder)
        )
    return _host(draft, folder)


def _host(draft: Draft, folder: str) -> Key:
    """The last host in the path: a virtual Fibre Channel port is a host below a host."""
    last = [*_HOST.finditer(f"{folder}/")][-1]
    place = folder[: last.end()]
    return draft.node("scsi-host", last[1], lambda: _scsi_host(draft, last[1], place))


def _scsi_host(draft: Draft, name: str, place: str) -> Grown:
    read = draft.seen.text
    irqs, facts = metal(draft, place)
    own = read(f"/sys/class/scsi_host/{name}/proc_name")
    state, speed = (read(f"/sys/class/fc_host/{name}/{at}") for at in ("port_state", "speed"))
    return irqs, (
        ("state", state),
        ("transport", "fc" if state else ""),
        ("speed", speed if state and speed.lower() != "unknown" else ""),
        *(() if dict(facts).get("driver") else (("driver", own.replace("<NULL>", "")),)),
        *facts,
    )


def _remote_port(draft: Draft, name: str, place: str) -> Grown:
    folder = f"/sys/class/fc_remote_ports/{name}"
    read = draft.seen.text
    about = (("state", read(f"{folder}/port_state")), ("wwpn", read(f"{folder}/port_name")))
    return (_host(draft, place),), about


def _session(draft: Draft, number: str, folder: str) -> Grown:
    read = draft.seen.text
    session = f"/sys/class/iscsi_session/session{number}"
    connection = f"/sys/class/iscsi_connection/connection{number}:0"
    place = folder[: folder.index(f"/session{number}/")]
    host = _host(draft, place)
    # The interface that the session was bound to, else the one that the route takes.
    bound = read(f"/sys/class/iscsi_host/{host[1]}/netdev")
    address = read(f"{connection}/address") or read(f"{connection}/persistent_address")
    nics = (interface(draft, bound),) if known(draft, bound) else towards(draft, address)
    about = (
        ("state", read(f"{session}/state")),
        ("portal", address),
        ("target", read(f"{session}/targetname")),
    )
    return (host, *nics), about


def _nvme(draft: Draft, place: str) -> Grown:
    read = draft.seen.text
    irqs, facts = metal(draft, place)
    address = dict(
        part.split("=", 1) for part in read(f"{place}/address").split(",") if "=" in part
    )
    transport = read(f"{place}/transport")
    through = address.get("host_iface", "")
    nics: tuple[Key, ...] = ()
    if transport in ("tcp", "rdma"):
        nics = (
            (interface(draft, through),)
            if known(draft, through)
            else towards(draft, address.get("traddr", ""))
        )
    about = (
        ("model", read(f"{place}/model")),
        ("state", read(f"{place}/state")),
        ("transport", f"nvme-{transport}" if transport else "nvme"),
        ("portal", address.get("traddr", "")),
        *facts,
    )
    return (*nics, *irqs), about


def _transport(folder: str) -> str:
    if _RPORT.search(folder):
        return "fc"
    if _SESSION.search(folder):
        return "iscsi"
    return next((name for sign, name in _SIGNS if sign in folder), "scsi")
