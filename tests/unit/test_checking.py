"""The runner of checks: on this machine without root, and on hosts whose answers are made up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import Interrupted, OwedError, StudyError, UsageError
from iotrial.execute.interruption import Interruption
from iotrial.hosts.local import LocalHost, wakeup_pipe
from iotrial.model.host import Host
from iotrial.model.target import Target
from iotrial_suites.case import (
    Case,
    CaseContext,
    CaseNeeds,
    CaseNotRun,
    CaseResult,
    HostVersions,
    KnownFailure,
    Script,
    State,
    numbers,
)
from iotrial_suites.cli_session import armed, named, resumed
from iotrial_suites.session.case import (
    LOOK,
    CaseEnvironment,
    CaseHosts,
    CaseOutcome,
    missing,
    play,
    records,
    since,
    trouble,
    version_of,
)
from iotrial_suites.session.evidence import CLEANS, LEAST, base_of, commands, swept
from iotrial_suites.session.session import (
    CaseEnded,
    CheckEvent,
    CheckSession,
    SessionHeader,
    Turn,
    add,
    begin,
    checked,
    execute_checks,
    in_order,
    last_before,
    results,
)
from iotrial_suites.session.stage import CLEANS_WITHIN
from iotrial_suites.suites.known import false_alarms
from iotrial_suites.suites.vocabulary import expect, join, run, start, undo, until
from scripted import Answer, Says, ScriptedHost

ANYBODY = CaseNeeds(root=False)
MACHINE = HostVersions(
    "here", "6.1.0-56-amd64", "Debian 12", {"mdadm": "mdadm - v4.2 - 2021-12-30"}
)


def party(host: Host) -> CaseHosts:
    return CaseHosts([host], [MACHINE])


def played(case: Case, tmp_path: Path, host: Host | None = None) -> CaseOutcome:
    venue = CaseEnvironment(party(host or LocalHost()), Interruption())
    return play(f"test/{case.name}", case, venue, tmp_path / "evidence")


def case(steps, **more) -> Case:  # noqa: ANN001, ANN003
    return Case("one", "It is so", steps, **{"needs": ANYBODY, **more})


def test_what_a_case_did_is_kept_command_by_command(state: Path, tmp_path: Path) -> None:
    def steps(scene: CaseContext) -> Script:
        said = yield from run("sh", "-c", "cat; echo aside >&2; exit 3", stdin="hello", exits=(3,))
        expect(said.stdout == "hello", "the answer of a command is what it printed")
        yield from run("sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x")

    done = played(case(steps), tmp_path)
    assert (done.state, done.reasons, done.owed) == ("pass", (), ())
    first, second = commands(tmp_path / "evidence")
    assert first.argv == ("sh", "-c", "cat; echo aside >&2; exit 3")
    assert (first.exit, first.stdin, first.stdout) == (3, "hello", "hello")
    assert first.stderr == "aside\n"
    assert abs(first.at - time.time()) < 300
    assert len((tmp_path / "evidence" / second.stdout_file).read_text()) == 100_000


def test_a_command_that_fails_fails_the_case_and_is_quoted(state: Path, tmp_path: Path) -> None:
    def steps(scene: CaseContext) -> Script:
        yield from run("sh", "-c", "echo 'no such array' >&2; exit 7")

    done = played(case(steps), tmp_path)
    assert done.state == "fail"
    assert "no such array" in done.reasons[0]
    assert "7" in done.reasons[0]


def test_a_program_that_is_not_there_is_no_crash(state: Path, tmp_path: Path) -> None:
    def steps(scene: CaseContext) -> Script:
        said = yield from run("iotrial-no-such-program", exits=None)
        expect(said.exit == 127, f"a shell says 127, not {said.exit}")

    assert played(case(steps), tmp_path).state == "pass"


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "], ids=["polite", "deaf to SIGTERM"])
def test_a_command_that_hangs_is_ended_and_its_whereabouts_kept(
    state: Path, tmp_path: Path, stubborn: str
) -> None:
    pid = tmp_path / "pid"
    script = f"{stubborn}echo $$ >{pid}; sleep 1000; sleep 1000"

    def steps(scene: CaseContext) -> Script:
        yield from run("sh", "-c", script, within=2.0)

    began = time.monotonic()
    done = played(case(steps), tmp_path)
    assert time.monotonic() - began < 120
    assert done.state == "fail"
    assert "did not end within 2 s" in done.reasons[0]
    (kept,) = commands(tmp_path / "evidence")
    assert kept.late
    assert "sleep: state S" in kept.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_what_hangs_in_the_kernel_is_told_as_such_and_not_waited_for(tmp_path: Path) -> None:
    def steps(scene: CaseContext) -> Script:
        yield from run("mdadm", "--stop", "/dev/md0", within=5.0)

    host = ScriptedHost(lambda argv, _: Says(hangs=True) if argv[0] == "mdadm" else None)
    done = played(case(steps), tmp_path, host)
    assert done.state == "fail"
    (kept,) = commands(tmp_path / "evidence")
    assert "state D" in kept.stderr


def test_a_case_has_a_limit_of_its_own(state: Path, tmp_path: Path) -> None:
    def steps(scene: CaseContext) -> Script:
        while True:
            yield from run("true")

    done = played(case(steps, limit=1.0), tmp_path)
    assert done.state == "fail"
    assert "its limit" in done.reasons[0] or "did not end" in done.reasons[0]


def test_what_was_made_is_undone_the_last_first_also_after_a_failure(
    state: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"

    def steps(scene: CaseContext) -> Script:
        for word in ("first", "second"):
            yield from undo("sh", "-c", f"echo {word} >>{trace}")
        yield from run("false")

    assert played(case(steps), tmp_path).state == "fail"
    assert trace.read_text().split() == ["second", "first"]
    assert not list((state / "journal.d").iterdir())


def test_an_undo_may_fail_only_where_nothing_is_there(state: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"

    def steps(scene: CaseContext) -> Script:
        yield from undo("false", at=str(there))

    assert played(case(steps), tmp_path).state == "pass"
    there.touch()
    done = played(case(steps), tmp_path)
    assert done.state == "fail"
    assert done.owed
    assert all("clean-up" in reason for reason in done.reasons)


def test_what_was_started_ends_with_the_case(state: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def steps(scene: CaseContext) -> Script:
        quick = yield from start("sh", "-c", "echo done")
        said = yield from join(quick)
        expect(said.stdout == "done\n", "what was started says what it said")
        yield from start("sh", "-c", f"echo $$ >{pid}; exec sleep 1000")
        yield from until(
            lambda: run("test", "-s", str(pid), exits=None), lambda s: s.exit == 0, "no pid"
        )

    done = played(case(steps), tmp_path)
    assert done.state == "pass", done.reasons
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_all_that_is_missing_is_said_at_once(state: Path, tmp_path: Path) -> None:
    needs = CaseNeeds(
        commands=("sh", "iotrial-nothing", "iotrial-more"),
        modules=("iotrial_no_module",),
        paths=("/dev/null", "/iotrial/nowhere"),
        kernel=(99, 0),
        hosts=2,
        root=False,
    )
    done = played(case(passes, needs=needs), tmp_path)
    assert done.state == "not run"
    said = "\n".join(done.reasons)
    for word in ("iotrial-nothing", "iotrial-more", "iotrial_no_module", "/iotrial/nowhere"):
        assert word in said
    assert "Linux 99.0" in said
    assert "needs 2 hosts" in said
    assert "/dev/null" not in said
    assert len(done.reasons) == 6


def test_a_host_is_crashed_only_where_its_owner_allows_that(tmp_path: Path) -> None:
    needs = CaseNeeds(hosts=2, loses=True, root=False)
    hosts = [ScriptedHost(lambda *_: Says()) for _ in range(2)]
    for host, name in zip(hosts, ("box1", "box2"), strict=True):
        host.name = name
    for lost, state in (((), "not run"), (("box1",), "not run"), (("box2",), "pass")):
        two = CaseHosts(hosts, [MACHINE, MACHINE], lost=frozenset(lost))
        venue = CaseEnvironment(two, Interruption())
        done = play("test/one", case(passes, needs=needs), venue, tmp_path / "-".join((*lost, "e")))
        assert done.state == state, done.reasons
        assert ("--lose box2" in "".join(done.reasons)) == (state == "not run")


def test_the_machine_that_iotrial_runs_on_cannot_be_lost() -> None:
    for hosts in ([], ["root@box1", "local"]):
        with pytest.raises(UsageError, match="the machine that iotrial runs on cannot be lost"):
            named(["local"], hosts)


@pytest.mark.parametrize(("hosts", "lost"), [(["root@box1"], "box2"), ([], "box2")])
def test_only_another_host_of_the_check_can_be_lost(hosts: list[str], lost: str) -> None:
    assert named(["root@box1"], ["box[1-2]"]) == {"box1"}
    with pytest.raises(UsageError, match=f"--lose {lost}: not one of the hosts"):
        named([lost], hosts)


def test_disks_that_are_wanted_are_not_replaced_by_files(state: Path, tmp_path: Path) -> None:
    needs = CaseNeeds(devices=2, disks=True, root=False)
    done = played(case(passes, needs=needs), tmp_path)
    assert done.state == "not run"
    assert "--devices" in done.reasons[0]


def test_without_loop_devices_no_scratch_devices_are_made(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that is a module is loaded by whoever opens the control node: that is enough."""
    nowhere, there = tmp_path / "nowhere", tmp_path / "loop-control"
    there.touch()
    lacking = case(passes, needs=CaseNeeds(devices=1, root=False))
    monkeypatch.setattr("iotrial_suites.session.case.LOOP_CONTROL", str(nowhere))
    done = played(lacking, tmp_path)
    assert done.state == "not run"
    (reason,) = done.reasons
    assert str(nowhere) in reason
    assert "modprobe loop" in reason
    party_of_one = party(LocalHost())
    monkeypatch.setattr("iotrial_suites.session.case.LOOP_CONTROL", str(there))
    assert missing(lacking, party_of_one) == ()


