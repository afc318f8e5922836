"""The guard in every shell at hand: what it restores, what it says, when it acts and when it ends.

No root: files in a temporary folder stand for control files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import HostError, LockedError
from iotrial.execute.settings.debris import KINDS
from iotrial.execute.settings.guard import guard_argv, guarded, locked, script
from iotrial.execute.settings.journal import (
    ResourceUndo,
    SettingsUndo,
    line,
    open_journal,
    sealed,
    sessions,
)
from iotrial.execute.settings.restore import RestoreReport, in_words, pay, read_reports
from iotrial.hosts.local import LocalHost
from iotrial.hosts.places import lock_path
from iotrial.model.step import ABSENT, Change, Probe
from iotrial.model.target import DeviceIdentity
from iotrial.model.tunable import FormerValue, Setting

SHELLS = [
    pytest.param(
        shell,
        id=shell[0],
        marks=() if shutil.which(shell[0]) else pytest.mark.skip(f"{shell[0]} is not installed"),
    )
    for shell in (("dash",), ("bash", "--posix"), ("busybox", "sh"))
]
HERE = LocalHost()
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
DEVICE = SettingsUndo("", None, ())


@dataclass
class Place:
    """A folder with a journal, a lock, and files that stand for settings."""

    root: Path
    shell: tuple[str, ...] = ("sh",)

    @property
    def folder(self) -> Path:
        return self.root / "state" / "journal.d"

    @property
    def lock(self) -> Path:
        return self.root / "state" / "lock"

    @property
    def journal(self) -> Path:
        return self.folder / "T0.journal"

    @property
    def report(self) -> str:
        return (self.folder / "T0.restored").read_text()

    def owe(
        self, *values: FormerValue, made: Sequence[ResourceUndo] = (), boot: str = BOOT
    ) -> None:
        journal = open_journal(HERE, str(self.folder), {"token": "T0", "boot_id": boot})
        journal.owe_settings(SettingsUndo("", None, values))
        for debt in made:
            journal.owe_made(debt)

    def add(self, lines: bytes) -> None:
        """More lines, in a journal that is whole again."""
        before = self.journal.read_bytes()
        self.journal.write_bytes(sealed(before[: before.rindex(b"whole|")] + lines))

    def file(self, name: str, content: str) -> str:
        path = self.root / name
        path.write_text(content)
        return str(path)

    def argv(self, lease: float = 0) -> tuple[str, ...]:
        return (*self.shell, *guard_argv(str(self.journal), str(self.lock), lease)[1:])

    def start(self, lease: float = 0) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self.argv(lease),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    def fire(self) -> None:
        """The controller is gone as soon as it came."""
        done = subprocess.run(
            self.argv(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        assert done.stdout == b"ready\n"
        assert done.stderr == b""


@pytest.fixture(params=SHELLS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


def writes(path: str, value: str, pick: str = "text") -> FormerValue:
    return FormerValue(
        Setting("", Path(path).name, value), Probe(path), (Change("write", path=path, data=value),)
    )


def gone(process: subprocess.Popen[bytes], seconds: float = 60.0) -> None:
    process.wait(timeout=seconds)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def until(true: object, seconds: float = 60.0) -> None:
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.02)


# -- what it puts back -------------------------------------------------------------------------


def test_it_writes_a_former_value_and_says_so(place: Place) -> None:
    changed, same = place.file("a", "new\n"), place.file("b", "was\n")
    os.utime(same, ns=(0, 0))
    place.owe(writes(changed, "old"), writes(same, "was"))
    place.fire()
    assert Path(changed).read_text() == "old\n", "one write, over what was there"
    assert Path(same).stat().st_mtime_ns == 0, "what reads as before is not written"
    assert not place.journal.exists()
    head, *rest = place.report.splitlines()
    assert head.endswith(", the controller died")
    assert rest == ["value: a=old"]


def test_every_kind_of_act_is_done(place: Place) -> None:
    kept = place.file("kept", "new")
    Path(kept).chmod(0o640)
    added, gone = place.file("added", "x"), str(place.root / "sub" / "gone")
    ran = place.file("ran", "new")
    odd = " a|b\\c\n\t'$(touch /x)`\"\n\n"
    here = Probe(added, pick="whole", absent=ABSENT)
    say = ("cat", ran)
    place.owe(
        FormerValue(Setting("", "s", odd), Probe(kept, pick="whole"), (Change("save", kept, odd),)),
        FormerValue(Setting("", "r", ABSENT), here, (Change("remove", added),)),
        FormerValue(
            Setting("", "n", "x"),
            Probe(gone, pick="whole", absent=ABSENT),
            (Change("save", gone, "x"),),
        ),
        FormerValue(
            Setting("", "c", "1 2"),
            Probe(argv=say),
            (Change("run", argv=("sh", "-c", 'echo "$1" "$2" >"$0"', ran, "1", "2")),),
        ),
    )
    place.fire()
    assert Path(kept).read_text() == odd
    assert Path(kept).stat().st_mode & 0o777 == 0o640
    assert not Path(added).exists()
    assert (Path(gone).read_text(), Path(gone).stat().st_mode & 0o777) == ("x", 0o644)
    assert Path(ran).read_text() == "1 2\n"
    assert not place.journal.exists(), place.report
    assert sorted(path.name for path in place.root.iterdir()) == [
        "kept", "ran", "state", "sub",
    ]  # fmt: skip


def test_what_does_not_go_back_is_owed_and_named_and_the_rest_goes_back(place: Place) -> None:
    file = place.file("a", "new")
    refused = writes("/proc/version", "no version")
    place.owe(refused, writes(file, "old"))
    place.fire()
    assert Path(file).read_text() == "old"
    assert place.journal.exists()
    assert "owed: version=no version (" in place.report
    assert "value: a=old" in place.report


def test_an_order_that_only_works_later_is_found(place: Place) -> None:
    """A second value that can be given back only once another has been."""
    low, high = place.file("low", "9"), place.file("high", "9")
    check = 'test "$(cat "$1")" = 1 && printf 1 >"$0"'
    place.owe(
        FormerValue(
            Setting("", "high", "1"),
            Probe(high),
            (Change("run", argv=("sh", "-c", check, high, low)),),
        ),
        writes(low, "1"),
    )
    place.fire()
    assert (Path(low).read_text(), Path(high).read_text()) == ("1", "1")
    assert not place.journal.exists()


def test_a_device_that_is_another_one_keeps_what_it_has(place: Place) -> None:
    file, wwid = place.file("a", "new"), place.file("wwid", "naa.6  \n")
    place.owe()
    identity = DeviceIdentity("loop-control", "1:1", 5, (("wwid", "naa.5"),))
    place.add(line("device", "", "", wwid, "naa.5") + _value(file, "old"))
    assert identity.ids
    place.fire()
    assert Path(file).read_text() == "new"
    assert "owed: a=old (" in place.report
    assert "wwid was naa.5, is naa.6" in place.report
    Path(wwid).write_text("naa.5\n")
    place.fire()
    assert Path(file).read_text() == "old"
    assert not place.journal.exists()


def _value(path: str, value: str, kind: str = "value", device: str = "") -> bytes:
    name = Path(path).name
    return line(
        kind, device, name, value, path, "text", "", "", "0", "1", "write", path, value, "0"
    )


def test_a_device_that_is_gone_owes_nothing(place: Place) -> None:
    file = place.file("a", "new")
    identity = '{"kernel_name":"nosuch0","devno":"9:9","size":1,"ids":[]}'
    place.owe()
    place.add(line("device", "nosuch0", identity) + _value(file, "old", device="nosuch0"))
    place.fire()
    assert Path(file).read_text() == "new"
    assert not place.journal.exists()
    assert "nosuch0 no longer exists" in place.report


def test_after_a_reboot_only_what_outlives_one_is_written(place: Place) -> None:
    file, lasting = place.file("a", "new"), place.file("b", "new")
    place.owe(boot="another-boot")
    lines = line("device", "", ""), _value(file, "old"), _value(lasting, "old", "durable")
    place.add(b"".join(lines))
    place.fire()
    assert Path(file).read_text() == "new"
    assert Path(lasting).read_text() == "old"
    assert not place.journal.exists()
    assert "note: rebooted since" in place.report


def test_a_journal_of_a_later_format_is_left_alone(place: Place) -> None:
    file = place.file("a", "new")
    place.folder.mkdir(parents=True)
    place.journal.write_bytes(line("open", "4", "T0", "", "", "", "") + _value(file, "old"))
    place.fire()
    assert Path(file).read_text() == "new"
    assert place.journal.exists()
    assert "format 4" in place.report


def test_a_line_that_makes_no_sense_is_owed_and_the_others_are_paid(place: Place) -> None:
    file = place.file("a", "new")
    place.owe(writes(file, "old"))
    for nonsense in (
        b"value|a|b|.\n",
        b"made|.\n",
        b"what|1|.\n",
        b"value||t|v|/p|text|||1|.\n",
        b"value||t|v|/p|text|||0|2|write|/p|d|0|.\n",
        b"value||t|v|/p|text|||x|0|.\n",
        b"value||t|v|/p|text|||0|1|eval|/p|d|0|.\n",
        b"no end\n",
    ):
        place.add(nonsense)
    before = place.journal.read_bytes()
    place.fire()
    assert Path(file).read_text() == "old"
    assert place.journal.read_bytes() == before
    assert place.report.count("cannot be read; a setting may be left to restore") == 8


# -- what was made -----------------------------------------------------------------------------


def test_what_was_made_is_removed_from_the_last_to_the_first(place: Place) -> None:
    folder = place.root / "made folder"
    folder.mkdir()
    file = folder / "f=1"
    file.write_text("x")
    order = place.root / "order"
    sleeper = subprocess.Popen(["sleep", "7373"])
    pidfile = place.root / "pid"
    pidfile.write_text(f"{sleeper.pid}\n")
    add = ["sh", "-c", 'echo "$1" >>"$0"', str(order)]
    place.owe(
        made=[
            ResourceUndo("command", {"name": "last", **_numbered([*add, "last"])}),
            ResourceUndo("folder", {"folder": str(folder)}),
            ResourceUndo("file", {"file": str(file)}),
            ResourceUndo("process", {"pidfile": str(pidfile), "word": "sleep 7373"}),
            ResourceUndo("command", {"name": "first", **_numbered([*add, "first one"])}),
            ResourceUndo("folder", {"folder": str(place.root / "never made")}),
            ResourceUndo("by-hand", {"name": "cable", "was": "in", **_numbered(["echo", " in"])}),
        ]
    )
    place.fire()
    assert sleeper.wait(timeout=10) == -signal.SIGTERM
    assert order.read_text() == "first one\nlast\n"
    assert not folder.exists()
    assert not pidfile.exists()
    assert not place.journal.exists(), place.report
    kinds = [said.partition(":")[0] for said in place.report.splitlines()[1:]]
    assert kinds == ["command", "process", "file", "folder", "command"]


def _numbered(words: Sequence[str]) -> dict[str, str]:
    return {str(at): word for at, word in enumerate(words)}


def test_what_cannot_be_removed_is_owed(place: Place) -> None:
    full = place.root / "full"
    (full / "in it").mkdir(parents=True)
    place.owe(
        made=[
            ResourceUndo("folder", {"folder": str(full)}),
            ResourceUndo("command", _numbered(["false"])),
            ResourceUndo("by-hand", {"name": "cable", "was": "in", **_numbered(["echo", "out"])}),
            ResourceUndo("process", {"pidfile": "/nowhere", "word": ""}),
            ResourceUndo("loop", {"target": "t", "file": "/etc/passwd", "size": 1, "number": 1}),
            ResourceUndo("spaceship", {"name": "x"}),
        ]
    )
    place.fire()
    assert (full / "in it").exists()
    assert Path("/etc/passwd").exists()
    assert place.journal.exists()
    assert place.report.count("\nowed: ") == 6, place.report


def test_a_process_that_is_another_one_lives_on(place: Place) -> None:
    pidfile = place.file("pid", f"{os.getpid()}\n")
    place.owe(made=[ResourceUndo("process", {"pidfile": pidfile, "word": "no word of ours"})])
    place.fire()
    assert not Path(pidfile).exists()
    assert not place.journal.exists()


def test_both_languages_know_the_same_kinds() -> None:
    text = script()
    known = text[text.index("unmake() {") :].partition("esac")[0]
    assert {word.rstrip(")") for word in known.split() if word.rstrip(")") in KINDS} == set(KINDS)


# -- when it acts, and when it ends ------------------------------------------------------------


def test_told_that_all_is_done_it_ends_before_its_lease_and_does_nothing(place: Place) -> None:
    file = place.file("a", "new")
    place.owe(writes(file, "old"))
    for lease in (0, 60):
        process = place.start(lease)
        process.communicate(b".\ndone\n", timeout=30)
        assert Path(file).read_text() == "new"
        assert place.journal.exists()


@pytest.mark.parametrize("lease", [0, 9])
def test_it_acts_when_the_controller_is_killed(place: Place, lease: int) -> None:
    file = place.file("a", "new")
    place.owe(writes(file, "old"))
    code = (
        "import subprocess, sys, time\n"
        "g = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1, start_new_session=True)\n"
        "g.stdout.readline(); print(g.pid, flush=True); time.sleep(60)"
    )
    controller = subprocess.Popen(
        [sys.executable, "-c", code, *place.argv(lease)], stdout=subprocess.PIPE
    )
    assert controller.stdout is not None
    guard = int(controller.stdout.readline())
    assert os.getpgid(guard) != os.getpgid(controller.pid)
    # It keeps no pipe of the controller, soon after it has said that it is ready.
    until(lambda: Path(f"/proc/{guard}/fd/1").readlink() == Path("/dev/null"))
    assert Path(f"/proc/{guard}/cwd").readlink() == Path("/"), "it keeps no file system busy"
    controller.kill()
    controller.communicate()
    until(lambda: not place.journal.exists())
    assert Path(file).read_text() == "old"
    until(lambda: not Path(f"/proc/{guard}").exists())


def test_what_the_controller_had_just_forked_does_not_begin(place: Place) -> None:
    """Until its execve(2) it has the environment of the controller, and no mark."""
    place.owe()
    pids, late = place.root / "pids", place.root / "late"
    code = (
        "import os, subprocess, sys, time\n"
        "pids, late, *argv = sys.argv[1:]\n"
        "g = subprocess.Popen(argv, stdin=-1, stdout=-1, start_new_session=True)\n"
        "g.stdout.readline()\n"
        "if not (child := os.fork()):\n"
        "    os.setsid(); os.closerange(0, 99); time.sleep(100)\n"
        "    os.execvp('touch', ['touch', late])\n"
        "open(pids + '~', 'w').write(f'{g.pid} {child}'); os.rename(pids + '~', pids)\n"
        "time.sleep(60)"
    )
    other = subprocess.Popen(["sleep", "60"])
    controller = subprocess.Popen(
        [sys.executable, "-c", code, str(pids), str(late), *place.argv()], cwd=place.root
    )
    try:
        until(pids.exists)
        guard, child = map(int, pids.read_text().split())
        # As before an execve(2).
        until(lambda: not list(Path(f"/proc/{child}/fd").iterdir()))
        controller.kill()
        controller.wait()
        until(lambda: not Path(f"/proc/{guard}").exists())
        assert not Path(f"/proc/{child}/exe").exists()
        assert f"process: {child} of the lost controller" in place.report
        assert other.poll() is None
        assert not late.exists()
    finally:
        other.kill()
        other.wait()


def test_it_acts_when_no_sign_of_life_comes_for_the_lease(place: Place) -> None:
    file = place.file("a", "new")
    place.owe(writes(file, "old"))
    process = place.start(lease=4)
    assert process.stdin is not None
    for _ in range(20):  # longer than the lease
        process.stdin.write(b".\n")
        process.stdin.flush()
        time.sleep(0.25)
        assert Path(file).read_text() == "new"
    until(lambda: not place.journal.exists())
    assert Path(file).read_text() == "old"
    assert "no sign of life from the controller in 4 s" in place.report
    gone(process)


def test_signals_do_not_keep_it_from_its_work(place: Place) -> None:
    file = place.file("a", "new")
    slow = FormerValue(Setting("", "slow", "x"), Probe(argv=("sleep", "0.3")), ())
    place.owe(slow, writes(file, "old"))
    process = place.start()
    signals = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)
    for each in signals:
        process.send_signal(each)
    assert process.stdin is not None
    process.stdin.close()
    for _ in range(8):
        time.sleep(0.1)
        for each in signals:
            process.send_signal(each)
    gone(process)
    assert Path(file).read_text() == "old"


def test_with_its_output_closed_it_works(place: Place) -> None:
    file = place.file("a", "new")
    place.owe(writes(file, "old"))
    close = ["sh", "-c", 'exec "$@" >&- 2>&-', "closed"]
    subprocess.run([*close, *place.argv()], stdin=subprocess.DEVNULL, timeout=30, check=False)
    assert Path(file).read_text() == "old"
    assert not place.journal.exists()


def test_where_no_report_can_be_written_it_restores_all_the_same(place: Place) -> None:
    file = place.file("a", "new")
    place.owe(writes(file, "old"))
    (place.folder / "T0.restored").symlink_to("/dev/full")
    place.fire()
    assert Path(file).read_text() == "old"
    assert not place.journal.exists()


def test_where_the_journal_is_gone_somebody_else_has_paid(place: Place) -> None:
    place.folder.mkdir(parents=True)
    place.fire()
    assert not list(place.folder.iterdir())


def test_it_waits_for_the_lock_and_looks_again(place: Place) -> None:
    file = place.file("a", "new")
    place.owe(writes(file, "old"))
    with LocalHost().lock(str(place.lock)):
        process = place.start()
        assert process.stdin is not None
        process.stdin.close()
        time.sleep(1)
        assert Path(file).read_text() == "new"
        place.journal.unlink()
    gone(process)
    assert Path(file).read_text() == "new"
    assert not list(place.folder.iterdir())


def test_a_program_that_a_restore_starts_does_not_keep_the_lock(place: Place) -> None:
    file = place.file("a", "new")
    start = ("sh", "-c", 'printf old >"$0"; sleep 3 & echo $! >"$0.pid"', file)
    place.owe(FormerValue(Setting("", "a", "old"), Probe(file), (Change("run", argv=start),)))
    place.fire()
    assert not place.journal.exists()
    with LocalHost().lock(str(place.lock)):
        pass
    os.kill(int(Path(f"{file}.pid").read_text()), signal.SIGKILL)


def test_the_load_is_ended_first_and_only_that_of_this_run(place: Place) -> None:
    place.owe()
    mine, other = (
        subprocess.Popen(["sleep", "60"], env={**os.environ, "IOTRIAL_LOAD": token})
        for token in ("T0", "T00")
    )
    try:
        place.fire()
        assert mine.wait(timeout=30) == -signal.SIGKILL
        assert other.poll() is None
        assert f"process: {mine.pid} of the load" in place.report
    finally:
        other.kill()
        other.wait()
        mine.kill()
        mine.wait()


def test_the_fence_falls_on_the_very_process_and_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.owe()
    mine = f"mine-{os.getpid()}"
    marked = {**os.environ, "IOTRIAL_AGENT": mine}
    # What a shell has begun outlives it, and would still change the machine.
    begun = "sleep 60 & echo $!; wait"
    agent = subprocess.Popen(["sh", "-c", begun], env=marked, stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    child = int(agent.stdout.readline())
    monkeypatch.setenv("IOTRIAL_FENCE", f"{mine}0")
    place.fire()
    assert agent.poll() is None
    monkeypatch.setenv("IOTRIAL_FENCE", mine)
    place.fire()
    assert agent.wait(timeout=30) == -signal.SIGKILL
    assert not Path(f"/proc/{child}/exe").exists()
    agent.stdout.close()


def test_without_its_programs_it_does_not_start(place: Place, tmp_path: Path) -> None:
    shell = shutil.which(place.shell[0])
    done = subprocess.run(
        (str(shell), *place.argv()[1:]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": "/nowhere"},
        timeout=10,
        check=False,
    )
    # busybox has most of them in itself, and the sbin folders are always looked at.
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"is not installed" in done.stderr


# -- torn lines, and the twin in Python -----------------------------------------------------------


def test_a_journal_cut_at_any_byte_is_paid_as_far_as_it_goes_and_the_rest_is_owed(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    file = place.file("a", "new")
    place.owe(writes(file, "o|d"))
    whole = place.journal.read_bytes()
    known = whole.index(b"whole|")
    for cut in (*range(0, len(whole), 7), *range(known - 2, known + 2), len(whole) - 1):
        Path(file).write_text("new")
        place.journal.write_bytes(whole[:cut])
        place.fire()
        assert Path(file).read_text() == ("new" if cut < known else "o|d"), f"cut at {cut}"
        assert place.journal.exists(), f"cut at {cut}"
        assert "truncated or altered: more settings may have to be restored" in place.report, (
            f"cut at {cut}"
        )


@pytest.mark.parametrize(
    "damage",
    [
        lambda _data: b"",
        lambda _data: b"\n",
        lambda data: data + b"\0" * 8,
        lambda data: data[:60] + b"\0" * (len(data) - 60),
        lambda data: b"\0" * len(data),
        lambda data: data[data.index(b"\n") + 1 :],
        lambda data: data + b"x",
        lambda data: data + data,
        lambda data: data.replace(b"|old|", b"|olb|"),
        lambda data: data.replace(b"|a|", b"|b|", 1),
        lambda data: os.urandom(len(data)),
    ],
)
def test_a_damaged_journal_is_never_taken_for_one_that_is_paid(
    place: Place, damage: Callable[[bytes], bytes]
) -> None:
    place.owe(writes(place.file("a", "new"), "old"))
    place.journal.write_bytes(damage(place.journal.read_bytes()))
    place.fire()
    assert place.journal.exists()
    assert "owed: " in place.report
    (session,) = sessions(HERE, str(place.folder))
    assert session.damage


def test_what_a_death_in_the_middle_of_a_write_leaves_goes(place: Place) -> None:
    place.owe()
    (place.folder / ".T0.journal.new").write_text("half")
    place.fire()
    assert [path.name for path in place.folder.iterdir()] == ["T0.restored"]


NAMES = ("a", "b", "c")
TEXTS = st.text("ab |\\\n'$-é%", max_size=6)


@st.composite
def owed_values(draw: st.DrawFn) -> list[FormerValue]:
    """Values of files below ROOT, with acts that may hinder each other or be refused."""
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)):
        path, value = f"ROOT/{name}", draw(TEXTS)
        pick = draw(st.sampled_from(["whole", "text"]))
        acts = draw(st.lists(_acts(value), max_size=2))
        absent = draw(st.sampled_from(["", ABSENT]))
        value = draw(st.sampled_from([value, value, ABSENT])) if absent else value
        probe = (
            Probe(path, pick=pick, absent=absent)  # type: ignore[arg-type]
            if draw(st.booleans())
            else Probe(argv=("cat", path), pick=pick, absent=absent)  # type: ignore[arg-type]
        )
        durable = draw(st.booleans())
        found.append(FormerValue(Setting("", name, value), probe, tuple(acts), durable))
    return found


def _acts(value: str) -> st.SearchStrategy[Change]:
    path = st.sampled_from([f"ROOT/{name}" for name in (*NAMES, "sub/d")])
    data = st.sampled_from([value, "other"])
    copy = st.tuples(path, path).map(lambda p: ("sh", "-c", 'cat "$0" >"$1"', *p))
    return st.one_of(
        st.builds(Change, st.just("write"), path, data),
        st.builds(Change, st.just("save"), path, data),
        st.builds(Change, st.just("remove"), path),
        st.builds(Change, st.just("run"), argv=copy),
    )


def _placed(owed: FormerValue, root: Path) -> FormerValue:
    def at(word: str) -> str:
        return word.replace("ROOT", str(root))

    return FormerValue(
        owed.setting,
        Probe(
            at(owed.probe.path),
            tuple(map(at, owed.probe.argv)),
            owed.probe.pick,
            absent=owed.probe.absent,
        ),
        tuple(Change(a.kind, at(a.path), a.data, tuple(map(at, a.argv))) for a in owed.acts),
        owed.durable,
    )


def _tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=25)
@given(
    owed=owed_values(),
    there=st.dictionaries(st.sampled_from(NAMES), TEXTS),
    boot=st.sampled_from([BOOT, BOOT, BOOT, "another", ""]),
    torn=st.binary(max_size=3).filter(lambda data: b"\n" not in data),
)
def test_python_and_the_shell_leave_the_same_tree(
    shell: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
    owed: list[FormerValue],
    there: dict[str, str],
    boot: str,
    torn: bytes,
) -> None:
    trees = []
    for twin in ("python", "shell"):
        place = Place(tmp_path_factory.mktemp("twin"), shell)
        root = place.root / "tree"
        root.mkdir()
        for name, content in there.items():
            (root / name).write_text(content)
        made = [ResourceUndo("file", {"file": str(root / "made")})]
        (root / "made").write_text("x")
        place.owe(*(_placed(each, root) for each in owed), made=made, boot=boot)
        with place.journal.open("ab") as journal:
            journal.write(torn)
        if twin == "python":
            (session,) = sessions(HERE, str(place.folder))
            pay(HERE, session, RestoreReport())
        else:
            place.fire()
        trees.append((_tree(root), place.journal.exists()))
    assert trees[0] == trees[1]


# -- from Python ---------------------------------------------------------------------------------


@pytest.fixture
def journal_here(state: Path) -> Path:
    return state / "journal.d"


def test_a_run_is_watched_and_its_end_is_told_to_the_guard(journal_here: Path) -> None:
    journal = open_journal(HERE, str(journal_here), {"token": "T0"})
    with guarded(HERE, journal.path, lock_path(HERE), 0.0):
        watching = _guards_of(journal.path)
        assert len(watching) == 1
    until(lambda: not _guards_of(journal.path), 2)
    assert Path(journal.path).exists(), "who pays is not its business while we live"


def _guards_of(path: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[3:4] == [b"iotrial-guard"] and words[4].decode() == path:
                found.append(folder.name)
    return found


def test_where_no_guard_can_start_nothing_is_begun(
    journal_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone = journal_here.parent / "bin"
    lone.mkdir(parents=True)
    (lone / "sh").symlink_to("/bin/false")
    lock = lock_path(HERE)
    monkeypatch.setenv("PATH", str(lone))
    with (
        pytest.raises(HostError, match="guard that would restore it did not start"),
        guarded(HERE, f"{journal_here}/T0.journal", lock, 0.0),
    ):
        pass
    assert not journal_here.exists()


def test_a_lock_that_a_guard_holds_is_waited_for(state: Path) -> None:
    code = (
        "import fcntl, sys, time\nf = open(sys.argv[1], 'w'); fcntl.flock(f, 2)\n"
        "import os; f.write(f'{os.getpid()} {sys.argv[2]}\\n'); f.flush()\n"
        "print(flush=True); time.sleep(float(sys.argv[3]))"
    )

    def holding(purpose: str, seconds: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", code, lock_path(HERE), purpose, seconds, "iotrial"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    began = time.monotonic()
    guard = holding("guard", "0.7")
    with locked(HERE):
        assert 0.7 < time.monotonic() - began < 20
    guard.communicate()
    other = holding("a study", "60")
    began = time.monotonic()
    with pytest.raises(LockedError, match="a study"), locked(HERE):
        pass
    assert time.monotonic() - began < 20
    other.kill()
    other.communicate()


def test_a_report_is_told_once_in_few_words(state: Path) -> None:
    folder = state / "journal.d"
    folder.mkdir()
    (folder / "T0.restored").write_text(
        "2026-11-21 12:03:11, the controller died\nprocess: 7 of the load\nvalue: a=1\nvalue: b=2\n"
        "loop device: /dev/loop7 with /x\nowed: c=3 (Invalid argument)\n"
    )
    restored = "2026-11-21 12:03:11, the controller died: 1 process, 2 values, 1 loop device"
    assert read_reports(HERE, str(folder)) == (
        f"the guard restored at {restored}",
        "  owed: c=3 (Invalid argument)",
    )
    assert read_reports(HERE, str(folder)) == ()
    assert in_words("") == ["the guard restored, and could not write down what: nothing to restore"]
