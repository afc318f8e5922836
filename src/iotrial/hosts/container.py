"""A shell in a container, and what of it outlives the container.

The kernel kills every process of a PID namespace together with the first one (pid_namespaces(7)):
when a container is killed, the guard in it is killed too, and a setting of the kernel that it would
have restored stays changed.  Where the container is on this machine and we are root, its guard is
therefore started from outside: in the container's mount, network, IPC and UTS namespaces, with a
copy of its mounts that lives as long as the guard, but as a process of this machine's.  Its
``/proc`` is one of ours, so that it sees, and can end, the processes in the container.

Any program that executes a command in a container is known so, whichever it is: the shell says its
namespaces, and a process of this machine that is in them is the way in.

What iotrial records there must outlive the container as well: it lies in memory, on a tmpfs that
the guard's copy keeps, and not in the container's files, which a runtime removes.

Sources: namespaces(7), mount_namespaces(7), pid_namespaces(7), nsenter(1), unshare(1).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

INITIAL = "pid:[4026531836]"
"""The PID namespace that a machine boots with (PROC_PID_INIT_INO of include/linux/proc_ns.h)."""
STATE_FOLDER = "/run/iotrial"
ENTERED = ("mnt", "net", "ipc", "uts")
WITHIN = 20.0
_LEAVE = """
for each in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
    [ ! -w "$each" ] || echo $$ >"$each"
    [ "$each" = /sys/fs/cgroup/cgroup.procs ] && [ -e "$each" ] && break # all of version 2
done 2>/dev/null
exec "$@"
"""
"""As the guard itself does elsewhere (leave in execute/settings/guard.sh): from inside, a container
shows its own control group as the root's."""
_PROC = 'mount -t proc proc /proc && exec "$@"'
_IN_MEMORY = (
    'mkdir -p -m 700 {0} && { test "$(stat -f -c %T {0})" = tmpfs ||'
    " mount -n -t tmpfs -o mode=700,nosuid,nodev iotrial {0}; }"
).replace("{0}", STATE_FOLDER)
_ENDS = "it runs in a container (a PID namespace), and a container that is killed ends its guard"


@dataclass(frozen=True, slots=True)
class ShellNamespaces:
    """Those of a shell, as the links in ``/proc/self/ns`` read, and which kernel's they are: other
    kernels give the same numbers to others.  '' where it could not say."""

    pid: str = ""
    mnt: str = ""
    boot: str = ""

    @property
    def apart(self) -> bool:
        """Whether it would end with something else than its machine, or this process."""
        own = _link(Path("/proc/self"), "pid") if self.boot == _boot() else ""
        return self.pid not in ("", INITIAL, own)


@dataclass
class ContainerAccess:
    """The way into a container for what is to outlive it.  ``why``: there is none, and why not.
    Its namespaces are held open, by descriptor, until :meth:`close`."""

    why: str = ""
    descriptors: dict[str, int] = field(default_factory=dict)

    def argv(self, command: Sequence[str]) -> list[str]:
        """``command``, in there, with mounts of its own and this machine's processes."""
        apart = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _PROC, "sh"]
        leaving = ["sh", "-c", _LEAVE, "sh"]
        return [*leaving, *self._entering(ENTERED), *apart, *command]

    def have_state_in_memory(self) -> None:
        """The folder of the state there lies in memory from now on; else ``why`` says why not."""
        self._try([*self._entering(["mnt"]), "sh", "-c", _IN_MEMORY])

    def try_out(self) -> None:
        """``why`` says what keeps a guard from being started there."""
        self._try(self.argv(["test", "-r", "/proc/self/ns/pid"]))

    def close(self) -> None:
        for descriptor in self.descriptors.values():
            with suppress(OSError):
                os.close(descriptor)
        self.descriptors.clear()

    def _entering(self, kinds: Sequence[str]) -> list[str]:
        long = {"mnt": "mount", "net": "net", "ipc": "ipc", "uts": "uts"}
        own = f"/proc/{os.getpid()}/fd"
        return ["nsenter", *(f"--{long[k]}={own}/{self.descriptors[k]}" for k in kinds), "--"]

    def _try(self, argv: Sequence[str]) -> None:
        if self.why:
            return
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.why = f"{_ENDS}; from outside it cannot be started: {error}"
            return
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            words = said[-1] if said else f"exit status {done.returncode}"
            self.why = f"{_ENDS}; from outside it cannot be started: {words}"


def outside(inner: ShellNamespaces) -> ContainerAccess:
    """The way into the container in which a shell has said that these are its namespaces."""
    if not inner.apart:
        return ContainerAccess()
    process = _process_in(inner)
    if process is None:
        where = "as root on the machine of the container" if os.geteuid() else "on that machine"
        return ContainerAccess(
            f"{_ENDS}; run iotrial {where}, so that the guard is started outside it"
        )
    if _link(process, "user") != _link(Path("/proc/self"), "user"):
        return ContainerAccess(f"{_ENDS}; it has a user namespace, in which root is another user")
    found = ContainerAccess()
    try:
        for kind in ENTERED:
            path = process / "ns" / kind
            found.descriptors[kind] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        found.close()
        return ContainerAccess(f"{_ENDS}; its namespaces cannot be entered: {error.strerror}")
    found.have_state_in_memory()
    found.try_out()
    return found


def _process_in(inner: ShellNamespaces) -> Path | None:
    """The oldest process of this machine that is in them; None: they are no kernel's here."""
    if not inner.boot or inner.boot != _boot():
        return None
    numbers = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    for number in numbers:
        process = Path("/proc", str(number))
        if _link(process, "mnt") == inner.mnt and _link(process, "pid") == inner.pid:
            return process
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _link(process: Path, kind: str) -> str:
    """'' where it is gone, or not for us to look at."""
    try:
        return str((process / "ns" / kind).readlink())
    except OSError:
        return ""
