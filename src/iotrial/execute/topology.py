"""Topology: what lies between a target and the metal, read from a host."""

from __future__ import annotations

from iotrial.model.host import Host
from iotrial.model.target import Aim
from iotrial.model.topology import Topology


def topology(host: Host, aim: Aim) -> Topology:
    """What lies below a target."""
    del host
    return Topology.of_disk(aim.device)
