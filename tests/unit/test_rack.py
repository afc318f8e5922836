"""Blocks spread over pretended hosts: run at the same time, lost, taken over, resumed, refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrial.errors import HostUnreachable, Interrupted, OwedError, RefusedError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import RunOutcome, execute_on
from iotrial.hosts.fake.host import FakeProcess
from iotrial.judgement import completed
from iotrial.keep.winner import profile
from iotrial.look.kernels import likeness
from iotrial.model.event import Event, LoadProgress, Message, Tell, TrialBegan, TrialEnded, ignore
from iotrial.model.finding import Comparison
from iotrial.model.host import Host
from iotrial.model.study import Study, StudyHost
from iotrial.plan.design import waiting
from iotrial.plan.load import parse_study
from iotrial.store import is_finished, open_results
from losable import Failing, Losable

TEXT = """
[hosts.a]
ssh = "root@a"
[hosts.b]
ssh = "root@b"
[hosts.c]
ssh = "root@c"
[targets.disk]
loop = { size = "16MiB" }
hosts = "a,b,c"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "4s" }
[factors.swap]
tunable = "sysctl.vm.swappiness"
levels = [10, 60]
[design]
blocks = 6
blocks_over = "hosts"
settle = "0s"
"""


class Rack:
    """Hosts by name; reached as often as asked for, and each time the same machine."""

    def __init__(self, kinds: Sequence[type[Losable]] = (Losable,) * 3) -> None:
        named = zip("abc", kinds, strict=True)
        self.hosts = {name: kind(seed=seed) for seed, (name, kind) in enumerate(named, 1)}
        for name, host in self.hosts.items():
            host.name = name
        self.before = self.settings()

    def settings(self) -> dict[str, dict[str, str]]:
        return {name: host.settings() for name, host in self.hosts.items()}

    @contextmanager
    def reach(self, place: StudyHost) -> Iterator[Host]:
        host = self.hosts[place.name]
        if host.cut:
            raise HostUnreachable(f"{place.name}: cannot connect")
        yield host


class Watching:
    """Notes what is said, and on which hosts trials begin."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.began_on: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Message):
            self.words.append(event.text)
        elif isinstance(event, TrialBegan):
            self.began_on.append(event.trial.host)
            self.threads.add(threading.get_ident())


class Cutting(Watching):
    """Cuts ``b`` in its second trial; mends it when ``mended`` says so of a trial that ended."""

    def __init__(self, rack: Rack, *, mended: int = 0) -> None:
        super().__init__()
        self.rack, self.mended = rack, mended

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, LoadProgress):
            if event.trial.host == "b" and self.began_on.count("b") == 2:
                self.rack.hosts["b"].cut = True
        elif isinstance(event, TrialEnded):
            failed = event.record.trial.host == "b" and event.record.state == "failed"
            if failed and self.mended:
                self.rack.hosts["b"].cut = False


def study(text: str = TEXT) -> Study:
    return parse_study(text, "spread.toml", lambda _: "")


def execute(rack: Rack, folder: Path, watcher: Tell = ignore, text: str = TEXT) -> RunOutcome:
    with Interruption() as interruption:
        return execute_on(
            study(text), rack.reach, folder, tell=watcher,
            interruption=interruption,
        )  # fmt: skip


def test_every_block_is_done_on_its_host_and_every_host_is_as_it_was(tmp_path: Path) -> None:
    rack, watcher = Rack(), Watching()
    outcome = execute(rack, tmp_path / "r", watcher)
    assert outcome.counts == {"valid": 12, "invalid": 0, "failed": 0}
    assert rack.settings() == rack.before
    results = open_results(tmp_path / "r")
    assert set(results.facts) == {"a", "b", "c"}
    for record in results.records:
        assert record.trial.host == "abc"[(record.trial.block - 1) % 3]
        assert record.parts == ()
        assert {n: v for _, n, v in record.before} == {
            "sysctl.vm.swappiness": dict(record.trial.treatment)["swap"]
        }
    assert len(watcher.threads) == 3, "a thread for each host"
    assert is_finished(tmp_path / "r")


