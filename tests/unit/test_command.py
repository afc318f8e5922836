"""A command of the study's own: what is executed, and how its numbers are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import FormatError, StudyError, UsageError
from iotrial.judgement import judge
from iotrial.model.measurement import METRICS, Measurement, metric
from iotrial.model.results import Results
from iotrial.model.tool import ToolTarget
from iotrial.model.trial import TrialRecord
from iotrial.model.workload import CustomMetric, OptionValue, Workload
from iotrial.plan.load import parse_study
from iotrial.plan.stages import next_trials
from iotrial.tools import tool
from iotrial.tools.command import TOOL

AIMED = ToolTarget("/mnt/x", "directory")
STUDY = """
[targets.here]
directory = "/mnt/x"
[workloads.db]
tool = "command"
argv = ["bench", "--clients={clients}", "{target}/data"]
options = { clients = 4, reads_only = true }
[workloads.db.metrics]
score = { pattern = "score: ([0-9.]+)", better = "lower", unit = "ms" }
"read.bw" = { json = "a[0].bw", unit = "MiB/s" }
"""
FACTOR = """
[factors.clients]
option = "clients"
levels = [1, 8]
baseline = 1
[design]
blocks = 4
"""


def load(*wanted: CustomMetric, argv: tuple[str, ...] = ("x",), **options: OptionValue) -> Workload:
    return Workload("w", "command", tuple(options.items()), argv=argv, metrics=wanted)


def parse(folder: Path, said: str, *wanted: CustomMetric) -> dict[str, float]:
    for name, content in TOOL.command(load(*wanted), AIMED, {}).files:
        (folder / name).write_bytes(content)
    (folder / "stdout").write_text(said, encoding="utf-8")
    return {each.metric: each.value for each in TOOL.parse(folder).measurements}


def problems(workload: Workload) -> str:
    return "\n".join(f"{option}: {what}" for option, what in TOOL.check(workload, {}))


SCORE = CustomMetric("score", pattern=r"score: (\S+)")


def test_the_registry_finds_it() -> None:
    assert tool("command") is TOOL


def test_options_and_the_target_are_filled_in_and_nothing_else() -> None:
    argv = ("awk", "{print $1}", "-n{clients}", "{target}/f", "{a b}", "{clients}{clients}")
    made = TOOL.command(load(SCORE, argv=argv, clients=3, seconds=5), AIMED, {})
    assert made.argv == ("awk", "{print $1}", "-n3", "/mnt/x/f", "{a b}", "33")


def test_a_number_is_in_base_units(tmp_path: Path) -> None:
    found = parse(
        tmp_path,
        "score: 12.5\nread: 3 MiB/s took 1,500 us",
        SCORE,
        CustomMetric("read.bw", pattern=r"read: (\S+) MiB", unit="MiB/s"),
        CustomMetric("write.bw", pattern=r"read: (\S+ MiB/s)"),
        CustomMetric("total.seconds", pattern=r"took (\S+)", unit="us"),
    )
    assert found == pytest.approx(
        {"score": 12.5, "read.bw": 3 * 2**20, "write.bw": 3 * 2**20, "total.seconds": 0.0015}
    )


def test_json_is_walked_by_names_and_numbers(tmp_path: Path) -> None:
    said = json.dumps({"jobs": [{"read": {"bw": 5}}, {"a.b": "7 ms"}], "x": True})
    assert parse(tmp_path, said, CustomMetric("read.bw", json="jobs[0].read.bw", unit="KiB/s")) == {
        "read.bw": 5120.0
    }
    assert parse(tmp_path, said, CustomMetric("read.seconds", json='jobs[1]["a.b"]')) == {
        "read.seconds": pytest.approx(0.007)
    }
    for path, problem in [
        ("jobs[2].x", "there is no 2"), ("jobs.x", "there is no 'x'"), ("x", "leads to a bool"),
        ("jobs", "leads to a list"),
    ]:  # fmt: skip
        with pytest.raises(FormatError, match=problem):
            parse(tmp_path, said, CustomMetric("score", json=path))
    with pytest.raises(FormatError, match="no JSON"):
        parse(tmp_path, "{", CustomMetric("score", json="x"))


@pytest.mark.parametrize(("take", "value"), [("first", 1.0), ("last", 4.0), ("sum", 7.0)])
def test_of_several_one_is_chosen_or_all_are_refused(
    tmp_path: Path, take: str, value: float
) -> None:
    said = "score: 1\nscore: 2\nscore: 4\n"
    wanted = CustomMetric("score", pattern=SCORE.pattern, take=take)
    assert parse(tmp_path, said, wanted) == {"score": value}
    with pytest.raises(FormatError, match="is found 3 times"):
        parse(tmp_path, said, SCORE)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("nothing", "nothing matches"),
        ("score: abc", "'abc' is not a number"),
        ("score: n/a", "'n/a' is not a number"),
        ("score: -4", "below zero"),
        ("score: 4ms", "is in ms; it is to be in "),
        ("score: 1e999", "beyond any number"),
        ("score: 1,5", "is not a number"),
    ],
)
def test_what_is_no_number_is_an_error(tmp_path: Path, said: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        parse(tmp_path, said, SCORE)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"result\.json: score: No such file"):
        parse(tmp_path, "", CustomMetric("score", json="x", source="result.json"))
    with pytest.raises(FormatError, match="not what iotrial put there"):
        TOOL.parse(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        (load(SCORE, argv=()), "argv: set the command"),
        (load(), "metrics: set at least one"),
        (load(SCORE, depth=3), "depth: argv has no {depth}"),
        (load(SCORE, target="x"), "target: "),
        (load(SCORE, reads_only=1), "reads_only: it is true or false"),
        (load(SCORE, seconds="soon"), "seconds: 'soon' is not a duration"),
        (load(CustomMetric("score")), "it needs a pattern, or json"),
        (load(CustomMetric("score", pattern="(a", json="")), "not a regular expression"),
        (load(CustomMetric("score", pattern="a")), "has 0 groups"),
        (load(CustomMetric("score", pattern="(a)", json="a")), "and not both"),
        (load(CustomMetric("Score!", pattern="(a)")), "a metric's name"),
        (load(CustomMetric("score", pattern="(a)", source="../x")), "not a name of a file"),
        (load(CustomMetric("score", json="a..b")), "not a path"),
        (load(CustomMetric("read.bw", pattern="(a)", unit="ms")), "read.bw is in bytes/s"),
        (load(CustomMetric("read.bw", pattern="(a)", unit="Mb/s")), "bits or bytes"),
        (load(CustomMetric("read.bw", pattern="(a)", higher=False)), "more is better: rename it"),
    ],
)
def test_what_cannot_work_is_said_before(workload: Workload, problem: str) -> None:
    assert problem in problems(workload)
    with pytest.raises(UsageError):
        TOOL.command(workload, AIMED, {})


def test_a_command_counts_as_writing_unless_it_is_said_to_read() -> None:
    assert TOOL.reach(load(SCORE)).writes
    assert not TOOL.reach(load(SCORE, reads_only=True)).writes


def test_devices_that_it_names_itself_are_reached() -> None:
    argv = ("sh", "-c", "dd if=/dev/zero of=/dev/sdb; cat /dev/md/home >/dev/null", "{target}")
    assert TOOL.reach(load(SCORE, argv=argv)).paths == ("/dev/sdb", "/dev/md/home")


@pytest.mark.parametrize(
    "spelled",
    ["/dev/loop4", "//dev/loop4", "/dev/../dev/loop4", "/tmp/../dev/loop4", "/dev/./loop4",
     "../../dev/loop4", "./../dev/loop4"],
)  # fmt: skip
@pytest.mark.parametrize(
    "form", ["{}", "of={}", "--out={}", "-o,{}", "a:{}", "x>{}", "'{}'", '"{}";', "({})", "1<>{}"]
)
def test_a_device_is_found_however_it_is_said(form: str, spelled: str) -> None:
    said = TOOL.reach(load(SCORE, argv=("tool", form.format(spelled))))
    filled = TOOL.reach(load(SCORE, argv=("tool", form.format("{out}")), out=spelled))
    assert said.paths == filled.paths == ("/dev/loop4",)


def test_of_any_other_path_the_host_tells_whether_it_is_a_device() -> None:
    reach = TOOL.reach(load(SCORE, argv=("/usr/bin/x", "of=/tmp/node", "2>/dev/null", "{target}")))
    assert reach.mentions == ("/usr/bin/x", "/tmp/node")
    assert not reach.paths


def test_its_time_is_what_is_said() -> None:
    assert TOOL.seconds(load(SCORE, seconds="2m"), AIMED) == 120
    assert TOOL.seconds(load(SCORE), AIMED) == 600


def test_a_study_may_decide_by_its_own_metric() -> None:
    study = parse_study(STUDY, "s.toml", str)
    assert study.decide.primary == (("db", "score"),)
    assert study.metrics.metric("score").unit == "s"
    assert study.metrics.higher("score") is False
    assert [each.name for each in study.metrics.own] == ["score", "read.bw"]
    other = parse_study(STUDY.replace("score", "mark"), "s.toml", str)
    for known in (METRICS, other.metrics):
        with pytest.raises(KeyError):
            known.metric("score")
    assert study.metrics.higher("score") is False


def test_two_studies_whose_metrics_have_one_name_are_each_judged_by_their_own() -> None:
    """The same numbers: what is better for one is worse for the other."""

    def judged(better: str) -> Results:
        text = STUDY.replace('"lower"', f'"{better}"') + FACTOR
        study = parse_study(text, f"{better}.toml", str)
        planned = next_trials(study, (), ())
        rates = {"1": 1.0, "8": 1.2}
        records = tuple(
            TrialRecord(trial, "valid", 0.0, 1.0, measurements=(Measurement("score", value, "s"),))
            for trial in planned
            for value in [rates[trial.treatment[0][1]] * (1 + trial.number * 1e-4)]
        )
        return Results(Path("r"), study, planned, records)

    lower, higher = judged("lower"), judged("higher")
    for results, verdict in ((lower, "worse"), (higher, "better"), (lower, "worse")):
        (finding,) = judge(results).comparison.findings
        assert (finding.metric, finding.verdict) == ("score", verdict)
        assert next_trials(results.study, (), ()) == results.planned


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (', better = "lower"', "", "score has no direction of improvement"),
        ('better = "lower"', 'beter = "lower"', "unknown key 'beter'"),
        ("argv = [", "argv_ = [", "unknown key 'argv_'"),
        ('tool = "command"', 'tool = "bonnie++"', "does not accept it; it is for tool = 'command'"),
    ],
)  # fmt: skip
def test_a_study_that_cannot_be_meant_is_told(old: str, new: str, problem: str) -> None:
    with pytest.raises(StudyError, match=problem):
        parse_study(STUDY.replace(old, new), "s.toml", str)


@given(st.text(max_size=60), st.sampled_from([r"(\S+)", r"score: (.*)", r"(\d+)", "(a?)"]))
def test_any_output_gives_a_number_or_a_format_error(said: str, pattern: str) -> None:
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        try:
            found = parse(Path(name), said, CustomMetric("score", pattern=pattern, take="sum"))
        except (FormatError, UnicodeEncodeError):
            return
    assert found["score"] >= 0


def test_a_study_may_decide_by_a_rate_of_an_operation_of_its_own() -> None:
    said = 'score = { pattern = "score: ([0-9.]+)", better = "lower", unit = "ms" }'
    assert said in STUDY
    text = STUDY.replace(said, '"own.rate" = { pattern = "([0-9.]+)/s", unit = "1/s" }')
    assert parse_study(text, "s.toml", str).decide.primary == (("db", "own.rate"),)
    assert metric("own.rate").higher
