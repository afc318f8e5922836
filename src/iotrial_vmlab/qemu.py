"""QEMU: the command line of a node, how it executes a guest, what it is asked and told while it
runs, and which process is whose.

Memory is bounded by ``-m`` and ``tb-size``: the default translation cache alone grew to 500 MB.

That ``/dev/kvm`` can be opened says little: inside a virtual machine it may be there and hang every
guest in its first instructions.  So the image's kernel is booted with it once, to a line that its
first stage says, and the answer is kept for as long as this machine is not booted again.

A number in a file may be another process's by now; a command line that names our file is ours.
Before a signal is sent it is read again, through a descriptor of that very process (pidfd_open(2)).

Sources: qemu(1) 7.2, what is not obvious is said beside it; QMP specification
(docs/interop/qmp-spec.txt of QEMU 7.2): a greeting, capabilities, then a JSON document a line;
events may come between.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from iotrial.errors import HostError
from iotrial.model.host import Host
from iotrial_vmlab.image import LabImage
from iotrial_vmlab.lab import MEMORY, Lab, LabDisk, LabKind, LabNode, Link, identity

# -- the command line ------------------------------------------------------------------------------

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


def processors(lab: Lab, kind: LabKind) -> int:
    """Of each node, where its kind says nothing.  One that is alone boots in half the time with
    two; several nodes would only wait for each other."""
    return kind.processors or (2 if len(lab.nodes) == 1 else 1)


def command(
    lab: Lab, node: LabNode, *, kind: LabKind, image: LabImage, accelerator: str
) -> list[str]:
    """What starts a node; it detaches itself when its devices are there."""
    return [
        *("env", "-C", str(lab.place(node))),  # a socket's path holds 107 bytes (unix(7))
        *machine(accelerator, processors(lab, kind)),
        *("-daemonize", "-pidfile", str(lab.pid_file(node)), "-name", f"iotrial-{node.name}"),
        *("-m", str(MEMORY)),
        *_kernel(lab, node, kind, image),
        *("-serial", f"file:{lab.serial(node)}", "-qmp", "unix:qmp.sock,server=on,wait=off"),
        *_root(lab, node),
        *_networks(lab, node, kind),
        *("-object", "rng-random,id=rng,filename=/dev/urandom"),
        *("-device", "virtio-rng-pci,rng=rng"),
        *(word for disk in kind.disks_of(node) for word in _disk(lab, node, disk)),
    ]


UEFI = ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd")
"""Firmware, and what its variables are at first (Debian's package ovmf)."""


def _kernel(lab: Lab, node: LabNode, kind: LabKind, image: LabImage) -> list[str]:
    """What a node starts with: a kernel that it is given or, once it has a loader, firmware."""
    if lab.firmware(node).exists():
        if kind.loader_of(node) == "grub":
            return []
        code = f"if=pflash,unit=0,format=raw,readonly=on,file={UEFI[0]}"
        variables = f"if=pflash,unit=1,format=raw,file={lab.firmware(node)}"
        return ["-drive", code, "-drive", variables]
    first = str(lab.place(node) / "initrd")
    return ["-kernel", str(image.kernel), "-initrd", first, "-append", kernel_words()]


def kernel_words() -> str:
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


def _root(lab: Lab, node: LabNode) -> list[str]:
    """A flush of the guest's reaches the file: what a node was told is durable outlives its power
    cut."""
    file = f"file={lab.place(node)}/root.qcow2,format=qcow2,if=none,id=root,cache=writeback"
    return ["-drive", file, "-device", "virtio-blk-pci,drive=root,serial=iotrial-root"]


def _networks(lab: Lab, node: LabNode, kind: LabKind) -> Iterator[str]:
    """The way to it from here, by QEMU's user network, and those among nodes."""
    reached = f"user,id=ssh,restrict=on,hostfwd=tcp:127.0.0.1:{node.port}-10.0.2.15:22"
    yield from ("-netdev", reached, "-device", _card("ssh", node))
    for each in kind.networks:
        heard = f"socket,id={each},mcast={lab.group_of(each)},localaddr=127.0.0.1"
        yield from ("-netdev", heard, "-device", _card(each, node))


def card(link: Link) -> str:
    """The id of the interface, by which QEMU is told of it."""
    return f"card-{link}"


def _card(link: Link, node: LabNode) -> str:
    return f"virtio-net-pci,netdev={link},id={card(link)},mac={node.hardware(link)},romfile="


def _disk(lab: Lab, node: LabNode, disk: LabDisk) -> Iterator[str]:
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
                first = ",bootindex=1" if disk.name == "boot" else ""
                names = f"serial={serial}{first}{sharing}"
                yield from ("-device", f"virtio-blk-pci,drive={own},{names}")
            case "nvme":
                yield from ("-device", f"nvme,drive={own},serial={serial}")


# -- by KVM or emulated ----------------------------------------------------------------------------

DEVICE = "/dev/kvm"
SAID = b"iotrial: a kernel runs"
RUNS_WITHIN = 15.0
"""Seconds for a kernel to say it: with KVM it takes one or two."""
BOOT = "/proc/sys/kernel/random/boot_id"


def accelerator(host: Host, image: LabImage, folder: Path, *, device: str = DEVICE) -> str:
    """``kvm`` or ``tcg`` (emulation).  What was found is kept in ``folder``, with the boot of this
    machine that it holds for."""
    if not os.access(device, os.R_OK | os.W_OK):
        return "tcg"
    kept, boot = folder / "accelerator.json", host.read(BOOT).decode().strip()
    said = [boot, os.geteuid()]
    with suppress(OSError, ValueError, KeyError, TypeError):
        row = json.loads(kept.read_bytes())
        if row["of"] == said:
            return str(row["accelerator"])
    found = "kvm" if runs(host, image, "kvm") else "tcg"
    folder.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"of": said, "accelerator": found}) + "\n", "ascii")
    return found


