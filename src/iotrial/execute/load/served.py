"""A load by a tool's own client and server: servers on the host, their clients here.

The servers are what is started on the host, as any load is: in folders of the run's own, marked
with its token, so that whoever ends a load ends them.  Each has one client, which is executed on
this machine and is what is waited for; so a host that dies, hangs or straggles spoils no other.
A client reaches its server at a socket: the host's own, or one that leads there through the SSH
connection of the host (:meth:`iotrial.model.host.Host.tunnel`); or at an address of the host, where
the study says so (:mod:`iotrial.look.ports`).

Servers do not end by themselves, and the jobs of one that was killed go on (fio 3.33).  So when the
clients have ended, everything that carries the run's token is ended there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from iotrial.errors import RefusedError, ToolMissing
from iotrial.execute.load import barrier
from iotrial.execute.load.load import TOKEN, LoadExit, LoadWatch, end, end_loads, execute_load
from iotrial.hosts.local import LocalHost
from iotrial.look import ports
from iotrial.model.host import Host, Process
from iotrial.model.listen import ListenAddress
from iotrial.model.study import Study
from iotrial.model.target import PreparedTarget
from iotrial.model.tool import Load, SupportsServer
from iotrial.tools import tool

CLIENTS = "clients"
"""A folder beside the servers' files while the clients run."""
LISTENS_WITHIN = 20.0
_AGAIN = 0.05
_KILLED, _NEVER, _MISSING = -9, 1, 127
_NOTED = frozenset((barrier.BEGAN, barrier.READY, barrier.EXIT))


@dataclass(frozen=True, slots=True)
class ToolClient:
    """What is executed here for a server there.  ``folder`` is where the server's files come to,
    and in the end the client's; ``load`` is to be executed where ``link`` is the server's socket,
    ``socket`` as that calls it in its folder; or with ``listen`` it is reached there, and the
    two are not."""

    driver: SupportsServer
    folder: Path
    load: Load
    link: str
    socket: str
    listen: ListenAddress | None = None


class _NoServerError(Exception):
    """No server to be the client of; the message says why."""


class LoadExecutor(Protocol):
    """How a load is executed: :func:`~iotrial.execute.load.load.execute_load`, or
    :func:`through`."""

    def __call__(
        self, host: Host, argv: tuple[str, ...], *, folder: Path, token: str, watch: LoadWatch
    ) -> LoadExit: ...


def through(clients: Sequence[ToolClient]) -> LoadExecutor:
    """How a load is executed by ``clients``: ``argv`` starts their servers, in ``folder``, which is
    theirs or the one that theirs lie in; its end is that of the clients.

    Every client's folder then has its files, as if the tool had been there itself, and what its
    server said as ``server.stdout`` and ``server.stderr``.
    """

    def execute(
        host: Host, argv: tuple[str, ...], *, folder: Path, token: str, watch: LoadWatch
    ) -> LoadExit:
        ended, here, why = LoadExit(_NEVER, 0.0), folder / CLIENTS, ""
        try:
            try:
                with _serving(host, argv, clients, folder=folder, token=token) as sockets:
                    command = _laid(clients, sockets, here)
                    this = LocalHost()
                    ended = execute_load(this, command, folder=here, token=token, watch=watch)
            except _NoServerError as error:
                why = str(error)
            worst = max((_taken(client, here, ended, why) for client in clients), key=abs)
        finally:
            shutil.rmtree(here, ignore_errors=True)
        return LoadExit(worst, ended.seconds, ended.timed_out)

    return execute


@contextmanager
def _serving(
    host: Host, argv: tuple[str, ...], clients: Sequence[ToolClient], *, folder: Path, token: str
) -> Iterator[list[str]]:
    """The clients' sockets ('': it is reached at its address) while the servers live.

    Raises _NoServerError where one does not.
    """
    listens = [client.listen for client in clients if client.listen]
    if why := listens and ports.taken(listens, ports.listening(host)):
        raise _NoServerError(f"{why}: use another port for the host, or stop that process")
    process = host.start(argv, folder=folder, environment={TOKEN: token, "LC_ALL": "C"})
    try:
        with ExitStack() as tunnels:
            places = _places(host, process, clients, folder)
            sockets = [] if listens else [path for path, _ in places]
            if not _listening(host, process, sockets, listens, [path for _, path in places]):
                raise _NoServerError("the server did not start to listen")
            for each in listens:
                if not ports.ours(host, each, ports.listening(host), f"{TOKEN}={token}"):
                    raise _NoServerError(f"another process listens at {each} too")
            found = [tunnels.enter_context(host.tunnel(path)) for path in sockets]
            yield found or [""] * len(listens)
    finally:
        end(host, process)
        end_loads(host, token)


