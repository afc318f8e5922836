"""The command line of a node's QEMU: pure.

Sources: qemu(1) 7.2; what is not obvious is said beside it.  Memory is bounded by ``-m`` and
``tb-size``: the default translation cache alone grew to 500 MB.
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial_vmlab.image import Image
from iotrial_vmlab.lab import MEMORY, Disk, Kind, Lab, Link, Node, identity

PROGRAM = "qemu-system-x86_64"
_IDLE = ("pcspkr", "iTCO_wdt", "lpc_ich", "qemu_fw_cfg", "kvm_amd", "kvm_intel", "powernow_k8")
"""Modules for parts of the machine that nobody here uses; each takes a second to load."""
_BOARD = "q35,usb=off,vmport=off,sata=off,smbus=off,i8042=off"
_ACCELERATORS = {"tcg": ("tcg,thread=multi,tb-size=128", "Nehalem"), "kvm": ("kvm", "host")}
"""How, and as which processor.  Programs use AVX where it is there, and emulated that is slow."""


def machine(accelerator: str, count: int = 1) -> list[str]:
    """A bare machine without anything that boots slowly."""
    how, cpu = _ACCELERATORS[accelerator]
    return [
        *(PROGRAM, "-M", _BOARD, "-accel", how, "-cpu", cpu, "-smp", str(count)),
        *("-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none"),
    ]


def processors(lab: Lab) -> int:
    """Of each node.  One that is alone boots in half the time with two; several nodes would only
    wait for each other."""
    return 2 if len(lab.nodes) == 1 else 1


def command(lab: Lab, node: Node, *, kind: Kind, image: Image, accelerator: str) -> list[str]:
    """What starts a node; it detaches itself when its devices are there."""
    return [
        *("env", "-C", str(lab.place(node))),  # a socket's path holds 107 bytes (unix(7))
        *machine(accelerator, processors(lab)),
        *("-daemonize", "-pidfile", str(lab.pid_file(node)), "-name", f"iotrial-{node.name}"),
        *("-m", str(MEMORY)),
        *("-kernel", str(image.kernel), "-initrd", str(lab.place(node) / "initrd")),
        *("-append", _words()),
        *("-serial", f"file:{lab.serial(node)}", "-qmp", "unix:qmp.sock,server=on,wait=off"),
        *_root(lab, node),
        *_networks(lab, node, kind),
        *("-object", "rng-random,id=rng,filename=/dev/urandom"),
        *("-device", "virtio-rng-pci,rng=rng"),
        *(word for disk in kind.disks_of(node) for word in _disk(lab, node, disk)),
    ]


def _words() -> str:
    """Of the kernel.  A panic ends in a reset, as a watchdog would have it.

    Nothing is said of the processor's clock (``tsc=``): a kernel that stands still while it
    measures it takes it for much slower than it is (462 MHz instead of 2,596, on a busy machine),
    and the node's time runs several times too fast.  It is watched, and found out.  Nor is it asked
    whether the timer ticks: a kernel that stands still meanwhile panics for it does not.
    """
    return (
        "console=ttyS0 quiet loglevel=4 net.ifnames=0 panic=10 mitigations=off"
        " apparmor=0 audit=0 selinux=0 no_timer_check cryptomgr.notests"
        " systemd.show_status=0 systemd.gpt_auto=0"
        f" 8250.nr_uarts=1 modprobe.blacklist={','.join(_IDLE)}"
    )


def _root(lab: Lab, node: Node) -> list[str]:
    """A flush of the guest's reaches the file: what a node was told is durable outlives its power
    cut."""
    file = f"file={lab.place(node)}/root.qcow2,format=qcow2,if=none,id=root,cache=writeback"
    return ["-drive", file, "-device", "virtio-blk-pci,drive=root,serial=iotrial-root"]


def _networks(lab: Lab, node: Node, kind: Kind) -> Iterator[str]:
    """The way to it from here, by QEMU's user network, and those among nodes."""
    reached = f"user,id=ssh,restrict=on,hostfwd=tcp:127.0.0.1:{node.port}-10.0.2.15:22"
    yield from ("-netdev", reached, "-device", _card("ssh", node))
    for each in kind.networks:
        heard = f"socket,id={each},mcast={lab.group_of(each)},localaddr=127.0.0.1"
        yield from ("-netdev", heard, "-device", _card(each, node))


def card(link: Link) -> str:
    """The id of the interface, by which QEMU is told of it."""
    return f"card-{link}"


def _card(link: Link, node: Node) -> str:
    return f"virtio-net-pci,netdev={link},id={card(link)},mac={node.hardware(link)},romfile="


def _disk(lab: Lab, node: Node, disk: Disk) -> Iterator[str]:
    serial, wwn = identity(lab, node, disk)
    # What several nodes have goes past this machine's cache, as QEMU asks of shared storage.
    cache = "none" if disk.shared else "writeback"
    file = f"file={lab.disk_file(node, disk)},format=raw,if=none,cache={cache},discard=unmap"
    many = disk.shared or disk.paths > 1
    locking = ",file.locking=off" if many else ""
    sharing = ",share-rw=on" if many else ""
    for path in range(disk.paths):
        own = f"{disk.name}{path}"
        yield from ("-drive", f"{file},id={own}{locking}")
        match disk.bus:
            case "scsi":
                names = f"serial={serial},device_id={serial},wwn={wwn}"
                yield from ("-device", f"virtio-scsi-pci,id=hba-{own}")
                yield from ("-device", f"scsi-hd,bus=hba-{own}.0,drive={own},{names}{sharing}")
            case "virtio":
                yield from ("-device", f"virtio-blk-pci,drive={own},serial={serial}{sharing}")
            case "nvme":
                yield from ("-device", f"nvme,drive={own},serial={serial}")