@pytest.mark.parametrize("shared", [True, False])
def test_of_disks_of_all_hosts_only_the_first_is_owed_the_wiping(
    tmp_path: Path,
    shared: bool,  # noqa: FBT001 (a case of the test)
) -> None:
    """Its clean-up is the last: a host that comes back from a crash would wipe what the others
    have in use."""
    hosts = [ScriptedHost(lambda *_: Says()) for _ in range(2)]
    disk = Target("disk", "device", "FAKE0000", destroy="FAKE0000")
    for host, name in zip(hosts, ("box1", "box2"), strict=True):
        host.name = name
    two = CaseHosts(
        hosts,
        [MACHINE, MACHINE],
        {host.name: (disk,) for host in hosts},
        {(host.name, disk.path): 2**30 for host in hosts},
    )
    needs = CaseNeeds(hosts=2, devices=1, shared=shared, root=False)
    done = play(
        "test/one", case(passes, needs=needs), CaseEnvironment(two, Interruption()), tmp_path / "e"
    )
    assert done.state == "pass", done.reasons
    wiped = ["iotrial-wipe" in str(host.asked) for host in hosts]
    assert wiped == [True, not shared]


def test_a_case_may_find_that_it_cannot_be_done(state: Path, tmp_path: Path) -> None:
    def steps(scene: CaseContext) -> Script:
        yield from run("true")
        raise CaseNotRun("this kernel has no bfq")

    done = played(case(steps), tmp_path)
    assert (done.state, done.reasons) == ("not run", ("this kernel has no bfq",))


