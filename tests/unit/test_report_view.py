"""What a report says, before it has a shape."""

from __future__ import annotations

import dataclasses
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import factories
from iotrial.judgement import completed
from iotrial.judgement.parts import of_counterparts
from iotrial.model.finding import Comparison, Finding
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.trial import Doubt
from iotrial.report import evidence, words
from iotrial.report.series import DRAWN, SeriesPoint, thinned
from iotrial.report.view import ReportView, view
from iotrial.report.words import visible, visible_lines
from iotrial.units import axis_scale

RESULTS = factories.results()
COMPARISON = factories.comparison(RESULTS)
VIEW = view(completed(RESULTS, COMPARISON))


def nothing() -> tuple[Results, Comparison]:
    empty = dataclasses.replace(RESULTS, planned=(), records=(), facts={}, doubts=())
    return empty, Comparison(factories.QUESTION, (), "", "")


def with_raw(raw: str) -> ReportView:
    record = RESULTS.valid[0]
    measured = tuple(dataclasses.replace(m, raw=raw) for m in record.measurements)
    changed = dataclasses.replace(record, measurements=measured)
    return view(completed(dataclasses.replace(RESULTS, records=(changed,)), COMPARISON))


def test_every_trial_is_a_row_and_each_number_knows_its_raw_file() -> None:
    assert [row.number for row in VIEW.trials] == [r.trial.number for r in RESULTS.records]
    for row, record in zip(VIEW.trials, RESULTS.records, strict=True):
        if record.state == "failed":
            assert row.response.value is None
            assert record.error in row.doubts
        else:
            assert row.response.href == f"trials/{record.trial.folder}/fio.json"
            assert row.p99.href == row.response.href
            assert row.response.value == record.value(factories.PRIMARY[row.workload])


@pytest.mark.parametrize("raw", ["../../etc/passwd", "/etc/passwd", "", ".", "a//b", "a/../b"])
def test_a_raw_file_outside_the_trial_folder_gets_no_link(raw: str) -> None:
    assert with_raw(raw).trials[0].response.href == ""


@pytest.mark.parametrize(
    ("raw", "end"),
    [
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ('a"onclick=x', "a%22onclick%3Dx"),
        ("sub/fio.json", "sub/fio.json"),
        ("\udcff", "%FF"),
    ],
)
def test_a_strange_raw_file_stays_a_relative_link(raw: str, end: str) -> None:
    folder = RESULTS.valid[0].trial.folder
    assert with_raw(raw).trials[0].response.href == f"trials/{folder}/{end}"


def test_counts_say_what_became_of_the_planned_trials() -> None:
    fewer = dataclasses.replace(RESULTS, records=RESULTS.records[:50])
    counts = view(completed(fewer, COMPARISON)).counts
    assert counts.planned == len(RESULTS.planned)
    assert counts.missing == len(RESULTS.planned) - 50
    assert counts.valid + counts.invalid + counts.failed == 50
    assert (counts.invalid, counts.failed) == (2, 1)


def test_level_and_baseline_stand_beside_a_finding_as_geometric_means() -> None:
    row = next(r for r in VIEW.parts[0].findings if r.finding.level == "bfq")
    assert row.base == pytest.approx(factories.TYPICAL["randread"], rel=0.02)
    assert row.value is not None
    assert row.base is not None
    assert row.value / row.base == pytest.approx(row.finding.ratio, rel=0.01)


def test_guardrails_are_apart_from_what_decides_and_know_what_is_tolerated() -> None:
    part = VIEW.parts[0]
    assert {row.finding.metric for row in part.findings} == {"read.iops"}
    assert {row.tolerated for row in part.guardrails} == {0.1}
    assert [f.primary for f in VIEW.findings] == [True] * 9 + [False] * 6


def test_means_are_of_treatments_that_have_a_counterpart() -> None:
    """One node alone has the local array: what two of them do is no mean of an array's."""
    cells = {("local", "1"): 100.0, ("clustered", "1"): 110.0, ("clustered", "2"): 220.0}
    first = RESULTS.valid[0]
    records = tuple(
        dataclasses.replace(
            first,
            trial=dataclasses.replace(
                first.trial, treatment=(("storage", storage), ("nodes", nodes))
            ),
            measurements=(Measurement("read.bw", value, "bytes/s"),),
        )
        for (storage, nodes), value in cells.items()
    )
    whole = dataclasses.replace(RESULTS, records=records)
    some = dataclasses.replace(
        COMPARISON.findings[0], workload=first.trial.workload, metric="read.bw"
    )
    storage = dataclasses.replace(some, factor="storage", level="clustered", baseline="local")
    nodes = dataclasses.replace(some, factor="nodes", level="2", baseline="1")
    told = of_counterparts(whole, storage)
    assert told["storage", "clustered"] == pytest.approx(110)
    assert told["storage", "local"] == pytest.approx(100)
    told = of_counterparts(whole, nodes)
    assert (told["nodes", "2"], told["nodes", "1"]) == (pytest.approx(220), pytest.approx(110))
    alone = dataclasses.replace(whole, records=(records[0], records[2]))
    assert of_counterparts(alone, storage)["storage", "clustered"] == pytest.approx(220)
    failed = dataclasses.replace(records[0], state="failed")
    other = dataclasses.replace(failed.trial, workload="other")
    elsewhere = dataclasses.replace(failed, trial=other, state="valid")
    none = dataclasses.replace(whole, records=(failed, elsewhere, records[1], records[2]))
    clustered = of_counterparts(none, storage)["storage", "clustered"]
    assert clustered == pytest.approx((110 * 220) ** 0.5)


