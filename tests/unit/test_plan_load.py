"""Study files: good ones load, bad ones say where and what, and nothing else ever happens."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import StudyError, UsageError
from iotrial.model.study import Level, Study, digest
from iotrial.plan.load import load_study, parse_study
from iotrial.plan.problem import inline
from iotrial.plan.template import template, templates

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "tests" / "data" / "studies"
TEMPLATES = ROOT / "src" / "iotrial" / "plan" / "templates"
GOOD = [
    *sorted((STUDIES / "good").glob("*.toml")),
    *sorted((ROOT / "examples").glob("*.toml")),
    *sorted(TEMPLATES.glob("*.toml")),
    *sorted(TEMPLATES.glob("full/*.toml")),
]
BAD = sorted((STUDIES / "bad").glob("*.toml"))


def good(name: str) -> Study:
    return load_study(STUDIES / "good" / f"{name}.toml")


def parse(text: str) -> Study:
    return parse_study(text, "study.toml", lambda name: Path(STUDIES / "good" / name).read_text())


@pytest.mark.parametrize("path", GOOD, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_good_study_loads_and_keeps_its_text(path: Path) -> None:
    study = load_study(path)
    assert study.text == path.read_text("utf-8")
    jobs = (workload.jobfile for workload in study.workloads if workload.jobfile)
    assert study.digest == digest(study.text, *jobs)
    assert study.name == path.stem
    assert [name for name, _ in study.decide.primary] == [w.name for w in study.workloads]


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_study_is_told_with_place_and_remedy(path: Path) -> None:
    """``# expect:`` comments are parts of the message, ``# <- here`` marks the line it names."""
    text = path.read_text("utf-8")
    with pytest.raises(StudyError) as caught:
        load_study(path)
    expected = re.findall(r"^# expect: (.*)$", text, re.MULTILINE)
    marked = [at for at, line in enumerate(text.splitlines(), 1) if line.endswith("# <- here")]
    assert expected
    assert [part for part in expected if part not in str(caught.value)] == []
    assert not marked or marked == [caught.value.line]
    assert str(caught.value).startswith(str(path))
    assert caught.value.exit_code == 2


def test_all_faults_of_a_file_are_told_at_once_in_its_order() -> None:
    with pytest.raises(StudyError) as caught:
        load_study(STUDIES / "bad" / "several-faults.toml")
    lines = [int(n) for n in re.findall(r"several-faults\.toml:(\d+):", str(caught.value))]
    assert lines == sorted(lines)
    assert len(lines) == 3
    assert caught.value.what == "unknown key 'sise'"


def test_a_file_that_cannot_be_read_is_a_study_error(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="No such file"):
        load_study(tmp_path / "nowhere.toml")
    with pytest.raises(StudyError, match="Is a directory"):
        load_study(tmp_path)


def test_a_file_that_is_no_text_is_a_study_error(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# one\nquestion = '\xe9'\n")
    with pytest.raises(StudyError, match="not UTF-8") as caught:
        load_study(path)
    assert caught.value.line == 2
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(StudyError, match="larger than any study"):
        load_study(path)
    path.write_text("x = " + "[" * 100_000)
    with pytest.raises(StudyError, match="nested too deeply"):
        load_study(path)


def test_a_table_means_the_same_inline_and_with_a_header() -> None:
    one, other = (
        good("everything-inline"),
        parse("""
        [targets.disk]
        loop.size = "64MiB"
        [workloads.randread]
        tool = "fio"
        [workloads.randread.options]
        rw = "randread"
        bs = "4k"
        iodepth = 32
        runtime = "2s"
        [factors.scheduler]
        tunable = "queue.scheduler"
        levels = "available"
    """),
    )
    assert (one.targets, one.workloads, one.factors) == (
        other.targets,
        other.workloads,
        other.factors,
    )
    assert one.digest != other.digest


def test_what_is_left_out_has_sensible_values() -> None:
    study = good("no-factor")
    assert study.factors == ()
    assert (study.design.blocks, study.design.seed, study.design.settle) == (5, 1, 0.5)
    assert (study.design.budget, study.design.kind) == (0.0, "full")
    assert (study.decide.margin, study.decide.confidence) == (0.02, 0.95)
    assert study.decide.primary == (("randread", "read.iops"),)
    assert study.target("disk").kind == "loop"
    assert study.target("disk").size == 64 * 2**20


@pytest.mark.parametrize(("rw", "metric"), [
    ("randread", "read.iops"), ("randrw", "read.iops"), ("write", "write.iops"),
])  # fmt: skip
def test_a_load_is_decided_by_what_it_does(rw: str, metric: str) -> None:
    text = (STUDIES / "good" / "no-factor.toml").read_text().replace("randread", rw)
    assert parse(text).decide.primary == ((rw, metric),)


def test_levels_become_labels_and_what_is_written() -> None:
    study = good("levels-of-every-type")
    assert [level.label for level in study.factor("random").levels] == ["1", "0"]
    assert study.factor("ahead").levels == tuple(
        Level(label, settings=(("queue.read_ahead_kb", label),)) for label in ("64", "128", "256")
    )


def test_unset_is_a_level_that_sets_nothing_and_a_range_ends_at_or_below_its_end() -> None:
    factor = good("range-with-unset").factor("requests")
    assert factor.baseline == "unset"
    assert [level.label for level in factor.levels] == ["unset", "64", "128", "192"]
    assert factor.level("unset").settings == ()


def test_empty_groups_may_be_compared_with_each_other() -> None:
    assert good("a-against-a").factor("copy").levels == (Level("A"), Level("B"))


def test_lists_under_exclude_multiply_out() -> None:
    assert good("excluded-lists").exclude == (
        (("scheduler", "mq-deadline"), ("depth", "1")),
        (("scheduler", "mq-deadline"), ("depth", "8")),
        (("scheduler", "kyber"), ("depth", "1")),
        (("scheduler", "kyber"), ("depth", "8")),
        (("scheduler", "kyber"),),
    )


def test_a_job_file_is_read_beside_the_study() -> None:
    assert good("jobfile").workload("mine").jobfile.startswith("[global]\nrw=randwrite")


def test_sizes_durations_and_shares_are_in_base_units() -> None:
    study = parse((ROOT / "examples" / "one-disk.toml").read_text())
    assert (study.design.budget, study.design.settle) == (1800.0, 1.0)
    assert study.decide.guardrails == (("read.clat.p99", 0.1),)


def test_a_study_that_no_one_can_wait_for_is_refused() -> None:
    text = (STUDIES / "good" / "no-factor.toml").read_text()
    for name in ("bs", "iodepth"):
        text += f'[factors.{name}]\noption = "{name}"\n'
        text += "range = { from = 512, to = 51200, step = 64 }\n"
    with pytest.raises(StudyError, match="more than 100,000 trials"):
        parse(text)


def test_every_template_is_listed_with_what_it_is_for() -> None:
    listed = dict(templates())
    assert sorted(listed) == sorted(path.stem for path in TEMPLATES.glob("*.toml"))
    assert {"scheduler", "file", "aa", "readahead"} <= set(listed)
    for name, summary in listed.items():
        assert template(name).startswith(f"# {summary}\n")


@pytest.mark.parametrize("name", ["schedular", "../templates/aa", "", "aa.toml"])
def test_an_unknown_template_is_told_with_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match="templates: aa, bonnie, clustermd, database, demo, "):
        template(name)


