"""Templates: each runs on the pretended machine; of the published studies both forms are studies,
and what they say of them holds."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from iotrial.cli.main import status
from iotrial.errors import UsageError
from iotrial.model.study import Study
from iotrial.plan.load import parse_study
from iotrial.plan.parts import parts_of
from iotrial.plan.stages import next_trials
from iotrial.plan.template import (
    PUBLISHED,
    Form,
    beside,
    template,
    templates,
    with_full_form,
)
from iotrial.units import parse_bytes

STUDIES = PUBLISHED
NAMES = tuple(name for name, _ in templates())
WANTED = tuple(name for name in NAMES if name not in PUBLISHED)
CAPITALS = ("redhawk", "violin", "bonnie", "panasas", "nvme")
"""Their full forms name disks, folders and servers that only the user has: a plan refuses them."""
GONE = ("deadline", "cfq", "anticipatory", "noop")

pytestmark = pytest.mark.usefixtures("state")
both = pytest.mark.parametrize(
    ("name", "form"), [(name, form) for name in STUDIES for form in ("small", "full")]
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = status([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.charts
@pytest.mark.parametrize("name", NAMES)
def test_every_template_plans_and_runs_on_the_pretended_machine(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "init", name, str(tmp_path / "study.toml"))
    code, planned = run(capsys, "plan", str(tmp_path / "study.toml"), "--pretend")
    assert code == 0
    assert not planned["refused"]
    code, ran = run(
        capsys, "run", str(tmp_path / "study.toml"), "--pretend", "--out", str(tmp_path / "r")
    )
    assert code == 0
    assert ran["pretended"] is True
    assert ran["trials"]["failed"] == ran["trials"]["invalid"] == 0
    assert ran["trials"]["done"] > 0
    assert ran["findings"]


@pytest.mark.parametrize("name", with_full_form())
def test_every_full_form_that_can_be_planned_runs_there_too(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "init", name, "--full", str(tmp_path / f"{name}.toml"))
    for study in sorted(tmp_path.glob("*.toml")):
        code, _ = run(capsys, "plan", str(study), "--pretend")
        assert (code == 0) is (name not in CAPITALS)
        if code == 0:
            out = str(tmp_path / study.stem)
            code, ran = run(capsys, "run", str(study), "--pretend", "--out", out)
            assert code == 0
            assert ran["trials"]["failed"] == ran["trials"]["invalid"] == 0


def test_the_full_form_for_nfs_runs_there_once_its_servers_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mount options are set by mounting again, each time with another number."""
    study = tmp_path / "study.toml"
    run(capsys, "init", "panasas", "--full", str(study))
    text = study.read_text()
    for old, new in (
        ("[targets.server]", '[hosts.box]\nssh = "box"\n\n[targets.server]'),
        ("SERVER:/EXPORT", "server:/export"), ("PRODUCTION:/EXPORT", "production:/export"),
        ("range = { from = 131072, to = 1048576, step = 131072 }", "levels = ['unset', 65536]"),
        ("range = { step = 32768 }\n", ""), ('then = "knee"', 'then = "best"'),
        ('"100GiB"', '"1GiB"'), ('"10GiB"', '"1GiB"'), ("20000", "200"), ('"1s"', '"0s"'),
        ("blocks = 6", "blocks = 2"), ("blocks = 8", "blocks = 2"),
    ):  # fmt: skip
        assert old in text, old
        text = text.replace(old, new)
    text = re.sub(r"# A virtual machine.*?(?=\[factors.streams\])", "", text, flags=re.DOTALL)
    study.write_text(text.replace(', "flow"', ""))
    code, ran = run(capsys, "run", str(study), "--pretend", "--out", str(tmp_path / "r"))
    assert code == 0, ran
    assert ran["trials"]["failed"] == ran["trials"]["invalid"] == 0
    assert ran["trials"]["valid"] > 0