# --- the kernel's log --------------------------------------------------------------------------


def scripted(line: str) -> ScriptedHost:
    """A host whose kernel says this when ``mdadm`` is run."""

    def answer(argv: tuple[str, ...], _stdin: str) -> Says | None:
        if argv[0] == "mdadm":
            host.kernel.append(line)
        return None

    host: ScriptedHost = ScriptedHost(answer)
    host.kernel.append("BUG: an old one, from before")
    return host


def one_command(scene: CaseContext) -> Script:
    yield from run("mdadm", "--create")


@pytest.mark.parametrize(
    "line",
    [
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "WARNING: CPU: 1 PID: 7 at drivers/md/md.c:8000 md_exit+0x1/0x2",
        "INFO: task md0_resync:77 blocked for more than 120 seconds.",
        "Oops: 0002 [#1] SMP",
        "I/O error, dev sda, sector 2048 op 0x0:(READ)",
        "md/raid1:md0: Disk failure on sda, disabling device.",
    ],
)
def test_trouble_in_the_kernels_log_fails_a_case_that_did_not_announce_it(
    line: str, tmp_path: Path
) -> None:
    done = played(case(one_command), tmp_path, scripted(line))
    assert done.state == "fail"
    assert [line in reason for reason in done.reasons] == [True]
    assert line in (tmp_path / "evidence" / "kernel.log").read_text()
    announced = case(one_command, announces=(r".",))
    assert played(announced, tmp_path / "other", scripted(line)).state == "pass"


