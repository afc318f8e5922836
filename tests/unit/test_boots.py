"""Boots: what a plan comes to, the command line of a level, and a study on the machine made up."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from iotrial.errors import OwedError, RefusedError
from iotrial.execute.boot import Boots, check_boots, need_own_boot
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_on
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.boots import OTHER
from iotrial.look.boots import boot_debt, boot_means, script
from iotrial.model.host import Connect
from iotrial.model.study import Study, StudyHost
from iotrial.plan import boots
from iotrial.plan.ahead import all_blocks
from iotrial.plan.estimate import estimate
from iotrial.plan.load import parse_study
from iotrial.tunables import tunable

STUDY = """\
question = "Do polled queues help?"
[hosts.a]
ssh = "root@a"
[targets.disk]
device = "FAKE0001"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", direct = 1, runtime = "2s", time_based = 1 }
[workloads.more]
tool = "fio"
options = { rw = "read", bs = "64k", direct = 1, runtime = "2s", time_based = 1 }
[factors.polling]
boot = "nvme.poll_queues"
levels = ["unset", 2]
[factors.kernel]
boot = "kernel"
levels = ["6.18.0-fake", "6.1.0-fake"]
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
[design]
kind = "full"
blocks = 3
settle = "0s"
"""
OWN = "BOOT_IMAGE=/vmlinuz root=/dev/vda nvme.poll-queues=1 ro"


def study(old: str = "", new: str = "") -> Study:
    return parse_study(STUDY.replace(old, new) if old else STUDY, "boots.toml", lambda _name: "")


def reaching(host: FakeHost) -> Connect:
    return lambda _place: nullcontext(host)


def test_each_combination_is_booted_once_a_block_and_all_its_trials_are_together() -> None:
    trials = all_blocks(study())
    plots = [(t.block, boots.wanted(study(), t, "a")) for t in trials]
    changed = [plot for at, plot in enumerate(plots) if not at or plots[at - 1] != plot]
    assert len(changed) == len(set(changed)) == 3 * 4
    assert boots.plots(study(), trials) == {"a": 13}
    assert len({tuple(w for b, w in changed if b == block) for block in (1, 2, 3)}) > 1


def test_the_plan_says_how_often_and_how_long() -> None:
    found = estimate(study())
    assert any("a is booted 13 times" in note for note in found.notes)
    without = estimate(study('boot = "nvme.poll_queues"', 'tunable = "queue.nr_requests"'))
    assert found.seconds - without.seconds == (13 - 7) * boots.ASSUMED


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ((), "root=/dev/vda nvme.poll-queues=1 ro iotrial.boot=t panic=60"),
        ((("boot.nvme.poll_queues", "4"),), "root=/dev/vda ro nvme.poll_queues=4 iotrial.boot=t"),
        ((("boot.threadirqs", "set"),), "ro threadirqs iotrial.boot=t"),
        ((("boot.kernel", "6.1"), ("boot.panic", "5")), "ro panic=5 iotrial.boot=t"),
    ],
)
def test_a_level_changes_its_own_words_of_the_command_line(
    changes: boots.Changes, line: str
) -> None:
    found = boots.command_line(OWN, changes, "t")
    assert line in found
    assert "BOOT_IMAGE" not in found
    assert found.count("poll") == 1


def test_in_a_group_too_unset_is_the_host_s_own() -> None:
    group = (
        '[factors.all.levels.stock]\n"boot.nvme.poll_queues" = "unset"\n'
        '[factors.all.levels.tuned]\n"boot.nvme.poll_queues" = 2\n"queue.scheduler" = "none"\n'
    )
    only = STUDY[: STUDY.index("[factors.polling]")] + group + STUDY[STUDY.index("[design]") :]
    found = parse_study(only, "boots.toml", lambda _name: "")
    asked = {boots.wanted(found, trial, "a") for trial in all_blocks(found)}
    assert asked == {(), (("boot.nvme.poll_queues", "2"),)}


def test_words_in_quotes_stay_whole_and_those_of_init_stay_last() -> None:
    own = 'root=/dev/vda x="a b" -- single'
    found = boots.command_line(own, (("boot.quiet", "set"),), "t")
    assert found == 'root=/dev/vda x="a b" quiet iotrial.boot=t panic=60 -- single'


def test_a_study_is_measured_in_each_boot_and_the_host_returns_to_its_own(tmp_path: Path) -> None:
    host = FakeHost()
    before = host.settings()
    outcome = execute_on(
        study(), reaching(host), tmp_path / "out", interruption=Interruption(), in_turn=True
    )
    assert outcome.counts == {"valid": 48, "invalid": 0, "failed": 0}
    for record in outcome.results.records:
        seen = {knob: value for _, knob, value in record.before}
        wanted = dict(record.trial.treatment)
        assert seen["boot.kernel"] == wanted["kernel"]
        polled = {"unset": "0"}.get(wanted["polling"], wanted["polling"])
        assert seen["boot.nvme.poll_queues"] == polled
    assert len((tmp_path / "out/boots.jsonl").read_text().splitlines()) == 12
    assert host.settings() == before
    assert boot_debt(host) == ()


def test_blocks_over_hosts_boot_each_host_for_its_own_blocks(tmp_path: Path) -> None:
    hosts = {name: FakeHost(seed=seed) for seed, name in enumerate("ab", 1)}
    before = {name: host.settings() for name, host in hosts.items()}
    text = (
        STUDY.replace('ssh = "root@a"\n', 'ssh = "root@a"\n[hosts.b]\nssh = "root@b"\n')
        .replace('device = "FAKE0001"\n', 'device = "FAKE0001"\nhosts = ["a", "b"]\n')
        .replace("blocks = 3\n", 'blocks = 4\nblocks_over = "hosts"\n')
    )
    spread = parse_study(text, "boots.toml", lambda _name: "")
    outcome = execute_on(
        spread, lambda place: nullcontext(hosts[place.name]), tmp_path / "out",
        interruption=Interruption(), in_turn=True,
    )  # fmt: skip
    assert outcome.counts == {"valid": 64, "invalid": 0, "failed": 0}
    rows = [json.loads(line) for line in (tmp_path / "out/boots.jsonl").read_text().splitlines()]
    booted = Counter((row["host"], row["block"]) for row in rows)
    assert len(booted) == 4
    assert set(booted.values()) == {4}
    assert {host for host, _ in booted} == {"a", "b"}
    assert {name: host.settings() for name, host in hosts.items()} == before


def test_a_level_that_comes_up_with_another_value_makes_its_trials_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine made up takes any number; so here it says another one than it took."""
    host = FakeHost()
    monkeypatch.setattr(
        "iotrial.execute.boot.command_line",
        lambda own, _changes, token: boots.command_line(own, (), token),
    )
    outcome = execute_on(
        study("blocks = 3", "blocks = 1"), reaching(host), tmp_path / "out",
        interruption=Interruption(), in_turn=True,
    )  # fmt: skip
    bad = [r for r in outcome.results.records if dict(r.trial.treatment)["polling"] == "2"]
    assert bad
    assert {record.state for record in bad} == {"invalid"}
    assert all(any(d.check == "boot" for d in record.doubts) for record in bad)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('ssh = "root@a"', 'via = "podman://box"', "podman://box ends with a boot"),
        ('"6.1.0-fake"', '"5.4.0-fake"', "kernel 5.4.0-fake is not installed"),
        ("nvme.poll_queues", "nvme.poll_queue", "has no parameter poll_queue"),
        ('tunable = "queue.scheduler"', 'manual = "Set {level}"', "scheduler is set manually"),
    ],
)
def test_what_cannot_be_booted_is_refused_before_anything_is_changed(
    old: str, new: str, words: str
) -> None:
    wrong = study(old, new)
    host = FakeHost()
    with pytest.raises(RefusedError, match=words):
        check_boots(host, wrong.place, wrong)
    assert host.settings() == FakeHost().settings()


