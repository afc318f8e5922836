"""A cluster of Slurm's: a controller on this machine, and a slurmd in each of several boxes
(tests/lab.py), so that nodes have locks, journals and networks of their own.  Unpacked, and not
installed; everything is in a folder of the test, and each daemon is ended by its number.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lab import Lab
from packages import with_all_they_need

_CONF = """
ClusterName=iotrial
SlurmctldHost={host}({address})
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={socket},cred_expire=15
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
ReturnToService=2
PluginDir={plugins}
SlurmctldPidFile={folder}/ctl.pid
SlurmdPidFile={folder}/d-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/ctl.log
SlurmdLogFile={folder}/d-%n.log
SwitchType=switch/none
SelectType=select/cons_tres
MpiDefault=none
TreeWidth=65533
KillWait={kill_wait}
SlurmdTimeout={patience}
MessageTimeout={patience}
InactiveLimit=0
SchedulerParameters=bf_interval=3,sched_interval=3
MailProg=/bin/true
{more}
Epilog={folder}/epilog
EpilogSlurmctld={folder}/epilog-slurmctld
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=p Nodes=ALL Default=YES State=UP OverSubscribe=NO
PartitionName=spare Nodes=ALL PreemptMode=CANCEL State=UP OverSubscribe=NO
PartitionName=urgent Nodes=ALL PriorityTier=9 PreemptMode=OFF State=UP OverSubscribe=NO
"""
"""A job of `urgent` has those of other partitions on its nodes requeued, or cancelled where that is
`spare`; a job that was requeued waits for `cred_expire` seconds."""
_WRAPPER = """#!/bin/sh
LD_LIBRARY_PATH={libraries} SLURM_CONF={folder}/slurm.conf exec {program} "$@"
"""
_CGROUP_CONF = """
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
"""
_FREEZER = """
mkdir -p /sys/fs/cgroup/freezer
mount -t cgroup -o freezer none /sys/fs/cgroup/freezer
"""
_GROUPS = """
cd /sys/fs/cgroup
if grep -q ' /sys/fs/cgroup cgroup2 ' "/proc/1/mounts"; then
    mount -t cgroup2 none /sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 none /sys/fs/cgroup
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd none /sys/fs/cgroup/systemd
fi
"""
_SCRATCH = "mount -t tmpfs -o mode=1777 scratch /var/tmp"
_PROGRAMS = ("salloc", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")


class Controller:
    """slurmctld here, and Slurm's programs: ``bin`` is the folder to have first on PATH.  ``nodes``
    is address by name, ``address`` the controller's own, on a network that programs are on which
    are executed by ``inside``.  ``tracking`` is how Slurm knows the processes of a step.  Skips the
    test where there is no Slurm."""

    cpus, kill_wait, patience, more = 2, 20, 30, ""

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, str],
        address: str,
        *,
        tracking: str,
        inside: Sequence[str] = (),
    ) -> None:
        self.folder, self.bin, self.inside = folder, folder / "bin", tuple(inside)
        self.nodes, self._address, self._tracking = nodes, address, tracking
        self._root = with_all_they_need("slurmctld", "slurmd", "slurm-client", "munge")
        libraries = self._root / "usr/lib/x86_64-linux-gnu"
        self._plugins = libraries / "slurm-wlm"
        if not self._plugins.is_dir():
            pytest.skip("Debian's Slurm for x86-64 only")
        self._libraries = f"{libraries}:{self._plugins}"
        self._base = 20000 + secrets.randbelow(20000)
        self.bin.mkdir(parents=True)
        (folder / "state").mkdir()
        for program in _PROGRAMS:
            path = f"{self._root}/usr/bin/{program}"
            text = _WRAPPER.format(libraries=self._libraries, folder=folder, program=path)
            (self.bin / program).write_text(text)
            (self.bin / program).chmod(0o755)
        own = {"plugins": self._plugins, "socket": f"{folder}/munge.sock"}
        (folder / "slurm.conf").write_text(self.conf(folder=folder, **own))
        self.key = secrets.token_hex(512)

    @property
    def environment(self) -> dict[str, str]:
        """In which programs find it; a test may itself be run in a job."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return {**own, "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def do(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self.inside, *argv], env=self.environment, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"{argv}: {done.stderr}\n{self.logs}"
        return done.stdout

    @property
    def jobs(self) -> list[str]:
        """Jobs that wait, run or end."""
        return self.do("squeue", "--noheader", "--format=%i %T").splitlines()

    @property
    def logs(self) -> str:
        return "\n".join(p.read_text("utf-8", "replace")[-2000:] for p in self.folder.glob("*.log"))

    def free(self, within: float = 60.0) -> None:
        """Wait until all nodes are idle again."""
        deadline = time.monotonic() + within
        while True:
            listed = ("sinfo", "--noheader", "--Node", "--partition=p", "--format=%T")
            found = self.do(*listed, check=False).split()
            if found.count("idle") == len(self.nodes):
                return
            assert time.monotonic() < deadline, f"{found}\n{self.logs}"
            time.sleep(0.2)

    def close(self) -> None:
        try:
            self.do("scancel", "--user=root", check=False)
        finally:
            self.end("ctl", "munge")

    def end(self, *daemons: str) -> None:
        """Kill those whose numbers are in these files."""
        for name in daemons:
            with suppress(OSError, ValueError):
                os.kill(int((self.folder / f"{name}.pid").read_text()), signal.SIGKILL)

    def conf(self, **places: object) -> str:
        """``slurm.conf``, with the places of the machine that it is for, and what else is said."""
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={name} NodeAddr={address}"
            f" Port={self._base + number} CPUs={self.cpus} State=UNKNOWN"
            for number, (name, address) in enumerate(self.nodes.items(), start=1)
        )
        return _CONF.format(
            host=socket.gethostname().partition(".")[0], address=self._address, port=self._base,
            nodes=nodes, tracking=self._tracking, kill_wait=self.kill_wait, patience=self.patience,
            more=self.more, **places,
        )  # fmt: skip

    @property
    def epilog(self) -> Path:
        """A program that is executed on each node behind each job, where it is there."""
        return self.folder / "epilog.own"

    @property
    def epilog_slurmctld(self) -> Path:
        """The same on this machine, where the controller is."""
        return self.folder / "epilog-slurmctld.own"

    def start(self) -> None:
        for own in (self.epilog, self.epilog_slurmctld):
            program = own.with_suffix("")
            program.write_text(f"#!/bin/sh\n[ ! -e {own} ] || exec sh {own}\n")
            program.chmod(0o755)
        key = self.folder / "key"
        key.write_text(self.key)
        key.chmod(0o400)
        self.folder.chmod(0o755)
        self._daemon(
            f"{self._root}/usr/sbin/munged", f"--key-file={key}", "--force",
            f"--socket={self.folder}/munge.sock", f"--pid-file={self.folder}/munge.pid",
            f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/seed",
        )  # fmt: skip
        for daemon in ("slurmctld", "slurmd", "slurmstepd"):
            # They know by what they are called what they are; Debian has links of these names.
            (self.folder / daemon).symlink_to(f"{self._root}/usr/sbin/{daemon}-wlm")
        conf = f"{self.folder}/slurm.conf"
        self._daemon(*self.inside, f"{self.folder}/slurmctld", "-f", conf)

    def _daemon(self, *argv: str) -> None:
        environment = {**self.environment, "LD_LIBRARY_PATH": self._libraries}
        environment["SLURM_CONF"] = f"{self.folder}/slurm.conf"
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{argv}: {done.stderr}\n{self.logs}"