@pytest.mark.parametrize(
    "line",
    ["md: resync of RAID array md0", "EXT4-fs (md0): mounted filesystem", "DEBUG: nothing"],
)
def test_what_the_kernel_says_every_day_is_no_trouble(line: str, tmp_path: Path) -> None:
    assert played(case(one_command), tmp_path, scripted(line)).state == "pass"


@pytest.mark.parametrize(
    ("kernel", "line", "state"),
    [
        ("6.1.0-56-amd64", "fs/dlm/requestqueue.c:47 dlm_add_requestqueue+0xe7/0xf0", "pass"),
        ("6.1.0-56-amd64", "fs/dlm/requestqueue.c:47 dlm_wait_requestqueue+0x1/0x2", "fail"),
        ("6.12.95-amd64", "fs/dlm/requestqueue.c:47 dlm_add_requestqueue+0xe7/0xf0", "fail"),
    ],
)
def test_a_false_alarm_of_this_kernel_is_noted_and_fails_nothing(
    kernel: str, line: str, state: str, tmp_path: Path
) -> None:
    host = scripted(f"WARNING: CPU: 0 PID: 180 at {line} [dlm]")
    there = CaseHosts([host], [replace(MACHINE, kernel=kernel)])
    venue = CaseEnvironment(there, Interruption(), alarms=false_alarms())
    done = play("test/one", case(one_command), venue, tmp_path / "e")
    assert done.state == state, done.reasons
    notes = tmp_path / "e" / "notes"
    noted = notes.exists() and "FORTIFY_SOURCE" in notes.read_text()
    assert noted == (state == "pass")


def test_records_are_told_apart_by_their_numbers() -> None:
    text = "k cut off\n6,41,100,-;before\n SUBSYSTEM=block\n3,42,2500000,c;Oops: a; b\n"
    seen = records(text)
    assert [each.number for each in seen] == [41, 42]
    assert str(seen[1]) == "[2.500000] Oops: a; b"
    assert trouble(since(seen, 41), ()) == ("[2.500000] Oops: a; b",)
    assert since(seen, 1000) == seen, "a log that begins anew belongs to another boot"


# --- a host that goes --------------------------------------------------------------------------


