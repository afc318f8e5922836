"""nfs: a server (the first host) and a client (the second), which mounts a folder that is exported
for each case.

The server is the first, as hosts are cleaned up from the last to the first.

What a mount is asked for and what its options say are two things, and what goes over the wire is a
third: so requests are counted.  Sources: exportfs(8), nfs(5), ss(8); fs/nfs/super.c of Linux 6.1
(``nfs_show_stats``: mountstats); nfsd(7) (``max_block_size``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface

from iotrial_suites.case import CaseContext, CaseNeeds, CaseNotRun, Script, case
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.vocabulary import (
    Doing,
    begin,
    end,
    expect,
    mount,
    note,
    pause,
    read,
    run,
    undo,
    until,
)

SERVER, CLIENT = 0, 1
NEEDS = CaseNeeds(commands=("mount", "ss", "exportfs", "mount.nfs"), hosts=2)
_THREADS = "/proc/fs/nfsd/threads"
_OPTIONS = "rw,sync,no_root_squash,no_subtree_check"
PORT = 2049
MIB_SENT = 2**20
"""Bytes of a file that is written and read."""
_EXPORT = 'mkdir -p /etc/exports.d && printf "%s\\n" "$2" >"$1" && exportfs -r'


@dataclass(frozen=True, slots=True)
class _Export:
    """``address`` of the server, and the ``folder`` that it exports to the client."""

    address: str
    folder: str

    @property
    def source(self) -> str:
        return f"{self.address}:{self.folder}"


def exported(scene: CaseContext) -> Doing[_Export]:
    """A new folder of the first host, exported to the second.  Raises NotHere where that serves
    nothing, or they have no network in common."""
    if not (yield from threads()):
        raise CaseNotRun(f"no NFS server runs on {scene.nodes[SERVER].name}")
    here, there = yield from common(scene)
    folder = f"/srv/{scene.name('nfs')}"
    yield from undo("rm", "-rf", "--one-file-system", folder, on=SERVER)
    yield from run("mkdir", "-p", folder, on=SERVER)
    # In a file, as what is exported by hand is forgotten when the server restarts.
    file = f"/etc/exports.d/{scene.name('nfs')}.exports"
    yield from undo("sh", "-c", 'rm -f "$1" && exportfs -r', "iotrial-export", file, on=SERVER)
    line = f"{folder} {here}({_OPTIONS})"
    yield from run("sh", "-c", _EXPORT, "iotrial-export", file, line, on=SERVER)
    return _Export(there, folder)


def threads() -> Doing[int]:
    """Of the server; 0: it does not run."""
    said = yield from run("cat", _THREADS, on=SERVER, exits=None)
    return int(said.stdout or "0") if said.exit == 0 else 0


def common(scene: CaseContext) -> Doing[tuple[str, str]]:
    """The addresses of client and server in a network that both are in.  Raises NotHere."""
    mine = networks((yield from run("ip", "-o", "-4", "address", on=CLIENT)).stdout)
    other = networks((yield from run("ip", "-o", "-4", "address", on=SERVER)).stdout)
    for network, address in mine.items():
        if network in other and other[network] != address:
            return address, other[network]
    names = " and ".join(node.name for node in scene.nodes)
    raise CaseNotRun(f"{names} are in no network together")


def networks(text: str) -> dict[str, str]:
    """Network → address in it, of ``ip -o -4 address``; that of the loopback is none.

    >>> networks("2: eth1    inet 10.77.0.2/24 scope global eth1")
    {'10.77.0.0/24': '10.77.0.2'}
    """
    words = (line.split() for line in text.splitlines())
    found = [IPv4Interface(each[3]) for each in words if each[1] != "lo"]
    return {str(each.network): str(each.ip) for each in found}


def mounted(there: _Export, options: str) -> Doing[str]:
    """Mount it on the client; gives back the folder."""
    return (yield from mount(there.source, "nfs", options, on=CLIENT))


def negotiated(point: str) -> Doing[dict[str, str]]:
    """The options of a mount as the kernel has them; those without a value are ''."""
    return options_of((yield from read("/proc/mounts", on=CLIENT)), point)


def options_of(mounts: str, point: str) -> dict[str, str]:
    """Of the last mount at a folder.

    >>> options_of("h:/x /mnt nfs4 rw,vers=4.2,rsize=1048576,hard 0 0", "/mnt")["rsize"]
    '1048576'
    """
    rows = [line.split() for line in mounts.splitlines() if line.split()[1] == point]
    words = rows[-1][3].split(",") if rows else []
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def connections(there: _Export) -> Doing[int]:
    """How many TCP connections the client has to the server."""
    address = f"{there.address}:{PORT}"
    said = yield from run("ss", "-Htn", "state", "established", "dst", address, on=CLIENT)
    return len(said.stdout.splitlines())


def largest() -> Doing[int]:
    """Bytes of the largest read or write that the server takes."""
    return int((yield from read("/proc/fs/nfsd/max_block_size", on=SERVER)))


def requests(point: str) -> Doing[dict[str, int]]:
    """How many requests of each kind the client has made for a mount, by name (``WRITE``)."""
    return requests_of((yield from read("/proc/self/mountstats", on=CLIENT)), point)


def requests_of(mountstats: str, point: str) -> dict[str, int]:
    """Of the last mount at a folder.  A read by READ_PLUS (RFC 7862, 15.10), as clients of 4.2 do
    by themselves (seen on 6.12), is one too.

    >>> requests_of("device h:/x mounted on /mnt with fstype nfs\\n\\t  WRITE: 16 17 0 9 9", "/mnt")
    {'WRITE': 16}
    """
    parts = re.split(r"^device ", mountstats, flags=re.MULTILINE)
    mine = [part for part in parts if f" mounted on {point} with " in part]
    found = re.findall(r"^\t\s*([A-Z_0-9]+): (\d+) ", mine[-1] if mine else "", re.MULTILINE)
    made = {name: int(count) for name, count in found}
    if plus := made.pop("READ_PLUS", 0):
        made["READ"] = made.get("READ", 0) + plus
    return made


_FILL = """\
head -c 1048576 /dev/urandom >"$2" &&
    dd if="$2" of="$1" bs=1M count=1 oflag=direct status=none && sha256sum <"$2"
