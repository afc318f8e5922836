"""Which host a command line or a study means."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from iotrial.model.host import Host
from iotrial.model.study import Place

HERE = Place("local")


def place_of(host: str | None) -> Place:
    """The machine of a HOST argument: this one, or anything ssh(1) takes."""
    return HERE if host in (None, "", "local", "localhost") else Place(str(host), str(host))


@contextmanager
def machine(*, pretend: bool, place: Place = HERE, purpose: str = "") -> Iterator[Host]:
    """The host at ``place``, or the made-up one of ``--pretend``.

    ``purpose`` is what the lock tells another iotrial.  Raises HostUnreachable.
    """
    if pretend:
        from iotrial.hosts.fake import FakeHost

        yield FakeHost()
        return
    from iotrial.hosts.local import LocalHost, wakeup_pipe

    with wakeup_pipe() as wakeup:
        if not place.ssh:
            yield LocalHost(wakeup=wakeup, purpose=purpose)
            return
        from iotrial.hosts.complaints import started_on
        from iotrial.hosts.ssh import SSHHost

        doing = started_on(purpose, socket.gethostname(), os.getpid())
        with SSHHost(place.ssh, name=place.name, wakeup=wakeup, purpose=doing) as host:
            yield host
