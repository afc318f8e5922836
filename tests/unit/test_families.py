"""Several primary metrics of a load are one family; the second family has an error of its own."""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from race_studies import FOUR, gauss, raced
from stats_studies import METRIC, SCHEDULER, change, noisy, results, with_metric

from iotrial.errors import StudyError
from iotrial.judgement import judge as judged
from iotrial.model.finding import Comparison, Finding
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Study
from iotrial.plan.load import parse_study
from iotrial.plan.recorded import parse as parse_recorded
from iotrial.plan.recorded import text as recorded_text
from iotrial.plan.sense import unmeasured
from iotrial.report.document import document, findings_csv
from iotrial.report.evidence import tools
from iotrial.stats.judge import judge

LATE = "read.clat.p99"
WRITES = "write.iops"
SAME_NOISE = 0.05
BOTH = (("read", METRIC), ("read", LATE))


def measured(seed: int, blocks: int = 8, late: float = 1.0) -> Results:
    """Four equal schedulers; the latency has its own noise, and is ``late`` times as long under
    bfq."""
    of = results(SCHEDULER, ["read"], blocks, noisy(SAME_NOISE, seed))
    rng = np.random.default_rng(10_000 + seed)
    drawn = {
        record.trial.number: 1e-3
        * math.exp(rng.normal(0, SAME_NOISE))
        * (late if record.trial.treatment[-1][1] == "bfq" else 1.0)
        for record in of.records
    }
    return with_metric(of, LATE, lambda record: drawn[record.trial.number])


def widths(findings: tuple[Finding, ...]) -> list[float]:
    return [math.log((f.high or 0) / (f.low or 1)) for f in findings]


def of_metric(comparison: Comparison, metric: str) -> tuple[Finding, ...]:
    return tuple(f for f in comparison.findings if f.metric == metric)


def test_each_primary_metric_has_findings_and_all_of_them_are_one_family() -> None:
    of = measured(1)
    alone, both = judge(of), judge(change(of, primary=BOTH))
    assert [(f.metric, f.level) for f in both.findings] == [
        (metric, level) for metric in (METRIC, LATE) for level in SCHEDULER["scheduler"][1:]
    ]
    assert all(f.primary and not f.secondary for f in both.findings)
    wider = zip(widths(of_metric(both, METRIC)), widths(alone.findings), strict=True)
    assert all(now > before for now, before in wider), "six comparisons share what three had"
    assert "family of all 6 primary comparisons" in both.method
    assert {name for name, _ in both.resolvable} == {f"read {METRIC}", f"read {LATE}"}
    assert f"read {LATE}" in both.recommendation
    assert {name for name, _ in alone.resolvable} == {"read"}


@pytest.mark.parametrize("family", ["primary", "secondary"])
def test_a_family_errs_in_one_study_of_twenty(family: str, times: Callable[[int], int]) -> None:
    """Two metrics with noise of their own, all treatments alike: any claim is wrong."""
    studies = times(600)
    rule = {"primary": BOTH} if family == "primary" else {"secondary": (("read", LATE),)}
    wrong = 0
    for seed in range(studies):
        told = judge(change(measured(seed, blocks=5), margin=0.2, **rule))
        wrong += any(f.verdict in {"better", "worse"} for f in told.findings if family == "primary")
        wrong += any(f.verdict in {"better", "worse"} for f in told.secondary)
    assert wrong <= 0.05 * studies + 3.2 * math.sqrt(0.05 * 0.95 * studies)