status=$?
rm -f "$2"
exit "$status"
"""
"""Arguments: a file, and one for a while on another file system.  Writes past the cache: of as many
requests as the size of one makes necessary."""


def filled(scene: CaseContext, path: str) -> Doing[str]:
    """Write a file of a MiB of random bytes on the client; gives back their checksum."""
    argv = ("sh", "-c", _FILL, "iotrial-fill", path, f"/run/{scene.name('bytes')}")
    return (yield from run(*argv, on=CLIENT)).stdout.split()[0]


def seen_by_client(path: str) -> Doing[str]:
    """The checksum of a file, read past the cache."""
    argv = (
        "sh",
        "-c",
        'dd if="$1" bs=1M count=1 iflag=direct status=none | sha256sum',
        "iotrial-sum",
    )
    return (yield from run(*argv, path, on=CLIENT)).stdout.split()[0]


def on_server(path: str) -> Doing[str]:
    """The checksum of a file, as the server has it."""
    said = yield from run("sha256sum", path, on=SERVER)
    return said.stdout.split()[0]


@dataclass(frozen=True, slots=True)
class NFSMountOptions:
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
    NFSMountOptions("3", 8192),
    NFSMountOptions("3", 1048576),
    NFSMountOptions("4.1", 65536),
    NFSMountOptions("4.2", 8192, 4),
    NFSMountOptions("4.2", 1048576),
)


@case(
    "options",
    "Versions, sizes and connections are in force as asked for, or as the server allows",
    NEEDS,
    limit=900,
)
def options_case(scene: CaseContext) -> Script:
    """Mount options are negotiated: in force is what was asked for, or the most that the server
    takes.

    The options that the kernel shows are held against what went over the wire: a MiB that is
    written past the cache takes as many requests as it has pieces of that size.
    """
    there = yield from exported(scene)
    most = yield from largest()
    for number, asked in enumerate(ALL):
        yield from _one(scene, there, asked, most, f"file-{number}")


def _one(
    scene: CaseContext, there: _Export, asked: NFSMountOptions, most: int, name: str
) -> Doing[None]:
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
def server_restart_case(scene: CaseContext) -> Script:
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
