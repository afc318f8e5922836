"""The published studies as templates: both forms are studies, and what they say of them holds."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from iotrial.cli.main import status
from iotrial.errors import UsageError
from iotrial.plan.load import parse_study
from iotrial.plan.template import Form, beside, template, templates

STUDIES = ("redhawk", "violin", "bonnie", "panasas", "clustermd")
GONE = ("deadline", "cfq", "anticipatory", "noop")

pytestmark = pytest.mark.usefixtures("state")
both = pytest.mark.parametrize(
    ("name", "form"), [(name, form) for name in STUDIES for form in ("small", "full")]
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = status([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def offered(text: str) -> list[str]:
    """Every factor that stands in a comment, to be put in by hand."""
    lines = [line[4:] for line in text.splitlines() if line.startswith("#   ")]
    blocks = re.split(r"^(?=\[factors\.\w+\]$)", "\n".join(lines), flags=re.MULTILINE)
    return [block for block in blocks if block.startswith("[factors.")]


@both
def test_each_form_is_a_study_that_decides_with_enough_blocks(name: str, form: Form) -> None:
    study = parse_study(template(name, form), f"{name}.toml", beside(name, form).__getitem__)
    assert study.design.blocks >= (3 if form == "small" else 2)
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