def test_what_won_is_kept_on_every_host(tmp_path: Path) -> None:
    execute(Rack(), tmp_path / "r")
    kept = profile(
        completed(open_results(tmp_path / "r"), Comparison("", (), "", "", ())), {"swap": "10"}
    )
    assert {(e.host, e.tunable, e.value) for e in kept.entries} == {
        (host, "sysctl.vm.swappiness", "10") for host in "abc"
    }


def test_a_host_that_comes_back_goes_on_with_its_blocks(tmp_path: Path) -> None:
    rack = Rack()
    watcher = Cutting(rack, mended=1)
    outcome = execute(rack, tmp_path / "r", watcher)
    records = outcome.results.records
    (failed,) = [record for record in records if record.state == "failed"]
    assert failed.error.startswith("b became unreachable")
    assert "b is reachable again" in watcher.words
    valid = {
        (r.trial.block, r.trial.host, r.trial.treatment) for r in records if r.state == "valid"
    }
    assert {(block, host) for block, host, _ in valid if host == "b"} == {(2, "b"), (5, "b")}
    assert len(valid) == 12
    assert rack.settings() == rack.before


def test_a_host_that_stays_away_gives_its_blocks_to_the_others_and_its_debt_is_named(
    tmp_path: Path,
) -> None:
    rack = Rack()
    watcher = Cutting(rack)
    with pytest.raises(OwedError, match=r"b: .*iotrial cannot restore its settings now"):
        execute(rack, tmp_path / "r", watcher)
    results = open_results(tmp_path / "r")
    valid = [r.trial for r in results.records if r.state == "valid"]
    whole = {(t.host, t.block) for t in valid if t.host != "b"}
    assert {block for _, block in whole} == {1, 2, 3, 4, 5, 6}
    assert len([t for t in valid if t.host != "b"]) == 12, "blocks of others are whole"
    assert len([t for t in valid if t.host == "b"]) == 1, "what it measured stays"
    assert not waiting(results.planned, results.records)
    assert is_finished(tmp_path / "r")
    assert any("blocks moved to other hosts" in line for line in watcher.words)
    for name in "ac":
        assert rack.settings()[name] == rack.before[name]


def test_a_study_that_has_begun_goes_on_without_a_host_and_one_that_has_not_does_not(
    tmp_path: Path,
) -> None:
    rack = Rack()
    rack.hosts["c"].cut = True
    with pytest.raises(HostUnreachable, match="c: cannot connect"):
        execute(rack, tmp_path / "r")
    assert not (tmp_path / "r").exists()
    rack.hosts["c"].cut = False
    with pytest.raises(Interrupted):
        execute(rack, tmp_path / "r", Stopping(1))
    assert rack.settings() == rack.before
    assert not is_finished(tmp_path / "r")
    rack.hosts["c"].cut = True
    watcher = Watching()
    execute(rack, tmp_path / "r", watcher)
    assert set(watcher.began_on) == {"a", "b"}
    assert any("the other hosts continue" in line for line in watcher.words)
    done = open_results(tmp_path / "r").records
    assert {r.trial.block for r in done if r.state == "valid"} == {1, 2, 3, 4, 5, 6}
    assert len({r.trial.folder for r in done}) == len(done)


