"""A container of a pod, by the command line of Kubernetes.

Source: kubectl exec --help, of Kubernetes 1.31.
"""

from __future__ import annotations

import re

from iotrial.hosts.ssh import through
from iotrial.model.host import Connector

_NAME = "[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
_TO = re.compile(f"(?:({_NAME})/)?({_NAME})(?:/({_NAME}))?")


def words(to: str) -> list[str]:
    """``[NAMESPACE/]POD`` or ``NAMESPACE/POD/CONTAINER`` → what kubectl executes a command with."""
    found = _TO.fullmatch(to)
    namespace, pod, container = found.groups() if found else (None, to, None)
    where = ["--namespace", namespace] if namespace else []
    which = ["--container", container] if container else []
    return ["kubectl", "exec", "--stdin", "--quiet", *where, pod, *which, "--"]


def check(to: str) -> str:
    return "" if _TO.fullmatch(to) else f"{to!r} is not [NAMESPACE/]POD or NAMESPACE/POD/CONTAINER"


HOST = Connector(
    "kubectl",
    "a container in a pod of Kubernetes: kubectl://[NAMESPACE/]POD or NAMESPACE/POD/CONTAINER",
    through(words),
    check,
)
