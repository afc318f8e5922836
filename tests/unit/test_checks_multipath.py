"""The suite multipath before a pretended map: one that does as it is told, and such that do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iotrial_suites.case import CaseFailed, CaseNotRun
from iotrial_suites.suites import multipath
from iotrial_suites.suites.paths import features, parsed, selectors, with_selector
from scripted import FIO, Says, rehearse

TABLE = (
    "0 524288 multipath 1 queue_if_no_path 1 alua 2 1 "
    "round-robin 0 1 1 8:16 1 round-robin 0 2 1 8:0 1 8:32 1"
)


class Map:
    """A map of two paths.  ``bend`` may change what a command says."""

    def __init__(self, bend: Callable[[str, str], str] | None = None) -> None:
        self.bend = bend or (lambda _words, said: said)
        self.state = {"sda": "A", "sdb": "A"}
        self.done = 0
        self.queues = True
        self.selector = "round-robin"

    def answer(self, argv: tuple[str, ...], stdin: str) -> Says:
        words = " ".join(argv)
        exit_ = 0
        for path in self.state:
            if f"of=/sys/block/{path}/device/state" in words:
                self.state[path] = "A" if "running" in stdin else "F"
        if argv[0] == "multipathd":
            self.queues = argv[1] == "restorequeueing"
        if "iotrial-reload" in argv:
            self.selector = selectors(argv[-1])[0]
        if words.startswith("test -e") or ("iotrial-write" in argv and not self.alive):
            exit_ = 1
        numbers = {"sda": "8:0", "sdb": "8:16"}
        status = " ".join(f"{numbers[path]} {state} 0" for path, state in self.state.items())
        listed = "".join(f"{path} {number}\n" for path, number in numbers.items())
        queue = "1 queue_if_no_path" if self.queues else "0"
        tail = "1" if self.selector != "service-time" else "1 1"
        paths = " ".join(f"{number} {tail}" for number in numbers.values())
        self.done += 100
        answers = {
            "dm/uuid": "mpath-3600\n",
            "dm/name": "mpatha\n",
            "/slaves": "sda\nsdb\n",
            "iotrial-states": f"0 9 multipath 2 0 1 0 1 1 A 0 2 0 {status}\n{listed}",
            "iotrial-count": "".join(f"{path} {self.stat(path)}\n" for path in self.state),
            "dmsetup table": f"0 9 multipath {queue} 0 1 1 {self.selector} 0 2 "
            f"{len(tail.split())} {paths}\n",
            "iotrial-sums": "beef -\nbeef -\n",
            "iotrial-load": FIO,
        }
        said = next((text for part, text in answers.items() if part in words), "")
        return Says(self.bend(words, said), exit_)

    @property
    def alive(self) -> bool:
        return "A" in self.state.values()

    def stat(self, path: str) -> int:
        return self.done if self.state[path] == "A" else 7


CASES = (
    multipath.path_loss_case,
    multipath.path_return_case,
    multipath.all_paths_down_case,
    multipath.selector_under_load_case,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_map_that_does_as_it_is_told_passes(case) -> None:  # noqa: ANN001
    there = Map()
    rehearse(case, there.answer)
    assert there.state["sdb"] == "A"
    assert there.queues


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_disk_that_is_no_map_is_a_reason_not_to_run(case) -> None:  # noqa: ANN001
    other = Map(lambda words, said: "LVM-1" if "dm/uuid" in words else said)
    with pytest.raises(CaseNotRun, match="not a map of dm-multipath"):
        rehearse(case, other.answer)


def test_a_map_with_one_path_is_a_reason_not_to_run() -> None:
    one = Map(lambda words, said: "sda\n" if "/slaves" in words else said)
    with pytest.raises(CaseNotRun, match="one path only"):
        rehearse(multipath.path_loss_case, one.answer)


def test_a_loss_that_is_not_noticed_is_found_out() -> None:
    blind = Map(lambda words, said: said.replace(" F ", " A ") if "states" in words else said)
    with pytest.raises(CaseFailed, match="path sda of mpatha is to be failed"):
        rehearse(multipath.path_loss_case, blind.answer)


def test_a_path_that_is_not_used_again_is_found_out() -> None:
    idle = Map()
    lost: list[str] = []

    def answer(argv: tuple[str, ...], stdin: str) -> Says:
        if stdin == "offline\n":
            lost.append(argv[1])
        if lost and "iotrial-count" in argv:
            return Says("sda 7\nsdb 9\n")
        return idle.answer(argv, stdin)

    with pytest.raises(CaseFailed, match="too little goes over sda"):
        rehearse(multipath.path_return_case, answer)


def test_requests_over_a_path_that_is_lost_are_found_out() -> None:
    there = Map()
    there.stat = lambda _path: there.done  # type: ignore[method-assign]
    with pytest.raises(CaseFailed, match="requests went over sda, which was lost"):
        rehearse(multipath.path_loss_case, there.answer)


def test_a_map_that_does_not_wait_is_found_out() -> None:
    there = Map()

    def hasty(argv: tuple[str, ...], stdin: str) -> Says:
        return Says() if argv[0] == "test" else there.answer(argv, stdin)

    with pytest.raises(CaseFailed, match="a write did not wait"):
        rehearse(multipath.all_paths_down_case, hasty)


def test_a_write_that_was_queued_and_lost_is_found_out() -> None:
    there = Map(lambda words, said: said.replace("beef", "dead", 1) if "sums" in words else said)
    with pytest.raises(CaseFailed, match="what was queued is not what is there now"):
        rehearse(multipath.all_paths_down_case, there.answer)


def test_a_write_without_any_path_that_succeeds_is_found_out() -> None:
    there = Map()

    def lying(argv: tuple[str, ...], stdin: str) -> Says:
        return Says() if "iotrial-write" in argv else there.answer(argv, stdin)

    with pytest.raises(CaseFailed, match="a write succeeded though no path was there"):
        rehearse(multipath.all_paths_down_case, lying)


def test_a_selector_that_is_not_taken_is_found_out() -> None:
    stubborn = Map(
        lambda words, said: (
            said.replace("queue-length", "round-robin") if "table" in words else said
        )
    )
    with pytest.raises(CaseFailed, match="its selector is to be queue-length"):
        rehearse(multipath.selector_under_load_case, stubborn.answer)


def test_a_load_that_saw_an_error_is_found_out() -> None:
    bad = Map(
        lambda words, said: said.replace('"error": 0', '"error": 5') if "load" in words else said
    )
    with pytest.raises(CaseFailed, match="errno 5"):
        rehearse(multipath.path_loss_case, bad.answer)


def test_a_table_keeps_everything_but_its_selector() -> None:
    changed = with_selector(TABLE, "service-time")
    assert changed == (
        "0 524288 multipath 1 queue_if_no_path 1 alua 2 1 "
        "service-time 0 1 2 8:16 1 1 service-time 0 2 2 8:0 1 1 8:32 1 1"
    )
    assert selectors(changed) == ("service-time", "service-time")
    assert features(changed) == ("queue_if_no_path",)
    assert selectors(with_selector(changed, "queue-length")) == ("queue-length", "queue-length")
    assert features("0 9 multipath 0 0 1 1 queue-length 0 1 1 8:0 1") == ()
    optioned = "0 9 multipath 0 0 1 1 historical-service-time 2 50 2 1 1 8:0 1"
    assert with_selector(optioned, "round-robin").endswith("1 1 round-robin 0 1 1 8:0 1000")


def test_a_failed_path_is_told_from_an_active_one() -> None:
    status = "0 9 multipath 2 0 1 0 2 1 A 0 1 2 8:16 A 0 0 1 E 0 1 2 8:0 F 3 0 1"
    assert parsed(status) == (("8:16", "A"), ("8:0", "F"))