def test_the_baseline_is_the_first_group_whatever_its_name() -> None:
    other = dataclasses.replace(RESULTS, baselines={"scheduler": "kyber"})
    assert view(completed(other, COMPARISON)).parts[0].series.groups[0] == "kyber"
    assert VIEW.parts[0].series.groups == factories.LEVELS


def test_settings_show_what_was_in_force_and_what_was_before() -> None:
    found = VIEW.settings
    assert found.device == "loop117"
    assert found.constant == (("queue.read_ahead_kb", "128"),)
    place = found.varied.columns.index("queue.nr_requests")
    assert found.varied.start[place] == "128"
    assert found.varied.start[found.varied.columns.index("queue.scheduler")] == "none"
    rows = dict(found.varied.rows)
    assert [rows[f"scheduler={name}"][place] for name in factories.LEVELS] == [
        "128", "256", "256", "256",
    ]  # fmt: skip


def test_a_setting_that_was_not_always_the_same_shows_every_value() -> None:
    record = RESULTS.records[0]
    triples = tuple((d, t, "64" if t == "queue.nr_requests" else v) for d, t, v in record.before)
    records = (dataclasses.replace(record, before=triples), *RESULTS.records[1:])
    varied = view(
        completed(dataclasses.replace(RESULTS, records=records), COMPARISON)
    ).settings.varied
    treatment = VIEW.trials[0].treatment
    assert " or " in dict(varied.rows)[treatment][varied.columns.index("queue.nr_requests")]


def test_a_setting_changed_from_the_start_is_not_called_constant() -> None:
    facts = {"local": {"devices": {"loop117": {"queue": {"read_ahead_kb": "4096"}}}}}
    found = view(completed(dataclasses.replace(RESULTS, facts=facts), COMPARISON)).settings
    assert found.constant == ()
    assert "queue.read_ahead_kb" in found.varied.columns


def test_commands_are_grouped_and_keep_their_quoting() -> None:
    records = [
        dataclasses.replace(record, command=("fio", "--name=a b", "$(x)"))
        for record in RESULTS.records
    ]
    commands, more = evidence.commands(dataclasses.replace(RESULTS, records=tuple(records)))
    assert [command.line for command in commands] == ["fio '--name=a b' '$(x)'"]
    assert len(commands[0].trials) == len(records)
    assert more == 0


def test_doubts_with_one_remedy_are_said_once_with_all_their_trials() -> None:
    doubts = [Doubt("cpu", f"sh{n} is busy", "free it", trial=f"{n}") for n in range(9)]
    doubts.append(Doubt("drift", "moved", "look", invalid=True, trial="3"))
    groups = evidence.grouped(doubts)
    assert [group.check for group in groups] == ["drift", "cpu"]
    assert len(groups[1].what) == 3
    assert groups[1].said == 9
    assert len(groups[1].trials) == 9


def test_a_trials_doubt_names_its_folder_even_when_the_check_did_not() -> None:
    record = dataclasses.replace(RESULTS.records[0], doubts=(Doubt("x", "y", "z"),))
    found = evidence.doubts(dataclasses.replace(RESULTS, records=(record,), doubts=()))
    assert [doubt.trial for doubt in found] == [record.trial.folder]


def test_facts_are_flattened_and_sizes_are_for_people() -> None:
    facts = dict(VIEW.machines[0].facts)
    assert facts["memory"] == "31.0 GiB (33,285,996,544 bytes)"
    assert facts["cpu model"] == "AMD EPYC 7R13 Processor"
    assert facts["targets disk identity ids backing inode"] == "8:1/77"
    assert not any("queue" in name for name in facts)
    assert ("loop117 queue.read_ahead_kb", "128") in VIEW.machines[0].queues
    assert VIEW.tools == ("fio-3.39",)


def test_a_study_without_any_trial_still_has_a_view() -> None:
    shown = view(completed(*nothing()))
    assert shown.answer == "No answer yet."
    assert shown.started is None
    assert shown.trials == ()


def test_metrics_iotrial_does_not_know_are_shown_and_not_fatal() -> None:
    decide = dataclasses.replace(RESULTS.study.decide, primary=(("randread", "read.novel"),))
    study = dataclasses.replace(RESULTS.study, decide=decide)
    shown = view(completed(dataclasses.replace(RESULTS, study=study), COMPARISON))
    assert shown.parts[0].metric.title == "read.novel"


