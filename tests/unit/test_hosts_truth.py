"""32 pretended hosts whose rates, starts, clocks and latencies are known: what iotrial says of all
of them, and of each, is what was put in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.execute.interruption import Interruption
from iotrial.execute.load.load import EARLY
from iotrial.execute.runner import RunOutcome, execute_on
from iotrial.judgement import judge
from iotrial.judgement.utilisation import HostUtilisation, rows
from iotrial.model.host import Host
from iotrial.model.results import Results
from iotrial.model.study import StudyHost
from iotrial.model.trial import TrialRecord
from iotrial.plan.load import parse_study
from iotrial.stats.host_effects import host_effects
from known import BIN, BLOCK, PERCENTILES, KnownHost, KnownLoad, drawn, ranked

HOSTS, SECONDS = 32, 4.0
CLOCK = 0.02
"""Seconds by which the time of a start may be told wrong: a question takes some, on a busy
machine."""
HEAD = "".join(f'[hosts.h{n}]\nssh = "root@h{n}"\n' for n in range(1, HOSTS + 1))
STUDY = f"""{HEAD}
[targets.disk]
device = "FAKE0000"
hosts = "h[1-{HOSTS}]"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "{SECONDS:g}s" }}
"""
ONCE = '[design]\nblocks = 1\nsettle = "0s"\n'
SCALE = f"""
[factors.scale]
count = "hosts"
levels = [1, {HOSTS}]
{ONCE}"""
SPREAD = f"""
[factors.swap]
tunable = "sysctl.vm.swappiness"
levels = [10, 60]
[design]
blocks = {HOSTS}
blocks_over = "hosts"
settle = "0s"
"""


def truths() -> list[KnownLoad]:
    """Rates from 500 I/Os a second on, latencies from 0.1 ms to some ms, clocks seconds apart."""
    return [
        replace(
            drawn(n, 500.0 + 7 * n, SECONDS, median=1e-4 * (1 + n), late=0.001 * n),
            ahead=3.0 * (n % 5) - 6.0,
        )
        for n in range(HOSTS)
    ]


def executed(
    known: Sequence[KnownLoad], folder: Path, more: str = ONCE, *, cut: int = -1
) -> RunOutcome:
    """The study on hosts of which this is the truth; the one at ``cut`` is lost in its first
    load, and back when it is asked for again."""
    hosts = {f"h{n}": KnownHost(f"h{n}", truth, seed=n) for n, truth in enumerate(known, 1)}
    if cut >= 0:
        hosts[f"h{cut + 1}"].cut_under = 1

    @contextmanager
    def reach(place: StudyHost) -> Iterator[Host]:
        host = hosts[place.name]
        host.mend()
        yield host

    study = parse_study(STUDY + more, "truth.toml", lambda _: "")
    with Interruption() as interruption:
        return execute_on(study, reach, folder, interruption=interruption)


def checks(record: TrialRecord) -> set[str]:
    return {doubt.check for doubt in record.doubts}


def of_hosts(results: Results) -> dict[str, HostUtilisation]:
    return {row.host: row for row in rows(results, {"reads": "read.iops"})}


def told_truly(record: TrialRecord, known: Sequence[KnownLoad]) -> None:
    """Totals, percentiles of all I/Os together, and each host's own number."""
    everything = [each for truth in known for each in truth.latencies]
    assert record.value("read.iops") == pytest.approx(sum(each.iops for each in known), rel=1e-9)
    assert record.value("read.bytes") == len(everything) * BLOCK
    assert record.value("read.bw") == pytest.approx(
        sum(each.iops for each in known) * BLOCK, rel=1e-6
    )
    mean = sum(everything) / len(everything)
    assert record.value("read.clat.mean") == pytest.approx(mean * 1e-9, rel=1e-6)
    assert record.value("read.clat.max") == pytest.approx(max(everything) * 1e-9)
    for p in PERCENTILES:
        wanted = ranked(everything, p) * 1e-9
        assert record.value(f"read.clat.p{p:g}") == pytest.approx(wanted, rel=BIN)
    own = {part: record.of_part(part, "read.iops") for part in record.parts}
    assert own == pytest.approx({f"h{n}/disk": each.iops for n, each in enumerate(known, 1)})


def test_the_whole_is_the_sum_of_what_was_put_in_and_percentiles_are_of_all_ios(
    tmp_path: Path,
) -> None:
    known = truths()
    (record,) = executed(known, tmp_path / "r").results.records
    assert (record.state, record.error) == ("valid", "")
    told_truly(record, known)
    hosts = [f"h{n}" for n in range(1, HOSTS + 1)]
    assert dict(record.starts) == pytest.approx(
        {f"{name}/disk": each.late for name, each in zip(hosts, known, strict=True)}, abs=CLOCK
    )
    assert {name: ahead for name, ahead, _ in record.clocks} == pytest.approx(
        {name: each.ahead for name, each in zip(hosts, known, strict=True)}, abs=CLOCK
    )
    assert "start-skew" not in checks(record)


