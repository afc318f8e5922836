"""ocfs2 that several hosts have, before pretended systems: honest ones, such that lose a line, and
such whose heartbeat goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iotrial_suites.case import Case, CaseFailed, CaseNotRun
from iotrial_suites.suites import chosen
from iotrial_suites.suites.filesystems import COUNT, END, TURNS, files_of, lines_of, turns_of
from scripted import Says, rehearse

DLM = "cluster nodeid 1 quorate 1 ring seq 9 9\nnode 1 M a\nnode 2 M a\n"
MDSTAT = "md100 : active raid1 sdb[1] sda[0]\n      9 blocks super 1.2 [2/2] [UU]\n"
HEART = "/sys/kernel/config/cluster/lab/heartbeat/BEEF"
LENGTH = len(turns_of()) // TURNS
CASES = ["stress/together-on-ocfs2", "stress/append-in-turn", "cluster-md/ocfs2"]


def one(name: str) -> Case:
    ((_, case),) = chosen((name,))
    return case


class Node:
    """A host of an O2CB cluster, whose heart beats while it has ocfs2 mounted, as the case asks."""

    def __init__(self, number: int, *, always: bool | None = None, **lies: str) -> None:
        self.number = number
        self.always = always
        self.lies = lies
        self.mounted = True

    def answer(self, argv: tuple[str, ...], _stdin: str) -> Says | None:
        words = " ".join(argv)
        if argv[0] == "umount":
            self.mounted = False
        if argv[:2] == ("test", "-d"):
            assert argv[2] == HEART
            return Says(exit=0 if (self.mounted if self.always is None else self.always) else 1)
        answers = {
            "dlm_tool": DLM,
            "/proc/mdstat": MDSTAT,
            "array_state": "clean\n",
            "/degraded": "0\n",
            "ls /sys/kernel/config/cluster": "lab\n",
            "--query": "BEEF\n",
            "ls /mnt": "of-1\n",
            "iotrial-lines": f"{lines_of(2)}  -\n{2 * COUNT}\n",
            "iotrial-files": f"{files_of(2)}  -\n{2 * COUNT}\n",
            "iotrial-turns": self.turns(),
            "in-turn": turns_of(),
        }
        answers = {part: self.lies.get(part, said) for part, said in answers.items()}
        return Says(next((said for part, said in answers.items() if part in words), ""))

    def turns(self) -> str:
        mine = range(self.number, TURNS, 2)
        return "".join(f"{turn} {(turn + 1) * LENGTH}\n" for turn in mine)


def play(name: str, second: Node) -> None:
    rehearse(one(name), (Node(0).answer, second.answer))


@pytest.mark.parametrize("name", CASES)
def test_hosts_that_lose_nothing_and_leave_no_heartbeat_pass(name: str) -> None:
    play(name, Node(1))


@pytest.mark.parametrize("name", CASES)
def test_a_heartbeat_that_is_left_is_found_out(name: str) -> None:
    with pytest.raises(CaseFailed, match=r"n1 has it mounted no more, and its heartbeat goes on"):
        play(name, Node(1, always=True))


@pytest.mark.parametrize("name", ["stress/together-on-ocfs2", "cluster-md/ocfs2"])
def test_a_heartbeat_that_never_was_is_found_out(name: str) -> None:
    """Else it would be no wonder that none is left."""
    with pytest.raises(CaseFailed, match="n1 has it mounted without a heartbeat"):
        play(name, Node(1, always=False))


@pytest.mark.parametrize(
    ("lies", "told"),
    [
        (
            {"iotrial-turns": f"1 {LENGTH}\n" + Node(1).turns().split("\n", 1)[1]},
            f"1 of {TURNS} lines, .* n1 wrote turn 1 up to byte {LENGTH}, where .* {LENGTH} before",
        ),
        ({"iotrial-turns": ""}, f"{TURNS // 2} of {TURNS} turns were taken"),
        ({"in-turn": turns_of()[:-1]}, "n1 finds other lines"),
    ],
)
def test_a_line_that_is_lost_is_found_out(lies: dict[str, str], told: str) -> None:
    with pytest.raises(CaseFailed, match=told):
        play("stress/append-in-turn", Node(1, **lies))


def test_without_a_cluster_it_is_not_run() -> None:
    lying = Node(0, **{"ls /sys/kernel/config/cluster": ""})
    with pytest.raises(CaseNotRun, match="O2CB has no cluster"):
        rehearse(one("stress/append-in-turn"), (lying.answer, Node(1).answer))


@pytest.mark.parametrize("left", [True, False])
def test_a_heartbeat_that_does_not_go_by_itself_is_ended(
    tmp_path: Path,
    left: bool,  # noqa: FBT001 (a case of the test)
) -> None:
    heart = tmp_path / "BEEF"
    if left:
        heart.mkdir()
    subprocess.run(["sh", "-c", END, "iotrial-heart", str(heart)], check=True, timeout=60)
    assert not heart.exists()