def studies() -> st.SearchStrategy[str]:
    return st.sampled_from(
        [path.read_text("utf-8") for path in (*GOOD, *BAD) if path.stat().st_size < 4000]
    )


@given(studies(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_mutated_study_loads_or_is_a_study_error(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    piece = data.draw(st.text(max_size=5) | st.sampled_from(text.splitlines()))
    accepts_or_says_why(text[:start] + piece + text[end:])


VALUES = st.one_of(
    st.sampled_from([True, 0, -1, 2**70, 1.5, float("inf"), float("nan"), "", "x", "1e999", "unset",
                     "available", [], {}, [[]], [1], ["a"], {"a": {}}, {"a": {"b": [1]}}, "=list"]),
)  # fmt: skip


@given(
    st.sampled_from([p.read_text("utf-8") for p in (*GOOD, STUDIES / "contract.toml")]), st.data()
)
@settings(max_examples=250, deadline=None)
def test_any_value_anywhere_loads_or_is_a_study_error(text: str, data: st.DataObject) -> None:
    study = tomllib.loads(text)
    node: object = study
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            node[key] = data.draw(VALUES)
            break
        node = node[key]
    accepts_or_says_why("\n".join(f"{key} = {inline(value)}" for key, value in study.items()))


def accepts_or_says_why(text: str) -> None:
    with suppress(StudyError):  # anything else is a failure
        assert parse(text).text == text


GIVEN = """
question = "?"
[targets.t]
loop = { size = "64MiB" }
[workloads.w]
tool = "TOOL"
options = { OPTIONS }
[decide]
PRIMARY
"""
LOADS = {
    "fio": 'rw = "randread", bs = "4k", runtime = "1s"',
    "dd": 'rw = "read", bs = "64KiB", size = "16MiB"',
}


@pytest.mark.parametrize(
    ("tool", "said", "refused"),
    [
        ("fio", 'primary = "total.iops"', ""),
        ("fio", 'primary = "read.clat.max"', ""),
        ("fio", 'primary = "sync.lat.p99"', ""),
        ("fio", 'primary = "read.clat.p75"', "fio never measures read.clat.p75"),
        ("fio", 'primary = "read.rate"', "fio never measures read.rate"),
        ("dd", 'primary = "read.clat.p99"', "dd never measures read.clat.p99"),
        ("dd", 'primary = "read.seconds"', ""),
        ("dd", 'guardrails = { "read.lat.max" = 0.1 }', "dd never measures read.lat.max"),
        ("fio", 'guardrails = { "write.clat.p99" = 0.1 }', "no workload ever writes"),
        ("fio", 'guardrails = { "create.rate" = 0.1 }', "fio never measures create.rate"),
    ],
)
def test_a_metric_that_the_tool_cannot_give_is_refused(
    tool: str, said: str, refused: str, tmp_path: Path
) -> None:
    text = GIVEN.replace("TOOL", tool).replace("OPTIONS", LOADS[tool]).replace("PRIMARY", said)
    (tmp_path / "study.toml").write_text(text)
    assert parse(text).decide.primary, "results of such a study are read all the same"
    if not refused:
        assert load_study(tmp_path / "study.toml").decide.primary
        return
    with pytest.raises(StudyError, match=refused) as caught:
        load_study(tmp_path / "study.toml")
    assert "study.toml:9" in str(caught.value)