class Cluster(Controller):
    """Its nodes are boxes."""

    def __init__(self, folder: Path, lab: Lab, count: int = 4, *, tracking: str = "pgid") -> None:
        self.boxes = {f"n{number}": lab.box(f"n{number}") for number in range(1, count + 1)}
        addresses = {name: box.address for name, box in self.boxes.items()}
        here = next(iter(self.boxes.values())).here
        super().__init__(folder, addresses, here, tracking=tracking)
        (folder / "cgroup.conf").write_text(_CGROUP_CONF)
        try:
            self.start()
            for name in self.boxes:
                self._begin(name)
            self.free()
        except BaseException:
            self.close()
            raise

    def daemon(self, name: str) -> int:
        """The number of a node's slurmd."""
        return int((self.folder / f"d-{name}.pid").read_text())

    def serve(self, name: str) -> None:
        """Start the slurmd of a node."""
        box = self.boxes[name]
        self._daemon(
            "nsenter", "-t", str(box.pid), "-m", "-n", "--",
            f"{self.folder}/slurmd", "-f", f"{self.folder}/slurm.conf", "-N", name,
            "-d", f"{self.folder}/slurmstepd",
        )  # fmt: skip

    def close(self) -> None:
        super().close()
        self.end(*(f"d-{name}" for name in self.boxes))
        for box in self.boxes.values():
            for pid in box.processes():
                if pid != box.pid:
                    with suppress(OSError):
                        os.kill(pid, signal.SIGKILL)

    def _begin(self, name: str) -> None:
        (self.folder / f"spool-{name}").mkdir()
        # A box has a /sys of its own, without the control groups that slurmd looks for.
        freezer = _FREEZER if self._tracking == "cgroup" else ""
        self.boxes[name].run("sh", "-ec", f"{_GROUPS}{freezer}{_SCRATCH}")
        self.serve(name)
