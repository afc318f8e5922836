"""The jobs of ``docs/ci.md``, executed as their services execute them, on a pretended host.

Taken from the page as they stand.  A service is imitated in what matters: which shell it calls with
which options, what it does after a step that failed, what it uploads.  ``sudo`` is one that keeps
nothing of the environment but what it is told to, and finds programs in its own folders only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from iotrial.cli.main import status
from iotrial_store.opened import opened
from nightly import STUDY, PlantedChange, first, nights

PAGE = (Path(__file__).resolve().parents[2] / "docs/ci.md").read_text("utf-8")
OWN_FOLDERS = "/usr/sbin:/usr/bin:/sbin:/bin"
SUDO = f"""#!{sys.executable}
import os, sys
words, kept = sys.argv[1:], {{"PATH": "{OWN_FOLDERS}"}}
while words and words[0].startswith("-"):
    for name in words.pop(0).removeprefix("--preserve-env=").split(","):
        if name in os.environ:
            kept[name] = os.environ[name]
os.execvpe(words[0], words, kept)
"""
IOTRIAL = """#!/bin/sh
# As installed, but for a host that is pretended.
export IOTRIAL_STATE={state}
if [ "$1" = run ]; then shift; set -- run --pretend "$@"; fi
exec {python} -c 'from iotrial.cli.main import main; main()' "$@"
"""


@dataclass
class Runner:
    """A folder with the study alone, as a checkout has it, and the environment of a job."""

    folder: Path
    environment: dict[str, str]
    said: str = ""

    def shell(self, *words: str, script: str) -> int:
        done = subprocess.run(
            [*words, script], cwd=self.folder, env=self.environment, check=False, timeout=600,
            capture_output=True, text=True,
        )  # fmt: skip
        self.said += f"{script}\n{done.stdout}{done.stderr}\n"
        return done.returncode

    def there(self, pattern: str) -> list[str]:
        found = [self.folder / pattern] if "*" not in pattern else self.folder.glob(pattern)
        return sorted(str(each.relative_to(self.folder)) for each in found if each.exists())


@dataclass
class Outcome:
    """The exit code of the job, and what is uploaded by what the job calls it."""

    code: int
    uploaded: dict[str, list[str]]


def block(language: str, words: str) -> str:
    (found,) = (b for b in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if words in b)
    return str(found)


def gitlab(runner: Runner) -> Outcome:
    """Lines of ``script`` in one shell, those of ``after_script`` in another in any case, and of
    these the exit code does not matter."""
    job = yaml.safe_load(block("yaml", "after_script"))["storage"]
    assert set(job) <= {"tags", "rules", "variables", "script", "after_script", "artifacts"}
    runner.environment |= job["variables"] | {"IOTRIAL_STORE": store_of(runner), "CI_JOB_ID": "17"}
    words = ("bash", "-eo", "pipefail", "-c")
    code = runner.shell(*words, script="\n".join(job["script"]))
    runner.shell(*words, script="\n".join(job["after_script"]))
    kept = job["artifacts"]
    assert kept["when"] == "always" or not code
    paths = [*kept["paths"], kept["reports"]["junit"]]
    return Outcome(code, {path: runner.there(path) for path in paths})


def github(runner: Runner) -> Outcome:
    """Each step in a shell; after one that failed only those with ``if: always()``."""
    flow = yaml.safe_load(block("yaml", "actions/checkout"))
    assert {"name", "jobs"} < {*map(str, flow)}
    assert flow[True]["schedule"][0]["cron"]  # YAML 1.1 reads "on" as true
    job = flow["jobs"]["storage"]
    summary = runner.folder.parent / "summary"
    runner.environment |= job["env"] | {
        "IOTRIAL_STORE": store_of(runner), "PGPASSWORD": "secret", "GITHUB_RUN_ID": "23",
        "GITHUB_STEP_SUMMARY": str(summary),
    }  # fmt: skip
    code, uploaded = 0, {}
    for step in job["steps"]:
        assert set(step) <= {"name", "uses", "run", "if", "with"}
        assert step.get("if", "always()") == "always()"
        if code and "if" not in step:
            continue
        if step.get("uses", "").startswith("actions/upload-artifact@"):
            uploaded[step["with"]["path"]] = runner.there(step["with"]["path"])
        if "run" in step:
            ended = runner.shell("bash", "-e", "-c", script=step["run"])
            code = code or ended
    uploaded["summary"] = [summary.read_text()] if summary.exists() else []
    return Outcome(code, uploaded)


def jenkins(runner: Runner) -> Outcome:
    """``sh`` of stages, and what is below ``post`` in any case until a step of it fails."""
    text = block("groovy", "pipeline {")
    runner.environment |= {
        "IOTRIAL_STORE": store_of(runner), "PGPASSWORD": "secret", "BUILD_NUMBER": "42",
    }  # fmt: skip
    named = re.findall(r"(?m)^ +([A-Z_]+) = ", text)
    assert set(named) == {"IOTRIAL_STORE", "PGPASSWORD"}
    stages, post = text.split("    post {")
    code, uploaded = 0, {}
    for script in re.findall(r"sh '''(.*?)'''", stages, re.DOTALL):
        # Groovy takes a backslash at the end of a line, and the line's end, out of a string.
        code = code or runner.shell("sh", "-xe", "-c", script=script.replace("\\\n", ""))
    for step in re.findall(r"(?m)^            (\S.*)$", post):
        if found := re.fullmatch(r"sh '(.*)'", step):
            failed = runner.shell("sh", "-xe", "-c", script=found[1])
            code = code or failed
            if failed:
                break
        elif found := re.fullmatch(
            r"(junit testResults|archiveArtifacts artifacts): '(.*?)', allowEmpty\w+: true", step
        ):
            uploaded[found[2]] = runner.there(found[2])
        else:
            pytest.fail(f"not imitated: {step}")
    return Outcome(code, uploaded)


SERVICES = {"gitlab": gitlab, "github": github, "jenkins": jenkins}


def store_of(runner: Runner) -> str:
    return f"file:{runner.folder.parent}/store"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a night leaves, of the study that the jobs name."""
    return first(tmp_path_factory.mktemp("first"), "nightly")


