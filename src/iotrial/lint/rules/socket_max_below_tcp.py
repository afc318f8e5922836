"""A socket's largest buffer below TCP's."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
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
        largest, words = wins[of_socket], wins[of_tcp].value.split()
        if not words or not all(word.isdecimal() for word in (*words, largest.value)):
            continue
        if int(largest.value) < int(words[-1]):
            what = f"{largest.value} is below the largest of {of_tcp}, {words[-1]}"
            yield at(largest, what, f"{of_socket} = {words[-1]}")


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
