"""The fake host's queues answer as those of other kernels did, write by write.

The recordings are what ``tests/answers.py`` printed on nodes of virtual labs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from imitation import differences
from iotrial.errors import FileRefused
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.queues import NEWEST, QUEUES

RECORDED = Path(__file__).parents[1] / "data" / "kernels"


@pytest.mark.parametrize("kernel", sorted(set(QUEUES) - {NEWEST}))
def test_every_answer_of_a_kernel_is_the_fakes(kernel: str) -> None:
    recorded = json.loads((RECORDED / f"{kernel}.json").read_text())
    assert recorded["release"].startswith(f"{kernel}.")
    assert len(recorded["runs"]) == 3
    for run in recorded["runs"]:
        assert len(run["steps"]) == 400
        assert differences(run, kernel) == []


def test_one_kernel_is_not_another() -> None:
    """Else the recordings would show nothing."""
    recorded = json.loads((RECORDED / "6.1.json").read_text())
    assert differences(recorded["runs"][0], NEWEST)


def test_a_fake_says_which_kernel_it_is() -> None:
    host = FakeHost(kernel="6.1")
    assert host.run(["uname", "-r"]).text == "6.1.0-fake\n"
    assert host.read("/proc/sys/kernel/osrelease") == b"6.1.0-fake\n"
    assert host.read("/proc/version").startswith(b"Linux version 6.1.0-fake ")
    with pytest.raises(FileRefused, match="Invalid argument"):
        host.write("/sys/block/fake0/queue/max_sectors_kb", b"0")
    FakeHost().write("/sys/block/fake0/queue/max_sectors_kb", b"0")
