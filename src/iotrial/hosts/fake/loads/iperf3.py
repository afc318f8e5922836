"""A pretended iperf3 3.12 before a server at the other end of a 10 Gbit/s link: its JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from iotrial.hosts.fake.loads.pace import Acted, failed, noise
from iotrial.hosts.fake.machine import Machine

VERSION = "iperf 3.12 (cJSON 1.7.15)\n"
_LINK = 1.17e9  # bytes per second, of TCP over 10 Gbit/s
_BLOCK = 131072


def imitate(_machine: Machine, words: Sequence[str], luck: random.Random) -> Acted:
    """One stream of TCP, either way."""
    said = dict(zip(words, (*words[1:], ""), strict=True))
    if {"--udp", "--bidir", "--parallel"} & said.keys():
        return failed("iperf3: the pretended one has one stream of TCP")
    seconds, back = int(said.get("--time", "10")), "--reverse" in said
    moved = int(_LINK * noise(luck) * seconds)
    told = {"start": 0, "end": seconds, "seconds": seconds, "bytes": moved}
    here: dict[str, Any] = {**told, "bits_per_second": moved * 8 / seconds, "sender": not back}
    sender = {**here, "retransmits": 3}
    document = {
        "start": {
            "version": "iperf 3.12",
            "timestamp": {"time": "Thu, 01 Jan 1970 00:00:01 GMT", "timesecs": 1},
            "connecting_to": {"host": said.get("--client", ""), "port": 5201},
            "test_start": {
                "protocol": "TCP",
                "num_streams": 1,
                "blksize": _BLOCK,
                "omit": 0,
                "duration": seconds,
                "bytes": 0,
                "blocks": 0,
                "reverse": int(back),
                "tos": 0,
                "target_bitrate": 0,
            },
        },
        "intervals": [],
        "end": {
            "streams": [{"sender": {"socket": 5, **sender}, "receiver": {"socket": 5, **here}}],
            "sum_sent": sender,
            "sum_received": here,
            "cpu_utilization_percent": {
                "host_total": 30.0,
                "host_user": 1.0,
                "host_system": 29.0,
                "remote_total": 25.0,
                "remote_user": 1.0,
                "remote_system": 24.0,
            },
        },
    }
    return Acted(float(seconds), {"stdout": json.dumps(document, indent=1) + "\n"})
