"""This machine: no connection, and no agent."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from iotrial.hosts.local import LocalHost
from iotrial.model.host import Access, Connector, Host

EXAMPLE = ""


def connect(access: Access) -> AbstractContextManager[Host]:
    host = LocalHost(wakeup=access.wakeup, purpose=access.purpose)
    host.name = access.name or host.name
    return nullcontext(host)


HOST = Connector("local", "the machine that iotrial runs on", connect)
