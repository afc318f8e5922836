"""What lint says of kernel parameters, beside the kernel that runs here.

It contradicts a rule when it has what the rule says is gone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial.hosts.local import LocalHost
from iotrial.tunables.sysctl import path
from iotrial_lint.known import GONE, INERT, version
from iotrial_lint.machine import host_scene

KERNEL = version(Path("/proc/sys/kernel/osrelease").read_text("utf-8"))


@pytest.mark.parametrize("name", GONE)
def test_what_is_said_to_be_gone_is_not_here(name: str) -> None:
    gone = GONE[name]
    if gone.since > KERNEL:
        pytest.skip(f"this kernel, {KERNEL}, is older than {gone.since}")
    assert not Path(path(name)).exists()


def test_no_parameter_is_both_gone_and_without_effect() -> None:
    assert not GONE.keys() & INERT.keys()


def test_this_machine_is_read_and_its_kernel_known() -> None:
    scene = host_scene(LocalHost())
    assert scene.kernel == KERNEL
    assert scene.memory > 2**20
    assert "/proc/cmdline" in [sheet.file for sheet in scene.sheets]
