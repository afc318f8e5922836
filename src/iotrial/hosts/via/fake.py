"""The made-up machine of ``--pretend``."""

from __future__ import annotations

import zlib
from contextlib import AbstractContextManager, nullcontext

from iotrial.model.host import Access, Connector, Host

EXAMPLE = ""


def connect(access: Access) -> AbstractContextManager[Host]:
    """Of several each has a speed of its own."""
    from iotrial.hosts.fake import FakeHost  # noqa: PLC0415 (large: only who pretends waits for it)

    host = FakeHost(seed=zlib.crc32(access.name.encode()) if access.name else 1)
    host.name = access.name or host.name
    return nullcontext(host)


HOST = Connector("fake", "a simulated host, for --pretend", connect)
