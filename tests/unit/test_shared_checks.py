"""Suites for several hosts, played before pretended systems: honest ones, and such that lie."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from iotrial_suites.case import (
    Case,
    CaseContext,
    CaseFailed,
    CaseHost,
    CommandResult,
    MountDevice,
    RunCommand,
)
from iotrial_suites.suites import cluster_md, suite
from iotrial_suites.suites.arrays import section
from iotrial_suites.suites.clustered import joined, slots

Answer = Callable[[tuple[str, ...], int], str | int]
"""What a command prints, or the exit status it fails with."""

SCENE = CaseContext(
    (
        CaseHost("one", (6, 1), ("/dev/sda", "/dev/sdb")),
        CaseHost("two", (6, 1), ("/dev/sdx", "/dev/sdy")),
    ),
    "abc",
)


def play(case: Case, answer: Answer) -> None:
    """Play a case to its end; commands say what ``answer`` has for them."""
    script = case.steps(SCENE)
    reply: Any = None
    while True:
        try:
            step = script.send(reply)
        except StopIteration:
            return
        reply = None
        if isinstance(step, MountDevice):
            reply = "/mnt"
        if isinstance(step, RunCommand):
            said = answer(step.argv, step.on)
            reply = (
                CommandResult(step.argv, said)
                if isinstance(said, int)
                else CommandResult(step.argv, 0, said)
            )
            if step.exits is not None and reply.exit not in step.exits:
                raise CaseFailed(f"{step.argv}: {reply.exit}")


MDSTAT = """\
Personalities : [raid1]
md7 : active raid1 sdd[1] sdc[0]
      9 blocks super 1.2 [2/1] [U_]
md100 : active raid1 sdb[1] sda[0]
      64512 blocks super 1.2 [2/2] [UU]
      bitmap: 0/1 pages [0KB], 65536KB chunk

unused devices: <none>
"""
DETAIL = """\
     Intent Bitmap : Internal(Clustered)
      Cluster Name : lab
"""
BITMAP = """\
         Version : 5
   Cluster nodes : 4
    Cluster name : lab
"""


def cluster(argv: tuple[str, ...], _on: int) -> str | int:
    """A host of a cluster, where an array is made as it should be."""
    words = " ".join(argv)
    answers = {
        "dlm_tool status": "cluster nodeid 1 quorate 1 ring seq 9 9\nnode 1 M a\nnode 2 M a\n",
        "corosync-cmapctl": "totem.cluster_name (str) = lab\n",
        "/proc/mdstat": MDSTAT,
        "array_state": "clean\n",
        "/degraded": "0\n",
        "--detail": DETAIL,
        "--examine-bitmap": BITMAP,
        "iotrial-sum": "beef -\n",
    }
    return next((said for part, said in answers.items() if part in words), "")


def lying(part: str, said: str | int) -> Answer:
    """The same host, but for what it says to commands with this word."""
    return lambda argv, on: said if part in " ".join(argv) else cluster(argv, on)


def test_an_honest_cluster_passes() -> None:
    play(cluster_md.create_case, cluster)


@pytest.mark.parametrize(
    ("part", "said", "reason"),
    [
        ("--detail", DETAIL.replace("lab", "other"), "its cluster is 'other'"),
        ("--detail", DETAIL.replace("(Clustered)", ""), "its bitmap: Internal"),
        ("--examine-bitmap", BITMAP.replace("4", "2"), "bitmaps of 2 hosts"),
        ("/degraded", "1\n", "lacks 1 members"),
        ("--create", 1, "--create"),
    ],
)
def test_an_mdadm_or_a_kernel_that_lies_is_found_out(
    part: str, said: str | int, reason: str
) -> None:
    with pytest.raises(CaseFailed, match=reason):
        play(cluster_md.create_case, lying(part, said))


def test_a_bitmap_that_only_claims_to_be_gone_is_found_out() -> None:
    with pytest.raises(CaseFailed, match="a cluster with bitmap none"):
        play(cluster_md.bitmap_case, cluster)


def test_of_mdstat_only_the_lines_of_the_array_count() -> None:
    assert section(MDSTAT, "/dev/md7").endswith("[U_]")
    assert "bitmap: 0/1" in section(MDSTAT, "/dev/md100")
    assert section(MDSTAT, "/dev/md10") == ""
    assert slots("Bitmap : 4 bits") == 0
    assert joined("node 1 M a\nnode 22 M a\nnode 3 X a") == 2


def test_a_suite_of_several_hosts_says_what_it_needs() -> None:
    of = suite("cluster-md")
    assert len({case.name for case in of.cases}) == len(of.cases)
    for case in of.cases:
        assert case.needs.commands
        assert case.needs.hosts > 1 or case.needs.devices
        assert case.title[0].isupper()


def test_the_study_has_a_case_for_each_of_its_ten() -> None:
    said = " ".join(f"{case.source} " for case in suite("cluster-md").cases)
    numbers = {int(number) for number in re.findall(r"\b2\.(\d+)", said)}
    assert numbers == set(range(1, 11))
