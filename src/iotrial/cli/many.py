"""What is alike on many hosts, said once: for ``iotrial plan``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from iotrial.look.outline import Outline
from iotrial.look.topology import words
from iotrial.model.folding import folded
from iotrial.model.tunable import Setting


def alike(seen: Outline) -> Iterator[tuple[str, str]]:
    """Targets with what is below them, those that are alike on several hosts as one: the name of
    the first, and ``h[1-3]/disk: /dev/sda``."""
    who: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    first: dict[tuple[str, str, tuple[str, ...]], str] = {}
    for name, said in zip(seen.topologies, seen.targets, strict=True):
        host, _, target = name.rpartition("/")
        key = (target, said.removeprefix(f"{name}: "), tuple(words(seen.topologies[name])))
        who.setdefault(key, []).append(host)
        first.setdefault(key, name)
    for key, hosts in who.items():
        place = f"{folded(hosts)}/" if any(hosts) else ""
        yield first[key], f"{place}{key[0]}: {key[1]}"


def together(settings: Sequence[Setting], known: Collection[str]) -> Iterator[str]:
    """Settings as they are said, those of several of the ``known`` hosts as one:
    ``… on h[1-3]:sda``."""
    who: dict[tuple[str, str, str], list[str]] = {}
    for each in settings:
        host, colon, device = each.device.partition(":")
        if not colon or host not in known:  # devices may have colons of their own
            host, device = "", each.device
        who.setdefault((each.tunable, each.value, device), []).append(host)
    for (name, value, device), hosts in who.items():
        many = [host for host in hosts if host]
        yield str(Setting(f"{folded(many)}:{device}" if many else device, name, value))
