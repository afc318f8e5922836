"""Cases in which a host of a cluster dies, before a pretended cluster: a sound one passes, and what
goes wrong after such a death is found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from iotrial_suites.case import Case, CaseFailed
from iotrial_suites.suites import chosen
from iotrial_suites.suites.clustered import CRASH
from scripted import FIO, RETURNS, Answer, Says, rehearse

CASES = (
    "cluster-md/lost-in-resync",
    "cluster-md/lost-in-writes",
    "cluster-md/lost-in-repair",
    "stress/host-loss",
)
WHOLE = "md100 : active raid1 b a\n      9 blocks super 1.2 [2/2] [UU]\n"


def one(name: str) -> Case:
    ((_, case),) = chosen((name,))
    return case


@dataclass
class Cluster:
    """Two hosts with an array.  ``remembers``: dlm never gives up who died; ``waits``: the
    survivor leaves the resync to the dead one; ``left``: where that came to; ``differ``: sectors
    in which members differ; ``rots``: a device, on a host, that holds other bytes; ``blocked``: a
    write that nobody woke; ``load``: what fio says."""

    resyncing: bool = False
    remembers: bool = False
    waits: bool = False
    left: str = "none"
    differ: int = 0
    rots: tuple[int, str] = (0, "")
    blocked: bool = False
    load: str = FIO
    died: bool = field(default=False, init=False)
    lost: bool = field(default=False, init=False)

    def host(self, on: int) -> Answer:
        return lambda argv, stdin: self._answer(on, argv, f"{' '.join(argv)} {stdin}")

    def _answer(self, on: int, argv: tuple[str, ...], words: str) -> Says | None:
        if argv == CRASH:
            self.died = self.lost = True
            self.resyncing = self.resyncing and self.waits
        if argv == (RETURNS,):
            self.lost = False
        assert on == 0 or not self.lost or argv == CRASH, f"the dead host is asked: {words}"
        if "sync_action" in words and "repair" in words:
            self.resyncing = True
        if "pgrep" in words and "iotrial-stack" not in words:
            return Says(exit=0 if self.blocked else 1)
        there = 1 if self.lost and not self.remembers else 2
        of = " (resync=REMOTE)" if on == 0 else " resync = 9.1%"
        rotten = on == self.rots[0] and self.rots[1] and f" {self.rots[1]} " in words and self.died
        answers = {
            "dlm_tool status": "quorate 1\n" + "node 1 M a\n" * there,
            "/proc/mdstat": WHOLE + (of if self.resyncing else ""),
            "resync_start": self.left,
            "array_state": "clean",
            "/degraded": "0",
            "mismatch_cnt": str(self.differ),
            "sync_action": "idle",
            "--examine": "     Array UUID : 1:2:3:4\n    Data Offset : 2048 sectors\n",
            "iotrial-sum": "dead -" if rotten else "beef -",
            "iotrial-load": self.load,
        }
        return Says(next((said for part, said in answers.items() if part in words), ""))


def play(name: str, cluster: Cluster) -> Cluster:
    """A case before a cluster, whose array is in sync unless the case begins with a new one."""
    mine = replace(cluster, resyncing=name.endswith("lost-in-resync"))
    rehearse(one(name), [mine.host(0), mine.host(1)])
    return mine


@pytest.mark.parametrize("name", CASES)
def test_a_cluster_that_takes_the_death_of_a_host_passes(name: str) -> None:
    after = play(name, Cluster())
    assert after.died
    assert not after.lost


@pytest.mark.parametrize(
    ("name", "cluster", "told"),
    [
        *((name, Cluster(remembers=True), "does not give up the host") for name in CASES),
        (CASES[0], Cluster(waits=True), "it still waits for the host that died"),
        (CASES[0], Cluster(left="2048"), "stopped at 2048; no host resumed it"),
        (CASES[0], Cluster(rots=(1, "/dev/md100")), "n1 reads other bytes of /dev/md100 after"),
        (CASES[1], Cluster(differ=128), "members differ in 128 sectors"),
        (CASES[1], Cluster(rots=(0, "/dev/loop01")), "/dev/loop01 does not hold what"),
        (CASES[1], Cluster(rots=(1, "/dev/md100")), "n1 reads other bytes of /dev/md100 after"),
        (CASES[2], Cluster(blocked=True), "a write waited for a host that had been given up"),
        (CASES[3], Cluster(differ=8), "members differ in 8 sectors"),
        (CASES[3], Cluster(load=FIO.replace('"error": 0', '"error": 84')), "errno 84"),
        (CASES[3], Cluster(rots=(0, "/dev/loop00")), "/dev/loop00 does not hold what"),
    ],
)
def test_what_the_death_of_a_host_breaks_is_found(name: str, cluster: Cluster, told: str) -> None:
    with pytest.raises(CaseFailed, match=told):
        play(name, cluster)