def test_a_host_that_is_lost_fails_the_case_and_is_told_as_owed(tmp_path: Path) -> None:
    def steps(scene: CaseContext) -> Script:
        yield from undo("mdadm", "--stop", "/dev/md0")
        yield from run("mdadm", "--create")

    host = ScriptedHost(lambda argv, _: Says(lost="--create" in argv))
    done = played(case(steps), tmp_path, host)
    assert done.state == "fail"
    assert "does not answer" in done.reasons[0]
    assert any("mdadm --stop /dev/md0" in line for line in done.owed)


# --- sessions ----------------------------------------------------------------------------------


class Quiet:
    def __init__(self) -> None:
        self.ended_: list[CaseResult] = []

    def __call__(self, event: CheckEvent) -> None:
        if isinstance(event, CaseEnded):
            self.ended_.append(event.result)


def session(folder: Path, host: Host, **more) -> CheckSession:  # noqa: ANN003
    if not folder.exists():
        begin(folder, SessionHeader((("test", "a test"),), (), (MACHINE,), time.time()))
    return CheckSession(CaseEnvironment(party(host), Interruption()), folder, Quiet(), **more)


def passes(scene: CaseContext) -> Script:
    yield from run("true")


def fails(scene: CaseContext) -> Script:
    yield from run("false")


class Stopper(Quiet):
    """Has the session stopped while its first case is undone."""

    def __init__(self, interruption: Interruption) -> None:
        super().__init__()
        self._interruption = interruption

    def __call__(self, event: CheckEvent) -> None:
        super().__call__(event)
        if isinstance(event, CaseEnded):
            self._interruption.signal = signal.SIGTERM


def turns(*pairs: tuple[str, Case]) -> list[Turn]:
    return in_order([(f"test/{name}", each) for name, each in pairs], 1, None)


def test_a_clean_up_that_fails_is_told_and_nothing_is_built_on_it(
    state: Path, tmp_path: Path
) -> None:
    def leaves(scene: CaseContext) -> Script:
        yield from undo("false")

    of = session(tmp_path / "out", LocalHost())
    why = execute_checks(of, turns(("leaves", case(leaves)), ("after", case(passes))))
    assert "test/leaves" in why
    first, second = results(tmp_path / "out")
    assert (first.state, second.state) == ("fail", "not run")
    assert first.owed
    assert "test/leaves" in second.reasons[0]
    assert list((state / "journal.d").iterdir()), "what is owed stays in the journal"


def test_a_host_that_does_not_return_is_a_reason_not_to_run(tmp_path: Path) -> None:
    host = ScriptedHost(lambda *_: Says(lost=True))
    of = session(tmp_path / "out", host)
    execute_checks(of, turns(("loses", case(passes)), ("after", case(passes))))
    assert [each.state for each in results(tmp_path / "out")] == ["fail", "not run"]


def test_who_stops_is_told_what_is_still_owed_by_a_host_that_is_gone(tmp_path: Path) -> None:
    """Not that all is undone: nobody could ask the host."""
    host = ScriptedHost(lambda argv, _: Says(lost=True) if argv == ("touch", "it") else None)

    def loses(scene: CaseContext) -> Script:
        yield from undo("rm", "it")
        yield from run("touch", "it")

    with Interruption() as interruption:
        of = session(tmp_path / "out", host)
        of.venue = replace(of.venue, interruption=interruption)
        of.tell = Stopper(interruption)
        with pytest.raises(OwedError, match=r"stopped by SIGTERM, and the clean-up of test/loses"):
            execute_checks(of, turns(("loses", case(loses)), ("after", case(passes))))
    (found,) = results(tmp_path / "out")
    assert found.owed == ("fake: made: command rm it (unreachable: its guard undoes it)",)


