"""Offered rates: the highest within a latency bound, from the latencies at several of them."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.cli.main import status
from iotrial.errors import StudyError
from iotrial.formats.fio import jobfile
from iotrial.model.measurement import metric, of_metric
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.tool import ToolTarget
from iotrial.model.trial import Doubt, Trial, TrialRecord
from iotrial.model.workload import OfferedRates
from iotrial.plan.load import parse_study
from iotrial.stats.judge import judge
from iotrial.stats.offered import FoundRate, OfferedLevel, level, response, within
from iotrial.store import open_results
from iotrial.tools.fio import TOOL
from iotrial.tools.fio_offered import clients
from iotrial.validity import of_study

DATA = Path(__file__).parent.parent / "data" / "fio" / "offered"
STUDY = """
[targets.disk]
loop.size = "64MiB"
[workloads.db]
tool = "{tool}"
{key} = {offered}
options = {{ {options} }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
[design]
blocks = 3
[decide]
{decide}
"""
RATES = '{ from = "500", to = "8k", steps = 5, within = { p99 = "2ms" } }'


def study(offered: str = RATES, **said: str) -> Study:
    usual = {
        "tool": "fio", "key": "offered", "options": 'rw = "randread", bs = "4k", runtime = "2s"',
        "decide": "",
    }  # fmt: skip
    return parse_study(STUDY.format(offered=offered, **{**usual, **said}), "s.toml", str)


# -- the response time from the intended start ----------------------------------------------------


def simulated(latencies: list[float], rate: float, share: float) -> float:
    """Clients that are simulated: each starts its I/O when it is due, or when it is free."""
    luck, found = random.Random(1), []
    for _ in range(60):
        due = free = 0.0
        while due < 20:
            due += luck.expovariate(rate)
            free = max(due, free) + luck.choice(latencies)
            found.append(free - due)
    return sorted(found)[int(share * len(found))]


@pytest.mark.parametrize("rate", [50.0, 400.0, 700.0])
def test_the_wait_for_a_busy_client_is_added_to_the_latency(rate: float) -> None:
    luck = random.Random(2)
    latencies = [round(luck.lognormvariate(math.log(1e-3), 0.5), 6) for _ in range(2000)]
    own = sorted(latencies)[1980]
    found = response(Counter(latencies), rate, 0.99, 20.0)
    assert found == pytest.approx(simulated(latencies, rate, 0.99), rel=0.05)
    assert (found > 1.2 * own) == (rate > 50)


def test_a_client_that_is_always_busy_is_later_and_later_until_the_end() -> None:
    late = response({0.01: 100}, 200.0, 0.99, 2.0)  # two seconds of work in every second
    assert late == pytest.approx(0.01 + 0.99 * 1.0)


def test_a_client_that_is_hardly_ever_busy_adds_nothing() -> None:
    assert response({0.001: 995, 0.02: 5}, 0.1, 0.99, 2.0) == pytest.approx(0.001, rel=0.01)
    assert response({1e-9: 5}, 0.1, 0.5, 1.0) == pytest.approx(1e-9)


@pytest.mark.parametrize(
    ("ios", "rate", "clients", "served"),
    [
        (8020, 4000.0, 20, True),
        (7800, 4000.0, 20, True),
        (7500, 4000.0, 20, False),
        (180, 100.0, 8, True),  # chance is larger where there are few
        (8100, 4000.0, 300, True),
        (7800, 4000.0, 300, False),  # each client begins with one
    ],
)
def test_fewer_ios_than_were_offered_are_a_rate_that_was_not_reached_but_for_chance(
    ios: int, rate: float, clients: int, *, served: bool
) -> None:
    found = level({1e-6: ios}, rate=rate, clients=clients, share=0.99, seconds=2.0)
    assert (found.rate, found.served) == (rate, served)
    if not served:
        missing = 1 - ios / (rate * 2 + clients)
        assert found.response == pytest.approx(0.99 * 2.0 * missing, rel=1e-3)


# -- the highest rate within the bound ------------------------------------------------------------


def levels(*pairs: tuple[float, float]) -> list[OfferedLevel]:
    """(rate, response); one of 0 seconds was not reached."""
    return [OfferedLevel(rate, late or 1.0, served=bool(late)) for rate, late in pairs]


def test_between_two_rates_a_straight_line_in_logarithms_meets_the_bound() -> None:
    found = within(levels((1000, 0.001), (4000, 0.004)), 0.002)
    assert found == FoundRate(pytest.approx(2000), "")
    assert within(levels((4000, 0.004), (1000, 0.001)), 0.002).rate == pytest.approx(2000)
    assert within(levels((1000, 0.001), (2000, 0.002), (4000, 0.1)), 0.002).rate == pytest.approx(
        2000
    )


def test_responses_rise_with_the_rate() -> None:
    """One bad second at a low rate is no limit where higher ones are served."""
    once = levels((1000, 0.0005), (2000, 0.003), (3000, 0.0005), (4000, 0.009))
    assert within(once, 0.002).rate > 3000
    pooled = within(levels((1000, 0.001), (2000, 0.009), (4000, 0.001), (8000, 0.1)), 0.002)
    assert 1000 < pooled.rate < 2000, "the pool of both is 3 ms, above the bound"


def test_a_rate_that_was_not_reached_is_not_served_whatever_its_latencies() -> None:
    assert within(levels((1000, 0.001), (2000, 0), (4000, 0.001)), 0.002).rate < 2000
    low = [OfferedLevel(1000, 0.001, served=True), OfferedLevel(2000, 0.001, served=False)]
    assert within(low, 0.002) == FoundRate(pytest.approx(1000), "")
    assert within(levels((1000, 0), (2000, 0.001)), 0.002) == FoundRate(1000, "below")


def test_beyond_the_rates_that_were_offered_the_nearest_is_named_as_such() -> None:
    assert within(levels((1000, 0.001), (2000, 0.0011)), 0.002) == FoundRate(2000, "above")
    assert within(levels((1000, 0.003), (2000, 0.004)), 0.002) == FoundRate(1000, "below")


# -- the load -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1, 3, 50, 400, 500, 1189, 7937, 38_700, 500_000])
@pytest.mark.parametrize("bound", [0.0002, 0.002, 0.1])
def test_clients_offer_the_rate_and_are_seldom_busy(rate: int, bound: float) -> None:
    count, each = clients(rate, bound)
    assert count * each == pytest.approx(rate, rel=0.002)
    assert count <= 256
    assert each <= 1 / (4 * bound) or count <= 16 or count > 128


def test_each_rate_is_a_section_that_follows_the_one_before() -> None:
    load = study().workload("db")
    assert load.offered == OfferedRates((500, 1000, 2000, 4000, 8000), 99.0, 0.002)
    command = TOOL.command(load, ToolTarget("/dev/loop0", "device", 2**26), {"io_uring": 1.0})
    assert command.argv[-1] == "job.fio"
    assert "--filename=/dev/loop0" in command.argv
    assert {"--direct=1", "--time_based=1", "--norandommap=1"} <= set(command.argv)
    ((name, content),) = command.files
    found = jobfile.parse(content.decode()).sections
    assert (name, [each.name for each in found]) == (
        "job.fio", ["500", "1000", "2000", "4000", "8000"],
    )  # fmt: skip
    for section in found:
        said = dict(section.options)
        assert int(said["numjobs"]) * int(said["rate_iops"]) == int(section.name)
        assert (said["rate_process"], said["ioengine"], said["thread"]) == ("poisson", "psync", "1")
        assert ("stonewall" in said) == (section.name != "500")
    assert TOOL.seconds(load, ToolTarget("", "device")) == pytest.approx(5 * 2.4, abs=0.5)
    assert [each.after for each in TOOL.sectioned(load)] == [False, True, True, True, True]


def test_in_a_directory_all_clients_share_one_file() -> None:
    load = study().workload("db")
    argv = TOOL.command(load, ToolTarget("/mnt", "directory", 2**26), {}).argv
    assert "--filename=/mnt/iotrial-fio/data/data" in argv
    assert f"--size={2**26}" in argv
    (left,) = TOOL.leaves(load, ToolTarget("/mnt", "directory", 2**26), {})
    assert (left.path, left.kind) == ("/mnt/iotrial-fio", "folder")


def test_its_result_decides_and_the_limits_are_those_of_the_study() -> None:
    made = study()
    assert made.decide.primary == (("db", "read.iops.within"),)
    assert made.metrics.higher("read.iops.within") is True
    assert made.metrics.display_unit("read.iops.within") == "IOPS"
    writes = study(options='rw = "randwrite", bs = "4k", runtime = "2s"')
    assert writes.decide.primary == (("db", "write.iops.within"),)
    one = study(decide='primary = "read.response.p99[4000]"')
    assert one.decide.primary == (("db", "read.response.p99[4000]"),)
    assert metric("read.response.p99[4000]").unit == "s"


@pytest.mark.parametrize(
    ("offered", "said", "where"),
    [
        (RATES, {"tool": "dd", "options": ""}, r"workloads\.db\.offered: dd offers no rates"),
        ("{ rates = [500, 400], within = { p99 = '2ms' } }", {}, "400 does not follow 500"),
        ("{ rates = [500], within = { p99 = '2ms' } }", {}, "1 rates; a curve has 2"),
        ("{ within = { p99 = '2ms' } }", {}, "the rates are a list, or from, to and steps"),
        ("{ from = 500, to = '8k', within = { p99 = '2ms' } }", {}, "the rates is missing"),
        ("{ from = 500, to = 500, steps = 3, within = { p99 = '2ms' } }", {}, "not above `from`"),
        ("{ rates = [500, '1k'], steps = 3, within = { p99 = '2ms' } }", {}, "Remove one of them"),
        ("{ rates = [500, '1k'] }", {}, r"offered\.within"),
        ("{ rates = [500, '1k'], within = { p99 = '2ms', p50 = '1ms' } }", {}, "one percentile"),
        ("{ rates = [500, '1k'], within = { 'read.lat.p99' = '2ms' } }", {}, "one percentile"),
        ("{ rates = [500, '1x'], within = { p99 = '2ms' } }", {}, "unknown unit 'x'"),
        ("{ rates = [500, '1k'], within = { p99 = '0s' } }", {}, "no I/O takes 0 seconds"),
        (RATES, {"options": 'rw = "randread", runtime = "2s", rate_iops = 100'},
         r"options\.rate_iops: `offered` sets it"),
        (RATES, {"options": 'rw = "randread", runtime = "2s", iodepth = 8'},
         r"options\.iodepth: `offered` sets it"),
        (RATES, {"options": 'rw = "randrw", runtime = "2s"'}, "reads or to writes alone"),
        (RATES, {"options": 'rw = "randread", runtime = "2s", ioengine = "io_uring"'},
         r"options\.ioengine: ioengine=io_uring: a client waits for its I/O"),
        (RATES, {"options": 'rw = "randread"'}, 'for example runtime = "2s"'),
        (RATES, {"options": 'rw = "randread", runtime = "1s"'},
         "a p99 needs 1,000 I/Os, at 500 IOPS 2 s"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_where_it_stands(
    offered: str, said: dict[str, str], where: str
) -> None:
    with pytest.raises(StudyError, match=where):
        study(offered, **said)


# -- what a real fio said -------------------------------------------------------------------------


def test_a_recorded_load_gives_the_response_at_each_rate_and_the_highest_within() -> None:
    found = TOOL.parse(DATA)
    own = {m.metric: m.value for m in found.measurements if m.job == "all"}
    late = [own[f"read.response.p99[{rate}]"] for rate in (500, 2000, 8000, 100_000)]
    # Far above what the storage can do, the wait grows until the end; nothing of it is in lat.
    assert late[-1] > 10 * own["read.lat.p99[100000]"]
    for rate, told in zip((500, 2000, 8000), late, strict=False):
        assert own[f"read.lat.p99[{rate}]"] <= told < 2 * own[f"read.lat.p99[{rate}]"]
    assert 8000 < own["read.iops.within"] < own["read.iops[100000]"]
    assert found.doubts == ()


def test_two_loads_at_the_same_time_are_one_at_twice_the_rate() -> None:
    one = TOOL.parse(DATA)
    (whole,) = [m for m in one.measurements if m.metric == "read.iops.within"]
    (both,) = [m for m in TOOL.merge([one, one]) if m.metric == "read.iops.within"]
    assert both.value == pytest.approx(2 * whole.value)


@pytest.mark.parametrize(
    ("bound", "told", "rate"),
    [
        (1_000_000, "the highest offered rate, 8.00 kIOPS, is served within p99 ≤ 1.00 s", 8000),
        (10, "the lowest offered rate, 500 IOPS, is not served within p99 ≤ 10.0 µs", 500),
    ],
)
def test_a_limit_beyond_the_rates_is_a_doubt_and_the_trial_is_judged_by_the_nearest(
    bound: int, told: str, rate: int, tmp_path: Path
) -> None:
    text = (DATA / "fio.json").read_text().replace("within 20000 us", f"within {bound} us")
    document = json.loads(text)
    document["jobs"] = document["jobs"][:3]  # without the rate that was not reached
    (tmp_path / "fio.json").write_text(json.dumps(document))
    found = TOOL.parse(tmp_path)
    (doubt,) = found.doubts
    assert doubt.check == ("offered-above" if rate == 8000 else "offered-below")
    assert told in doubt.what
    assert not doubt.invalid
    (measured,) = [each for each in found.measurements if each.metric == "read.iops.within"]
    assert (measured.value, measured.censored) == (rate, "")


# -- a study --------------------------------------------------------------------------------------


def test_a_pretended_study_finds_which_scheduler_serves_more_within_the_bound(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "s.toml", tmp_path / "out"
    rates = '{ from = "5k", to = "80k", steps = 8, within = { p99 = "1ms" } }'
    path.write_text(
        STUDY.format(
            tool="fio", key="offered", offered=rates, decide="margin = '5%'",
            options='rw = "randread", bs = "4k", runtime = "2s"',
        ).replace("blocks = 3", "blocks = 5")
    )  # fmt: skip
    assert status(["plan", "--pretend", str(path)]) == 0
    assert "at 8 offered rates from 5.00 kIOPS to 80.0 kIOPS" in capsys.readouterr().out
    assert status(["run", "--pretend", str(path), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "response time from the intended start of each I/O" in " ".join(said.split())
    found = json.loads((out / "findings.json").read_text())
    (finding,) = [each for each in found["findings"] if each["primary"]]
    assert (finding["metric"], finding["verdict"]) == ("read.iops.within", "worse")
    # M/M/1 there: bfq has 0.82 of the rate, and an I/O that takes 1/0.82 as long.
    assert finding["ratio"] == pytest.approx(0.74, abs=0.03)
    assert [each["bound"] for each in found["offered"]] == [0.001]
    wrong = {"capped", "offered-above", "offered-below", "steady-state", "warm-up"}
    assert not wrong & {each["check"] for each in found["doubts"]}, "its rates rise on purpose"
    assert status(["report", str(out), "--as", "md", "--out", "-"]) == 0
    page = capsys.readouterr().out
    assert "### Response time against offered rate" in page
    assert "| offered rate | p99, none | p99, bfq |" in page
    assert "Response time against offered rate" in (out / "report.html").read_text()


def capped(results: Results) -> list[Doubt]:
    return [doubt for doubt in of_study(results) if doubt.check == "capped"]


def test_rates_that_are_offered_are_no_cap(tmp_path: Path, state: Path) -> None:
    """Also where every trial comes to one value: the highest of them."""
    path, out = tmp_path / "s.toml", tmp_path / "out"
    path.write_text(
        STUDY.format(
            tool="fio", key="offered", offered=RATES, decide="",
            options='rw = "randread", bs = "4k", runtime = "2s"',
        )
    )  # fmt: skip
    assert status(["run", "--pretend", str(path), "--out", str(out)]) == 0
    made = open_results(out)
    assert {record.value("read.iops.within") for record in made.records} == {8000.0}
    assert all("offered-above" in [d.check for d in r.doubts] for r in made.records)
    assert capped(made) == []
    (finding,) = [each for each in judge(made).findings if each.primary]
    assert (finding.ratio, finding.verdict) == (1.0, "cannot-tell"), "both may be anything above"
    load = replace(made.study.workload("db"), offered=None)
    as_iops = replace(made.study, workloads=(load,), decide=replace(
        made.study.decide, primary=(("db", "read.iops[8000]"),)))  # fmt: skip
    assert capped(replace(made, study=as_iops)), "the check speaks of what is no such load"


def test_a_race_would_take_a_bound_for_a_number() -> None:
    text = STUDY.format(
        tool="fio", key="offered", offered=RATES, decide="",
        options='rw = "randread", bs = "4k", runtime = "2s"',
    ).replace("blocks = 3", 'kind = "race"')  # fmt: skip
    with pytest.raises(StudyError, match="is a bound, which a race takes for a number"):
        parse_study(text, "s.toml", str)


@pytest.mark.parametrize(
    ("base", "level", "verdict"),
    [
        ((3000.0, ""), (5000.0, ""), "better"),
        ((3000.0, ""), (8000.0, "offered-above"), "better"),  # the truth is further off
        ((500.0, "offered-below"), (5000.0, ""), "better"),
        ((500.0, "offered-below"), (8000.0, "offered-above"), "better"),
        ((8000.0, "offered-above"), (3000.0, ""), "worse"),
        ((5000.0, ""), (500.0, "offered-below"), "worse"),
        ((3000.0, "offered-above"), (5000.0, ""), "cannot-tell"),
        ((3000.0, ""), (5000.0, "offered-below"), "cannot-tell"),
        ((3000.0, ""), (3000.0, ""), "same"),
        ((8000.0, "offered-above"), (8000.0, "offered-above"), "cannot-tell"),
        ((8000.0, ""), (8000.0, "offered-above"), "cannot-tell"),
    ],
)
def test_no_verdict_rests_on_a_bound(
    base: tuple[float, str], level: tuple[float, str], verdict: str
) -> None:
    made = study()
    records = []
    for number, (block, name, (value, check)) in enumerate(
        (block, name, told)
        for block in range(1, 7)
        for name, told in (("none", base), ("bfq", level))
    ):
        trial = Trial(number + 1, f"{number:06x}", block, "db", (("scheduler", name),), "disk")
        noise = 1 + 0.0003 * (number * 7 % 5)
        records.append(
            TrialRecord(
                trial, "valid", 0.0, 1.0, 1.0, "fio", (),
                measurements=(of_metric("read.iops.within", value * noise, "fio.json"),),
                doubts=(Doubt(check, "w", "a"),) if check else (),
            )
        )  # fmt: skip
    planned = tuple(record.trial for record in records)
    (finding,) = judge(Results(Path(), made, planned, tuple(records))).findings
    assert finding.verdict == verdict


def test_the_search_for_the_ceiling_writes_the_study_that_compares_within_the_bound(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sat"
    search = ["saturate", "loop", "--pretend", "--p99", "2ms", "--out", str(out)]
    assert status([*search, "--compare", "queue.scheduler=none,bfq"]) == 0
    assert f"run {out / 'compare.toml'}" in capsys.readouterr().err
    made = parse_study((out / "compare.toml").read_text(), "compare.toml", str)
    (load,) = made.workloads
    assert load.offered is not None
    assert (load.offered.bound, load.offered.percentile, len(load.offered.rates)) == (0.002, 99, 9)
    assert made.decide.primary == (("open", "read.iops.within"),)
    assert made.treatments("open") == ((("scheduler", "none"),), (("scheduler", "bfq"),))
    again = tmp_path / "out"
    assert status(["run", "--pretend", str(out / "compare.toml"), "--out", str(again)]) == 0
    assert not [d for r in open_results(again).records for d in r.doubts
                if d.check.startswith("offered-")]  # fmt: skip
    capsys.readouterr()
    for words, told in (
        ([*search[:3], "--compare", "queue.scheduler=none,bfq"], "needs --p99"),
        ([*search[:5], "--compare", "queue.scheduler=none"], "has no two levels"),
        ([*search[:5], "--compare", "queue.schedular=none,bfq"], "queue.scheduler"),
        ([*search[:2], "/dev/sdz", *search[2:5], "--compare", "a=b,c"], "one TARGET"),
    ):
        assert status(words) == 2
        assert told in capsys.readouterr().err
