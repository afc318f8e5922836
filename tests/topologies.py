"""Storage written down: trees of /sys as the kernel makes them on hardware we do not have.

Paths are those of mainline drivers (qla2xxx, lpfc, iscsi_tcp, nvme, virtio_blk, bonding); values
are made up.  Adds to :mod:`tests.machines` the commands and batches that a topology is read by,
and counts the round trips.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from iotrial.hosts.steps import perform
from iotrial.model.host import CompletedCommand, Host
from iotrial.model.step import Read, Step, StepResult
from iotrial.model.target import PreparedTarget, Target, TargetKind
from machines import Written, answer

VIRTUAL = "/sys/devices/virtual/block"
HBA = "/sys/devices/pci0000:80/0000:80:02.0"
INTERRUPTS = "           CPU0       CPU1\n"


@dataclass
class Storage(Written):
    """A machine that can be asked in batches; ``rounds`` counts them."""

    rounds: int = 0

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        assert all(isinstance(step, Read) for step in steps), "a topology only looks"
        self.rounds += 1
        return perform(cast("Host", self), steps)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        match tuple(argv):
            case ("ls", folder):
                return self._listed(argv, folder, long=False)
            case ("ls", "-l", folder):
                return self._listed(argv, folder, long=True)
            case ("find", folder, "-mindepth", low, "-maxdepth", high, how, pattern):
                assert low == high
                return self._found(argv, folder, int(low), f"{how} {pattern}")
            case ("grep", "-rs", ".", "--include=address", folder):
                lines = [f"{p}:{c.decode()}" for p, c in self.files.items() if p.startswith(folder)]
                return answer(argv, "".join(lines), exit_=0 if lines else 1)
        return super().run(argv, stdin=stdin, timeout=timeout)

    def _listed(self, argv: Sequence[str], folder: str, *, long: bool) -> CompletedCommand:
        below = self.real(folder).rstrip("/") + "/"
        known = [*self.files, *self.links]
        names = sorted({p[len(below) :].split("/")[0] for p in known if p.startswith(below)})
        if not names:
            return answer(argv, exit_=2)
        if not long:
            return answer(argv, "".join(f"{name}\n" for name in names))
        lines = ["total 0"]
        for name in names:
            goal = self.links.get(f"{folder}/{name}", "")
            arrow = f" -> ../..{goal.removeprefix('/sys')}" if goal else ""
            lines.append(f"lrwxrwxrwx 1 root root 0 Nov 21 11:59 {name}{arrow}")
        return answer(argv, "\n".join(lines) + "\n")

    def _found(self, argv: Sequence[str], folder: str, depth: int, test: str) -> CompletedCommand:
        how, pattern = test.split()
        found = set()
        for path in (*self.files, *self.links):
            parts = path.removeprefix(f"{folder}/").split("/")
            if path.startswith(f"{folder}/") and len(parts) >= depth:
                entry = "/".join([folder, *parts[:depth]])
                subject = entry if how == "-path" else parts[depth - 1]
                if fnmatch.fnmatchcase(subject, pattern):
                    found.add(entry)
        return answer(argv, "".join(f"{entry}\n" for entry in sorted(found)))

    def block(self, folder: str, devno: str, **attributes: str) -> str:
        """A block device at its place in /sys."""
        name = folder.rpartition("/")[2]
        if devno:
            self.add(f"{folder}/dev", devno)
        self.add(f"{folder}/size", "2097152")
        self.add(f"{folder}/hidden", "0")
        self.links[f"/sys/class/block/{name}"] = folder
        for at, value in attributes.items():
            self.add(f"{folder}/{at.replace('__', '/')}", value)
        return name

    def scsi(self, place: str, address: str, name: str, devno: str, state: str = "running") -> str:
        """A SCSI disk below a host, port or session."""
        target = f"target{address.rpartition(':')[0]}"
        model = {"device__state": state, "device__model": "SV1              "}
        return self.block(f"{place}/{target}/{address}/block/{name}", devno, **model)

    def mapped(self, number: int, title: str, uuid: str, *legs: str) -> str:
        """A device-mapper device."""
        return self.stacked(f"dm-{number}", f"253:{number}", *legs, dm__name=title, dm__uuid=uuid)

    def stacked(self, name: str, devno: str, *legs: str, **attributes: str) -> str:
        self.block(f"{VIRTUAL}/{name}", devno, **attributes)
        for leg in legs:
            self.links[f"{VIRTUAL}/{name}/slaves/{leg}"] = self.links[f"/sys/class/block/{leg}"]
        return name

    def function(self, place: str, driver: str, irqs: Sequence[int], **attributes: str) -> str:
        """A PCI function: numa_node=1, current_link_speed=…"""
        self.add(f"{place}/uevent", f"DRIVER={driver}\nPCI_CLASS=C0400")
        self.add(f"{place}/irq", "11")
        for at, value in attributes.items():
            self.add(f"{place}/{at}", value)
        for number in irqs:
            self.add(f"{place}/msi_irqs/{number}", "msix")
            self.interrupt(number, f"{driver}-{number - irqs[0]}")
        return place

    def interrupt(self, number: int, name: str, chip: str = "PCI-MSIX-0000:81:00.0 1-edge") -> None:
        table = self.files.get("/proc/interrupts", INTERRUPTS.encode()).decode()
        self.add("/proc/interrupts", f"{table.rstrip()}\n {number}:   10   20  {chip}  {name}")

    def nic(self, name: str, folder: str, queues: int = 0, **attributes: str) -> str:
        self.add(f"{folder}/operstate", attributes.pop("operstate", "up"))
        for number in range(queues):
            self.add(f"{folder}/queues/rx-{number}/rps_cpus", "0")
            self.add(f"{folder}/queues/tx-{number}/xps_cpus", "0")
        for at, value in attributes.items():
            self.add(f"{folder}/{at}", value)
        self.links[f"/sys/class/net/{name}"] = folder
        return folder

    def route(self, address: str, device: str) -> None:
        argv = ("ip", "-o", "route", "get", address)
        said = f"{address} via 192.0.2.1 dev {device} src 192.0.2.2 uid 0 \\    cache \n"
        self.answers[argv] = answer(argv, said)


def machine() -> Storage:
    """Four CPUs, a root file system on nothing in particular."""
    host = Storage()
    host.add("/sys/devices/system/cpu/online", "0-3")
    host.add("/proc/self/mountinfo", "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw")
    host.add("/proc/interrupts", INTERRUPTS)
    return host


def mounted(host: Storage, line: str) -> None:
    table = host.files["/proc/self/mountinfo"].decode().rstrip()
    host.add("/proc/self/mountinfo", f"{table}\n{line}")


def aim(device: str, kind: TargetKind = "device", path: str = "") -> PreparedTarget:
    path = path or f"/dev/{device}"
    return PreparedTarget(Target("t", kind, path), path, device, None)


def fibre_channel(host: Storage) -> str:
    """Two HBAs with two remote ports each; mpatha on dm-3."""
    legs = []
    for hba, (number, numa) in enumerate(((3, "1"), (4, "1"))):
        place = host.function(
            f"{HBA}/0000:8{hba + 1}:00.0",
            "qla2xxx",
            range(45 + 16 * hba, 61 + 16 * hba),
            numa_node=numa,
            current_link_speed="8.0 GT/s PCIe",
            max_link_speed="8.0 GT/s PCIe",
            current_link_width="8",
            max_link_width="8",
        )
        host.add(f"/sys/class/scsi_host/host{number}/proc_name", "qla2xxx")
        host.add(f"/sys/class/fc_host/host{number}/port_state", "Online")
        host.add(f"/sys/class/fc_host/host{number}/speed", "16 Gbit")
        for port in (0, 1):
            rport = f"rport-{number}:0-{port}"
            host.add(f"/sys/class/fc_remote_ports/{rport}/port_state", "Online")
            host.add(
                f"/sys/class/fc_remote_ports/{rport}/port_name", f"0x5001738001a2{number}{port}"
            )
            name = f"sd{'bcde'[hba * 2 + port]}"
            address = f"{number}:0:{port}:1"
            devno = f"8:{16 * (1 + hba * 2 + port)}"
            legs.append(host.scsi(f"{place}/host{number}/{rport}", address, name, devno))
    return host.mapped(3, "mpatha", "mpath-3600173800a2", *legs)


def iscsi(host: Storage, *, shared: bool) -> str:
    """Two sessions of iscsi_tcp; each through its own interface, or both through eth0."""
    legs = []
    for number in (1, 2):
        name = "eth0" if shared else f"eth{number - 1}"
        address = f"10.0.{number}.9"
        host.route(address, name)
        session = f"/sys/devices/platform/host{number + 4}/session{number}"
        host.add(f"/sys/class/scsi_host/host{number + 4}/proc_name", "iscsi_tcp")
        host.add(f"/sys/class/iscsi_session/session{number}/state", "LOGGED_IN")
        host.add(f"/sys/class/iscsi_session/session{number}/targetname", "iqn.2026-11.example:a")
        host.add(f"/sys/class/iscsi_connection/connection{number}:0/address", address)
        legs.append(
            host.scsi(session, f"{number + 4}:0:0:1", f"sd{'fg'[number - 1]}", f"8:{80 + number}")
        )
    for number in (0, 1):
        card(host, number)
    return host.mapped(4, "mpathb", "mpath-36001405", *legs)


def card(host: Storage, number: int) -> None:
    """A network card with two queues each way."""
    place = host.function(
        f"/sys/devices/pci0000:00/0000:00:03.0/0000:0{number + 1}:00.0",
        "ixgbe",
        range(70 + number * 4, 73 + number * 4),
        numa_node="0",
    )
    host.nic(f"eth{number}", f"{place}/net/eth{number}", 2, speed="10000")


def nvme(host: Storage, number: int, *, numa: str = "0", width: str = "4") -> str:
    """A local NVMe disk without multipathing."""
    place = host.function(
        f"/sys/devices/pci0000:17/0000:17:0{number}.0/0000:{18 + number}:00.0",
        "nvme",
        range(100 + 8 * number, 105 + 8 * number),
        numa_node=numa,
        current_link_speed="16.0 GT/s PCIe",
        max_link_speed="16.0 GT/s PCIe",
        current_link_width=width,
        max_link_width="4",
    )
    controller = f"{place}/nvme/nvme{number}"
    for at, value in (("model", "SSD X1"), ("state", "live"), ("transport", "pcie")):
        host.add(f"{controller}/{at}", value)
    host.add(f"{controller}/address", f"0000:{18 + number}:00.0")
    name = host.block(f"{controller}/nvme{number}n1", f"259:{number}")
    for queue in range(4):
        host.add(f"{controller}/nvme{number}n1/mq/{queue}/nr_tags", "1023")
    return name
