"""One of two hosts is held back for real: the report names it where the scaling bends.

The hosts are network namespaces with a real sshd; one's sshd, and so its load, is in a control
group that may read 60 times a second from each loop device of this test (blkio of cgroup v1, as
in ``throttled``).  Both loads are slow on purpose (``rate_iops``), so that nothing depends on how
fast anything is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from iotrial.store import open_results
from lab import Box, Lab, lab, why_not
from throttled import GROUP, LIMIT
from throttled import why_not as why_no_throttle

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
    pytest.mark.skipif(bool(why_no_throttle()), reason=why_no_throttle() or "-"),
]

RATE, HELD = 300, 60
_STUDY = """
{hosts}
[targets.disk]
loop = {{ size = "8MiB", directory = "{folder}" }}
hosts = "box[1-2]"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", rate_iops = {rate}, runtime = "4s" }}
[factors.scale]
count = "hosts"
levels = [1, 2]
baseline = 1
[design]
blocks = 1
settle = "0s"
"""


@pytest.fixture
def held_back(lab: Lab) -> Iterator[tuple[Box, Box, Path]]:
    """Two hosts, the second in a control group."""
    first, second = lab.box("box1"), lab.box("box2")
    group = GROUP.parent / f"iotrial-test-{lab.mark}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(second.pid))
        yield first, second, group
    finally:
        lab.close()
        for _ in range(100):
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def throttle(group: Path, folder: Path, run: subprocess.Popen[str]) -> None:
    """Let the group read little from every loop device over a file in ``folder``, until the run
    is over."""
    limited = set()
    while run.poll() is None:
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            with suppress(OSError):
                number = (backing.parent.parent / "dev").read_text().strip()
                if number not in limited and backing.read_text().startswith(str(folder)):
                    (group / LIMIT).write_text(f"{number} {HELD}")
                    limited.add(number)
        time.sleep(0.05)


def iotrial(*words: str) -> list[str]:
    return [sys.executable, "-m", "iotrial.cli.main", *words]


def compared(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        iotrial("compare", str(folder), "--json"), capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.timeout(900)
def test_the_host_that_is_held_back_is_named_where_the_scaling_bends(
    held_back: tuple[Box, Box, Path], tmp_path: Path
) -> None:
    first, second, group = held_back
    hosts = "".join(f'[hosts.{box.name}]\nssh = "{box.where}"\n' for box in (first, second))
    study, out = tmp_path / "study.toml", tmp_path / "results"
    study.write_text(_STUDY.format(hosts=hosts, folder=tmp_path, rate=RATE))
    run = subprocess.Popen(
        iotrial("run", str(study), "--out", str(out)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    throttle(group, tmp_path, run)
    said, complaint = run.communicate(timeout=200)
    assert run.returncode == 0, f"{said}\n{complaint}"
    # The report: at the step from one host to two, the second is named with what it did.
    found = compared(out)
    baseline, step = found["scaling"]
    assert (baseline["level"], baseline["efficiency"], step["level"]) == ("1", None, "2")
    assert step["bends"]
    assert step["efficiency"] == pytest.approx((RATE + HELD) / 2 / RATE, rel=0.2)
    (uneven,) = [each for each in step["seen"] if each["what"] == "uneven"]
    assert uneven["host"] == "box2"
    assert uneven["value"] == pytest.approx(2 * HELD / (RATE + HELD), rel=0.3)
    assert not [each for each in baseline["seen"] if each["what"] == "uneven"]
    (doubt,) = [each for each in found["doubts"] if each["check"] == "uneven-hosts"]
    assert "box2 reached" in doubt["what"]
    assert not doubt["invalid"]
    # What it says is what the kernel counted.
    results = open_results(out)
    wide = next(r for r in results.records if dict(r.trial.treatment)["scale"] == "2")
    strains = results.traces.strains(wide)
    ios = {each.host: each.ios for each in strains if each.kind == "device"}
    for host, did in ios.items():
        own = wide.of_part(f"{host}/disk", "read.iops")
        assert did == pytest.approx(own, rel=0.1), host
    assert {each.kind for each in strains} >= {"cpu", "device"}
    assert all(each.limit for each in strains if each.kind == "device")
    # For people too.
    words = " ".join(f"{said}".split())
    assert "Load distribution" in words
    assert ": knee" in words
    assert "box2 reached" in words