def test_a_slow_host_has_its_share_and_is_named_and_drags_nobody(tmp_path: Path) -> None:
    """Its I/Os, one in ten thousand, do not move the median, and are the last percentile."""
    known = [drawn(n, 800.0, SECONDS, median=2e-4) for n in range(HOSTS)]
    known[16] = drawn(99, 80.0, SECONDS, median=5e-2)
    outcome = executed(known, tmp_path / "r")
    (record,) = outcome.results.records
    told_truly(record, known)
    told = of_hosts(outcome.results)
    total = 800.0 * (HOSTS - 1) + 80.0
    assert told["h17"].share == pytest.approx(80.0 / total)
    assert told["h1"].share == pytest.approx(800.0 / total)
    assert all(row.even == pytest.approx(1 / HOSTS) for row in told.values())
    (doubt,) = [each for each in judge(outcome.results).doubts if each.check == "uneven-hosts"]
    assert "h17 reached 10% of the mean of the 32 hosts" in doubt.what


@pytest.mark.parametrize(
    ("late", "state"), [(0.03, "valid"), (0.6, "valid"), (1.15, "invalid")], ids=str
)
def test_a_host_that_starts_late_is_named_with_its_delay(
    tmp_path: Path, late: float, state: str
) -> None:
    """More than 2 % of the four seconds is a doubt, more than a quarter is no trial: of the time
    of the load, to which the delay does not belong."""
    known = [drawn(n, 300.0, SECONDS, median=2e-4) for n in range(HOSTS)]
    known[8] = replace(known[8], late=late, ahead=40.0)
    outcome = executed(known, tmp_path / "r")
    (record,) = [r for r in outcome.results.records if r.trial.attempt == 1]
    assert record.state == state
    told_truly(record, known)
    assert record.load_seconds == pytest.approx(SECONDS + late, abs=CLOCK + EARLY)
    starts = dict(record.starts)
    assert starts["h9/disk"] == pytest.approx(late, abs=CLOCK)
    if state == "valid":
        assert of_hosts(outcome.results)["h9"].late == pytest.approx(late, abs=2 * CLOCK)
    doubts = [each for each in record.doubts if each.check == "start-skew"]
    if late < 0.02 * SECONDS:
        assert not doubts
        return
    (doubt,) = doubts
    assert doubt.invalid == (state == "invalid")
    told = re.search(r"differ by ([\d.]+) s, (\S+) last; a load took ([\d.]+) s", doubt.what)
    assert told
    assert float(told[1]) == pytest.approx(late, abs=2 * CLOCK)
    assert told[2] == "h9/disk"
    assert float(told[3]) == pytest.approx(SECONDS, abs=0.1)


def test_a_host_that_is_lost_in_the_middle_is_named_and_only_the_repeat_counts(
    tmp_path: Path,
) -> None:
    known = [drawn(n, 300.0, SECONDS, median=2e-4) for n in range(HOSTS)]
    outcome = executed(known, tmp_path / "r", cut=4)
    first, again = outcome.results.records
    assert first.state == "failed"
    assert first.error.startswith("h5 became unreachable")
    assert first.measurements == ()
    assert [r.trial for r in outcome.results.valid] == [again.trial]
    assert again.trial.attempt == 2
    told_truly(again, known)
    assert {row.n for row in of_hosts(outcome.results).values()} == {1}


def test_32_hosts_of_which_one_is_half_as_fast_scale_by_so_much(tmp_path: Path) -> None:
    """Against one of the fast ones: (31 + 1/2) / 32.  What its device did is sampled."""
    known = [drawn(n, 400.0, SECONDS, median=2e-4) for n in range(HOSTS)]
    known[-1] = drawn(98, 200.0, SECONDS, median=2e-4)
    results = executed(known, tmp_path / "r", SCALE).results
    judged = judge(results)
    (part,) = judged.parts
    baseline, wide = part.scaling
    assert (baseline.level, baseline.efficiency) == ("1", None)
    assert wide.efficiency
    assert wide.efficiency.efficiency == pytest.approx(31.5 / 32, rel=1e-6)
    seen = [each for each in wide.seen if each.what == "uneven"]
    assert [(each.host, each.value) for each in seen] == [
        ("h32", pytest.approx(0.5 / (31.5 / 32), rel=0.05))
    ]


def test_blocks_over_hosts_say_how_far_each_host_is_from_the_mean(tmp_path: Path) -> None:
    """Geometric: of 31 alike and one that is four times as fast, 4^(31/32) and 4^(-1/32)."""
    known = [drawn(n, 200.0, SECONDS, median=2e-4) for n in range(HOSTS)]
    known[2] = drawn(97, 800.0, SECONDS, median=2e-4)
    results = executed(known, tmp_path / "r", SPREAD).results
    found = {each.host: each for each in host_effects(results)}
    assert len(found) == HOSTS
    for host, each in found.items():
        wanted = 4 ** (31 / 32) if host == "h3" else 4 ** (-1 / 32)
        assert each.ratio == pytest.approx(wanted, rel=1e-6)
        assert each.lead == pytest.approx(1.0)
        assert (len(each.blocks), each.broken) == (1, ())
