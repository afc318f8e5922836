"""The fake host's queues answer as those of other kernels did, write by write.

The recordings are what ``tests/answers.py`` printed on nodes of virtual labs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from imitation import KERNELS, differences
from iotrial.errors import FileRefused
from iotrial.hosts.fake import FakeHost

RECORDED = Path(__file__).parents[1] / "data" / "kernels"


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - {"6.18"}))
def test_every_answer_of_a_kernel_is_the_fakes(kernel: str) -> None:
    recorded = json.loads((RECORDED / f"{kernel}.json").read_text())
    assert recorded["release"].startswith(f"{kernel}.")
    assert len(recorded["runs"]) == 3
    for run in recorded["runs"]:
        assert len(run["steps"]) == 400
        assert differences(run, kernel) == []


@pytest.mark.parametrize(
    ("kernel", "other"),
    [(kernel, other) for kernel in ("6.1", "6.12") for other in KERNELS if other != kernel],
)
def test_one_kernel_is_not_another(kernel: str, other: str) -> None:
    """Else the recordings would show nothing."""
    recorded = json.loads((RECORDED / f"{kernel}.json").read_text())
    assert differences(recorded["runs"][0], other)


def test_a_file_that_the_kernel_does_not_have_is_a_difference() -> None:
    recorded = json.loads((RECORDED / "6.12.json").read_text())["runs"][0]
    there = [name for name in recorded["files"] if name != "nomerges"]
    assert differences(recorded | {"files": there}, "6.12") == ["the kernel has no nomerges"]


def test_a_fake_says_which_kernel_it_is() -> None:
    host = FakeHost(kernel=KERNELS["6.1"])
    assert host.run(["uname", "-r"]).text == "6.1.0-fake\n"
    assert host.read("/proc/sys/kernel/osrelease") == b"6.1.0-fake\n"
    assert host.read("/proc/version").startswith(b"Linux version 6.1.0-fake ")
    with pytest.raises(FileRefused, match="Invalid argument"):
        host.write("/sys/block/fake0/queue/max_sectors_kb", b"0")
    FakeHost().write("/sys/block/fake0/queue/max_sectors_kb", b"0")
