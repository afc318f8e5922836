"""Interfaces that NetworkManager manages: the ``ethtool`` section of a connection.

A connection's own file is not ours to write, and its name is not known from a study: so this is
the commands that change it, one a setting, for the connection that is active on the interface.
"""

from __future__ import annotations

import shlex

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, by_device, header, is_interface, is_word
from iotrial.keep.profile import Profile

_KEYS = {
    "net.mtu": "802-3-ethernet.mtu",
    "net.ring_rx": "ethtool.ring-rx",
    "net.ring_tx": "ethtool.ring-tx",
    "net.pause_rx": "ethtool.pause-rx",
    "net.pause_tx": "ethtool.pause-tx",
    "net.pause_autoneg": "ethtool.pause-autoneg",
    "net.gro": "ethtool.feature-gro",
    "net.gso": "ethtool.feature-gso",
    "net.tso": "ethtool.feature-tso",
    "net.lro": "ethtool.feature-lro",
    "net.rx_checksum": "ethtool.feature-rx",
    "net.tx_checksum": "ethtool.feature-tx",
    "net.ntuple": "ethtool.feature-ntuple",
    "net.adaptive_rx": "ethtool.coalesce-adaptive-rx",
    "net.rx_usecs": "ethtool.coalesce-rx-usecs",
    "net.tx_usecs": "ethtool.coalesce-tx-usecs",
    "net.rx_frames": "ethtool.coalesce-rx-frames",
    "net.tx_frames": "ethtool.coalesce-tx-frames",
}
"""nm-settings-nmcli(5), settings 802-3-ethernet and ethtool."""


def _takes(entry: KeptSetting) -> bool:
    return entry.tunable in _KEYS and is_interface(entry.device) and is_word(entry.value)


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    path = f"/etc/iotrial/{profile.name}.nmcli"
    undo = 'nmcli connection modify UUID KEY ""'
    lines = []
    for device, entries in by_device(profile):
        quoted = shlex.quote(device)
        lines.append(
            f'uuid=$(nmcli -g GENERAL.CON-UUID device show {quoted}) && [ -n "$uuid" ] || exit'
        )
        pairs = [f"{_KEYS[entry.tunable]} {shlex.quote(entry.value)}" for entry in entries]
        lines.append(f'nmcli connection modify "$uuid" {" ".join(pairs)} || exit')
        lines.append(f'nmcli connection up "$uuid" ifname {quoted} || exit')
    text = f"#!/bin/sh\n{header(profile, profile.entries, undo)}{chr(10).join(lines)}\n"
    notes = ("run manually: reactivating a connection can interrupt the link briefly",)
    return (NativeFile(path, text, profile.entries, notes=notes, people=True),)


NATIVE = NativeFormat(
    "nmcli",
    "interfaces under NetworkManager, as nmcli commands",
    "nm-settings-nmcli(5)",
    order=0,
    takes=_takes,
    write=_write,
    readers=(),
)