def test_a_clean_up_in_which_all_hangs_is_bounded(tmp_path: Path) -> None:
    """Twenty commands of half a minute each would be ten minutes, and that twice."""
    host = ScriptedHost(lambda argv, _: Says(hangs="iotrial-undo" in argv))

    def leaves(scene: CaseContext) -> Script:
        for number in range(20):
            yield from undo("rm", str(number))
        yield from run("true")

    began = host.clock()
    done = played(case(leaves), tmp_path, host)
    assert len(done.owed) == 20
    assert host.clock() - began < CLEANS * CLEANS_WITHIN + 20 * (LEAST + 2)


KNOWN = {
    "test/one": KnownFailure("test/one", "mdadm 4.2 does that", "a source", says="exit status 1")
}


def test_a_known_failure_is_told_as_such_and_loudly_when_it_passes(
    state: Path, tmp_path: Path
) -> None:
    for number, (steps, expected) in enumerate(((fails, "known failure"), (passes, "pass"))):
        folder = tmp_path / str(number)
        execute_checks(session(folder, LocalHost(), known=KNOWN), turns(("one", case(steps))))
        (found,) = results(folder)
        assert found.state == expected
        assert "mdadm 4.2 does that" in found.known
        assert found.mended == (expected == "pass")


def test_another_failure_of_a_case_that_is_known_to_fail_is_a_failure(
    state: Path, tmp_path: Path
) -> None:
    def otherwise(scene: CaseContext) -> Script:
        yield from run("sh", "-c", "exit 9")

    execute_checks(
        session(tmp_path / "out", LocalHost(), known=KNOWN), turns(("one", case(otherwise)))
    )
    assert results(tmp_path / "out")[0].state == "fail"


def test_what_is_done_is_not_done_again_and_a_torn_line_never_was(
    state: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    of = session(folder, LocalHost())
    add(folder, CaseResult("test/one", "It is so", 1, "pass", seconds=4.5))
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"case":"test/two","ti')
    execute_checks(of, turns(("one", case(fails)), ("two", case(fails))))
    assert [(each.case, each.state) for each in results(folder)] == [
        ("test/one", "pass"),
        ("test/two", "fail"),
    ]


def test_what_is_resumed_is_not_asked_for_anew(tmp_path: Path) -> None:
    begin(
        tmp_path,
        SessionHeader((("md", "x"),), ("md/create",), (MACHINE,), 0.0, 3, 7, ("root@box1",)),
    )
    wish = resumed(tmp_path, anew=False)
    assert ([name for name, _ in wish.ids], wish.rounds, wish.seed, wish.hosts) == (
        ["md/create"],
        3,
        7,
        ("root@box1",),
    )
    with pytest.raises(UsageError, match="what is to be done stands in") as refused:
        resumed(tmp_path, anew=True)
    assert "--repeat" in str(refused.value.advice)


def test_a_folder_of_somebody_elses_has_ssh_execute_nothing(tmp_path: Path) -> None:
    config = tmp_path / "cfg"
    config.write_text("Host box\n  ProxyCommand touch canary\n")
    ways = (f"-F {config} box",)
    begin(
        tmp_path / "out", SessionHeader((("md", "x"),), ("md/create",), (MACHINE,), 0.0, 3, 7, ways)
    )
    with pytest.raises(StudyError, match="ProxyCommand"):
        resumed(tmp_path / "out", anew=False)


def test_cases_without_a_result_are_known_from_the_folder(tmp_path: Path) -> None:
    begin(tmp_path, SessionHeader((("md", "x"),), ("md/one", "md/two"), (MACHINE,), 0.0, 2))
    add(tmp_path, CaseResult("md/one", "It is so", 1, "pass"))
    add(tmp_path, CaseResult("md/two", "It is so", 2, "fail"))
    found = checked(tmp_path)
    assert found.undone == (("md/two", 1), ("md/one", 2))
    assert found.as_dict()["undone"] == [
        {"case": "md/two", "round": 1},
        {"case": "md/one", "round": 2},
    ]


@pytest.mark.skipif(not shutil.which("mkfs.ext4", path="/sbin:/usr/sbin"), reason="no e2fsprogs")
def test_the_last_time_of_a_case_is_that_of_the_newest_session_that_ran_it(tmp_path: Path) -> None:
    def began(name: str, started: float, *results: tuple[str, State]) -> SessionHeader:
        header = SessionHeader((("md", "x"),), ("md/one", "md/two"), (MACHINE,), started)
        begin(tmp_path / name, header)
        for case, state in results:
            add(tmp_path / name, CaseResult(case, "a case", 1, state))
        return header

    began("first", 1.0, ("md/one", "fail"), ("md/two", "pass"))
    began("second", 2.0, ("md/one", "pass"))
    began("third", 3.0, ("md/one", "not run"), ("md/two", "not run"))
    now = began("now", 4.0)
    newest, last = last_before(tmp_path / "now", now)
    assert newest == "second"
    assert {case: each.state for case, each in last.items()} == {"md/one": "pass", "md/two": "pass"}


def test_mkfs_tells_its_version_and_no_complaint() -> None:
    assert version_of(LocalHost(), "mkfs.ext4").startswith("mke2fs 1.")
    assert version_of(LocalHost(), "mkfs.of-nothing") == ""


def test_a_folder_of_something_else_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"is not a folder of checks: it has no checks\.json"
    ) as told:
        resumed(tmp_path, anew=False)
    assert "iotrial check" in str(told.value.advice)