def test_templates_are_named_by_what_one_wants_to_know_and_the_published_ones_listed_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, told = run(capsys, "init")
    assert [each["name"] for each in told["templates"]] == list(WANTED)
    assert {"database", "nvme", "mount", "writeback", "sequential"} <= set(WANTED)
    assert {"scheduler", "readahead", "file", "aa"} <= set(WANTED)
    _, told = run(capsys, "init", "--published")
    assert [each["name"] for each in told["templates"]] == list(PUBLISHED)
    assert status(["init"]) == 0
    assert "iotrial init --published" in capsys.readouterr().out
    assert run(capsys, "init", "redhawk", "--published")[0] == 2


@pytest.mark.parametrize("name", WANTED)
def test_a_template_decides_by_a_margin_and_asks_a_question(name: str) -> None:
    study = parse_study(template(name), f"{name}.toml", beside(name).__getitem__)
    assert study.question.endswith("?")
    assert study.decide.margin > 0
    assert study.design.blocks >= 5
    assert not [target for target in study.targets if target.destroy]


def offered(text: str) -> list[str]:
    """Every factor that stands in a comment, to be put in by hand."""
    lines = [line[4:] for line in text.splitlines() if line.startswith("#   ")]
    blocks = re.split(r"^(?=\[factors\.\w+\]$)", "\n".join(lines), flags=re.MULTILINE)
    return [block for block in blocks if block.startswith("[factors.")]


@both
def test_each_form_is_a_study_that_decides_with_enough_blocks(name: str, form: Form) -> None:
    study = parse_study(template(name, form), f"{name}.toml", beside(name, form).__getitem__)
    assert study.design.blocks >= 5
    assert "margin" in study.text
    assert "primary" in study.text
    assert study.question.endswith("?")


@both
def test_each_form_says_what_it_is_and_names_nothing_that_is_gone(name: str, form: Form) -> None:
    head, _, said = template(name, form).partition("\n\nquestion")
    assert re.match(r"# The .* study .*(in small|in full)", head)
    assert f"iotrial init {name}" in head
    if form == "small":
        assert f"iotrial init {name} --full" in head
        for word in ("Then:", "What its numbers support:", "Today", "In small"):
            assert word in re.sub(r"\n# ", " ", head)
    assert not [word for word in GONE if f'"{word}"' in said]
    assert not re.search(r"centise+cs.*centisecs|centiseecs|sunrpc\.\w+\" =", said)


