"""A network interface of the fake machine, ``fakenic0``: two queues, and a strict driver.

ethtool's listings are those that ethtool 6.1 prints.  Offloads (net/core/dev.c), MTU and queueing
discipline behave as a veth of 6.18 does (``tests/integration/test_net_on_this_kernel.py`` compares
them).  Pause, rings and coalescing are a driver with every habit that real ones have: flow control
is refused and shows what was negotiated while it is negotiated; coalescing is refused while it is
adaptive, set to defaults when that ends, and forgotten when a ring changes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from iotrial.hosts.fake.disk import refuse
from iotrial.hosts.fake.machine import (
    CommandOutput,
    ControlFile,
    FakeMachine,
    FakeProgram,
    MachinePart,
    StaticFiles,
)
from iotrial.hosts.fake.proc import CPUS

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
class Offloads:
    """Offloads: what the driver cannot change (``fixed``), what is ``wanted``, as after a boot, and
    what is *active*, which is what is wanted less what lacks something it needs.  A word of ethtool
    stands for several features."""

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

    def change(self, word: str, on: bool) -> CommandOutput:  # noqa: FBT001 (a value, no mode)
        """``ethtool -K``: fails where nothing becomes what was asked for."""
        label = SHORT.get(word, word)
        parts = WORDS.get(label, (label,))
        if not set(parts) & set(self.wanted):
            return CommandOutput(1, "", "ethtool: bad command line argument(s)\n")
        before = self.active()
        self.wanted |= dict.fromkeys((part for part in parts if part not in self.fixed), on)
        self._listing = ""
        now = self.active()
        if now == before and any(now[part] != on for part in parts):
            return CommandOutput(1, "", "Could not change any device features\n")
        return CommandOutput()

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


NAME = "fakenic0"
FOLDER = f"/sys/class/net/{NAME}"
QUEUES = 2
MOST_RING = 4096
NEGOTIATED = {"RX": "on", "TX": "off"}
ADAPTIVE = {"rx-usecs": "8", "rx-frames": "128"}
DEFAULTS = {"rx-usecs": "50", "rx-frames": "64", "tx-usecs": "50", "tx-frames": "64"}
KINDS = ("noqueue", "mq", "pfifo_fast", "pfifo", "fq_codel", "fq")
DEFAULT_KIND = "mq"
_MTU = (68, 9000)
_IPV6_LEAST = 1280


@dataclass
class Adapter:
    """What the driver keeps, as after a boot."""

    pause: dict[str, str] = field(default_factory=lambda: {"Autonegotiate": "on", **NEGOTIATED})
    rings: dict[str, str] = field(default_factory=lambda: {"RX": "512", "TX": "512"})
    coalesce: dict[str, str] = field(default_factory=lambda: {**DEFAULTS, **ADAPTIVE})
    adaptive: str = "on"

    def set_pause(self, word: str, value: str) -> int:
        """An errno, 0 for done.  So do all that follow."""
        if word == "autoneg":
            self.pause["Autonegotiate"] = value
        elif self.pause["Autonegotiate"] == "on":
            return errno.EINVAL
        else:
            self.pause[word.upper()] = value
        if self.pause["Autonegotiate"] == "on":
            self.pause |= NEGOTIATED
        return 0

    def set_ring(self, word: str, value: str) -> int:
        if not 1 <= int(value) <= MOST_RING:
            return errno.EINVAL
        self.rings[word.upper()] = value
        self.adaptive = "on"
        self.coalesce = {**DEFAULTS, **ADAPTIVE}
        return 0

    def set_coalesce(self, word: str, value: str) -> int:
        if word == "adaptive-rx":
            if value != self.adaptive:
                self.coalesce |= ADAPTIVE if value == "on" else DEFAULTS
            self.adaptive = value
        elif word in ADAPTIVE and self.adaptive == "on":
            return errno.EINVAL
        else:
            self.coalesce[word] = value
        return 0


def _number(low: int, high: int) -> Callable[[str], str]:
    def take(text: str) -> str:
        try:
            number = int(text, 0)
        except ValueError:
            raise refuse(errno.EINVAL) from None
        if not low <= number <= high:
            raise refuse(errno.EINVAL)
        return str(number)

    return take


def _mask(bits: int) -> Callable[[str], str]:
    """As bitmap_parse(): no more than 8 digits in one piece."""

    def take(text: str) -> str:
        chunks = text.strip().split(",")
        if max(map(len, chunks)) > 8:  # noqa: PLR2004
            raise refuse(errno.EOVERFLOW)
        try:
            number = int("".join(chunks), 16)
        except ValueError:
            raise refuse(errno.EINVAL) from None
        if number >> bits:
            raise refuse(errno.EOVERFLOW)
        return f"{number:x}"

    return take


def _flows(text: str) -> str:
    number = int(_number(0, 2**30)(text))
    return str(1 << (number - 1).bit_length() if number else 0)


class Interface(MachinePart):
    """The interface, as after a boot."""

    name = "net"
    below = (FOLDER, f"/proc/sys/net/ipv6/conf/{NAME}")

    def __init__(self) -> None:
        self.adapter = Adapter()
        self.features = Offloads()
        self.kind, self.handle = DEFAULT_KIND, 0
        self._handles = 0
        self._ipv6 = ControlFile("1500", self._take_ipv6)
        self._mtu = ControlFile("1500", self._take_mtu)
        files = {
            "mtu": self._mtu,
            "tx_queue_len": ControlFile("1000", _number(0, 2**31 - 1)),
            "gro_flush_timeout": ControlFile("0", _number(0, 2**31 - 1)),
            "napi_defer_hard_irqs": ControlFile("0", _number(0, 2**31 - 1)),
            "threaded": ControlFile("0", self._take_threaded),
            "address": ControlFile("02:00:00:00:00:01"),
        }
        for number in range(QUEUES):
            files[f"queues/rx-{number}/rps_cpus"] = ControlFile("0", _mask(CPUS))
            files[f"queues/rx-{number}/rps_flow_cnt"] = ControlFile("0", _flows)
            files[f"queues/tx-{number}/xps_cpus"] = ControlFile(f"{1 << number:x}", _mask(CPUS))
            files[f"queues/tx-{number}/xps_rxqs"] = ControlFile("0", _mask(QUEUES))
        self._controls = StaticFiles({f"{FOLDER}/{name}": each for name, each in files.items()})
        self._controls[f"/proc/sys/net/ipv6/conf/{NAME}/mtu"] = self._ipv6

    def controls(self) -> Mapping[str, ControlFile]:
        return self._controls

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "ethtool": FakeProgram(self._ethtool, changes=lambda words: words[0][1:].isupper()),
            "tc": FakeProgram(self._tc, changes=lambda words: words[1] != "show"),
        }

    def settings(self) -> Mapping[str, str]:
        """With what no listing shows: the requests behind the offloads.  (The handle of a
        discipline is that of its kind, or another number each time.)"""
        made = "by the kernel" if self.handle == 0 else "by hand"
        return {
            "qdisc": f"{self.kind} {made}",
            "adaptive": self.adapter.adaptive,
            **{f"pause {name}": value for name, value in self.adapter.pause.items()},
            **{f"ring {name}": value for name, value in self.adapter.rings.items()},
            **self.adapter.coalesce,
            **{f"wanted {name}": str(on) for name, on in self.features.wanted.items()},
            **{f"active {name}": str(on) for name, on in self.features.active().items()},
        }

    # -- sysfs ------------------------------------------------------------------------------

    def _take_mtu(self, text: str) -> str:
        value = _number(*_MTU)(text)
        if value != self._mtu.value:
            self._ipv6.value = value
        return value

    def _take_ipv6(self, text: str) -> str:
        return _number(_IPV6_LEAST, int(self._mtu.value))(text)

    def _take_threaded(self, text: str) -> str:
        if not self.features.active()["rx-gro"]:
            raise refuse(errno.EOPNOTSUPP)
        return _number(0, 1)(text)

    # -- programs ---------------------------------------------------------------------------

    def _ethtool(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        if len(words) < 2 or words[1] != NAME:  # noqa: PLR2004
            what = "netlink error: no device matches name (offset 24)\n"
            return CommandOutput(1, "", f"{what}netlink error: No such device\n")
        if words[0] in ("-a", "-g", "-c", "-k", "-l"):
            return CommandOutput(0, self._listing(words[0][1]))
        if words[0] == "-K":
            return self.features.change(words[2], words[3] == "on")
        setters = {
            "-A": self.adapter.set_pause,
            "-G": self.adapter.set_ring,
            "-C": self.adapter.set_coalesce,
        }
        if words[0] not in setters:
            return CommandOutput(1, "", "netlink error: Operation not supported\n")
        if setters[words[0]](words[2], words[3]):
            return CommandOutput(1, "", "netlink error: Invalid argument\n")
        return CommandOutput()

    def _listing(self, which: str) -> str:
        adapter = self.adapter
        if which == "k":
            return f"Features for {NAME}:\n{self.features.listing()}"
        if which == "a":
            lines = "".join(f"{f'{name}:':<16}{value}\n" for name, value in adapter.pause.items())
            return f"Pause parameters for {NAME}:\n{lines}\n"
        if which == "c":
            more = "".join(f"{name}:\t{value}\n" for name, value in adapter.coalesce.items())
            first = f"Adaptive RX: {adapter.adaptive}  TX: n/a\nstats-block-usecs:\tn/a\n\n"
            return f"Coalesce parameters for {NAME}:\n{first}{more}rx-usecs-irq:\tn/a\n\n"
        if which == "g":
            ring = "RX:\t\t{}\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t{}\n"
            most, now = ring.format(MOST_RING, MOST_RING), ring.format(*adapter.rings.values())
            title = f"Ring parameters for {NAME}"
        else:
            channels = "RX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t{}\n"
            most, now = channels.format(CPUS), channels.format(QUEUES)
            title = f"Channel parameters for {NAME}"
        return f"{title}:\nPre-set maximums:\n{most}Current hardware settings:\n{now}\n"

    def _tc(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        verb, name = words[1], words[3]
        if name != NAME:
            return CommandOutput(1, "", f'Cannot find device "{name}"\n')
        if verb == "show":
            return CommandOutput(0, f"qdisc {self.kind} {self.handle or 0}: root \n")
        if verb == "del":
            if not self.handle:
                return CommandOutput(2, "", "Error: Cannot delete qdisc with handle of zero.\n")
            self.kind, self.handle = DEFAULT_KIND, 0
            return CommandOutput()
        if words[5] not in KINDS:
            return CommandOutput(2, "", "Error: Specified qdisc kind is unknown.\n")
        if not self.handle or words[5] != self.kind:
            self._handles += 1
            self.kind, self.handle = words[5], 8000 + self._handles
        return CommandOutput()
