"""Hosts to reach over SSH, made of this machine: network namespaces with a real sshd in each.

Each has its own mount namespace with empty ``/run`` and ``/var/lib``, so that locks and journals
are its own.  They share the kernel, its boot id, and every setting of it that is not a namespace's.
Nothing of it stays: :meth:`Box.close` ends every process by its number.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

SSHD = "/usr/sbin/sshd"
_NETWORK, _NETWORKS = "10.213", 2**14
"""Its /30s are ours; somewhere a machine may have such an address, on no machine that tests."""


def why_not() -> str:
    """What this machine lacks for a lab, '' when nothing."""
    if os.geteuid() != 0:
        return "needs root: network namespaces are made"
    for program in ("ip", "unshare", "nsenter", "ssh", "ssh-keygen", SSHD):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            return f"needs {program}: openssh-client, openssh-server, iproute2, util-linux"
    return ""


def _do(*argv: str, stdin: str = "") -> str:
    done = subprocess.run(
        argv, input=stdin, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, f"{shlex.join(argv)}: {done.stderr}"
    return done.stdout


def _new_network() -> tuple[int, str]:
    """A /30 that no other lab on this machine has, and the network namespace, just made, that holds
    it: who else draws its number finds the name taken."""
    while True:
        number = secrets.randbelow(_NETWORKS)
        space = f"iotrial-lab-{number}"
        made = subprocess.run(
            ["ip", "netns", "add", space], capture_output=True, text=True, timeout=200, check=False
        )
        if made.returncode == 0:
            return number, space
        assert "File exists" in made.stderr, made.stderr


class Box:
    """One host.  ``name`` is its Host in the lab's client configuration, ``address`` where it
    listens, ``here`` this machine's end of its link.  ``into`` is mounted over files there before
    sshd starts: source, target.  It is linked to this machine, or to the box that it is
    ``behind``."""

    def __init__(
        self,
        lab: Lab,
        name: str,
        number: int,
        *,
        into: Sequence[tuple[Path, str]] = (),
        behind: Box | None = None,
    ) -> None:
        self.name = name
        self._lab = lab
        self._outside = ("ip",) if behind is None else ("ip", "-n", behind._space)
        self._veth = f"it{lab.mark}{number}"
        network, self._space = _new_network()
        third, fourth = divmod(4 * network, 256)
        self._here, self.address = (f"{_NETWORK}.{third}.{fourth + n}" for n in (1, 2))
        self._sshd: subprocess.Popen[bytes] | None = None
        try:
            self._connect()
            self._serve(into)
        except BaseException:
            self.close()
            raise

    @property
    def where(self) -> str:
        """What stands in a study as ``ssh``."""
        return f"-F {self._lab.config} {self.name}"

    @property
    def here(self) -> str:
        return self._here

    @property
    def pid(self) -> int:
        assert self._sshd is not None
        return self._sshd.pid

    def cut(self) -> None:
        """From now on no packet reaches it, and nobody is told."""
        _do(*self._outside, "link", "set", self._veth, "down")

    def mend(self) -> None:
        _do(*self._outside, "link", "set", self._veth, "up")

    def run(self, *argv: str) -> str:
        """What a command there says."""
        return _do("nsenter", "-t", str(self.pid), "-m", "-n", "--", *argv)

    def processes(self) -> list[int]:
        """The numbers of all processes there."""
        return [int(pid) for pid in _do("ip", "netns", "pids", self._space).split()]

    def close(self) -> None:
        # Orphaned connections keep a namespace alive for minutes, but not a link that is deleted.
        with suppress(AssertionError):
            _do(*self._outside, "link", "delete", self._veth)
        for _ in range(100):
            left = self.processes()
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self._sshd is not None:
                self._sshd.poll()
            if not left:
                break
            time.sleep(0.02)
        if self._sshd is not None:
            self._sshd.wait()
        _do("ip", "netns", "del", self._space)

    def _connect(self) -> None:
        inside, outside = ("ip", "-n", self._space), self._outside
        peer = ("peer", "name", "eth0", "netns", self._space)
        _do(*outside, "link", "add", self._veth, "type", "veth", *peer)
        _do(*outside, "address", "add", f"{self._here}/30", "dev", self._veth)
        _do(*outside, "link", "set", self._veth, "up")
        _do(*inside, "address", "add", f"{self.address}/30", "dev", "eth0")
        _do(*inside, "link", "set", "eth0", "up")
        _do(*inside, "link", "set", "lo", "up")
        _do(*inside, "route", "add", "default", "via", self._here)

    def _serve(self, into: Sequence[tuple[Path, str]]) -> None:
        mounts = "".join(
            f"mount --bind {shlex.quote(str(source))} {target}\n" for source, target in into
        )
        script = (
            "set -e\nmount -t tmpfs -o mode=755 run /run\nmount -t tmpfs -o mode=755 lib /var/lib\n"
            f"mkdir -m 755 /run/sshd\n{mounts}"
            f"install -m 644 {self._lab.folder}/client.pub /run/authorized\n"
            f'exec {SSHD} -D -e -f "$1"'
        )
        config = self._lab.folder / f"sshd-{self.name}"
        config.write_text(
            f"ListenAddress {self.address}\nHostKey {self._lab.host_key(self.name)}\n"
            "AuthorizedKeysFile /run/authorized\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\nPidFile none\nUseDNS no\n",
            encoding="ascii",
        )
        private = ("unshare", "--mount", "--propagation", "private")
        with (self._lab.folder / f"log-{self.name}").open("wb") as log:
            self._sshd = subprocess.Popen(
                ["ip", "netns", "exec", self._space, *private, "sh", "-c", script, "-", config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._lab.knows(self)
        log_file = self._lab.folder / f"log-{self.name}"
        for _ in range(500):
            if "Server listening" in log_file.read_text():
                return
            assert self._sshd.poll() is None, log_file.read_text()
            time.sleep(0.01)
        raise AssertionError(log_file.read_text())


class Lab:
    """Boxes, with one client key and one client configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(3)
        self.config = folder / "config"
        self.known = folder / "known_hosts"
        self.boxes: list[Box] = []
        self.known.touch()
        self.config.touch()
        self._options = ""
        self._key("client")

    def box(
        self,
        name: str = "box",
        *,
        into: Sequence[tuple[Path, str]] = (),
        options: str = "",
        behind: Box | None = None,
    ) -> Box:
        """A new host.  ``options`` are lines for its part of the client configuration, which
        come before the lab's own, so that they win."""
        number = len(self.boxes)
        self._options = options
        box = Box(self, name, number, into=into, behind=behind)
        self.boxes.append(box)
        return box

    def host_key(self, name: str) -> Path:
        return self._key(f"host-{name}")

    def knows(self, box: Box) -> None:
        """Write what the client has to know of a box."""
        public = (self.folder / f"host-{box.name}.pub").read_text().split()[:2]
        with self.known.open("a", encoding="ascii") as known:
            known.write(f"{box.address} {' '.join(public)}\n")
        with self.config.open("a", encoding="ascii") as config:
            config.write(
                f"Host {box.name}\n{self._options}\nHostName {box.address}\nUser root\n"
                f"IdentityFile {self.folder}/client\nIdentitiesOnly yes\nIdentityAgent none\n"
                f"UserKnownHostsFile {self.known}\nGlobalKnownHostsFile none\n"
                "StrictHostKeyChecking yes\n\n"
            )

    def close(self) -> None:
        for box in reversed(self.boxes):
            box.close()
        self.boxes.clear()

    def _key(self, name: str) -> Path:
        path = self.folder / name
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path))
        return path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab for the tests of one file; it is empty: ask it for a box."""
    if missing := why_not():
        pytest.skip(missing)
    made = Lab(tmp_path_factory.mktemp("lab"))
    try:
        yield made
    finally:
        made.close()