def test_an_order_is_the_same_for_the_same_seed() -> None:
    cases = [(f"test/{n}", case(passes)) for n in range(12)]
    names = [[turn[0] for turn in in_order(cases, 2, seed)] for seed in (7, 7, 8, None)]
    assert names[0] == names[1] != names[2]
    assert names[3] == [name for name, _ in cases] * 2
    assert sorted(names[0][:12]) == sorted(names[3][:12])
    assert names[0][:12] != names[0][12:]


def test_versions_are_found_in_what_programs_say() -> None:
    assert numbers("mdadm - v4.2 - 2021-12-30 - Debian 4.2-5") == (4, 2)
    assert numbers("6.1.0-56-amd64") == (6, 1, 0)
    assert numbers("") == ()


@pytest.fixture
def patient() -> Iterator[LocalHost]:
    with wakeup_pipe() as wakeup:
        yield LocalHost(wakeup=wakeup)


def test_a_stop_ends_the_command_and_undoes_what_was_made(
    state: Path, tmp_path: Path, patient: LocalHost
) -> None:
    trace = tmp_path / "trace"

    def steps(scene: CaseContext) -> Script:
        yield from undo("sh", "-c", f"echo undone >>{trace}")
        yield from run("sh", "-c", f"echo began >>{trace}; sleep 1000", within=900.0)

    def stop() -> None:
        while not trace.exists():
            time.sleep(0.05)
        signal.raise_signal(signal.SIGTERM)

    with Interruption() as interruption:
        threading.Thread(target=stop, daemon=True).start()
        venue = CaseEnvironment(party(patient), interruption)
        with pytest.raises(Interrupted):
            play("test/one", case(steps), venue, tmp_path / "evidence")
    assert trace.read_text().split() == ["began", "undone"]
    assert not list(Path(base_of(patient)).glob("check-*"))


def test_what_a_killed_session_left_in_memory_is_removed(state: Path) -> None:
    host = LocalHost()
    left = Path(base_of(host)) / "check-0123"
    left.mkdir(parents=True)
    (left / "1.out").write_text("a log")
    swept(host)
    assert not left.exists()
    assert Path(base_of(host)).exists()


KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_checking import ANYBODY, case, passes, session, turns
from iotrial_suites.suites.vocabulary import run, undo
from iotrial_suites.session.session import CaseEnded, CheckEvent, execute_checks
from iotrial.hosts.local import LocalHost

