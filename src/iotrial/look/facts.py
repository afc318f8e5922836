"""Facts: what a report must say about the machine, gathered once a study.

Written to ``hosts/NAME.json`` of the results folder.  Two results can be compared only where the
facts that matter agree, so everything here is read, never assumed, and what cannot be read is an
empty value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from iotrial.errors import IotrialError
from iotrial.look import machine, reading
from iotrial.look.identity import identify
from iotrial.look.mounts import mount_of, parse_mountinfo, parse_swaps
from iotrial.model.host import Reader
from iotrial.model.target import DeviceIdentity, PreparedTarget

FORMAT = 1
_MISSING = 127
# Boot parameters that decide about I/O and time.  Not the whole line: it may hold passwords
# (rd.iscsi.password=…), and secrets never reach a results folder.
_TELLING = frozenset(
    {"mitigations", "elevator", "transparent_hugepage", "isolcpus", "nohz_full", "idle", "iommu"}
    | {"intel_iommu", "amd_iommu", "iommu.passthrough", "swiotlb", "psi", "nr_cpus", "maxcpus"}
    | {"mem", "pcie_aspm", "clocksource", "tsc", "preempt", "threadirqs", "intel_pstate"}
    | {"amd_pstate", "intel_idle.max_cstate", "processor.max_cstate"}
)
_TELLING_MODULES = ("scsi_mod.", "nvme", "dm_mod.", "dm_multipath.", "md_mod.", "loop.", "lpfc.")
_MODEL = ("vendor", "model", "rev", "firmware_rev", "queue_depth", "state")
_ABOUT = ("ro", "removable", "diskseq", "dm/name", "md/level", "md/array_state", "loop/dio")


def gather(host: Reader, aims: Sequence[PreparedTarget], programs: Sequence[str]) -> dict[str, Any]:
    """Everything about the host and the devices the aims point at, ready for JSON.

    ``programs`` are asked for their version.  Sizes in bytes.
    """
    mounts = parse_mountinfo(
        reading.content(host, "/proc/self/mountinfo").decode("utf-8", "replace")
    )
    return {
        "format": FORMAT,
        "name": host.name,
        **_kernel(host),
        **_processor(host),
        "swaps": [asdict(swap) for swap in parse_swaps(reading.text(host, "/proc/swaps"))],
        "other_writers": list(machine.writers(host)),
        "schedulers": list(machine.schedulers(host)),
        "programs": {name: version(host, name) for name in programs},
        "io_uring": takes_io_uring(host) if "fio" in programs else False,
        "targets": {aim.target.name: _target(aim, mounts) for aim in aims},
        "devices": _devices(host, [aim.device for aim in aims if aim.device]),
        "interfaces": _interfaces(host),
        "mounts": [mount.describe() for mount in mounts if mount.on_block_device],
    }


def numbers(facts: Mapping[str, Any]) -> dict[str, float]:
    """The numbers a workload's option may use: ``cpus``, ``memory`` in bytes, ``io_uring`` (1 or
    0: may fio use it here)."""
    return {name: float(facts[name]) for name in ("cpus", "memory", "io_uring")}


def _kernel(host: Reader) -> dict[str, Any]:
    version, parameters, release = "/proc/version", "/proc/cmdline", "/etc/os-release"
    ids = (machine.BOOT_ID, "/etc/machine-id", machine.CLOCKSOURCE)
    said = reading.texts(host, (version, parameters, release, *ids))
    return {
        "kernel": host.run(["uname", "-r"]).text.strip(),
        "kernel_version": said[version],
        "kernel_parameters": kernel_parameters(said[parameters]),
        "distribution": machine.distribution(said[release]),
        **dict(zip(("boot_id", "machine_id", "clocksource"), (said[i] for i in ids), strict=True)),
    }


def kernel_parameters(command_line: str) -> str:
    """The parts of /proc/cmdline that bear on I/O and timing, in their order."""
    words = command_line.split()
    telling = (w.partition("=")[0] in _TELLING or w.startswith(_TELLING_MODULES) for w in words)
    return " ".join(word for word, told in zip(words, telling, strict=True) if told)


def _processor(host: Reader) -> dict[str, Any]:
    dmi = ("/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name")
    said = reading.texts(host, ("/proc/cpuinfo", "/proc/meminfo", machine.GOVERNOR, *dmi))
    cpuinfo, vendor, product = said["/proc/cpuinfo"], *(said[path] for path in dmi)
    return {
        "machine": " ".join(part for part in (vendor, product) if part),
        "virtualisation": machine.virtualisation(cpuinfo, vendor, product),
        "cpu_model": machine.cpu_model(cpuinfo),
        "cpus": machine.cpu_count(cpuinfo),
        "cpu_governor": said[machine.GOVERNOR],
        "memory": machine.memory(said["/proc/meminfo"]),
    }


def takes_io_uring(host: Reader) -> bool:
    """Whether fio can read with io_uring here.  Tried, not looked up: it may be missing from fio,
    from the kernel, switched off by sysctl, or forbidden to a container."""
    probe = ["fio", "--name=probe", "--ioengine=io_uring", "--rw=read", "--bs=4k", "--size=4k"]
    return host.run([*probe, "--filename=/dev/zero", "--output=/dev/null"]).exit == 0


def version(host: Reader, program: str) -> str:
    """The first line that ``PROGRAM --version`` prints; '' when it is not installed.

    Some programs answer on stderr and with an error; what they say still counts.
    """
    try:
        done = host.run([program, "--version"], timeout=10.0)
    except IotrialError:
        return ""
    lines = (done.stdout or done.stderr).decode("utf-8", "replace").strip().splitlines()
    return lines[0].strip() if lines and done.exit != _MISSING else ""


def _target(aim: PreparedTarget, mounts: Sequence[Any]) -> dict[str, Any]:
    found = {"kind": aim.target.kind, "path": aim.path, "device": aim.device, "size": 0}
    found |= {"size": aim.target.size, "identity": identity_dict(aim.identity)}
    if aim.target.kind in ("file", "directory"):
        mount = mount_of(aim.path, mounts)
        found["mount"] = asdict(mount) if mount else None
    return found


def identity_dict(identity: DeviceIdentity | None) -> dict[str, Any] | None:
    """An identity for JSON."""
    if identity is None:
        return None
    return asdict(identity) | {"ids": dict(identity.ids)}


def _devices(host: Reader, names: Sequence[str]) -> dict[str, Any]:
    """The devices and, below them, the legs they are built on, each once."""
    found: dict[str, Any] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = _device(host, name)
            waiting += found[name]["legs"]
    return found


def _interfaces(host: Reader) -> dict[str, Any]:
    """The hardware address of every interface with hardware (a container's are legion): by it a
    setting is found again after a boot."""
    folders = {name: f"/sys/class/net/{name}" for name in reading.names(host, "/sys/class/net")}
    asked = [f"{at}/{file}" for at in folders.values() for file in ("address", "device/uevent")]
    said = reading.texts(host, asked)
    return {
        name: {"address": said[f"{at}/address"]}
        for name, at in folders.items()
        if said.get(f"{at}/device/uevent") and said.get(f"{at}/address")
    }


def _device(host: Reader, name: str) -> dict[str, Any]:
    # A leg may be a partition, which is not in /sys/block, and has its parent's queue.
    folder = reading.resolve(host, f"/sys/class/block/{name}") or f"/sys/block/{name}"
    places = (*_ABOUT, *(f"device/{at}" for at in _MODEL), "size")
    said = reading.texts(host, [f"{folder}/{at}" for at in places])
    about = {at.replace("/", "_"): said[f"{folder}/{at}"] for at in _ABOUT}
    about |= {at: said[f"{folder}/device/{at}"] for at in _MODEL}
    legs = reading.names(host, f"{folder}/slaves")
    ids = dict(_ids(host, name))
    return {at: value for at, value in about.items() if value} | {
        **({"ids": ids} if ids else {}),
        "size": int(said[f"{folder}/size"] or 0) * 512,
        "queue": _values(host, f"{folder}/queue"),
        "iosched": _values(host, f"{folder}/queue/iosched"),
        "legs": legs,
    }


def _ids(host: Reader, name: str) -> tuple[tuple[str, str], ...]:
    """By what a disk is known again: a leg may have another name after a boot."""
    try:
        return identify(host, f"/dev/{name.replace('!', '/')}").ids
    except IotrialError:
        return ()


def _values(host: Reader, folder: str) -> dict[str, str]:
    """Every file of a folder of sysfs that can be read; folders in it are not files."""
    names = reading.names(host, folder)
    said = reading.texts(host, [f"{folder}/{name}" for name in names])
    return {name: value for name in names if (value := said[f"{folder}/{name}"])}