def runs(host: Host, image: LabImage, how: str, *, within: float = RUNS_WITHIN) -> bool:
    """Whether the image's kernel runs with this accelerator."""
    argv = [
        *("timeout", "-k", "1", f"{within:g}", *machine(how)),
        *("-m", "256", "-no-reboot", "-serial", "stdio"),
        *("-kernel", str(image.kernel), "-initrd", str(image.first)),
        *("-append", "console=ttyS0 quiet panic=-1 iotrial.probe"),
    ]
    try:
        return SAID in host.run(argv, timeout=within + 5).stdout
    except HostError:
        return False


# -- asked and told --------------------------------------------------------------------------------

ANSWERS_WITHIN = 10.0


def ask(folder: Path, command: str, **arguments: Any) -> Any:  # noqa: ANN401 (whatever it answers)
    """One command to the QEMU whose folder this is, and its answer.

    Raises HostError where nobody answers within 10 s, or the answer is an error.
    """
    try:
        with _connected(folder) as link, link.makefile("rb") as answers:
            json.loads(answers.readline())
            _say(link, "qmp_capabilities", {})
            _answer(answers, command)
            _say(link, command, arguments)
            return _answer(answers, command)
    except (OSError, ValueError) as error:
        raise HostError(
            f"{folder.name}: QEMU does not answer to {command}: {error}",
            advice="Is it running? iotrial vmlab list",
        ) from error


def _connected(folder: Path) -> socket.socket:
    """Through the folder's descriptor: the path of a socket holds 107 bytes (unix(7))."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(ANSWERS_WITHIN)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        link.connect(f"/proc/self/fd/{descriptor}/qmp.sock")
    except BaseException:
        link.close()
        raise
    finally:
        os.close(descriptor)
    return link


def _say(link: socket.socket, command: str, arguments: dict[str, Any]) -> None:
    link.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")


def _answer(answers: Iterator[bytes], command: str) -> Any:  # noqa: ANN401
    for line in answers:
        said = json.loads(line)
        if "return" in said:
            return said["return"]
        if "error" in said:
            raise ValueError(said["error"].get("desc", f"{command} is refused"))
    raise ValueError("it hung up")


# -- processes -------------------------------------------------------------------------------------

ENDS_WITHIN = 10.0


def processes(folder: Path) -> dict[Path, list[int]]:
    """Pid file → processes that have it on their command line, of all nodes below ``folder``."""
    found: dict[Path, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (names, not paths)
        if name.isdigit():
            for path in _pid_files(int(name)):
                if folder in path.parents:
                    found.setdefault(path, []).append(int(name))
    return found


def end_processes(folder: Path) -> tuple[int, ...]:
    """Kill every QEMU that has a pid file below ``folder``, wait until it is gone, and say their
    numbers.  Raises HostError for one that does not end."""
    ended: dict[int, None] = {}
    while found := [(path, pid) for path, pids in processes(folder).items() for pid in pids]:
        for path, pid in found:
            _end(pid, path)
            ended[pid] = None
    return tuple(ended)


def _end(pid: int, pid_file: Path) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if pid_file not in _pid_files(pid):
            return  # it ended, and the number is another's now
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(ENDS_WITHIN * 1000):
            raise HostError(
                f"process {pid} does not end, though it was killed",
                advice="It waits for a disk; check /proc/PID/stack, then down again.",
            )
    finally:
        os.close(descriptor)


def _pid_files(pid: int) -> Iterator[Path]:
    """What stands behind ``-pidfile`` on its command line; a process that has ended has none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return
    for word, after in pairwise(words):
        if word == b"-pidfile":
            yield Path(os.fsdecode(after))
