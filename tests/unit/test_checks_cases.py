"""Cases of checks against pretended systems: sound ones pass, each broken one fails by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from iotrial.errors import UsageError
from iotrial_suites.case import Case, CaseFailed, CaseNotRun, HostVersions, KnownFailure, OweUndo
from iotrial_suites.suites import chosen, suite, suites
from iotrial_suites.suites.known import known, known_here
from iotrial_suites.suites.lvm import all_synced
from scripted import Answer, Says, rehearse

UUID = "6f0a:11:22:33"
ALL = [(each, case) for each in suites().values() for case in each.cases]


def one(name: str) -> Case:
    ((_, case),) = chosen((name,))
    return case


# --- the registry ------------------------------------------------------------------------------


def test_there_are_suites_and_each_has_cases() -> None:
    assert {"scheduler", "md", "lvm"} <= set(suites())
    assert all(each.title and each.cases for each in suites().values())


@pytest.mark.parametrize(("of", "case"), ALL, ids=[f"{of.name}/{case.name}" for of, case in ALL])
def test_a_case_says_what_it_is_and_what_it_needs(of, case: Case) -> None:  # noqa: ANN001
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", case.name)
    assert len(case.title) > 15
    assert case.needs.words()
    assert case.limit <= 3600
    assert all(re.compile(each) for each in case.announces)
    assert chosen((f"{of.name}/{case.name}",)) == ((of, case),)


def test_a_name_that_is_none_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no suite 'shceduler'(?s:.*)'scheduler'"):
        suite("shceduler")
    with pytest.raises(UsageError, match=r"no case 'md/creat'(?s:.*)md/create"):
        chosen(("md/creat",))


def test_a_case_that_is_named_twice_is_done_once() -> None:
    assert chosen(("md", "md/create", "md")) == chosen(("md",))


def test_known_failures_are_of_cases_that_exist() -> None:
    names = {f"{of.name}/{case.name}" for of, case in ALL}
    for row in known():
        assert row.case in names
        assert re.compile(row.says)
        assert row.reason
        assert row.source


@pytest.mark.parametrize(
    ("said", "there"),
    [("mdadm - v4.2", 1), ("mdadm - v4.1", 0), ("mdadm - v4.3", 0), ("", 0)],
)
def test_a_failure_is_known_for_some_versions(said: str, there: int) -> None:
    row = KnownFailure("md/create", "why", "where", "mdadm", (4, 2), (4, 3), "x")
    machine = HostVersions("a", "6.1", tools={"mdadm": said})
    assert len(known_here([machine], [row])) == there


# --- a pretended array -------------------------------------------------------------------------

Lie = Callable[[tuple[str, ...], str], Says | None]


class Array:
    """A mirror of two, as its commands show it; ``lie`` answers in their place."""

    def __init__(self, lie: Lie | None = None) -> None:
        self.lie = lie or (lambda *_: None)
        self.there = False
        self.sum = 0

    def answer(self, argv: tuple[str, ...], stdin: str) -> Says | None:
        return self.lie(argv, stdin) or self.truth(argv)

    def truth(self, argv: tuple[str, ...]) -> Says | None:
        if argv[0] == "mdadm":
            return self.mdadm(argv)
        if argv[0] == "dd":
            self.sum += 1
        files = "sync_action=idle\ndegraded=0\nraid_disks=2\nlevel=raid1\narray_state=clean"
        words = " ".join(argv[3:] if argv[0] == "sh" else argv)
        for start, text in (
            ("iotrial-sum", f"{self.sum:032x}  -\n"),
            ("iotrial-look", f"{files}\n\n{self.mdstat()}"),
            ("ls /sys/block/md100/slaves", "loop00\nloop01\n"),
            ("ls /sys/block", "loop0\nsda\n" + ("md100\n" if self.there else "")),
            ("cat /proc/mdstat", self.mdstat()),
            ("cat /sys/block/md100/md/array_state", "active\n"),
            ("cat /sys/block/md100/size", "126976\n"),
        ):
            if words.startswith(start):
                return Says(text)
        return None

    def mdadm(self, argv: tuple[str, ...]) -> Says | None:
        if {"--create", "--assemble"} & set(argv):
            self.there = True
        if "--stop" in argv:
            self.there = False
        if "--scan" in argv or "--brief" in argv:
            return Says(f"ARRAY /dev/md100 UUID={UUID}\n")
        if "--export" in argv:
            names = "".join(f"MD_DEVICE_{n}_DEV=/dev/loop0{n}\n" for n in (0, 1))
            return Says(f"MD_UUID={UUID}\nMD_DEVICES=2\n{names}")
        if "--detail" in argv:
            return Says(detail())
        if "--examine" in argv:
            role = argv[-1][-1]
            return Says(
                f"          Magic : a92b4efc\n     Array UUID : {UUID}\n   Raid Devices : 2\n"
                f"          State : clean\n    Device Role : Active device {role}\n"
                "    Data Offset : 4096 sectors\n"
            )
        return None

    def mdstat(self) -> str:
        array = (
            "md100 : active raid1 loop9[1] loop8[0]\n"
            "      63488 blocks super 1.2 [2/2] [UU]\n      \n"
        )
        return f"Personalities : [raid1] \n{array if self.there else ''}unused devices: <none>\n"


def detail(level: str = "raid1", disks: int = 2, state: str = "clean", uuid: str = UUID) -> str:
    return (
        f"/dev/md100:\n        Raid Level : {level}\n        Array Size : 63488 (62.00 MiB)\n"
        f"      Raid Devices : {disks}\n             State : {state}\n              UUID : {uuid}\n"
    )


MD = ["md/create", "md/assemble", "md/examine", "md/detail", "md/reassemble-by-uuid"]


@pytest.mark.parametrize("name", MD)
def test_a_sound_array_passes(name: str) -> None:
    done = rehearse(one(name), Array().answer)
    assert any(step.argv[:2] == ("mdadm", "--create") for step in done)


def says(*words: str, what: Says) -> Lie:
    """A command that has these words says something else."""
    return lambda argv, _stdin: what if set(words) <= set(argv) else None


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (says("--detail", what=Says(detail(level="raid0"))), "Raid Level raid0, the kernel raid1"),
        (says("--detail", what=Says(detail(disks=3))), "Raid Devices 3, the kernel 2"),
        (says("--detail", what=Says(detail(state="clean, degraded"))), "mdadm says its state is"),
        (says("--detail", what=Says("?")), "mdadm says Raid Level None"),
        (says("--create", what=Says("", 1, "mdadm: no")), "mdadm: no"),
        (says("iotrial-look", what=Says("sync_action=idle\ndegraded=1\n\nmd100 : x")), "lacks 1"),
        (
            says(
                "iotrial-look", what=Says("sync_action=idle\ndegraded=0\n\nmd100 : a\n  [2/1] [U_]")
            ),
            "is to show [2/2] [UU]",
        ),
        (says("iotrial-look", what=Says("sync_action=resync\n\n")), "is not in sync"),
    ],
)
def test_a_lie_about_an_array_is_caught(lie: Lie, told: str) -> None:
    with pytest.raises(CaseFailed, match=re.escape(told)):
        rehearse(one("md/create"), Array(lie).answer)


def test_an_array_that_loses_what_was_written_is_caught() -> None:
    array, sums = Array(), iter("abcdef")

    def forgets(argv: tuple[str, ...], _stdin: str) -> Says | None:
        return Says(f"{next(sums)}  -\n") if "iotrial-sum" in argv else None

    array.lie = forgets
    with pytest.raises(CaseFailed, match="other bytes after it was in sync"):
        rehearse(one("md/create"), array.answer)


def test_an_mdadm_that_only_says_it_stopped_is_caught() -> None:
    array = Array()
    array.lie = says("--stop", what=Says("stopped"))
    with pytest.raises(CaseFailed, match="was stopped, and /proc/mdstat still has it"):
        rehearse(one("md/assemble"), array.answer)


def test_another_array_in_its_place_is_caught() -> None:
    other = Says(detail(uuid="ffff:0:0:0"))
    with pytest.raises(CaseFailed, match="belongs to"):
        rehearse(one("md/examine"), Array(says("--detail", what=other)).answer)


@pytest.mark.parametrize("name", [case.name for case in suite("md").cases])
def test_an_array_is_owed_before_it_is_made(name: str) -> None:
    """Whatever stops a case, what it makes is known to the journal already."""
    case = one(f"md/{name}")
    owed: list[str] = []
    array = Array()

    def watching(argv: tuple[str, ...], stdin: str) -> Says | None:
        if "--create" in argv:
            assert any("--stop" in line for line in owed)
            raise CaseNotRun("seen")
        if argv[0] == "cat" and argv[1].endswith("/size"):
            return Says("131072\n")
        return array.answer(argv, stdin)

    with pytest.raises(CaseNotRun, match="seen"):
        rehearse(with_undo(case, owed), watching)


def with_undo(case: Case, owed: list[str]) -> Case:
    """The case, telling what it owes."""

    def steps(scene):  # noqa: ANN001, ANN202
        script = case.steps(scene)
        answer: object = None
        with_answer = False
        while True:
            try:
                step = script.send(answer) if with_answer else next(script)
            except StopIteration:
                return
            if isinstance(step, OweUndo):
                owed.append(" ".join(step.argv))
            answer, with_answer = (yield step), True

    return Case(case.name, case.title, steps, case.needs)


# --- a pretended queue -------------------------------------------------------------------------


class Queue:
    """A block queue whose files take what they are given; ``bend`` answers for some."""

    def __init__(self, bend: Callable[[str, str], str | None] | None = None) -> None:
        self.bend = bend or (lambda _file, value: value)
        self.files = {
            "scheduler": "none [mq-deadline] kyber",
            "nr_requests": "64",
            "read_ahead_kb": "128",
            "nomerges": "0",
            "iosched/read_expire": "500",
        }

    def answer(self, argv: tuple[str, ...], stdin: str) -> Says | None:
        if argv[0] == "cat":
            return Says(self.files[argv[1].partition("/queue/")[2]])
        if argv[0] == "dd":
            return self.put("scheduler", stdin)
        if "iotrial-put" in argv:
            done = self.put(argv[5], argv[6])
            return Says(self.all(), done.exit, done.stderr)
        return Says(self.all()) if "iotrial-look" in argv else None

    def all(self) -> str:
        return "".join(f"{name}\t{value}\n" for name, value in self.files.items())

    def put(self, file: str, value: str) -> Says:
        if file == "scheduler":
            names = self.files[file].replace("[", "").replace("]", "").split()
            if value not in names:
                return Says(exit=1, stderr="Invalid argument")
            value = " ".join(f"[{name}]" if name == value else name for name in names)
        kept = self.bend(file, value)
        if kept is None:
            return Says(exit=1, stderr="Invalid argument")
        self.files[file] = kept
        return Says()


def test_a_queue_that_takes_and_gives_back_passes() -> None:
    queue = Queue()
    rehearse(one("scheduler/kyber"), queue.answer)
    assert queue.files["nr_requests"] == "64"
    rehearse(one("scheduler/refuses-unknown"), queue.answer)


def test_a_scheduler_that_is_not_offered_is_a_reason_not_to_run() -> None:
    with pytest.raises(CaseNotRun, match="no bfq"):
        rehearse(one("scheduler/bfq"), Queue().answer)


@pytest.mark.parametrize(
    ("bend", "told"),
    [
        (lambda f, v: "0" if f == "nomerges" else v, "took 1 for 0, and reads '0'"),
        (
            lambda f, v: None if (f, v) == ("read_ahead_kb", "128") else v,
            "does not take it back: Invalid argument",
        ),
        (lambda f, v: "65" if (f, v) == ("nr_requests", "64") else v, "was restored to 64"),
        (
            lambda f, v: "[none] mq-deadline kyber" if f == "scheduler" else v,
            "kyber was written, and",
        ),
    ],
)
def test_a_queue_that_does_not_is_caught(bend: Callable[[str, str], str | None], told: str) -> None:
    with pytest.raises(CaseFailed, match=re.escape(told)):
        rehearse(one("scheduler/kyber"), Queue(bend).answer)


def test_a_kernel_that_takes_any_name_for_a_scheduler_is_caught() -> None:
    queue = Queue()
    answer: Answer = lambda argv, stdin: (  # noqa: E731
        Says(queue.all()) if "iotrial-put" in argv else queue.answer(argv, stdin)
    )
    with pytest.raises(CaseFailed, match="does not exist was taken"):
        rehearse(one("scheduler/refuses-unknown"), answer)


# --- LVM ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "so"),
    [
        ("0 32768 raid raid1 2 AA 32768/32768 idle 0 0 -", True),
        ("0 32768 raid raid1 2 AA 32768/32768 resync 0 0 -", False),
        ("0 32768 raid raid1 2 aa 1024/32768 resync 0 0 -", False),
        ("0 32768 mirror 2 254:0 254:1 16/16 1 AA 1 core", True),
        ("0 32768 mirror 2 254:0 254:1 3/16 1 AA 1 core", False),
        ("0 32768 linear", False),
    ],
)
def test_a_volume_is_in_sync_where_the_kernel_says_so(line: str, so: object) -> None:
    assert all_synced(line) is so
