"""A cluster of Slurm's whose nodes are those of a virtual lab: whole machines, with kernels,
control groups (version 2, by systemd) and storage of their own.  Debian's units start munged and
slurmd there; the controller and the programs that ask it are here, as a neighbour of the nodes.
"""

from __future__ import annotations

import time
from pathlib import Path

from cluster import Controller
from neighbour import Neighbour
from nodes import Several

_NODE = """
date --set=@{now}
printf %s {key} >/etc/munge/munge.key
chown munge: /etc/munge/munge.key
chmod 400 /etc/munge/munge.key
mkdir -p /run/slurm
printf '#!/bin/sh\\n' >/run/slurm/epilog
chmod 755 /run/slurm/epilog
cat >/etc/slurm/slurm.conf <<'END'
{conf}
END
cat >/etc/slurm/cgroup.conf <<'END'
CgroupPlugin=cgroup/v2
CgroupMountpoint=/sys/fs/cgroup
END
systemctl restart munge.service
systemctl restart slurmd.service
"""
"""munged believes nobody whose clock is minutes off, and an emulated one may be."""
_READY_WITHIN = 300.0


class LabCluster(Controller):
    """``numbers`` are those of its nodes.  What iotrial or Slurm is asked is to be asked there:
    ``inside``."""

    cpus, kill_wait, patience = 1, 30, 300  # emulated, and on a busy machine they stand still
    more = "DebugFlags=NO_CONF_HASH"  # nodes have other places than the controller

    def __init__(self, folder: Path, lab: Several, *numbers: int) -> None:
        self._lab = lab
        self.numbers = {f"{lab.name}-{number}": number for number in numbers}
        addresses = {name: f"10.77.0.{number}" for name, number in self.numbers.items()}
        self._neighbour = Neighbour(lab.network)
        here, inside = self._neighbour.address, self._neighbour.inside
        try:
            super().__init__(folder, addresses, here, tracking="cgroup", inside=inside)
        except BaseException:
            self._neighbour.close()
            raise
        try:
            self.start()
            for name in self.numbers:
                self._begin(name)
            self.free(_READY_WITHIN)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Its nodes keep their slurmd."""
        try:
            super().close()
        finally:
            self._neighbour.close()

    def _begin(self, name: str) -> None:
        own = {"plugins": "/usr/lib/x86_64-linux-gnu/slurm-wlm"}
        text = self.conf(folder="/run/slurm", socket="/run/munge/munge.socket.2", **own)
        self._lab.do(self.numbers[name], _NODE.format(now=time.time(), key=self.key, conf=text))
