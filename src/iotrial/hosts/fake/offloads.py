"""Offloads of a pretended network interface, as net/core/dev.c of 6.18 keeps them.

Three sets: what the driver can change, what is *wanted*, and what is *active*, which is what is
wanted less what lacks something it needs.  A word of ethtool stands for several features.
``tests/integration/test_net_on_this_kernel.py`` compares this with a veth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iotrial.hosts.fake.machine import Said

WORDS: Mapping[str, tuple[str, ...]] = {
    "rx-checksumming": ("rx-checksum",),
    "tx-checksumming": (
        *("tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6"),
        *("tx-checksum-fcoe-crc", "tx-checksum-sctp"),
    ),
    "scatter-gather": ("tx-scatter-gather", "tx-scatter-gather-fraglist"),
    "tcp-segmentation-offload": (
        *("tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation"),
        *("tx-tcp6-segmentation", "tx-tcp-accecn-segmentation"),
    ),
    "generic-segmentation-offload": ("tx-generic-segmentation",),
    "generic-receive-offload": ("rx-gro",),
    "large-receive-offload": ("rx-lro",),
    "ntuple-filters": ("rx-ntuple-filter",),
    "receive-hashing": ("rx-hashing",),
}
"""What ethtool prints above, and the features below it (those of one feature have no list)."""

SHORT = {
    "rx": "rx-checksumming",
    "tx": "tx-checksumming",
    "sg": "scatter-gather",
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
    "ntuple": "ntuple-filters",
    "rxhash": "receive-hashing",
}
OTHERS = ("tx-udp-segmentation", "rx-gro-hw", "rx-gro-list")
FIXED = frozenset({"tx-checksum-ipv4", "tx-checksum-ipv6", "tx-checksum-fcoe-crc", "rx-gro-hw"})
OFF = frozenset({"rx-lro", "rx-ntuple-filter", "tx-tcp-mangleid-segmentation", "rx-gro-list"})
"""Off after a boot, besides what is fixed."""

_TSO = WORDS["tcp-segmentation-offload"]
_NEEDS = {
    **dict.fromkeys(_TSO[:-1], ("tx-scatter-gather", "tx-checksum-ip-generic")),
    "tx-udp-segmentation": ("tx-checksum-ip-generic",),
    "tx-generic-segmentation": ("tx-scatter-gather",),
    "rx-lro": ("rx-checksum",),
}
_PLAIN, _ECN, _MANGLE, _SIX = _TSO[:4]


def _boot() -> dict[str, bool]:
    names = (*(part for parts in WORDS.values() for part in parts), *OTHERS)
    return {name: name not in OFF and name not in FIXED for name in names}


@dataclass
class Features:
    """``wanted`` by feature, as after a boot; ``fixed`` are those that the driver cannot change."""

    wanted: dict[str, bool] = field(default_factory=_boot)
    fixed: frozenset[str] = FIXED
    _listing: str = ""

    def active(self) -> dict[str, bool]:
        now = {
            name: on and all(self.wanted[need] for need in _NEEDS.get(name, ()))
            for name, on in self.wanted.items()
        }
        now[_MANGLE] = now[_MANGLE] and now[_PLAIN]
        now[_ECN] = now[_ECN] and (now[_PLAIN] or now[_SIX])
        return now

    def change(self, word: str, on: bool) -> Said:  # noqa: FBT001 (a value, no mode)
        """``ethtool -K``: fails where nothing becomes what was asked for."""
        label = SHORT.get(word, word)
        parts = WORDS.get(label, (label,))
        if not set(parts) & set(self.wanted):
            return Said(1, "", "ethtool: bad command line argument(s)\n")
        before = self.active()
        self.wanted |= dict.fromkeys((part for part in parts if part not in self.fixed), on)
        self._listing = ""
        now = self.active()
        if now == before and any(now[part] != on for part in parts):
            return Said(1, "", "Could not change any device features\n")
        return Said()

    def listing(self) -> str:
        """What ``ethtool -k`` prints below its title."""
        self._listing = self._listing or "".join(f"{line}\n" for line in self._lines())
        return self._listing

    def _lines(self) -> Iterator[str]:
        now = self.active()
        for label, parts in WORDS.items():
            if len(parts) == 1:
                yield f"{label}: {self._shown(parts[0], on=now[parts[0]])}"
                continue
            fixed = " [fixed]" if self.fixed.issuperset(parts) else ""
            yield f"{label}: {'on' if any(now[part] for part in parts) else 'off'}{fixed}"
            yield from (f"\t{part}: {self._shown(part, on=now[part])}" for part in parts)
        yield from (f"{name}: {self._shown(name, on=now[name])}" for name in OTHERS)

    def _shown(self, name: str, *, on: bool) -> str:
        if name in self.fixed:
            return f"{'on' if on else 'off'} [fixed]"
        wish = " [requested on]" if self.wanted[name] and not on else ""
        return f"{'on' if on else 'off'}{wish}"
