"""Blocks spread over real hosts: namespaces with an sshd each, and loop devices of their own.

What is varied is each device's own, for the hosts share a kernel.  Loads are slow on purpose, and
nothing here depends on how fast anything is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.store import is_finished, open_results
from lab import Box, Lab, lab, why_not
from racks import Rack, until

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

NAMES = ("rack1", "rack2", "rack3")


@pytest.fixture(scope="module")
def boxes(lab: Lab) -> tuple[Box, ...]:
    return tuple(lab.box(name) for name in NAMES)


@pytest.fixture
def rack(boxes: tuple[Box, ...], tmp_path: Path) -> Iterator[Rack]:
    with Rack.of(boxes, tmp_path) as made:
        yield made


def spread(rack: Rack, factor: str, *, blocks: int, seconds: float) -> Path:
    """A study whose blocks go to the hosts of the rack, with this one factor."""
    study = rack.folder / "study.toml"
    study.write_text(
        f"""{rack.hosts()}
[targets.disk]
loop = {{ size = "8MiB", directory = "{rack.folder}" }}
hosts = "rack[1-3]"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", rate_iops = 150, runtime = "{seconds}s" }}
[factors.varied]
{factor}
[design]
blocks = {blocks}
blocks_over = "hosts"
settle = "0s"
"""
    )
    return study


AHEAD = 'tunable = "queue.read_ahead_kb"\nlevels = [64, 96]'


@pytest.mark.timeout(900)
def test_a_lost_host_gives_its_blocks_to_the_others_and_gets_everything_back(rack: Rack) -> None:
    process = rack.run(spread(rack, AHEAD, blocks=3, seconds=2))
    cut = rack.boxes[1]
    until(lambda: all(rack.loads(box) for box in rack.boxes), process)  # at the same time
    cut.cut()
    said, complaint = process.communicate(timeout=250)
    told = " ".join(f"{said}\n{complaint}".split())
    assert "blocks moved to other hosts" in told
    assert process.returncode in (4, 5), told  # owed as far as we know, or paid by then
    results = open_results(rack.out)
    valid = [r.trial for r in results.records if r.state == "valid"]
    whole = {(t.block, t.host) for t in valid if t.host != cut.name}
    assert {block for block, _ in whole} == {1, 2, 3}
    assert is_finished(rack.out)
    lost = [r for r in results.records if r.state == "failed"]
    assert [r.trial.host for r in lost] == [cut.name], told
    assert lost[0].error.startswith("rack2 became unreachable")
    for record in results.records:
        if record.state == "valid":
            assert {value for _, name, value in record.before if "read_ahead" in name} == {
                dict(record.trial.treatment)["varied"]
            }
    cut.mend()
    until(lambda: not rack.owing() and not rack.loops())  # its own guard has paid


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_however_the_controller_ends_every_host_gets_everything_back(
    rack: Rack, number: signal.Signals
) -> None:
    process = rack.run(spread(rack, AHEAD, blocks=6, seconds=3))
    until(lambda: all(rack.loads(box) for box in rack.boxes), process)
    os.kill(process.pid, number)
    process.communicate(timeout=200)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGINT:
        assert rack.owing() == {}
    until(lambda: not rack.owing() and not rack.loops())
    assert not any(rack.loads(box) for box in rack.boxes)


def test_what_belongs_to_the_kernel_is_refused_on_hosts_that_share_it(
    rack: Rack, own_swappiness: None
) -> None:
    swappiness = Path("/proc/sys/vm/swappiness").read_text()
    process = rack.run(
        spread(rack, 'tunable = "sysctl.vm.swappiness"\nlevels = [41, 42]', blocks=3, seconds=1)
    )
    said, complaint = process.communicate(timeout=200)
    assert process.returncode == 3, f"{said}{complaint}"
    assert "are one kernel" in " ".join(complaint.split())
    assert Path("/proc/sys/vm/swappiness").read_text() == swappiness
    assert rack.owing() == {}
    assert rack.loops() == []
