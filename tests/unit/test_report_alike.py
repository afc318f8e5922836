"""What trials say alike is said once."""

from __future__ import annotations

from iotrial.model.trial import Doubt
from iotrial.report.evidence import grouped, said_once


def test_shares_become_a_range() -> None:
    said = [f"tasks waited for a CPU during {share}% of the load" for share in (27, 98, 31)]
    assert said_once(said) == ("tasks waited for a CPU during 27 to 98% of the load",)


def test_each_share_of_a_sentence_has_its_own_range_and_signs_count() -> None:
    said = [
        f"rounds differ by {a}% and trend by {b:+d}% (limit 10%)" for a, b in ((30, -20), (25, 9))
    ]
    assert said_once(said) == ("rounds differ by 25 to 30% and trend by -20 to +9% (limit 10%)",)


def test_of_names_the_sentence_with_the_largest_share_gives_an_example() -> None:
    said = ["others used 12% of it: sh (pid 7) 0.4 s", "others used 101% of it: cc (pid 9) 3.0 s"]
    assert said_once(said) == ("others used 12 to 101% of it, such as cc (pid 9) 3.0 s",)


def test_what_stands_behind_the_colon_alike_stays() -> None:
    assert said_once(["took 1%: see top", "took 2%: see top"]) == ("took 1 to 2%: see top",)


def test_other_numbers_and_names_with_digits_are_left_alone() -> None:
    said = ("sda1 read 5 MiB", "sda2 read 5 MiB", "sda1 read 7 MiB", "x: 3 of 5", "x: 4 of 5")
    assert said_once(said) == (
        "sda1 read 5 MiB",
        "sda2 read 5 MiB",
        "sda1 read 7 MiB",
        "x, such as 3 of 5",
    )


def test_sentences_said_word_for_word_are_said_once() -> None:
    assert said_once(["a: b", "c", "a: b"]) == ("a: b", "c")


def test_doubts_of_many_trials_are_one_line_and_those_of_workloads_stay_apart() -> None:
    trials = [Doubt("cpu", f"others used {n}% of it", "end it", trial=f"{n:04}") for n in range(90)]
    study = [Doubt("trend", f"read{n}k: drifted by {n} %", "look") for n in (4, 64)]
    cpu, trend = grouped([*trials, *study])
    assert (cpu.what, cpu.said, len(cpu.trials)) == (("others used 0 to 89% of it",), 1, 90)
    assert trend.what == ("read4k: drifted by 4 %", "read64k: drifted by 64 %")
