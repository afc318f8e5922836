"""Values that were large once, and are below what the kernel has by itself now."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, Version, at, spelled, whole
from iotrial.lint.sheet import Sheet

_DEFAULTS: dict[str, tuple[int, Version]] = {
    "net.ipv4.ipfrag_low_thresh": (3 * 2**20, (3, 9)),
    "net.ipv4.ipfrag_high_thresh": (4 * 2**20, (3, 9)),
    "net.core.somaxconn": (4096, (5, 4)),
    "kernel.shmmax": (2**64 - 2**24 - 1, (3, 16)),
    "kernel.shmall": (2**64 - 2**24 - 1, (3, 16)),
    "kernel.msgmnb": (16384, (2, 6, 12)),
    "kernel.msgmax": (8192, (2, 6, 12)),
    "net.core.netdev_max_backlog": (1000, (2, 6, 12)),
    "fs.aio-max-nr": (65536, (2, 6, 12)),
    "fs.inotify.max_user_instances": (128, (2, 6, 14)),
    "vm.max_map_count": (65530, (2, 6, 12)),
}


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        default, since = _DEFAULTS.get(each.name, (0, ()))
        known = default and scene.kernel >= since and each.how != "bound"
        value = whole(each.value)
        if known and value is not None and value < default:
            what = f"{each.value} is below the default from {spelled(since)} on, {default}"
            yield at(each, what)


RULE = Rule(
    "sysctl-below-default",
    "a value below the kernel's own",
    "note",
    ("sysctl", "tuned"),
    "It was an increase when it was written.  The default has grown since: the line takes away.",
    "include/uapi/linux/shm.h (3.16), net/ipv4/ip_fragment.c, net/core/net_namespace.c (5.4)",
    "Take the line out.",
    _judge,
)
