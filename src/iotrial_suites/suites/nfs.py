"""nfs: a server (the first host) and a client (the second), whose export is made for each case."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iotrial_suites.case import Scene, Script, case
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.exports import (
    CLIENT,
    MIB_SENT,
    NEEDS,
    SERVER,
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
    threads,
)
from iotrial_suites.suites.loads import begin, end
from iotrial_suites.suites.vocabulary import Doing, expect, note, pause, run, undo, until


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


@case(
    "options",
    "Versions, sizes and connections are in force as asked for, or as the server allows",
    NEEDS,
    limit=900,
)
def options_case(scene: Scene) -> Script:
    """Mount options are negotiated: in force is what was asked for, or the most that the server
    takes.

    The options that the kernel shows are held against what went over the wire: a MiB that is
    written past the cache takes as many requests as it has pieces of that size.
    """
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


_RECOVERS = 240.0
"""Seconds: 90 of grace are usual."""
_STOPPED = 5.0
_UNIT = "nfs-server.service"


@case(
    "server-restart",
    "The server stops and starts under load; the client waits, goes on, and loses nothing",
    replace(NEEDS, commands=(*NEEDS.commands, "fio", "systemctl")),
    announces=(r"nfs: server .* not responding", r"nfs: server .* OK"),
    limit=1200,
)
def server_restart_case(scene: Scene) -> Script:
    """The server stops and starts again under load: the client waits, goes on, and no byte is
    wrong."""
    there = yield from exported(scene)
    point = yield from mounted(there, "vers=4.2,hard,timeo=50")
    before = yield from filled(scene, f"{point}/before")
    load = yield from begin(scene, f"--directory={point}", on=CLIENT, size="8m")
    yield from _more(point, 0, "the load does not begin")

    yield from undo("systemctl", "start", _UNIT, on=SERVER)
    yield from run("systemctl", "stop", _UNIT, on=SERVER)
    running = yield from threads()
    expect(running == 0, f"the server was stopped, and has {running} threads")
    at_stop = yield from _written(point)
    yield from pause(_STOPPED)
    expect(
        (yield from _written(point)) == at_stop, "the client writes on, to a server that stopped"
    )
    yield from run("systemctl", "start", _UNIT, on=SERVER)
    yield from _more(point, at_stop, "the client does not go on after the server is back")
    yield from end(load)

    expect((yield from seen_by_client(f"{point}/before")) == before, "a file has changed")
    after = yield from filled(scene, f"{point}/after")
    expect((yield from on_server(f"{there.folder}/after")) == after, "the server has other bytes")


def _written(point: str) -> Doing[int]:
    """Requests to write that the server has answered."""
    return (yield from requests(point)).get("WRITE", 0)


def _more(point: str, than: int, otherwise: str) -> Doing[None]:
    """Wait until a good many more requests than so many are done."""
    yield from until(
        lambda: _written(point),
        lambda now: now > than + 50,
        otherwise,
        within=_RECOVERS,
        every=2.0,
    )


SUITE = suite_of(
    __name__,
    "nfs: what was asked for is in force, and a server that restarts loses nothing",
    ("mount.nfs",),
)
