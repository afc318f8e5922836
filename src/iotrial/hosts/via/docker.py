"""A container of Docker on this machine."""

from __future__ import annotations

from iotrial.hosts.ssh import through
from iotrial.hosts.via.podman import check, words
from iotrial.model.host import Connector

HOST = Connector(
    "docker",
    "a container of Docker on this machine: docker://[USER@]CONTAINER",
    through(lambda to: words("docker", to)),
    check,
)
