"""Every suite of checks on real kernels, in the labs that have what it needs.

A case is a test, so that the time of each is told.  With IOTRIAL_LAB_KERNEL=backports all of it is
done on the newer kernel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from iotrial_suites.suites import suites
from nodes import VirtualLab, why_not

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]

KERNEL = os.environ.get("IOTRIAL_LAB_KERNEL", "stable")


@dataclass(frozen=True)
class Up:
    """A lab that is up: its nodes, and how ``iotrial check`` is told of it."""

    lab: VirtualLab
    nodes: tuple[str, ...]
    words: tuple[str, ...]

    def do(self, node: str, *words: str) -> str:
        done = self.lab.said("vmlab", "exec", node, *words)
        assert done.returncode == 0, f"{node}: {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def left(self) -> dict[str, list[str]]:
        """The block devices of each node."""
        return {node: sorted(self.do(node, "lsblk", "-dno", "NAME").split()) for node in self.nodes}


def armed(*names: str) -> tuple[str, ...]:
    """Of disks: they may be written to; ``HOST:ID`` is armed by its ID."""
    return tuple(
        word for name in names for word in ("--devices", name, "--destroy", name.rpartition(":")[2])
    )


def alone(up: Up) -> tuple[str, ...]:
    del up
    return ()


def shared(up: Up) -> tuple[str, ...]:
    """The disks that nodes share, and leave to crash the second."""
    rows = (row.split() for row in up.do(up.nodes[0], "lsblk", "-dno", "SERIAL").splitlines())
    serials = sorted(row[0] for row in rows if row and row[0][:2] in ("A-", "B-", "C-"))
    assert len(serials) == 3
    return (*armed(*serials), "--lose", up.nodes[1])


def mapped(up: Up) -> tuple[str, ...]:
    """The initiator's map, and leave to take a link of the target's down."""
    initiator, target = up.nodes
    uuid = up.do(initiator, "dmsetup", "info", "-c", "--noheadings", "-o", "uuid", "mpatha").strip()
    return (*armed(f"{initiator}:{uuid}"), "--lose", target)


LABS: dict[str, tuple[int, Callable[[Up], tuple[str, ...]]]] = {
    "disks": (1, alone),
    "san": (2, mapped),
    "nas": (2, alone),
    "cluster": (3, shared),
}
"""Lab → how many nodes, and what the check is told of them.  In the lab ``san`` the target is the
first node; who has the map comes first for a check."""
OF_SUITES = {"cluster-md": "cluster", "multipath": "san", "nfs": "nas", "stress": "disks"}
"""Suite → the lab that has what it needs (``disks`` where none is named)."""
OF_CASES = {
    "stress/host-loss": "cluster",
    "stress/together-on-gfs2": "cluster",
    "stress/together-on-ocfs2": "cluster",
    "stress/append-in-turn": "cluster",
    "stress/path-loss": "san",
}
"""The same, of single cases."""
LACKING = {"stress/ocfs2-test": "ocfs2"}
"""Cases that no lab has all for, and what they say then."""


def lab_of(case: str) -> str:
    return OF_CASES.get(case) or OF_SUITES.get(case.partition("/")[0], "disks")


CASES = sorted(
    (f"{name}/{case.name}" for name, suite in suites().items() for case in suite.cases),
    key=lambda case: list(LABS).index(lab_of(case)),
)


class Labs:
    """One lab at a time."""

    def __init__(self, lab: VirtualLab) -> None:
        self._lab = lab
        self._kind = ""
        self._up: Up | None = None

    def at(self, kind: str) -> Up:
        """The lab of this kind; what was up before is taken down."""
        if self._kind != kind:
            self.down()
            self._kind = kind
            self._up = self._begun(kind)
        assert self._up is not None, f"the lab {kind} did not come up"
        return self._up

    def _begun(self, kind: str) -> Up:
        count, told = LABS[kind]
        name = f"suites-{kind}"
        words = ("--name", name, "--nodes", str(count), "--kernel", KERNEL)
        document = self._lab.vmlab("up", kind, *words)
        nodes = tuple(f"{name}-{number}" for number in range(1, count + 1))
        ways = [each["ssh"] for each in document["nodes"]]
        if kind == "san":
            nodes, ways = nodes[::-1], ways[::-1]
        made = Up(self._lab, nodes, tuple(word for way in ways for word in ("--on", way)))
        return replace(made, words=(*made.words, *told(made)))

    def down(self) -> None:
        """Nothing of it is left."""
        if self._kind:
            name, self._kind, self._up = f"suites-{self._kind}", "", None
            done = self._lab.said("vmlab", "down", name)
            assert done.returncode == 0, done.stdout + done.stderr
            assert name not in self._lab.said("vmlab", "list").stdout


@pytest.fixture(scope="module")
def labs(virtual_lab: VirtualLab) -> Iterator[Labs]:
    if lacking := why_not(KERNEL):
        pytest.skip(lacking)
    made = Labs(virtual_lab)
    try:
        yield made
    finally:
        made.down()


@pytest.mark.parametrize("case", CASES)
def test_a_case_passes_or_fails_as_it_is_known_to(labs: Labs, case: str, tmp_path: Path) -> None:
    up = labs.at(lab_of(case))
    before = up.left()
    out = str(tmp_path / "out")
    done = up.lab.said("check", case, *up.words, "--out", out, "--json", within=3000.0)
    (row,) = json.loads(done.stdout)["results"]
    assert done.returncode == (5 if case in LACKING else 0), row
    if case in LACKING:
        assert row["state"] == "not run"
        assert LACKING[case] in "; ".join(row["reasons"])
    else:
        assert row["state"] in {"pass", "known failure"}, row
        assert not row["mended"], "its known failure is no longer one"
    assert up.left() == before