# -- fewer points ----------------------------------------------------------------------------


def points(n: int, wrong: int) -> list[SeriesPoint]:
    return [SeriesPoint(k, (k * 7919) % n, "ab"[k % 2], k, valid=k % wrong != 0) for k in range(n)]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6000), st.integers(2, 900))
def test_thinning_keeps_the_room_the_extremes_and_trials_that_do_not_count(
    n: int, wrong: int
) -> None:
    every = points(n, wrong)
    kept = thinned(every, DRAWN)
    assert len(kept) <= DRAWN + 4
    assert [point.number for point in kept] == sorted({point.number for point in kept})
    for group in {point.group for point in every}:
        values = [point.value for point in every if point.group == group]
        left = [point.value for point in kept if point.group == group]
        assert (min(left), max(left)) == (min(values), max(values))
    if sum(not point.valid for point in every) <= DRAWN // 4:
        assert [p for p in kept if not p.valid] == [p for p in every if not p.valid]


def test_many_trials_are_thinned_and_the_number_measured_is_kept() -> None:
    many = factories.results(blocks=700)
    series = view(completed(many, factories.comparison(many))).parts[0].series
    assert len(series.points) < DRAWN < series.measured
    assert series.blocks == ()


# -- words -----------------------------------------------------------------------------------


@given(st.text())
def test_visible_text_is_one_line_without_anything_hidden(text: str) -> None:
    shown = visible(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert not set(shown) & set("\u202e\u2066\u200f")
    shown.encode()


def test_escapes_and_turned_text_are_shown_by_their_code() -> None:
    assert visible("a\x1b[2Jb") == r"a\x1b[2Jb"
    assert visible("sda\n") == r"sda\n"
    assert visible("gpj\u202e.exe") == r"gpj\u202e.exe"
    assert visible("\udcff") == r"\udcff"
    assert visible("größe ✓") == "größe ✓"
    assert visible_lines("a = 1\r\n\tb\x07") == "a = 1\n    b\\x07"


def finding(low: float | None, high: float | None, ratio: float = 0.82) -> Finding:
    first = COMPARISON.findings[0]
    return dataclasses.replace(first, ratio=ratio, low=low, high=high)


def test_a_change_is_said_with_its_interval() -> None:
    assert words.change(finding(0.801, 0.839)) == "−18.0 % (−19.9 … −16.1)"
    assert words.change(finding(None, None)) == "−18.0 % (no interval)"
    assert words.share(0.02) == "2 %"
    assert words.share(0.0214) == "2.1 %"


@pytest.mark.parametrize(
    ("low", "high", "tolerated", "said"),
    [
        (1.01, 1.09, 0.1, "within +10 %"),
        (1.12, 1.2, 0.1, "beyond +10 %"),
        (1.05, 1.2, 0.1, "may be beyond +10 %"),
        (0.8, 0.9, -0.05, "beyond −5 %"),
        (0.96, 1.2, -0.05, "within −5 %"),
        (None, None, 0.1, "within +10 %"),
    ],
)
def test_a_guardrail_is_read_from_the_interval(
    low: float | None, high: float | None, tolerated: float, said: str
) -> None:
    assert words.guard(finding(low, high, 1.0), tolerated) == said


@pytest.mark.parametrize(
    ("largest", "unit", "scale"),
    [
        (2e9, "bytes/s", (2.0**30, "GiB/s")),
        (500, "bytes", (1.0, "B")),
        (81_000, "1/s", (1e3, "k/s")),
        (81_000, "IOPS", (1e3, "kIOPS")),
        (0.002, "s", (1e-3, "ms")),
        (4000, "s", (3600.0, "h")),
        (0.4, "fraction", (0.01, "%")),
        (3, "widgets", (1.0, "widgets")),
        (0, "1/s", (1.0, "/s")),
    ],
)
def test_an_axis_has_one_unit(largest: float, unit: str, scale: tuple[float, str]) -> None:
    assert axis_scale(largest, unit) == scale


def test_a_long_answer_is_a_heading_and_sentences() -> None:
    assert words.headline("Use bfq.") == ("Use bfq.", ())
    assert words.headline("Use bfq. It is 3.5 % faster. Cannot tell for b.") == (
        "Use bfq.", ("It is 3.5 % faster.", "Cannot tell for b."),
    )  # fmt: skip
    levels = [f"level{n} +{n} %" for n in range(30)]
    head, rest = words.headline(f"scheduler against cfq: {', '.join(levels)}. Yes.")
    assert head.startswith("scheduler against cfq: level0 +0 %, level1 +1 %")
    assert len(head) < 150
    assert rest[0].endswith("level29 +29 %.")
    head, rest = words.headline("Keep none: for randread " + "kyber is slower, " * 20 + "so. Yes.")
    assert head == "Keep none"
    assert rest[0].startswith("For randread kyber")
    assert rest[1] == "Yes."