@pytest.mark.parametrize("name", STUDIES)
def test_in_small_it_plans_as_it_is_and_takes_what_it_says(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, wrote = run(capsys, "init", name, str(tmp_path / "study.toml"))
    assert code == 0
    assert [Path(each).name for each in wrote["written"][1:]] == [*beside(name)]
    code, planned = run(capsys, "plan", str(tmp_path / "study.toml"), "--pretend")
    assert code == 0
    assert not planned["refused"]
    told = re.search(r"\((?:about )?(\d+) minutes\)", dict(templates())[name])
    assert told
    assert 1 / 1.5 < planned["seconds"] / 60 / int(told[1]) < 1.5


@pytest.mark.parametrize("name", STUDIES)
def test_in_small_it_needs_no_disk_and_no_server(name: str) -> None:
    for target in tomllib.loads(template(name))["targets"].values():
        assert set(target) <= {"loop", "filesystem"}


@both
def test_what_is_offered_in_comments_is_a_factor(name: str, form: Form) -> None:
    text = template(name, form)
    for block in offered(text):
        extra = re.sub(r"factors\.(\w+)", r"factors.other_\1", block)
        rest = text.partition("[factors.")[0] + "\n" + extra
        if "[[stage]]" in text:
            name_of = re.findall(r"factors\.(\w+)", extra)[0]
            rest += f'\n[[stage]]\nvary = ["{name_of}"]\n[[stage]]\nthen = "confirm"'
            rest += '\ntarget = "production"\n'
        study = parse_study(rest, f"{name}.toml", beside(name, form).__getitem__)
        assert len(study.factors) == 1
        assert len(study.factors[0].levels) > 1


ARRAYS = ("clustermd.toml", "clustermd-link.toml", "clustermd-files.toml")


def arrays(file: str) -> Study:
    """The study of clustered arrays in full, or one of those beside it."""
    texts = {"clustermd.toml": template("clustermd", "full"), **beside("clustermd", "full")}
    return parse_study(texts[file], file, texts.__getitem__)


def test_the_studies_that_belong_to_one_are_written_beside_it_and_are_no_templates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, wrote = run(capsys, "init", "clustermd", "--full", str(tmp_path / "mine.toml"))
    assert code == 0
    assert [Path(each).name for each in wrote["written"]] == ["mine.toml", *ARRAYS[1:]]
    _, told = run(capsys, "init", "clustermd", "--full")
    assert list(told["studies"]) == list(ARRAYS[1:])
    assert told["jobfiles"] == {}
    _, listed = run(capsys, "init")
    assert not {Path(each).stem for each in ARRAYS[1:]} & {t["name"] for t in listed["templates"]}


@pytest.mark.parametrize("file", ARRAYS)
def test_each_study_of_the_clustered_arrays_plans_without_a_cluster(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "init", "clustermd", "--full", str(tmp_path / "clustermd.toml"))
    code, planned = run(capsys, "plan", str(tmp_path / file), "--pretend")
    assert code == 0
    assert not planned["refused"]


@pytest.mark.parametrize("file", [ARRAYS[0], ARRAYS[2]])
def test_arrays_on_the_same_disks_follow_one_another_within_each_workload(file: str) -> None:
    study = arrays(file)
    cells = {
        (dict(each)["storage"], dict(each)["nodes"])
        for each in study.treatments(study.workloads[0].name)
    }
    alone = {(storage, "1") for storage in ("local", "clusteredmd", "lvm", "again")}
    assert cells == {*alone, ("clusteredmd", "2")}
    made = [" ".join(each.create[0]) for each in study.targets if each.create and not each.of]
    for disk in ("DISK1", "DISK2"):
        slices = [set(re.findall(rf"{disk}-part(\d)", words)) for words in made]
        assert sorted(slices, key=min) == [{"1"}, {"2"}, {"2"}, {"3"}, {"4"}]
    block = [trial for trial in next_trials(study, (), ()) if trial.block == 1]
    for one, other in pairwise(block):
        assert one.workload != other.workload or one.treatment != other.treatment
    per_workload = len(cells)
    workloads = [trial.workload for trial in block]
    assert workloads == [w for w in workloads[::per_workload] for _ in range(per_workload)]


def test_with_two_nodes_each_loads_a_half_of_its_own() -> None:
    study = arrays("clustermd.toml")
    trials = next_trials(study, (), ())
    both = next(t for t in trials if dict(t.treatment)["nodes"] == "2")
    alone = next(t for t in trials if dict(t.treatment) == {"storage": "clusteredmd", "nodes": "1"})
    assert [(part.host, part.target.path) for part in parts_of(study, both)] == [
        ("node1", "/dev/md121p1"),
        ("node2", "/dev/md121p2"),
    ]
    assert [part.host for part in parts_of(study, alone)] == ["node1"]


def test_the_working_set_of_random_reads_is_there_in_two_sizes() -> None:
    study = arrays("clustermd.toml")
    large, small = (dict(study.workload(name).options) for name in ("randread", "randsmall"))
    assert {**large, "size": ""} == {**small, "size": ""}
    assert parse_bytes(str(large["size"])) > 4 * parse_bytes(str(small["size"]))


def test_some_factors_are_offered_in_comments() -> None:
    assert len(offered(template("panasas"))) == 1
    assert len(offered(template("panasas", "full"))) == 0


def test_a_job_file_is_written_beside_the_study_or_neither(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "violin.fio").write_text("mine")
    code, answer = run(capsys, "init", "violin", str(tmp_path / "study.toml"))
    assert code == 2
    assert "violin.fio exists" in answer["error"]["message"]
    assert not (tmp_path / "study.toml").exists()
    assert (tmp_path / "violin.fio").read_text() == "mine"
    _, told = run(capsys, "init", "violin", "--full")
    assert "runtime=1800s" in told["jobfiles"]["violin.fio"]


def test_a_template_without_a_full_form_says_which_have_one() -> None:
    with pytest.raises(UsageError) as told:
        template("scheduler", "full")
    assert all(name in told.value.advice for name in STUDIES)
