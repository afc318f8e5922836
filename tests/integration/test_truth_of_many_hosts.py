"""16 hosts, network namespaces with a real sshd, whose loads are known: what iotrial says of all of
them, and of each, is what was put in.

On each host ``fio`` is a script: for a load it waits at the gate as fio does, takes its time, and
gives the report that the test drew (:mod:`known`); for anything else it is fio.  All else is real:
connections, clocks, the common moment, collecting, merging.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.judgement.utilisation import rows
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord
from iotrial.store import open_results
from known import BIN, BLOCK, PERCENTILES, KnownLoad, drawn, ranked
from lab import Box, Lab, lab, why_not
from racks import Rack, ended, until, words

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
    pytest.mark.skipif(not shutil.which("fio"), reason="needs fio"),
    pytest.mark.timeout(900),
]

HOSTS, SECONDS = 16, 3.0
LATE = 0.6
"""Seconds after the moment at which a late host has made ready: a fifth of the load's time."""
BUSY = 0.5
"""Seconds by which a host of a busy machine may start later than it should."""
SCRIPT = """\
#!/bin/sh
load=
for each; do
    case $each in
    --output=fio.json) load=yes ;;
    --exec_prerun=*) gate=${{each#--exec_prerun=}} ;;
    esac
done
[ "$load" ] || exec {fio} "$@"
read -r late <{place}/late
if [ "$late" != 0 ]; then
    while [ ! -e "$IOTRIAL_GO" ]; do sleep 0.02; done
    sleep "$late"
fi
sh -c "$gate"
sleep {seconds:g}
cat {place}/report.json >fio.json
"""


class KnownRack(Rack):
    """Boxes whose loads are known; ``places`` has a folder for each."""

    places: Path

    def place(self, box: Box) -> Path:
        return self.places / box.name

    def put(self, known: Sequence[KnownLoad]) -> None:
        """What each box's load is from now on."""
        for box, each in zip(self.boxes, known, strict=True):
            (self.place(box) / "report.json").write_text(each.report())
            (self.place(box) / "late").write_text(f"{each.late:g}\n")

    def measuring(self, box: Box) -> bool:
        """Whether the load of a box has begun and takes its time."""
        waits = [b"sleep", f"{SECONDS:g}".encode()]
        return any(words(pid)[:2] == waits for pid in box.processes())

    def study(self) -> Path:
        path = self.folder / "study.toml"
        path.write_text(
            f"""{self.hosts()}
[targets.disk]
loop = {{ size = "1MiB", directory = "{self.folder}" }}
hosts = "box[1-{HOSTS}]"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "{SECONDS:g}s" }}
[design]
blocks = 1
settle = "0s"
"""
        )
        return path


@pytest.fixture(scope="module")
def boxes(lab: Lab) -> tuple[Box, ...]:
    fio = Path(shutil.which("fio") or "").resolve()
    shutil.copy2(fio, lab.folder / "fio")
    made = []
    for name in (f"box{n}" for n in range(1, HOSTS + 1)):
        place = lab.folder / name
        place.mkdir()
        script = place / "script"
        script.write_text(SCRIPT.format(fio=lab.folder / "fio", place=place, seconds=SECONDS))
        script.chmod(0o755)
        made.append(lab.box(name, into=[(script, str(fio))]))
    return tuple(made)


@pytest.fixture
def rack(boxes: tuple[Box, ...], lab: Lab, tmp_path: Path) -> Iterator[KnownRack]:
    with KnownRack.of(boxes, tmp_path) as made:
        made.places = lab.folder
        yield made


def executed(rack: KnownRack, *, status: int = 0) -> Results:
    found, said = ended(rack.run(rack.study()))
    assert found == status, said
    assert rack.owing() == {}
    assert rack.loops() == []
    return open_results(rack.out)


def told_truly(record: TrialRecord, known: Sequence[KnownLoad]) -> None:
    """Totals, percentiles of all I/Os together, and each host's own number."""
    everything = [each for truth in known for each in truth.latencies]
    assert record.value("read.iops") == pytest.approx(sum(each.iops for each in known), rel=1e-9)
    assert record.value("read.bytes") == len(everything) * BLOCK
    for p in PERCENTILES:
        wanted = ranked(everything, p) * 1e-9
        assert record.value(f"read.clat.p{p:g}") == pytest.approx(wanted, rel=BIN)
    own = {part: record.of_part(part, "read.iops") for part in record.parts}
    assert own == pytest.approx({f"box{n}/disk": each.iops for n, each in enumerate(known, 1)})


def alike() -> list[KnownLoad]:
    return [drawn(n, 300.0, SECONDS, median=2e-4) for n in range(HOSTS)]


def test_sixteen_hosts_of_which_one_is_slow_are_told_as_they_were_put_in(rack: KnownRack) -> None:
    known = [drawn(n, 200.0 + 40 * n, SECONDS, median=1e-4 * (1 + n)) for n in range(HOSTS)]
    known[6] = drawn(99, 30.0, SECONDS, median=0.08)
    rack.put(known)
    results = executed(rack)
    (record,) = results.records
    assert record.state == "valid", record.doubts
    told_truly(record, known)
    total = sum(each.iops for each in known)
    shares = {row.host: row.share for row in rows(results, {"reads": "read.iops"})}
    assert shares == pytest.approx({f"box{n}": e.iops / total for n, e in enumerate(known, 1)})
    starts = dict(record.starts)
    assert len(starts) == HOSTS
    assert -0.05 <= min(starts.values()) <= max(starts.values()) < BUSY


def test_a_host_that_makes_ready_late_is_named_with_its_delay(rack: KnownRack) -> None:
    known = alike()
    known[10] = replace(known[10], late=LATE)
    rack.put(known)
    results = executed(rack)
    (record,) = results.records
    assert record.state == "valid", record.doubts
    told_truly(record, known)
    starts = dict(record.starts)
    assert max(starts, key=starts.__getitem__) == "box11/disk"
    assert LATE - 0.05 <= starts["box11/disk"] < LATE + BUSY
    (doubt,) = [each for each in record.doubts if each.check == "start-skew"]
    assert "box11/disk last" in doubt.what
    late = {row.host: row.late for row in rows(results, {"reads": "read.iops"})}
    assert LATE - 0.05 <= late["box11"] < LATE + BUSY
    assert max(each for host, each in late.items() if host != "box11") < BUSY


def test_a_host_that_is_lost_in_the_middle_is_named_and_only_the_repeat_counts(
    rack: KnownRack,
) -> None:
    known = alike()
    rack.put(known)
    process, box = rack.run(rack.study()), rack.boxes[3]
    until(lambda: rack.measuring(box), process)
    time.sleep(SECONDS / 3)
    for pid in box.processes():
        if pid != box.pid:  # the one that listens: a service that is there again
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    status, said = ended(process)
    assert status == 5, said
    first, *_, again = open_results(rack.out).records
    assert (first.state, first.measurements) == ("failed", ())
    assert first.error.startswith("box4 became unreachable"), said
    assert again.state == "valid", said
    told_truly(again, known)
    assert rack.owing() == {}
