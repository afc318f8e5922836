"""Values that must rise: least, first and largest; low before high."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, whole
from iotrial.lint.sheet import Setting, Sheet

_TRIPLES = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_mem", "net.ipv4.udp_mem")
_WORDS = {**dict.fromkeys(_TRIPLES, 3), "net.ipv4.ip_local_port_range": 2}
_PAIRS = (
    ("net.ipv4.ipfrag_low_thresh", "net.ipv4.ipfrag_high_thresh"),
    ("net.ipv6.ip6frag_low_thresh", "net.ipv6.ip6frag_high_thresh"),
    ("net.ipv4.neigh.default.gc_thresh1", "net.ipv4.neigh.default.gc_thresh2"),
    ("net.ipv4.neigh.default.gc_thresh2", "net.ipv4.neigh.default.gc_thresh3"),
    ("dev.raid.speed_limit_min", "dev.raid.speed_limit_max"),
)


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    wins = sheet.last("sysctl")
    for name, count in _WORDS.items():
        if name in wins and "$" not in wins[name].value:
            yield from _rising(wins[name], count)
    for low, high in _PAIRS:
        below, above = _number(wins.get(low)), _number(wins.get(high))
        if below is not None and above is not None and below > above:
            yield at(wins[low], f"{below} is above {high} = {above}")


def _rising(setting: Setting, count: int) -> Iterator[Said]:
    numbers = [number for word in setting.value.split() if (number := whole(word)) is not None]
    words = setting.value.split()
    if len(words) != count:
        yield at(setting, f"it takes {count} numbers, and there are {len(words)}")
    elif len(numbers) == count and numbers != sorted(numbers):
        rising = " ".join(map(str, sorted(numbers)))
        yield at(setting, f"{setting.value} does not rise", f"{setting.name} = {rising}")


def _number(setting: Setting | None) -> int | None:
    return whole(setting.value) if setting else None


RULE = Rule(
    "sysctl-order",
    "values that do not rise",
    "error",
    ("sysctl", "tuned"),
    "Least, first, largest: the kernel takes any order of tcp_rmem and behaves oddly, and refuses"
    " a low limit above its high one.",
    "Documentation/networking/ip-sysctl.rst",
    "Order them.",
    _judge,
    together=True,
)