def test_the_second_family_makes_the_first_no_dearer_and_decides_nothing() -> None:
    of = measured(2, late=1.5)
    alone, beside = judge(of), judge(change(of, secondary=(("read", LATE),)))
    assert beside.findings == alone.findings
    assert beside.resolvable == alone.resolvable
    assert [(f.metric, f.level) for f in beside.secondary] == [
        (LATE, level) for level in SCHEDULER["scheduler"][1:]
    ]
    assert all(f.secondary and not f.primary for f in beside.secondary)
    # Three comparisons of one metric: as if the study had asked for it and nothing else.
    asked = judge(change(of, primary=(("read", LATE),)))
    pairs = zip(beside.secondary, asked.findings, strict=True)
    assert all((a.low, a.high, a.verdict) == (b.low, b.high, b.verdict) for a, b in pairs)
    assert beside.recommendation.startswith(alone.recommendation)
    assert f"worse: read {LATE} bfq (" in beside.recommendation
    assert "The second family: 3 comparisons of read.clat.p99" in beside.method


def test_what_is_better_in_one_primary_metric_and_worse_in_another_is_not_recommended() -> None:
    effects = {("read", "bfq"): 1.5}
    of = results(SCHEDULER, ["read"], 8, noisy(0.01, 3, effects))
    late = with_metric(
        of, LATE, lambda r: 1e-3 * (1.5 if r.trial.treatment[-1][1] == "bfq" else 1.0)
    )
    assert judge(late).recommendation.startswith("Change scheduler=none to bfq")
    told = judge(change(late, primary=BOTH)).recommendation
    assert told.startswith("Which scheduler is best depends on the metric")
    assert f"for read {METRIC} bfq is" in told
    assert f"for read {LATE} bfq is" in told


def test_a_metric_without_numbers_leaves_the_others_as_they_are() -> None:
    of = measured(4)
    told = judge(change(of, secondary=(("read", LATE), ("read", "read.nothing"))))
    assert {f.metric for f in told.secondary} == {LATE}
    lost = judge(change(of, primary=(*BOTH, ("read", "read.nothing"))))
    assert {f.metric for f in lost.findings} == {METRIC, LATE}
    assert "No valid trials to compare: read read.nothing mq-deadline" in lost.recommendation


# -- in a race ------------------------------------------------------------------------------------


def race_with(seed: int, late: float, noise: float = 0.02) -> Results:
    chance = random.Random(seed)
    of = with_metric(
        raced(FOUR, gauss(0.01), seed=seed, blocks=24),
        LATE,
        lambda r: (
            1e-3
            * math.exp(chance.gauss(0, noise))
            * (late if r.trial.treatment[0][1] == "kyber" else 1)
        ),
    )
    return change(of, secondary=(("w", LATE),))


def test_a_race_tells_of_other_metrics_against_the_one_it_keeps() -> None:
    of = race_with(1, late=2.0)
    told, alone = judge(of), judge(change(of, secondary=()))
    assert told.findings == alone.findings
    assert {f.baseline for f in told.secondary} == {told.races[0].kept}
    found = {f.level: f for f in told.secondary}
    assert found["kyber"].verdict == "worse"
    low, high = found["kyber"].low, found["kyber"].high
    assert low is not None
    assert high is not None
    assert low < 2.0 < high
    assert found["kyber"].n >= 3
    assert f"worse: w {LATE} kyber" in told.recommendation


def test_claims_of_a_race_on_other_metrics_err_in_one_of_twenty(
    times: Callable[[int], int],
) -> None:
    studies = times(150)
    wrong = 0
    for seed in range(studies):
        told = judge(race_with(seed, late=1.0, noise=0.05))
        wrong += any(f.verdict in {"better", "worse"} for f in told.secondary)
    assert wrong <= 0.05 * studies + 3.2 * math.sqrt(0.05 * 0.95 * studies)


# -- in the study file ----------------------------------------------------------------------------

STUDY = """
[targets.disk]
loop.size = "64MiB"
filesystem = "ext4"
[workloads.load]
{load}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
[design]
{design}
[decide]
{decide}
"""
FIO = 'tool = "fio"\noptions = { rw = "randrw", bs = "4k", runtime = 1 }'
IOZONE = 'tool = "iozone"\noptions = { size = "4MiB", operations = "read, random" }'
BONNIE = 'tool = "bonnie++"\noptions = { size = "64M", files = 0, fast = true }'


