"""Several pretended hosts in one study: shares, settings, results, and a host that is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrial.errors import HostUnreachable, OwedError
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.part import gathered
from iotrial.execute.runner import RunOutcome, execute_on
from iotrial.judgement import completed
from iotrial.judgement.utilisation import rows
from iotrial.keep.winner import profile
from iotrial.model.event import Event, LoadProgress, Message, Tell, TrialEnded, ignore
from iotrial.model.finding import Comparison
from iotrial.model.host import Host
from iotrial.model.study import Study, StudyHost
from iotrial.model.trial import Doubt
from iotrial.plan.load import parse_study
from iotrial.store import open_results
from iotrial.trial_files import read_trial
from losable import Losable

TEXT = """
[hosts.a]
ssh = "root@a"
[hosts.b]
ssh = "root@b"
[targets.disk]
loop = { size = "16MiB" }
hosts = "a,b"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "4s" }
[factors.scale]
count = "hosts"
levels = [1, 2]
[factors.swap]
tunable = "sysctl.vm.swappiness"
levels = [10, 60]
[design]
blocks = 1
settle = "0s"
"""


class Rack:
    """Hosts by name; reached as often as asked for, and each time the same machine."""

    def __init__(self) -> None:
        self.hosts = {name: Losable(seed=seed) for seed, name in enumerate("ab", 1)}
        for name, host in self.hosts.items():
            host.name = name

    @contextmanager
    def reach(self, place: StudyHost) -> Iterator[Host]:
        host = self.hosts[place.name]
        if host.cut:
            raise HostUnreachable(f"{place.name}: cannot connect")
        yield host


class Cutting:
    """Cuts a host when a trial begins, and mends it when so many have ended."""

    def __init__(self, rack: Rack, name: str, mended_after: int) -> None:
        self.rack, self.name, self.left = rack, name, mended_after
        self.words: list[str] = []
        self.done = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Message):
            self.words.append(event.text)
        elif isinstance(event, LoadProgress) and not self.done:
            self.rack.hosts[self.name].cut = self.done = True
        elif isinstance(event, TrialEnded) and self.done:
            self.left -= 1
            if self.left == 0:
                self.rack.hosts[self.name].cut = False


def study(text: str = TEXT) -> Study:
    return parse_study(text, "many.toml", lambda _: "")


def execute(rack: Rack, folder: Path, watcher: Tell = ignore) -> RunOutcome:
    with Interruption() as interruption:
        return execute_on(study(), rack.reach, folder, tell=watcher, interruption=interruption)


def test_each_host_is_loaded_set_and_given_back(tmp_path: Path) -> None:
    rack = Rack()
    before = {name: host.settings() for name, host in rack.hosts.items()}
    outcome = execute(rack, tmp_path / "r")
    assert outcome.counts == {"valid": 4, "invalid": 0, "failed": 0}
    assert {name: host.settings() for name, host in rack.hosts.items()} == before
    results = open_results(tmp_path / "r")
    assert set(results.facts) == {"a", "b"}
    wide = [r for r in results.records if dict(r.trial.treatment)["scale"] == "2"]
    for record in wide:
        assert record.parts == ("a/disk", "b/disk")
        total = record.value("read.iops")
        own = [record.of_part(part, "read.iops") for part in record.parts]
        assert total == pytest.approx(sum(each or 0.0 for each in own))
        swap = dict(record.trial.treatment)["swap"]
        assert {(device, value) for device, _, value in record.before} == {
            ("a:", swap),
            ("b:", swap),
        }
    alone = next(r for r in results.records if dict(r.trial.treatment)["scale"] == "1")
    held = {device: value for device, _, value in alone.before}
    assert held == {"a:": dict(alone.trial.treatment)["swap"], "b:": "60"}, "b takes no part"


def test_what_won_on_several_hosts_is_kept_on_each_of_them(tmp_path: Path) -> None:
    execute(Rack(), tmp_path / "r")
    results = open_results(tmp_path / "r")
    comparison = Comparison("", (), "", "", ())
    kept = profile(completed(results, comparison), {"swap": "10"})
    assert [place.name for place in kept.hosts] == ["a", "b"]
    assert {(e.host, e.tunable, e.value) for e in kept.entries} == {
        ("a", "sysctl.vm.swappiness", "10"),
        ("b", "sysctl.vm.swappiness", "10"),
    }


def test_a_trial_read_from_its_folder_is_the_one_that_was_noted(tmp_path: Path) -> None:
    execute(Rack(), tmp_path / "r")
    for record in open_results(tmp_path / "r").records:
        again = read_trial(tmp_path / "r" / "trials" / record.trial.folder)
        assert again.parts == record.parts
        assert {(m.job, m.metric, m.value) for m in again.measurements} == {
            (m.job, m.metric, m.value) for m in record.measurements
        }


def test_the_report_has_a_line_for_each_host(tmp_path: Path) -> None:
    execute(Rack(), tmp_path / "r")
    found = {row.host: row for row in rows(open_results(tmp_path / "r"), {"reads": "read.iops"})}
    assert found["a"].n == 4
    assert found["b"].n == 2
    assert found["b"].share == pytest.approx(found["b"].even, abs=0.1)


def test_a_lost_host_fails_its_trial_which_is_done_again_when_it_is_back(tmp_path: Path) -> None:
    rack = Rack()
    before = {name: host.settings() for name, host in rack.hosts.items()}
    watcher = Cutting(rack, "b", mended_after=2)
    outcome = execute(rack, tmp_path / "r", watcher)
    records = outcome.results.records
    failed = [record for record in records if record.state == "failed"]
    assert failed
    assert all(record.error.startswith("b became unreachable") for record in failed)
    valid = {record.trial.treatment for record in records if record.state == "valid"}
    assert len(valid) == 4, "every treatment was measured in the end"
    assert "b is reachable again" in watcher.words
    assert {name: host.settings() for name, host in rack.hosts.items()} == before


def test_what_a_host_that_stays_away_is_owed_is_named(tmp_path: Path) -> None:
    rack = Rack()
    with pytest.raises(OwedError, match=r"b: .*iotrial cannot restore its settings now") as caught:
        execute(rack, tmp_path / "r", Cutting(rack, "b", mended_after=99))
    assert any("swappiness" in line for line in caught.value.owed)
    results = open_results(tmp_path / "r")
    states = {(dict(r.trial.treatment)["scale"], r.state) for r in results.records}
    assert ("1", "valid") in states, "what does not need it goes on"
    assert {r.trial.attempt for r in results.records if r.state == "failed"} == {1, 2, 3}


def test_doubts_of_the_only_load_stay_one_by_one_and_those_of_several_are_told_together() -> None:
    two = [Doubt("evidence", "a", "mend"), Doubt("evidence", "b", "mend")]
    assert gathered([("", each) for each in two]) == tuple(two)
    (said,) = gathered([("box1/d", two[0]), ("box2/d", two[0])])
    assert said.what == "box1/d: a; box2/d: a"
