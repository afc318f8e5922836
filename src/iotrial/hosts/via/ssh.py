"""What ssh(1) reaches."""

from __future__ import annotations

from contextlib import AbstractContextManager

from iotrial.hosts.login import unreachable
from iotrial.hosts.ssh import SSHHost, started_here
from iotrial.model.host import Access, Connector, Host


def connect(access: Access) -> AbstractContextManager[Host]:
    purpose = started_here(access.purpose)
    return SSHHost(access.to, name=access.name, wakeup=access.wakeup, purpose=purpose)


def check(to: str) -> str:
    return (unreachable(to) or ("", ""))[0]


HOST = Connector("ssh", "what ssh(1) reaches, over one connection", connect, check)