def _places(
    host: Host, process: Process, clients: Sequence[ToolClient], folder: Path
) -> list[tuple[str, str]]:
    """Of each client the path of its server's socket on the host, and of the file that is there
    when its server has ended."""
    base = str(folder.absolute())
    if host.remote:
        base = host.run(["readlink", f"/proc/{process.pid}/cwd"]).text.rstrip("\n")
    found = []
    for client in clients:
        own = base if client.folder == folder else f"{base}/{client.folder.name}"
        found.append((f"{own}/{client.socket}", f"{own}/{barrier.EXIT}"))
    return found


def _listening(
    host: Host,
    process: Process,
    sockets: Sequence[str],
    listens: Sequence[ListenAddress],
    ends: Sequence[str],
) -> bool:
    """Wait for all the sockets and all who listen; whether none of the servers ended before."""
    deadline = time.monotonic() + LISTENS_WITHIN
    while time.monotonic() < deadline:
        there = host.run(["ls", "-d", "--", *sockets, *ends]).text.splitlines()
        if any(path in there for path in ends):
            return False
        rows = {(row.address, row.port) for row in ports.listening(host)} if listens else set()
        if all(path in there for path in sockets) and all(
            (each.address, each.port) in rows for each in listens
        ):
            return True
        if process.wait(_AGAIN) is not None:
            return False
    return False


def _laid(clients: Sequence[ToolClient], sockets: Sequence[str], here: Path) -> tuple[str, ...]:
    """What executes all clients, from ``here``, each in a folder of its own."""
    for client, socket in zip(clients, sockets, strict=True):
        place = here / client.folder.name
        place.mkdir(parents=True)
        for name, content in client.load.files:
            (place / name).write_bytes(content)
        if socket:
            (place / client.link).symlink_to(socket)
    return barrier.together({each.folder.name: each.load.argv for each in clients}, 0.0)


def _taken(client: ToolClient, here: Path, ended: LoadExit, why: str) -> int:
    """Put what a client left in the place of what its server did; gives back its exit status.
    ``why`` there was no server to be its client."""
    own, place = client.folder, here / client.folder.name
    for name in ("stdout", "stderr"):
        if (own / name).exists():
            (own / name).replace(own / f"server.{name}")
    if client.socket:
        shutil.rmtree((own / client.socket).parent, ignore_errors=True)
    status = ended.exit
    if place.exists():
        status = barrier.ended(place, ended.exit or _KILLED)
        mine = {name for name, _ in client.load.files} | {client.link, *_NOTED}
        for path in [path for path in place.iterdir() if path.name not in mine]:
            path.replace(own / client.driver.own_name(path.name, client.link))
        why = client.driver.failure(own)
    if why and not ended.timed_out:
        status = status or 1
        with (own / "stderr").open("a", encoding="utf-8") as stderr:
            stderr.write(f"{why}\n")
    noted = 128 - status if status < 0 else status
    (own / barrier.EXIT).write_text(f"{noted}\n", encoding="ascii")
    return status


def check_served(host: Host, study: Study) -> None:
    """The clients of a study on this machine, and a way from here to their servers.

    Raises ToolMissing, RefusedError, HostError.
    """
    served = {each.tool for each in study.workloads if each.start == "server"}
    for driver in map(tool, sorted(served)):
        ask = [driver.program, "--version"]
        here, there = LocalHost().run(ask), host.run(ask)
        if here.exit == _MISSING:
            raise ToolMissing(
                f"{driver.program}, the client of {host.name}, is not installed on this host",
                advice=f"Install {driver.package} here, in the version of the hosts; or remove"
                ' start = "server" from the study.',
            )
        if isinstance(driver, SupportsServer) and (why := driver.unlike(here.text, there.text)):
            raise RefusedError(
                f"{host.name}: versions of {driver.program} differ between client and server:"
                f" {why}",
                advice='Install the same version on both, or remove start = "server".',
            )
    listen = study.place.listen
    if served and listen is None:
        with host.tunnel("/nobody/listens"):
            pass
    elif served and listen and (why := ports.taken([listen], ports.listening(host))):
        raise RefusedError(
            f"{host.name}: {why}: clients could reach either server",
            advice=(
                f"Set another port in hosts.{host.name}.listen or none, or stop the listening"
                " process."
            ),
        )


def check_paths(study: Study, aims: Mapping[str, PreparedTarget]) -> None:
    """Raise RefusedError for a target that a client cannot be told of."""
    for workload in study.workloads:
        driver = tool(workload.tool)
        if workload.start != "server" or not isinstance(driver, SupportsServer):
            continue
        for aim in aims.values():
            for _, why in driver.unserved(workload, aim.path):
                raise RefusedError(
                    f"workload {workload.name}: {why}",
                    advice='Remove start = "server" from the study, or rename the workload.',
                )
