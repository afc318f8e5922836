"""Interfaces as systemd ``.link`` files: pause, rings, coalescing, offloads, MTU, queue length.

An interface gets the first ``.link`` file that matches it, and only that: so this one repeats the
naming and address policies of ``99-default.link``, which it replaces for the interface.  It
matches by the hardware address.  Applied by udev when the interface appears.
"""

from __future__ import annotations

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, by_device, header, is_interface
from iotrial.keep.profile import Profile

_SWITCH = {"on": "yes", "off": "no"}
_KEYS = {
    "net.mtu": "MTUBytes",
    "net.txqueuelen": "TransmitQueueLength",
    "net.ring_rx": "RxBufferSize",
    "net.ring_tx": "TxBufferSize",
    "net.pause_rx": "RxFlowControl",
    "net.pause_tx": "TxFlowControl",
    "net.pause_autoneg": "AutoNegotiationFlowControl",
    "net.gro": "GenericReceiveOffload",
    "net.gso": "GenericSegmentationOffload",
    "net.tso": "TCPSegmentationOffload",
    "net.lro": "LargeReceiveOffload",
    "net.rx_gro_hw": "GenericReceiveOffloadHardware",
    "net.rx_checksum": "ReceiveChecksumOffload",
    "net.tx_checksum": "TransmitChecksumOffload",
    "net.ntuple": "NTupleFilter",
    "net.channels_combined": "CombinedChannels",
    "net.adaptive_rx": "UseAdaptiveRxCoalesce",
    "net.rx_frames": "RxMaxCoalescedFrames",
    "net.tx_frames": "TxMaxCoalescedFrames",
    "net.rx_usecs": "RxCoalesceSec",
    "net.tx_usecs": "TxCoalesceSec",
}
"""systemd.link(5), of version 252."""
_MICROSECONDS = {"RxCoalesceSec", "TxCoalesceSec"}


def _takes(entry: KeptSetting) -> bool:
    plain = entry.value.isascii() and entry.value.isalnum()
    return entry.tunable in _KEYS and is_interface(entry.device) and plain


def _value(entry: KeptSetting) -> str:
    value = _SWITCH.get(entry.value, entry.value)
    return f"{value}us" if _KEYS[entry.tunable] in _MICROSECONDS else value


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    return tuple(_file(profile, device, entries) for device, entries in by_device(profile))


def _file(profile: Profile, device: str, entries: tuple[KeptSetting, ...]) -> NativeFile:
    path = f"/etc/systemd/network/10-iotrial-{profile.name}-{device}.link"
    address = dict(entries[0].ids).get("address", "")
    match = f"MACAddress={address}" if address else f"OriginalName={device}"
    settings = "".join(f"{_KEYS[entry.tunable]}={_value(entry)}\n" for entry in entries)
    undo = f"rm {path}, set the former values with ethtool, or reboot"
    text = (
        f"{header(profile, entries, undo)}[Match]\n{match}\n\n[Link]\n"
        "# As 99-default.link, in whose place this file counts.\n"
        "NamePolicy=keep kernel database onboard slot path\n"
        "AlternativeNamesPolicy=database onboard slot path\nMACAddressPolicy=persistent\n"
        f"{settings}"
    )
    notes = [f"{device}: takes effect when the interface appears, after a reboot"]
    if not address:
        notes.append(f"{device}: matched by name, because its hardware address is unknown")
    reload = (("udevadm", "control", "--reload"),)
    return NativeFile(path, text, entries, reload, notes=tuple(notes))


NATIVE = NativeFormat(
    "link",
    "interfaces, /etc/systemd/network/*.link",
    "systemd.link(5)",
    order=15,
    takes=_takes,
    write=_write,
    readers=("systemd-udevd.service", "systemd-udev-trigger.service"),
)
