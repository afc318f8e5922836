"""A largest receive buffer that TCP is told not to use."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    wins = sheet.last("sysctl")
    fixed, sizes = wins.get("net.ipv4.tcp_moderate_rcvbuf"), wins.get("net.ipv4.tcp_rmem")
    if not fixed or not sizes or fixed.value != "0":
        return
    words = sizes.value.split()
    first = words[1] if len(words) > 1 else "the second number"
    what = f"with tcp_moderate_rcvbuf = 0 every socket keeps {first} bytes; the largest is moot"
    yield at(sizes, what, "net.ipv4.tcp_moderate_rcvbuf = 1")


RULE = Rule(
    "rcvbuf-fixed",
    "tcp_rmem with tcp_moderate_rcvbuf = 0",
    "warning",
    ("sysctl", "tuned"),
    "The third number of tcp_rmem bounds what TCP makes of a buffer by itself.  Switched off, it"
    " makes nothing: buffers stay at the second.",
    "Documentation/networking/ip-sysctl.rst: tcp_moderate_rcvbuf",
    "net.ipv4.tcp_moderate_rcvbuf = 1",
    _judge,
    together=True,
)