def hangs(scene):
    yield from undo("rm", "-f", f"{sys.argv[1]}/made")
    yield from run("sh", "-c", f"touch {sys.argv[1]}/made; sleep 1000", within=900)

of = session(Path(sys.argv[1]) / "out", LocalHost())
execute_checks(of, turns(("first", case(passes)), ("hangs", case(hangs))))
"""


def test_a_kill_loses_no_result_and_the_machine_undoes_the_case(
    state: Path, tmp_path: Path
) -> None:
    here = Path(__file__).resolve().parent
    words = [sys.executable, "-c", KILLED, str(tmp_path), str(here), str(here.parent)]
    with subprocess.Popen(words) as process:
        made, out = tmp_path / "made", tmp_path / "out"
        _wait(made.exists)
        process.kill()
    _wait(lambda: not made.exists())  # the guard does it
    _wait(lambda: not list((state / "journal.d").glob("*.journal")))
    (first,) = results(out)
    assert (first.case, first.state) == ("test/first", "pass")
    rows = (out / "cases" / "test.hangs-1" / "commands.jsonl").exists()
    assert not rows, "the command had not ended"
    execute_checks(
        session(out, LocalHost()), turns(("first", case(fails)), ("hangs", case(passes)))
    )
    assert [each.state for each in results(out)] == ["pass", "pass"]
    assert (out / "cases" / "test.hangs-1.killed-1").is_dir()


def _wait(so, seconds: float = 120.0) -> None:  # noqa: ANN001
    until_ = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < until_
        time.sleep(0.05)


def test_results_are_lines_of_json(state: Path, tmp_path: Path) -> None:
    execute_checks(session(tmp_path / "out", LocalHost()), turns(("one", case(passes))))
    (line,) = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert row["case"] == "test/one"
    assert (tmp_path / "out" / row["folder"] / "commands.jsonl").exists()
    with suppress(KeyError):
        assert row["reasons"] == []


def test_answers_are_of_the_right_shape() -> None:
    """The scripted host is only as good as its likeness to the sentry."""
    answer: Answer = lambda argv, stdin: Says(f"{argv}{stdin}", 5, "why")  # noqa: E731
    from iotrial_suites.session.evidence import Supervisor  # noqa: PLC0415

    said = Supervisor(ScriptedHost(answer), "/run/x", Interruption()).run(
        ("a", "b"), within=5, stdin="c"
    )
    assert (said.exit, said.stdout, said.stderr, said.seconds) == (5, "('a', 'b')c", "why", 0.5)
    real = Supervisor(LocalHost(), "/tmp/iotrial-test-sentry", Interruption())
    try:
        said = real.run(("sh", "-c", "cat; echo why >&2; exit 5"), within=60, stdin="c")
    finally:
        real.close()
    assert (said.exit, said.stdout, said.stderr) == (5, "c", "why\n")


@pytest.mark.parametrize(
    ("word", "hosts", "disk"),
    [
        ("box2:S1", ("box2",), "S1"),
        ("bxo2:S1", (), "bxo2:S1"),
        ("eui.0025:38b1", (), "eui.0025:38b1"),
        ("S1", (), "S1"),
    ],
    ids=["a host's own", "no host of these", "a colon in a name", "everybody's"],
)
def test_a_disk_is_one_hosts_only_where_that_is_asked_for(
    word: str, hosts: tuple[str, ...], disk: str
) -> None:
    (target,) = armed([word], ["S1"], ["root@box1", "root@box2"])
    assert (target.hosts, target.path) == (hosts, disk)


def test_a_file_system_that_is_built_into_the_kernel_is_no_missing_module() -> None:
    """It has no folder below /sys/module, and nothing to be loaded."""
    words = ["m:proc", "m:sysfs", "m:iotrial-never-heard-of", "m:pro"]
    said = LocalHost().run(["sh", "-c", LOOK, "look", *words]).text
    assert said.split() == ["m:iotrial-never-heard-of", "m:pro"]
