"""The server stops and starts again under load: the client waits, goes on, and no byte is wrong."""

from dataclasses import replace

from iotrial.checks.exports import (
    CLIENT,
    NEEDS,
    SERVER,
    exported,
    filled,
    mounted,
    on_server,
    requests,
    seen_by_client,
    threads,
)
from iotrial.checks.loads import begin, end
from iotrial.checks.vocabulary import Doing, expect, pause, run, undo, until
from iotrial.model.check import Case, Scene, Script

ORDER = 20
_RECOVERS = 240.0
"""Seconds: 90 of grace are usual."""
_STOPPED = 5.0
_UNIT = "nfs-server.service"


def steps(scene: Scene) -> Script:
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


CASE = Case(
    "server-restart",
    "The server stops and starts under load; the client waits, goes on, and loses nothing",
    steps,
    replace(NEEDS, commands=(*NEEDS.commands, "fio", "systemctl")),
    announces=(r"nfs: server .* not responding", r"nfs: server .* OK"),
    limit=1200,
)