@pytest.fixture
def runner(tmp_path: Path, state: Path) -> Runner:
    programs, folder = tmp_path / "programs", tmp_path / "workspace"
    programs.mkdir()
    folder.mkdir()
    (folder / "nightly.toml").write_text(STUDY)
    for name, text in (
        ("sudo", SUDO),
        ("iotrial", IOTRIAL.format(state=state, python=sys.executable)),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PYTHONPATH") if name in os.environ}
    return Runner(folder, {**kept, "PATH": f"{programs}:{OWN_FOLDERS}"})


def stored(runner: Runner, base: Path, ratio: float) -> None:
    """Eight nights that were ``ratio`` times as fast as this one."""
    change = PlantedChange(0, ratio)
    past = nights(base, runner.folder.parent / "past", 8, (change,), between=0.003, within=0.003)
    assert status(["push", *map(str, past), "--store", store_of(runner), "--quiet"]) == 0


def sessions(runner: Runner) -> int:
    store = opened(store_of(runner))
    try:
        return int(str(store.query("SELECT count(*) FROM results").rows[0][0]))
    finally:
        store.close()


def everything(uploaded: Mapping[str, list[str]]) -> dict[str, bool]:
    return {name: bool(found) for name, found in uploaded.items()}


@pytest.mark.parametrize("service", SERVICES)
def test_a_night_as_the_others_succeeds_and_is_pushed(
    service: str, runner: Runner, base: Path
) -> None:
    stored(runner, base, 1.0)
    outcome = SERVICES[service](runner)
    assert outcome.code == 0, runner.said
    assert all(everything(outcome.uploaded).values()), outcome.uploaded
    assert sessions(runner) == 9


@pytest.mark.parametrize("service", SERVICES)
def test_a_night_that_is_slower_fails_with_its_verdicts_and_is_pushed_all_the_same(
    service: str, runner: Runner, base: Path
) -> None:
    stored(runner, base, 1.5)
    outcome = SERVICES[service](runner)
    assert outcome.code == 1, runner.said
    assert all(everything(outcome.uploaded).values()), outcome.uploaded
    assert "<failure" in (runner.folder / "verdicts.xml").read_text()
    assert sessions(runner) == 9


@pytest.mark.parametrize("service", SERVICES)
def test_the_first_night_of_a_study_succeeds_and_is_pushed(
    service: str, runner: Runner, tmp_path: Path
) -> None:
    """There is nothing to be compared with."""
    stored(runner, first(tmp_path, "other"), 1.0)
    outcome = SERVICES[service](runner)
    assert outcome.code == 0, runner.said
    assert all(everything(outcome.uploaded).values()), outcome.uploaded
    assert "<skipped" in (runner.folder / "verdicts.xml").read_text()
    assert sessions(runner) == 9


@pytest.mark.parametrize("service", SERVICES)
def test_a_night_without_verdicts_fails_and_keeps_what_there_is(
    service: str, runner: Runner, base: Path
) -> None:
    """Its load is another one than that of all nights before."""
    stored(runner, base, 1.0)
    other = STUDY.replace('bs = "4k"', 'bs = "64k"')
    assert other != STUDY
    (runner.folder / "nightly.toml").write_text(other)
    outcome = SERVICES[service](runner)
    assert outcome.code == 2, runner.said
    assert sessions(runner) == 9, "it was pushed"


def test_every_block_of_the_page_is_executed_here() -> None:
    assert re.findall(r"```(\w+)\n", PAGE) == ["yaml", "yaml", "groovy"]