def rule(load: str = FIO, decide: str = "", design: str = "blocks = 6") -> DecisionRule:
    text = STUDY.format(load=load, decide=decide, design=design)
    return parse_study(text, "s.toml", str).decide


def test_primary_metrics_are_named_for_all_loads_or_for_one() -> None:
    both = (("load", METRIC), ("load", WRITES))
    assert rule(decide=f'primary = ["{METRIC}", "{WRITES}"]').primary == both
    assert rule(decide=f'primary = {{ load = ["{METRIC}", "{WRITES}"] }}').primary == both
    assert rule(decide=f'primary = ["{METRIC}", "{METRIC}"]').primary == both[:1], "once is enough"
    named = rule(decide=f'primary = ["{METRIC}", "{WRITES}"]')
    assert named.leading == {"load": METRIC}
    assert named.named("load", WRITES) == "load write.iops"
    assert rule(decide=f'primary = "{METRIC}"').named("load", METRIC) == "load"


def test_a_race_is_by_one_metric_and_says_what_to_do() -> None:
    decide = f'primary = ["{METRIC}", "{WRITES}"]'
    with pytest.raises(StudyError) as told:
        rule(decide=decide, design='kind = "race"')
    assert "a race drops treatments by one primary metric; load has several" in str(told.value)
    assert "secondary" in str(told.value)
    text = STUDY.format(load=FIO, decide=decide, design="seed = 1")
    assert parse_study(text, "s.toml", str).design.kind == "full", "where nothing says race"


@pytest.mark.parametrize(
    ("load", "names"),
    [
        (FIO, []),
        (IOZONE, ["write", "rewrite", "reread", "random_read", "random_write"]),
        (BONNIE, ["write", "rewrite"]),
    ],
)
def test_the_other_operations_of_a_table_are_the_second_family(load: str, names: list[str]) -> None:
    found = rule(load, 'primary = "read.iops"' if load == FIO else 'primary = "read.bw"')
    more = ["seek.rate"] if load == BONNIE else []
    assert [name for _, name in found.secondary] == [*(f"{name}.bw" for name in names), *more]


def test_twelve_columns_of_bonnie_are_two_families() -> None:
    load = 'tool = "bonnie++"\noptions = { size = "64M", files = 16 }'
    found = rule(load, 'primary = "seek.rate"')
    assert len(found.primary) + len(found.secondary) == 12
    assert ("load", "create.random.rate") in found.secondary


def test_the_second_family_is_what_the_study_says() -> None:
    decide = 'primary = "read.bw"\n'
    assert rule(IOZONE, decide + "secondary = []").secondary == ()
    found = rule(IOZONE, decide + 'secondary = ["reread.bw", "read.bw"]')
    assert found.secondary == (("load", "reread.bw"),), "what is primary is not asked twice"
    guarded = rule(decide=f'guardrails = {{ "{LATE}" = "+10%" }}\nsecondary = ["{LATE}"]')
    assert guarded.secondary == ()
    with pytest.raises(StudyError, match=r"decide\.secondary: unknown metric 'read\.iopz'"):
        rule(decide='secondary = ["read.iopz"]')
    with pytest.raises(StudyError, match=r"decide\.secondary\.lode"):
        rule(decide='secondary = { lode = "read.iops" }')


def test_imported_runs_have_several_primary_metrics_too() -> None:
    of = DecisionRule((("", METRIC), ("", WRITES)), 0.02)
    written = recorded_text(question="?", workloads=[], factors=[], baselines={}, decide=of)
    assert (
        parse_recorded(written + "[workloads.x]\ntool = 'fio'\n", "s").decide.primary == of.primary
    )


# -- in what is reported --------------------------------------------------------------------------


def test_every_number_of_the_second_family_is_in_the_document_and_told_apart() -> None:
    of = change(measured(5), secondary=(("read", LATE),))
    told = judged(dataclasses.replace(of, folder=of.folder))
    rows = document(told)["findings"]
    assert [(row["metric"], row["primary"], row["secondary"]) for row in rows] == [
        *[(METRIC, True, False)] * 3,
        *[(LATE, False, True)] * 3,
    ]
    assert all(row["value"] and row["unit"] == "s" for row in rows[3:])
    assert findings_csv(told).count(LATE) == 3


