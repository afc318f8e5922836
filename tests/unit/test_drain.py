"""Burst credits are used up before the first trial: what is decided, and a study that does it."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from iotrial import judgement
from iotrial.errors import Interrupted
from iotrial.execute.interruption import Interruption
from iotrial.execute.load import drain as acting
from iotrial.execute.runner import execute_study
from iotrial.execute.settings.restore import restore
from iotrial.hosts.fake import FakeHost, HostCrashed, fio
from iotrial.hosts.fake.disk import DISKS
from iotrial.hosts.places import journal_folder
from iotrial.model.event import Event, Message
from iotrial.model.study import Study
from iotrial.model.trial import DrainRecord, TrialRecord
from iotrial.plan.estimate import estimate
from iotrial.plan.load import parse_study
from iotrial.report.document import document
from iotrial.rows import line_out, record_in
from iotrial.stats.drain import HOLD, DrainLevels, DrainPoint, drained, told
from iotrial.store import open_results

# -- what is decided ------------------------------------------------------------------------------

BLOCK = 4096


def curve(*phases: tuple[float, int], sd: float = 0.03, seed: int = 1) -> list[DrainPoint]:
    """``phases`` are rates in I/Os a second and for how many seconds."""
    chance, points, moved = random.Random(seed), list[DrainPoint](), 0.0
    for rate, seconds in phases:
        for _ in range(seconds):
            now = rate * math.exp(chance.gauss(0.0, sd))
            moved += now * BLOCK
            points.append(DrainPoint(len(points) + 1.0, now * BLOCK, now, moved))
    return points


def when(points: list[DrainPoint], known: float | None = None) -> tuple[int, DrainLevels | None]:
    """After how many seconds a load that is looked at each second is over, and what was found."""
    for seconds in range(1, len(points) + 1):
        if found := drained(points[:seconds], known):
            return seconds, found
    return len(points), None


def test_a_rate_that_falls_and_is_level_is_drained() -> None:
    seconds, found = when(curve((3000, 100), (600, 200)))
    assert 100 + HOLD <= seconds <= 100 + HOLD + 2
    assert found is not None
    assert found.fell
    assert found.high[1] == pytest.approx(3000, rel=0.06)
    assert found.low[1] == pytest.approx(600, rel=0.03)
    assert found.low[0] == pytest.approx(600 * BLOCK, rel=0.03)
    assert found.seconds == pytest.approx(100, abs=2)
    assert found.moved == pytest.approx(3000 * BLOCK * 100, rel=0.03)


def test_a_level_rate_waits_for_its_credits_to_end() -> None:
    assert when(curve((3000, 1800)))[1] is None
    assert when(curve((3000, 100), (2700, 300)))[1] is None, "10 % is no fall"


def test_a_rate_that_comes_back_is_not_drained() -> None:
    """A stall of ten seconds, and a rate that goes on falling."""
    assert when(curve((3000, 60), (100, 10), (3000, 200)))[1] is None
    slope = [(3000 * 0.985**step, 1) for step in range(120)]
    assert when(curve(*slope))[1] is None


def test_a_fall_by_two_steps_ends_at_the_first_level_that_holds() -> None:
    seconds, found = when(curve((3000, 60), (2000, 10), (600, 100)))
    assert found is not None
    assert found.low[1] == pytest.approx(600, rel=0.03)
    assert seconds < 60 + 10 + HOLD + 10


def test_noise_is_seldom_taken_for_a_fall() -> None:
    """Ten loads of ten minutes, level, whose seconds differ by 10 %."""
    wrong = sum(when(curve((3000, 600), sd=0.1, seed=seed))[1] is not None for seed in range(10))
    assert wrong == 0


def test_seconds_in_which_a_load_began_do_not_matter() -> None:
    """Each fourth second has a third of the rate: loads of 3 s that take one to begin."""
    points = [
        dataclasses.replace(p, bandwidth=p.bandwidth / 3, iops=p.iops / 3) if at % 4 == 0 else p
        for at, p in enumerate(curve((3000, 80), (600, 100)))
    ]
    seconds, found = when(points)
    assert found is not None
    assert found.seconds == pytest.approx(80, abs=5)
    assert seconds < 80 + HOLD + 5


def test_what_was_drained_earlier_is_level_at_once_or_falls_again() -> None:
    low = 600.0 * BLOCK
    seconds, found = when(curve((600, 100)), low)
    assert found is not None
    assert not found.fell
    assert seconds <= HOLD + 2
    seconds, found = when(curve((3000, 50), (600, 100)), low)
    assert found is not None
    assert found.fell, "credits have come back"
    assert seconds >= 50 + HOLD
    assert when(curve((3000, 300)), low)[1] is None
    other = when(curve((250, 100)), 0.0)
    assert other[1] is not None, "another load of the target used them up"
    assert other[0] <= HOLD + 2


def test_without_points_or_time_nothing_is_known() -> None:
    assert drained([]) is None
    assert drained(curve((3000, 20))) is None
    few = [DrainPoint(20.0 * n, 1e6, 250, 1e6 * n) for n in range(1, 9)]
    assert drained(few, 0.0) is None, "two values in the window"


def test_what_it_came_to_is_said() -> None:
    fell = DrainRecord("fell", 250.0, (3000 * BLOCK, 3000.0), (600 * BLOCK, 600.0), 1.2 * 2**30)
    assert told(fell) == (
        "drained for 4m10s: 3.00 kIOPS → 600 IOPS (11.7 MiB/s → 2.34 MiB/s) after 1.20 GiB"
    )
    limit = DrainRecord("limit", 1800.0, (4e6, 1000.0), (4e6, 1000.0))
    assert "the longest allowed, without a fall" in told(limit)


# -- a study of it, on a simulated machine --------------------------------------------------------

STUDY = """
question = "?"
[targets.disk]
device = "naa.600fa4e000000000"
[workloads.small]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 4, runtime = "2s" }
[workloads.large]
tool = "fio"
options = { rw = "read", bs = "64k", iodepth = 4, runtime = "10s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
[design]
blocks = 2
drain = "10m"
"""
CREDITS = 8e9
"""Bytes: some 100 s of the small reads."""


def study(text: str = STUDY) -> Study:
    return parse_study(text, "drain.toml", str)


def host(burst: float = CREDITS) -> FakeHost:
    first = dataclasses.replace(DISKS[0], burst=burst)
    return FakeHost(disks=(first, *DISKS[1:]))


def run(at: FakeHost, folder: Path, it: Study | None = None) -> tuple[list[str], float]:
    said: list[str] = []

    def tell(event: Event) -> None:
        said.extend([event.text] if isinstance(event, Message) else [])

    began = at.clock()
    execute_study(it or study(), at, folder, interruption=Interruption(), tell=tell)
    return [line for line in said if line.startswith("drain")], at.clock() - began


def records(folder: Path) -> tuple[TrialRecord, ...]:
    return open_results(folder).records


def drains(folder: Path) -> dict[str, DrainRecord]:
    """By workload, of a study in which each was drained once."""
    found = [(each.trial.workload, each.drained) for each in records(folder) if each.drained]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_no_trial_measures_credits(tmp_path: Path) -> None:
    said, _ = run(host(), tmp_path / "out")
    found = drains(tmp_path / "out")
    assert {name: each.state for name, each in found.items()} in (
        {"small": "fell", "large": "level"}, {"small": "level", "large": "fell"},
    )  # fmt: skip
    fell = next(each for each in found.values() if each.state == "fell")
    assert fell.moved == pytest.approx(CREDITS, rel=0.1)
    assert fell.low[0] == pytest.approx(fell.high[0] / 5, rel=0.15)
    assert said[0].endswith("unmeasured, for 10m00s at most")
    assert any("→" in line for line in said)
    plain = study(STUDY.replace('drain = "10m"', ""))
    run(host(), tmp_path / "plain", plain)
    rates = [
        [
            each.value("read.iops") or 0.0
            for each in records(folder)
            if each.trial.workload == "small"
        ]
        for folder in (tmp_path / "out", tmp_path / "plain")
    ]
    assert max(rates[0]) < 1.5 * min(rates[0])
    assert max(rates[1]) > 3 * max(rates[0]), "without it, the first trials measure credits"


def test_what_was_drained_is_kept_with_its_trial_and_reported(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(host(), out)
    first = next(each for each in records(out) if each.drained)
    kept = json.loads((out / "trials" / first.trial.folder / "drain.json").read_text())
    rows = kept["curve"]["rows"]
    assert kept["state"] == "fell"
    assert len(rows) > 50
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert (out / "trials" / first.trial.folder / "drain" / "command").exists()
    assert first.prepared >= rows[-1][0]
    assert first.seconds < 20
    (again,) = [record_in(json.loads(json.dumps(line_out(first))), {})]
    assert again.drained == first.drained
    judged = judgement.judge(open_results(out))
    assert [row["state"] for row in document(judged)["drains"]] == ["fell", "level"]
    assert "drained for" in judged.comparison.method


def test_without_credits_it_goes_on_when_the_time_is_over(tmp_path: Path) -> None:
    it = study(STUDY.replace('"10m"', '"90s"'))
    said, seconds = run(host(0.0), tmp_path / "out", it)
    assert {each.state for each in drains(tmp_path / "out").values()} == {"limit"}
    assert 180 <= seconds < 260
    assert any("the longest allowed" in line for line in said)
    assert all(each.state == "valid" for each in records(tmp_path / "out"))


def test_a_study_that_is_resumed_drains_again_and_knows_the_level(tmp_path: Path) -> None:
    at, out, ended = host(), tmp_path / "out", 0
    interruption = Interruption()

    def tell(event: Event) -> None:
        nonlocal ended
        ended += type(event).__name__ == "TrialEnded"
        if ended == 2:
            interruption.signal = 15

    with pytest.raises(Interrupted):
        execute_study(study(), at, out, interruption=interruption, tell=tell)
    before = len(records(out))
    at.sleep(3600)
    run(at, out)
    later = [each.drained.state for each in records(out)[before:] if each.drained]
    assert later
    assert set(later) == {"level"}


def test_a_pause_brings_credits_back_and_it_is_due_again(tmp_path: Path) -> None:
    """Whoever waits for a person, or for a host, waits for credits too."""
    at, out, slept = host(), tmp_path / "out", 0.0

    def tell(event: Event) -> None:
        nonlocal slept
        if type(event).__name__ == "TrialBegan" and event.trial.number == 4:  # type: ignore[union-attr]
            slept = acting.PAUSE + 1
            at.sleep(slept)

    execute_study(study(), at, out, interruption=Interruption(), tell=tell)
    assert slept
    fourth = records(out)[3]
    assert fourth.drained is not None
    assert fourth.drained.state == "level"


def test_a_death_in_the_drain_leaves_what_a_death_in_a_trial_leaves(tmp_path: Path) -> None:
    """Every operation until both workloads are drained, those drains' loads among them."""
    it = study(STUDY.replace('"10m"', '"5s"'))
    whole = host(0.0)
    run(whole, tmp_path / "whole", it)
    loads = [at for at, what in enumerate(whole.log, 1) if "--runtime=" in what]
    assert len(loads) == 8 + 3 + 1, "a drain of 5 s is three loads of 2 s or one of 10 s"
    for number in range(1, loads[5] + 1):
        at, out = host(0.0), tmp_path / str(number)
        before = at.settings()
        at.crash_after = number
        with pytest.raises(HostCrashed):
            run(at, out, it)
        at.reconnect()
        restore(at, journal_folder(at))
        assert at.settings() == before
        assert not at.machine.tasks
        run(at, out, it)
        assert {each.state for each in records(out)} == {"valid"}
        assert {e.drained.state for e in records(out) if e.drained} == {"limit"}


def test_a_load_that_fails_fails_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = fio.parse

    def refused(argv: Sequence[str], folder: Path) -> fio.FioCommand:
        if "--bs=64k" in argv:
            raise ValueError("fio: it is broken")
        return parse(argv, folder)

    monkeypatch.setattr(fio, "parse", refused)
    run(host(), tmp_path / "out")
    failed = [each for each in records(tmp_path / "out") if each.trial.workload == "large"]
    assert {each.state for each in failed} == {"failed"}
    assert all("drain: fio: fio: it is broken" in each.error for each in failed)
    assert not any(each.drained for each in failed)


def test_a_plan_has_its_time_and_says_so() -> None:
    plain, drained_ = (
        estimate(study(text)) for text in (STUDY.replace('drain = "10m"', ""), STUDY)
    )
    assert drained_.seconds == pytest.approx(plain.seconds + 2 * 600)
    assert any(
        note.startswith("Drain: before the first trial of each of 2") for note in drained_.notes
    )
    assert drained_.bytes_written == plain.bytes_written == 0
    writes = STUDY.replace('rw = "randread"', 'rw = "randwrite"')
    assert estimate(study(writes)).bytes_written > 600 * 2**30


def test_of_stages_each_workload_is_drained_once() -> None:
    stages = STUDY.replace("[design]", 'baseline = "none"\n[factors.depth]\noption = "iodepth"\n'
                           "levels = [4, 8]\nbaseline = 4\n[design]")  # fmt: skip
    stages += '[[stage]]\nvary = ["scheduler"]\n[[stage]]\nvary = ["depth"]\n'
    plain, with_drain = (
        estimate(study(text)) for text in (stages.replace('drain = "10m"', ""), stages)
    )
    assert with_drain.seconds == pytest.approx(plain.seconds + 2 * 600)
    assert sum(note.startswith("Drain: ") for note in with_drain.notes) == 1
