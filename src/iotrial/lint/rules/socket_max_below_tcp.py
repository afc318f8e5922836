"""A socket's largest buffer below TCP's."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, whole
from iotrial.lint.sheet import Sheet

_PAIRS = (
    ("net.core.rmem_max", "net.ipv4.tcp_rmem"),
    ("net.core.wmem_max", "net.ipv4.tcp_wmem"),
)


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    wins = sheet.last("sysctl")
    for of_socket, of_tcp in _PAIRS:
        if of_socket not in wins or of_tcp not in wins:
            continue
        largest = wins[of_socket]
        words = [whole(word) for word in wins[of_tcp].value.split()]
        least, most = whole(largest.value), words[-1] if words else None
        if least is not None and most is not None and least < most:
            what = f"{largest.value} is below the largest of {of_tcp}, {most}"
            yield at(largest, what, f"{of_socket} = {most}")


RULE = Rule(
    "socket-max-below-tcp",
    "rmem_max or wmem_max below the maximum of tcp_rmem or tcp_wmem",
    "warning",
    ("sysctl", "tuned"),
    "TCP by itself goes up to its own maximum.  A program that sets its buffer (SO_RCVBUF,"
    " SO_SNDBUF), as many storage clients do, gets no more than rmem_max or wmem_max: less than"
    " one that asks for nothing.",
    "Documentation/networking/ip-sysctl.rst: tcp_rmem, tcp_wmem; socket(7)",
    "Give both the same maximum.",
    _judge,
    together=True,
)