class Stopping(Watching):
    """Stops the run as a signal does, when so many trials have ended."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def __call__(self, event: Event) -> None:
        self.after -= isinstance(event, TrialEnded)
        if self.after == 0:
            raise Interrupted("stopped", advice="go on")


def test_where_no_host_is_left_the_run_says_so(tmp_path: Path) -> None:
    rack = Rack()

    class All(Watching):
        def __call__(self, event: Event) -> None:
            for host in rack.hosts.values() if isinstance(event, LoadProgress) else ():
                host.cut = True

    with pytest.raises((HostUnreachable, OwedError)):
        execute(rack, tmp_path / "r", All())
    assert not is_finished(tmp_path / "r")


def test_a_budget_is_that_of_each_host(tmp_path: Path) -> None:
    text = TEXT.replace("blocks = 6", 'blocks = 6\nbudget = "10s"')
    outcome = execute(Rack(), tmp_path / "r", text=text)
    assert "budget" in outcome.stopped
    assert {r.trial.host for r in outcome.results.records} == {"a", "b", "c"}


def test_where_every_hosts_first_block_failed_the_run_ends(tmp_path: Path) -> None:
    rack = Rack([Failing] * 3)
    outcome = execute(rack, tmp_path / "r")
    assert outcome.stopped.startswith("all ")
    assert 6 <= outcome.counts["failed"] <= 10, "of 12: a block of each, and what was under way"
    assert outcome.counts["valid"] == 0
    assert rack.settings() == rack.before


def test_a_host_whose_loads_fail_at_once_does_not_end_what_others_are_at(tmp_path: Path) -> None:
    second = threading.Event()

    class Slow(Losable):
        def start(
            self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]
        ) -> FakeProcess:
            second.wait(30)
            return super().start(argv, folder=folder, environment=environment)

    def tell(event: Event) -> None:
        if isinstance(event, TrialBegan) and event.trial.host == "a" and event.trial.block > 1:
            second.set()

    outcome = execute(Rack([Failing, Slow, Slow]), tmp_path / "r", tell)
    assert second.is_set()
    assert outcome.counts == {"valid": 8, "invalid": 0, "failed": 4}
    assert outcome.stopped == ""


def test_hosts_of_one_kernel_cannot_set_what_is_the_kernels_against_each_other(
    tmp_path: Path,
) -> None:
    rack = Rack()
    rack.hosts["b"].machine.boot_id = rack.hosts["a"].machine.boot_id
    with pytest.raises(RefusedError, match=r"a and b are the same host"):
        execute(rack, tmp_path / "r")
    assert rack.settings() == rack.before


def facts(**more: object) -> dict[str, object]:
    return {
        "kernel": "6.1.0", "cpus": 8, "memory": 33_285_996_544, "programs": {"fio": "fio-3.39"},
        "cpu_model": "EPYC", "targets": {"disk": {"device": "sda"}},
        "devices": {"sda": {"size": 1 << 40, "model": "X", "rev": "1"}}, **more,
    }  # fmt: skip


def test_hosts_that_are_alike_are_no_doubt() -> None:
    other = {"sdb": {"size": 1 << 40, "model": "X", "rev": "1"}}
    named = facts(targets={"disk": {"device": "sdb"}}, devices=other)
    assert likeness({"a": facts(), "b": named, "c": facts(memory=33_286_000_000)}) == ()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kernel": "6.5.0"}, "kernel: 6.1.0 on h[1-2], 6.5.0 on h3"),
        ({"cpus": 16}, "number of CPUs: 8 on h[1-2], 16 on h3"),
        ({"programs": {"fio": "fio-3.33"}}, "version of fio: fio-3.39 on h[1-2], fio-3.33 on h3"),
        ({"devices": {"sda": {"size": 1 << 40, "model": "Y"}}}, "model of disk: X on h[1-2], Y"),
        ({"devices": {"sda": {"size": 5, "model": "X"}}}, "size of disk: 1099511627776 on h[1-2]"),
    ],
)
def test_hosts_that_decide_differently_are_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(RefusedError) as refused:
        likeness({"h1": facts(), "h2": facts(), "h3": facts(**more)})
    assert said in refused.value.message


def test_what_matters_less_is_a_doubt() -> None:
    old = facts(devices={"sda": {"size": 1 << 40, "model": "X", "rev": "0"}}, memory=2**30)
    found = likeness({"h1": facts(), "h2": old})
    assert [doubt.check for doubt in found] == ["hosts-unlike"] * 2
    assert "memory: 31 GiB on h1, 1 GiB on h2" in found[0].what
    assert "firmware of disk: 1 on h1, 0 on h2" in found[1].what
