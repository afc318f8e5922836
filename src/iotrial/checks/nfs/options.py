"""Mount options are negotiated: in force is what was asked for, or the most that the server takes.

The options that the kernel shows are held against what went over the wire: a MiB that is written
past the cache takes as many requests as it has pieces of that size.
"""

from dataclasses import dataclass

from iotrial.checks.exports import (
    CLIENT,
    MIB_SENT,
    NEEDS,
    Export,
    connections,
    exported,
    filled,
    largest,
    mounted,
    negotiated,
    on_server,
    requests,
    seen_by_client,
)
from iotrial.checks.vocabulary import Doing, expect, note, run
from iotrial.model.check import Case, Scene, Script

ORDER = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A version, the size of a read and a write, and a number of connections."""

    version: str
    size: int
    connections: int = 1

    @property
    def options(self) -> str:
        several = f",nconnect={self.connections}" if self.connections > 1 else ""
        sizes = f"rsize={self.size},wsize={self.size}"
        return f"vers={self.version},proto=tcp,{sizes}{several}"


ALL = (
    Asked("3", 8192),
    Asked("3", 1048576),
    Asked("4.1", 65536),
    Asked("4.2", 8192, 4),
    Asked("4.2", 1048576),
)


def steps(scene: Scene) -> Script:
    there = yield from exported(scene)
    most = yield from largest()
    for number, asked in enumerate(ALL):
        yield from _one(scene, there, asked, most, f"file-{number}")


def _one(scene: Scene, there: Export, asked: Asked, most: int, name: str) -> Doing[None]:
    words, size = asked.options, min(asked.size, most)
    point = yield from mounted(there, words)
    found = yield from negotiated(point)
    expect(found.get("vers") == asked.version, f"{words}: vers={found.get('vers')}")
    for option in ("rsize", "wsize"):
        got = found.get(option)
        expect(got == str(size), f"{words}: {option}={got} instead of {size}")
    if asked.connections > 1:
        several = found.get("nconnect")
        expect(several == str(asked.connections), f"{words}: nconnect={several}")
    if size != asked.size:
        yield from note(f"{words}: the server takes {size} at most")

    wrote = yield from filled(scene, f"{point}/{name}")
    there_now = yield from connections(there)
    expect(
        there_now == asked.connections,
        f"{words}: {there_now} connections instead of {asked.connections}",
    )
    read_back = yield from seen_by_client(f"{point}/{name}")
    expect(read_back == wrote, f"{words}: the client reads other bytes than it wrote")
    stored = yield from on_server(f"{there.folder}/{name}")
    expect(stored == wrote, f"{words}: the server has other bytes")
    made = yield from requests(point)
    for kind in ("READ", "WRITE"):
        count, pieces = made.get(kind, 0), MIB_SENT // size
        expect(
            count == pieces,
            f"{words}: {count} requests to {kind} a MiB, and {size} bytes each make {pieces}",
        )
    yield from run("umount", point, on=CLIENT)


CASE = Case(
    "options",
    "Versions, sizes and connections are in force as asked for, or as the server allows",
    steps,
    NEEDS,
    limit=900,
)
