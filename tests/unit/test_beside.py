"""Workloads that run beside others: what a study may ask, and what becomes of their numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from stats_studies import noisy, results

from iotrial.cli.main import status
from iotrial.errors import IotrialError, StudyError
from iotrial.hosts.fake import FakeHost
from iotrial.look.outline import outline
from iotrial.look.reach import reach_of
from iotrial.model.measurement import Measurement
from iotrial.model.study import Study
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.design import workload_of
from iotrial.plan.load import parse_study
from iotrial.rows import line_out, record_in
from iotrial.stats.responses import measured_in
from iotrial.store import open_results
from iotrial.tools.results import of_neighbour
from iotrial.trial_files import read_trial
from iotrial.validity.study import beside as held

STUDY = """
[targets.disk]
{disk}
{other}
[workloads.db]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = 2 }}
{db}
[workloads.backup]
tool = "fio"
options = {{ {backup}, bs = "1m", runtime = 2 }}
{of_backup}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
{factor}
[design]
{design}
"""
LOOP = 'loop.size = "64MiB"'
OTHER = f"[targets.other]\n{LOOP}"
VARIED = '[factors.neighbour]\noption = "beside"\nworkload = "db"\nlevels = ["alone", "backup"]'


def study(**said: str) -> Study:
    usual = {
        "disk": LOOP, "other": "", "db": "", "backup": 'rw = "read", rate = "20m"',
        "of_backup": "", "factor": VARIED, "design": "blocks = 2",
    }  # fmt: skip
    return parse_study(STUDY.format(**{**usual, **said}), "s.toml", str)


def test_a_neighbour_has_no_trials_and_its_numbers_are_those_of_the_other() -> None:
    made = study()
    assert [w.name for w in made.judged] == ["db"]
    assert made.workload("backup").neighbour
    assert made.decide.primary == (("db", "read.iops"),)
    assert made.decide.secondary == (("db", "read.iops[backup]"),)
    assert len(made.treatments("db")) == 4
    named = study(design='blocks = 2\n[decide]\nprimary = ["read.clat.p99", "read.bw[backup]"]')
    assert ("db", "read.bw[backup]") in named.decide.primary


def test_its_numbers_are_compared_only_where_it_runs() -> None:
    varied, always = study(), study(db='beside = "backup"', factor="")
    cells = varied.treatments("db")
    beside = tuple(cell for cell in cells if ("neighbour", "backup") in cell)
    assert len(beside) == 2
    assert measured_in(varied, "db", "read.bw[backup]", cells) == beside
    assert measured_in(varied, "db", "read.bw", cells) == tuple(cells)
    cells = always.treatments("db")
    assert measured_in(always, "db", "read.bw[backup]", cells) == tuple(cells)


def test_it_is_a_level_of_a_factor_or_always_there() -> None:
    varied, always = study(), study(db='beside = "backup"', factor="")

    def of(made: Study, *levels: tuple[str, str]) -> str:
        return workload_of(made, Trial(1, "a", 1, "db", levels, "disk")).beside

    assert of(varied, ("scheduler", "bfq"), ("neighbour", "backup")) == "backup"
    assert of(varied, ("scheduler", "bfq"), ("neighbour", "alone")) == ""
    assert of(always, ("scheduler", "bfq")) == "backup"
    assert "beside" not in dict(workload_of(varied, Trial(1, "a", 1, "db", (), "disk")).options)


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"factor": "", "db": 'beside = "bakcup"'}, r"workloads\.db\.beside: .*'bakcup'"),
        ({"factor": VARIED.replace('"backup"]', '"x"]')}, r"factors\.neighbour\.levels"),
        ({"of_backup": 'beside = "db"'}, "every workload runs beside another: none has trials"),
        ({"backup": 'rw = "read"', "of_backup":
          'offered = { rates = [500, 600], within = { p99 = "1s" } }'},
         r"workloads\.backup\.offered: backup runs beside others"),
        ({"of_backup": 'target = "nowhere"'}, r"workloads\.backup\.target: .*'nowhere'"),
        ({"db": 'target = "other"', "other": OTHER}, r"workloads\.db\.target"),
        ({"backup": 'rw = "read", ramp_time = 0'.replace("ramp_time = 0", 'startdelay = "0"'),
          "db": 'cache = "keep"', "factor": VARIED + "\n[factors.r]\noption = 'runtime'\n"
          "workload = 'db'\nlevels = [2, 9]"}, r"workloads\.backup.*runtime"),
        ({"factor": VARIED + "\n[factors.q]\noption = 'iodepth'\nworkload = 'backup'\n"
          "levels = [1, 2]"}, r"factors\.q\.workload: backup runs beside others"),
        ({"design": 'blocks = 2\n[decide]\nprimary = { backup = "read.bw" }'},
         r"decide\.primary\.backup"),
        ({"disk": LOOP + '\nhosts = ["a", "b"]', "design": 'blocks = 2\n[hosts.a]\nssh = "a"\n'
          '[hosts.b]\nssh = "b"'}, "several hosts and workloads beside others exclude each other"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_where_it_stands(said: dict[str, str], where: str) -> None:
    with pytest.raises(StudyError, match=where):
        study(**said)


def test_a_neighbour_that_writes_needs_its_target_armed_as_any_load_does() -> None:
    """And no other target, which it never touches."""
    own = {"of_backup": 'target = "other"', "backup": 'rw = "write"', "other": OTHER}
    made = study(**own)
    by_name = {target.name: reach_of(made, target).writes for target in made.targets}
    assert by_name == {"disk": False, "other": True}
    device = 'device = "FAKE0000"'
    outline(FakeHost(), study(**own, disk=device))
    with pytest.raises(IotrialError, match=r"not armed|destroy"):
        outline(FakeHost(), study(**own | {"other": f"[targets.other]\n{device}"}))
    with pytest.raises(IotrialError, match=r"not armed|destroy"):
        outline(FakeHost(), study(backup='rw = "write"', disk=device))


def test_a_record_says_who_was_beside_it_and_is_read_back(tmp_path: Path) -> None:
    trial = Trial(1, "aaaaaa", 1, "db", (("neighbour", "backup"),), "disk")
    record = TrialRecord(
        trial, "valid", 1.0, 2.0, tool="fio", parts=("local/disk",),
        beside=("backup", "fio", "local/beside"),
    )  # fmt: skip
    assert record_in(line_out(record), {}).beside == record.beside
    alone = replace(record, parts=(), beside=())
    assert "beside" not in line_out(alone)
    row = line_out(record) | {"beside": ["backup", "fio", "../../elsewhere"]}
    with pytest.raises(IotrialError):
        record_in(row, {})


def test_only_its_own_totals_become_numbers_of_the_trial() -> None:
    parsed = ParsedOutput((
        Measurement("read.bw", 1.0, "bytes/s", raw="fio.json"),
        Measurement("read.bw", 1.0, "bytes/s", job="backup#1"),
        Measurement("read.bw[a]", 1.0, "bytes/s"),
    ))  # fmt: skip
    (found,) = of_neighbour("backup", parsed, "local/beside")
    assert (found.metric, found.job, found.raw) == (
        "read.bw[backup]", "all", "local/beside/fio.json",
    )  # fmt: skip


def test_a_pretended_study_runs_both_and_reads_both_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        STUDY.format(
            disk=LOOP, other=OTHER, db="", backup='rw = "read", rate = "20m"',
            of_backup='target = "other"', factor=VARIED, design="blocks = 2",
        )
    )  # fmt: skip
    assert status(["run", "s.toml", "--pretend", "--out", "results", "--quiet"]) == 0
    done = open_results(tmp_path / "results")
    beside = [r for r in done.records if dict(r.trial.treatment)["neighbour"] == "backup"]
    assert len(beside) == 4
    for record in done.records:
        there = record in beside
        assert bool(record.value("read.iops"))
        assert bool(record.value("read.bw[backup]")) is there
        assert record.beside == (("backup", "fio", "local/beside") if there else ())
        again = read_trial(tmp_path / "results/trials" / record.trial.folder)
        assert {(m.metric, m.job, m.value) for m in again.measurements} >= {
            (m.metric, m.job, m.value) for m in record.measurements
        }
        assert len(done.traces.samples(record)) > 0
    findings = json.loads((tmp_path / "results/findings.json").read_text())["findings"]
    assert "read.iops[backup]" in {row["metric"] for row in findings if row["secondary"]}


def test_a_neighbour_that_does_not_hold_its_rate_is_named() -> None:
    made = study()
    of = results(
        {"scheduler": ("none", "bfq"), "neighbour": ("backup",)}, ["db"], 3, noisy(0.01, 1)
    )

    def told(rate: float) -> list[str]:
        records = tuple(
            replace(
                r,
                beside=("backup", "fio", "local/beside"),
                measurements=(
                    *r.measurements,
                    Measurement(
                        "read.bw[backup]",
                        rate if r.trial.treatment[0][1] == "bfq" else 20 * 2.0**20,
                        "bytes/s",
                    ),
                ),
            )
            for r in of.records
        )
        return [doubt.what for doubt in held.study(replace(of, study=made, records=records))]

    assert told(20 * 2.0**20) == []
    assert told(19.5 * 2.0**20) == []
    (what,) = told(12 * 2.0**20)
    assert what.startswith("backup beside db reached 12.0 MiB/s of the 20.0 MiB/s that it offers")
    assert "scheduler=bfq" in what
