"""Words for NFS: a folder of the first host, exported for one case and mounted on the second.

The server is the first, as hosts are cleaned up from the last to the first.

What a mount is asked for and what its options say are two things, and what goes over the wire is a
third: so requests are counted.  Sources: exportfs(8), nfs(5), ss(8); fs/nfs/super.c of Linux 6.1
(``nfs_show_stats``: mountstats); nfsd(7) (``max_block_size``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Interface

from iotrial_suites.case import Needs, NotHere, Scene
from iotrial_suites.suites.vocabulary import Doing, mount, read, run, undo

SERVER, CLIENT = 0, 1
NEEDS = Needs(commands=("mount", "ss", "exportfs", "mount.nfs"), hosts=2)
_THREADS = "/proc/fs/nfsd/threads"
_OPTIONS = "rw,sync,no_root_squash,no_subtree_check"
PORT = 2049
MIB_SENT = 2**20
"""Bytes of a file that is written and read."""
_EXPORT = 'mkdir -p /etc/exports.d && printf "%s\\n" "$2" >"$1" && exportfs -r'


@dataclass(frozen=True, slots=True)
class Export:
    """``address`` of the server, and the ``folder`` that it exports to the client."""

    address: str
    folder: str

    @property
    def source(self) -> str:
        return f"{self.address}:{self.folder}"


def exported(scene: Scene) -> Doing[Export]:
    """A new folder of the first host, exported to the second.  Raises NotHere where that serves
    nothing, or they have no network in common."""
    if not (yield from threads()):
        raise NotHere(f"no NFS server runs on {scene.nodes[SERVER].name}")
    here, there = yield from common(scene)
    folder = f"/srv/{scene.name('nfs')}"
    yield from undo("rm", "-rf", "--one-file-system", folder, on=SERVER)
    yield from run("mkdir", "-p", folder, on=SERVER)
    # In a file, as what is exported by hand is forgotten when the server restarts.
    file = f"/etc/exports.d/{scene.name('nfs')}.exports"
    yield from undo("sh", "-c", 'rm -f "$1" && exportfs -r', "iotrial-export", file, on=SERVER)
    line = f"{folder} {here}({_OPTIONS})"
    yield from run("sh", "-c", _EXPORT, "iotrial-export", file, line, on=SERVER)
    return Export(there, folder)


def threads() -> Doing[int]:
    """Of the server; 0: it does not run."""
    said = yield from run("cat", _THREADS, on=SERVER, exits=None)
    return int(said.stdout or "0") if said.exit == 0 else 0


def common(scene: Scene) -> Doing[tuple[str, str]]:
    """The addresses of client and server in a network that both are in.  Raises NotHere."""
    mine = networks((yield from run("ip", "-o", "-4", "address", on=CLIENT)).stdout)
    other = networks((yield from run("ip", "-o", "-4", "address", on=SERVER)).stdout)
    for network, address in mine.items():
        if network in other and other[network] != address:
            return address, other[network]
    names = " and ".join(node.name for node in scene.nodes)
    raise NotHere(f"{names} are in no network together")


def networks(text: str) -> dict[str, str]:
    """Network → address in it, of ``ip -o -4 address``; that of the loopback is none.

    >>> networks("2: eth1    inet 10.77.0.2/24 scope global eth1")
    {'10.77.0.0/24': '10.77.0.2'}
    """
    words = (line.split() for line in text.splitlines())
    found = [IPv4Interface(each[3]) for each in words if each[1] != "lo"]
    return {str(each.network): str(each.ip) for each in found}


def mounted(there: Export, options: str) -> Doing[str]:
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


def connections(there: Export) -> Doing[int]:
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


def filled(scene: Scene, path: str) -> Doing[str]:
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
