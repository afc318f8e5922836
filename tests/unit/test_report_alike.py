"""What trials say alike is said once, and so is what hosts are alike."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import factories
from iotrial.judgement import completed
from iotrial.judgement.utilisation import HostUtilisation
from iotrial.model.results import Results
from iotrial.model.trial import Doubt
from iotrial.report import study
from iotrial.report.evidence import grouped, said_once
from iotrial.report.view import ReportView, view

pytestmark = pytest.mark.charts

RESULTS = factories.results(2)


def of_hosts(names: list[str], **own: Any) -> Results:  # noqa: ANN401 (facts)
    """The same study on several hosts; ``own`` gives a host's fact by its place."""
    facts = {
        name: {**factories.FACTS["local"], **{key: told(at) for key, told in own.items()}}
        for at, name in enumerate(names)
    }
    records = tuple(
        replace(
            record,
            before=tuple((f"{name}:{d}", *rest) for name in names for d, *rest in record.before),
        )
        for record in RESULTS.records
    )
    return replace(RESULTS, facts=facts, records=records)


def seen(results: Results) -> ReportView:
    return view(completed(results, factories.comparison(RESULTS)))


def test_shares_become_a_range() -> None:
    said = [f"tasks stalled for CPU during {share}% of the load" for share in (27, 98, 31)]
    assert said_once(said) == ("tasks stalled for CPU during 27 to 98% of the load",)


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


# -- hosts ----------------------------------------------------------------------------------------

FIFTY = [f"node{n:02}" for n in range(1, 51)]


def test_what_fifty_hosts_are_alike_is_said_once_and_what_differs_with_its_hosts() -> None:
    results = of_hosts(
        FIFTY,
        boot_id=lambda at: f"boot-{at}",
        kernel=lambda at: "6.18.3-old" if at in (6, 7, 8, 40) else "6.18.4-amd64",
    )
    page, text = study.html(seen(results)), study.markdown(seen(results))
    for said in (page, text):
        assert said.count("AMD EPYC 7R13 Processor") == 1
        assert said.count("6.18.3-old") == 1
        assert "The same on all 50 hosts" in said
        assert said.count("Machines") == 1
    assert "| 6.18.3-old | 4 | node\\[07-09,41\\] |" in text
    assert "| 46 | node\\[01-06,10-40,42-50\\] |" in text
    own = page[page.index("Each host's own: boot id".replace("'", "&#39;")) :]
    assert re.findall(r"boot-[0-9]+", own) == [f"boot-{at}" for at in range(50)]
    assert "boot-7" not in text, "it is folded away"
    one = study.html(seen(of_hosts(["local"])))
    assert page.count("<tr") < one.count("<tr") + 150, "not a multiple of it"


def test_two_hosts_stand_beside_each_other_in_what_differs() -> None:
    text = study.markdown(seen(of_hosts(["a", "b"], memory=lambda at: (1 + at) << 30)))
    assert "The same on both hosts" in text
    assert "|  | a | b |" in text
    assert re.search(r"\| memory \| 1.00 GiB[^|]*\| 2.00 GiB[^|]*\|", text)


def test_settings_that_hosts_have_alike_are_one_line_and_one_that_differs_names_its_hosts() -> None:
    names = FIFTY[:3]
    results = of_hosts(names)
    told = seen(results).settings
    alone = seen(RESULTS).settings
    assert told.device == "loop117 of all 3 hosts"
    assert told.varied == alone.varied
    assert told.constant == alone.constant
    odd = tuple(
        replace(
            record,
            before=tuple(
                (d, n, "256" if (d, n) == ("node02:loop117", "queue.read_ahead_kb") else v)
                for d, n, v in record.before
            ),
        )
        for record in results.records
    )
    told = seen(replace(results, records=odd)).settings
    assert "queue.scheduler on loop117 of all 3 hosts" in told.varied.columns
    assert ("queue.read_ahead_kb on loop117 of node[01,03]", "128") in told.constant
    assert "queue.read_ahead_kb on loop117 of node02" in told.varied.columns


def test_charts_stand_before_what_each_host_did() -> None:
    rows = tuple(
        HostUtilisation(
            "randread", "read.iops", "1/s", name, 1, 1e4, 0.5, 0.5, f"{name}/disk", 1, 0, 5
        )
        for name in FIFTY[:2]
    )
    page = study.html(replace(seen(of_hosts(FIFTY[:2])), hosts=rows))
    assert page.rindex("<figure") < page.index('id="hosts"') < page.index('id="machine"')
    assert '<a href="#hosts">' in page