def test_a_program_without_a_version_is_named_without_its_complaint() -> None:
    programs = {"fio": "fio-3.39", "bonnie++": "bonnie++: invalid option -- '-'"}
    of = dataclasses.replace(measured(6, blocks=2), facts={"local": {"programs": programs}})
    assert tools(of) == ("bonnie++", "fio-3.39")


# -- sections of a load ---------------------------------------------------------------------------

STAGES = """
[global]
direct=1
runtime=1
time_based
[mixed]
rw=randrw
wait_for_previous
[mixed]
rw=randrw
rwmixread=40
wait_for_previous
[reader]
rw=read
stonewall
[writer]
rw=write
"""
BESIDE = "[reader]\nrw=read\nruntime=1\ntime_based\n[writer]\nrw=write\nruntime=1\ntime_based\n"
OF_FILE = 'tool = "fio"\njobfile = "job.fio"'


def of_file(job: str, decide: str = "", design: str = "blocks = 6") -> Study:
    text = STUDY.format(load=OF_FILE, decide=decide, design=design)
    return parse_study(text, "s.toml", {"job.fio": job}.__getitem__)


def metrics(pairs: tuple[tuple[str, str], ...]) -> list[str]:
    return [metric for _, metric in pairs]


def test_sections_that_follow_each_other_are_judged_apart() -> None:
    study = of_file(STAGES)
    assert metrics(study.decide.primary) == [
        "read.iops[mixed]", "read.iops[mixed(2)]", "read.iops[reader]", "write.iops[writer]",
    ]  # fmt: skip
    assert study.metrics.higher("read.clat.p99[mixed(2)]") is False
    assert study.metrics.metric("read.iops[reader]").title == "read IOPS of reader"
    assert study.metrics.display_unit("write.iops[writer]") == "IOPS"


def test_sections_beside_each_other_are_a_second_family() -> None:
    rule = of_file(BESIDE, 'primary = "total.iops"').decide
    assert metrics(rule.primary) == ["total.iops"]
    assert metrics(rule.secondary) == ["read.iops[reader]", "write.iops[writer]"]


@pytest.mark.parametrize(
    ("decide", "says"),
    [
        ('primary = "read.iops[raeder]"', "no section 'raeder'"),
        ('primary = "write.iops[reader]"', "section reader of workload load never writes"),
        ('primary = "read.iopz[reader]"', "unknown metric 'read.iopz[reader]'"),
        ('primary = "read.iops[reader"', "unknown metric 'read.iops[reader'"),
    ],
)
def test_a_section_that_is_not_there_is_named(decide: str, says: str) -> None:
    with pytest.raises(StudyError, match=re.escape(says)):
        of_file(STAGES, decide)


def test_rates_of_sections_that_follow_each_other_are_not_pooled() -> None:
    for decide in (
        'primary = "read.iops"',
        'guardrails = { "read.clat.p99" = "+10%" }',
        'primary = "read.iops[reader]"\nsecondary = ["total.bw"]',
    ):
        told = [problem.message for problem in unmeasured(of_file(STAGES, decide))]
        assert any("pools sections that follow each other" in what for what in told), decide
    # One of them writes, so that its writes are all writes.
    alone = "[fill]\nrw=write\n[look]\nstonewall\nrw=randread\n"
    assert not list(unmeasured(of_file(alone, 'primary = "read.iops"')))


def test_record_sizes_of_iozone_are_judged_apart() -> None:
    load = 'tool = "iozone"\noptions = { size = "1MiB", auto = true, operations = "read" }'
    found = rule(load)
    assert metrics(found.primary) == [f"read.bw[1024k/{2**power}k]" for power in range(2, 11)]
    assert metrics(found.secondary) == ["write.bw", "rewrite.bw", "read.bw", "reread.bw"]
