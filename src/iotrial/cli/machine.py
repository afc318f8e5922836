"""Which host a command line means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from iotrial.model.host import Host


@contextmanager
def machine(*, pretend: bool, purpose: str = "") -> Iterator[Host]:
    """This machine, or the made-up one of ``--pretend``.

    ``purpose`` is what the lock tells another iotrial.
    """
    if pretend:
        from iotrial.hosts.fake import FakeHost

        yield FakeHost()
        return
    from iotrial.hosts.local import LocalHost, wakeup_pipe

    with wakeup_pipe() as wakeup:
        yield LocalHost(wakeup=wakeup, purpose=purpose)
