"""PCI functions and interrupts: the metal at the bottom.

Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci (msi_irqs, numa_node,
current_link_speed and its like, slots), proc_interrupts(5) and kernel/irq/proc.c
show_interrupts() for the columns of /proc/interrupts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from posixpath import basename

from iotrial.execute.topology.draft import Draft, Facts, Key

_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_VIRTIO = re.compile(r"/(virtio\d+)(?:/|$)")
_TRIGGER = frozenset({"Edge", "Level", "None"})
_SLOTS = ("grep", "-rs", ".", "--include=address", "/sys/bus/pci/slots")


def function_of(folder: str) -> str:
    """The folder of the PCI function that a device's folder lies in; '' for none.

    >>> function_of("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda")
    '/sys/devices/pci0000:00/0000:00:02.0'
    """
    last = None
    for match in _FUNCTION.finditer(folder):
        last = match
    return folder[: last.end()] if last else ""


def metal(draft: Draft, folder: str) -> tuple[tuple[Key, ...], Facts]:
    """Interrupts and facts of what serves the device whose folder in /sys this is."""
    place = function_of(folder)
    numbers = _of_function(draft, place) if place else ()
    numbers = numbers or _of_virtio(draft, folder)
    names = actions(draft.seen.text("/proc/interrupts"))
    irqs = tuple(draft.leaf("irq", number, ("of", names.get(number, ""))) for number in numbers)
    facts = _facts(draft, place) if place else ()
    return irqs, (*facts, ("irqs", ranges(numbers)))


def _of_function(draft: Draft, place: str) -> tuple[str, ...]:
    vectors = draft.seen.names(f"{place}/msi_irqs")
    legacy = draft.seen.text(f"{place}/irq")
    if vectors:
        return tuple(sorted(vectors, key=int))
    return (legacy,) if legacy not in ("", "0") else ()


def _of_virtio(draft: Draft, folder: str) -> tuple[str, ...]:
    """virtio without PCI has one interrupt, under the name of the device (virtio_mmio.c)."""
    found = _VIRTIO.search(folder)
    if not found:
        return ()
    names = actions(draft.seen.text("/proc/interrupts"))
    return tuple(number for number, name in names.items() if _serves(name, found[1]))


def _serves(name: str, device: str) -> bool:
    return any(one == device or one.startswith(f"{device}-") for one in name.split(", "))


@lru_cache(maxsize=16)
def actions(table: str) -> dict[str, str]:
    """Number → who asked for it, of every numbered line of /proc/interrupts."""
    lines = table.splitlines()
    cpus = len(lines[0].split()) if lines else 0
    found = {}
    for line in lines[1:]:
        words = line.split()
        if words and words[0].rstrip(":").isdigit():
            found[words[0].rstrip(":")] = _action(words[cpus + 1 :])
    return found


def _action(words: list[str]) -> str:
    """``PCI-MSI 524289-edge nvme0q1``, or on Arm ``GICv3 27 Level arch_timer``."""
    name = words[2:]
    return " ".join(name[1:] if name and name[0] in _TRIGGER else name)


def _facts(draft: Draft, place: str) -> Facts:
    seen = draft.seen
    numa = seen.text(f"{place}/numa_node")
    upstream = function_of(place.rpartition("/")[0])
    link, most = _link(draft, place)
    return (
        ("driver", _driver(seen.text(f"{place}/uevent"))),
        ("pci", basename(place)),
        ("slot", _slots(seen.said(*_SLOTS)).get(basename(place).rpartition(".")[0], "")),
        ("port", basename(upstream)),
        ("link", link),
        ("link_most", most if most != link else ""),
        ("numa", "" if numa == "-1" else numa),
    )


def _driver(uevent: str) -> str:
    found = re.search(r"^DRIVER=(.*)$", uevent, re.MULTILINE)
    return found[1] if found else ""


def _slots(lines: tuple[str, ...]) -> dict[str, str]:
    """``/sys/bus/pci/slots/3/address:0000:81:00`` → the card's address and its slot."""
    found = {}
    for line in lines:
        path, _, address = line.partition(":")
        found[address] = basename(path.rpartition("/")[0])
    return found


def _link(draft: Draft, place: str) -> tuple[str, str]:
    """How the link runs and how it could; '' where the kernel does not know (``Unknown``, 0)."""
    read = draft.seen.text
    now = _lanes(read(f"{place}/current_link_speed"), read(f"{place}/current_link_width"))
    most = _lanes(read(f"{place}/max_link_speed"), read(f"{place}/max_link_width"))
    return now, most if now else ""


def _lanes(speed: str, width: str) -> str:
    """``8.0 GT/s PCIe`` and ``4`` → ``8 GT/s x4``; kernels differ in the first (8 GT/s)."""
    found = re.match(r"([0-9.]+) GT/s", speed)
    if not found or not width.isdigit() or width in ("0", "255"):
        return ""
    return f"{float(found[1]):g} GT/s x{width}"


def ranges(numbers: tuple[str, ...]) -> str:
    """Numbers as people write them.

    >>> ranges(("45", "46", "47", "60"))
    '45-47,60'
    """
    runs: list[list[int]] = []
    for number in sorted(int(each) for each in numbers if each.isdigit()):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in runs)


def members(text: str) -> tuple[str, ...]:
    """What a list of the kernel's (cpulist) names.

    >>> members("0-2,8")
    ('0', '1', '2', '8')
    """
    found: list[str] = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if low.isdigit() and (not high or high.isdigit()):
            found += [str(number) for number in range(int(low), int(high or low) + 1)]
    return tuple(found)