def test_this_very_machine_is_refused() -> None:
    with pytest.raises(RefusedError, match="the machine that iotrial runs on"):
        check_boots(FakeHost(), StudyHost("local"), study())


def test_a_host_in_a_boot_of_a_study_is_not_taken_for_one_that_owes_nothing() -> None:
    host = FakeHost()
    for verb in (("arm", "t", "kexec", OTHER, "ro iotrial.boot=t", "90", "/x", ""), ("go",)):
        assert host.run(["sh", "-c", script(), "iotrial-boot", *verb]).exit == 0
    assert boot_means(host).level
    assert boot_debt(host)
    with pytest.raises(OwedError, match="runs a boot of a study"):
        need_own_boot(host)
    host.reboot()
    assert need_own_boot(host) == []


def test_a_host_that_was_lost_and_has_left_its_boot_is_booted_again(tmp_path: Path) -> None:
    """Nobody held its lock for a while: the unit there booted it into its own."""
    host, said = FakeHost(), list[str]()
    made = study()
    boots_of = Boots(reaching(host), tmp_path, said.append, in_turn=True)
    (trial, *_) = all_blocks(made)
    due = boots_of.due(made, trial)
    assert boots_of.boot({"a": made.place}, trial.block, due) == {}
    boots_of.look_again([made.place])
    assert boots_of.due(made, trial) == {}
    host.reboot()
    boots_of.look_again([made.place])
    assert said[-1] == "a has left the boot that it was measured in"
    assert boots_of.due(made, trial) == due
    assert boots_of.boot({"a": made.place}, trial.block, due) == {}
    assert boots_of.due(made, trial) == {}


def test_what_an_arming_left_that_the_power_cut_is_owed_and_removed() -> None:
    host = FakeHost()
    host.machine.put("/var/lib/iotrial/boot/method", b"kexec\n").durable = True
    host.power_cut()
    assert boot_debt(host)
    assert need_own_boot(host) == ["removed what an armed boot had left"]
    assert boot_debt(host) == ()
    assert host.list("/var/lib/iotrial") == []


@pytest.mark.parametrize(
    ("line", "file", "value"),
    [
        ("quiet", "", "unset"),
        ("a.b=1 a.b=3", "", "3"),
        ("a-b a.b", "", "set"),
        ("", "2\n", "2"),
        ("a.b=2", "2\n", "2"),
        ("a.b=on", "Y\n", "on"),
        ("a.b=3", "2\n", "3, but FILE: 2"),
    ],
)
def test_what_is_in_force_is_what_the_module_shows_or_the_command_line_has(
    tmp_path: Path, line: str, file: str, value: str
) -> None:
    """The command that reads it as it is, but for its two places."""
    (tmp_path / "cmdline").write_text(line)
    if file:
        (tmp_path / "b").write_text(file)
    text = tunable("boot.a.b").probe("").argv[2]
    text = text.replace("/proc/cmdline", str(tmp_path / "cmdline"))
    text = text.replace("/sys/module/${key%%.*}/parameters/${key#*.}", f"{tmp_path}/${{key#*.}}")
    done = subprocess.run(
        ["sh", "-c", text, "sh", "a.b"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == value.replace("FILE", str(tmp_path / "b"))
    assert done.stderr == ""
