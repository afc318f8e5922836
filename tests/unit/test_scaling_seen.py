"""What was seen at each step of a factor that counts, in every shape of the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from stats_studies import noisy, results

from iotrial.execute.load.part import keep_strain
from iotrial.judgement import Judged, completed
from iotrial.judgement.utilisation import ScalingLevel
from iotrial.model.results import DevicePoint, ResourceUsage
from iotrial.report.charts import pictures
from iotrial.report.document import document
from iotrial.report.scaling import MOST_BORNE, borne_rows
from iotrial.report.series import coarser
from iotrial.report.study import html, markdown
from iotrial.report.text import verdict_table
from iotrial.report.view import ReportView, view
from iotrial.stats.judge import judge
from iotrial.trial_files import FolderTraces

pytestmark = pytest.mark.charts

EFFECTS = {("reads", "1"): 1.0, ("reads", "2"): 1.99, ("reads", "4"): 2.6}


def strains(hosts: int) -> list[ResourceUsage]:
    """Of four hosts the third has a busy CPU, and a map whose first path carries most."""
    found = []
    for number in range(1, hosts + 1):
        host, part = f"box{number}", f"box{number}/lun"
        slow = number == 3
        found += [
            ResourceUsage(host, "cpu", "all", busy=0.97 if slow else 0.4, interrupts=0.41),
            ResourceUsage(host, "device", "dm-3", part, busy=1.0, ios=990.0, latency=1e-3),
            ResourceUsage(
                host, "path", "sdb", part, busy=0.9, ios=700.0 if slow else 500.0, limit=32
            ),
            ResourceUsage(
                host, "path", "sdc", part, busy=0.9, ios=290.0 if slow else 490.0, depth=0.7
            ),
        ]
    return found


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    """A study of hosts that bends at four of them."""
    made = results(
        {"scale": ("1", "2", "4")},
        ["reads"],
        4,
        noisy(0.005, 1, EFFECTS),
    )
    factors = tuple(replace(each, kind="count", subject="hosts") for each in made.study.factors)
    study = replace(made.study, factors=factors)
    made = replace(made, study=study, folder=tmp_path, traces=FolderTraces(tmp_path))
    for record in made.records:
        folder = tmp_path / "trials" / record.trial.folder
        folder.mkdir(parents=True)
        keep_strain(folder, strains(int(dict(record.trial.treatment)["scale"])))
    parts = tuple(
        replace(r, parts=tuple(f"box{n}/lun" for n in range(1, int(r.trial.treatment[0][1]) + 1)))
        for r in made.records
    )
    made = replace(made, records=parts)
    return completed(made, judge(made))


@pytest.fixture
def seen(judged: Judged) -> ReportView:
    return view(judged)


def steps(of: ReportView) -> dict[str, ScalingLevel]:
    return {step.level: step for part in of.parts for step in part.scaling}


def test_the_step_where_it_bends_says_what_stood_at_its_limit(seen: ReportView) -> None:
    found = steps(seen)
    assert [level for level, step in found.items() if step.bends] == ["4"]
    assert [o.said for o in found["1"].seen] == ["no sampled resource was at its limit"]
    assert [o.said for o in found["4"].seen] == [
        "the CPU of box3 was 97% busy, 41% in interrupts",
        "sdb carried 71% of the I/O of the 2 paths of box3/lun (even: 50%)",
    ]
    scale = found["4"].efficiency
    assert scale
    assert scale.efficiency == pytest.approx(0.65, rel=0.02)


def shapes(of: ReportView) -> dict[str, str]:
    console = Console(width=300, record=True, file=None, no_color=True)
    with console.capture() as said:
        console.print(verdict_table(of))
    return {"text": said.get(), "md": markdown(of), "html": html(of)}


@pytest.mark.parametrize("shape", ["text", "md", "html"])
def test_every_shape_says_it_and_where_the_load_went(seen: ReportView, shape: str) -> None:
    said = shapes(seen)[shape]
    assert "the CPU of box3 was 97% busy" in said
    assert ": knee" in said
    assert "Load distribution" in said
    assert "path sdb (lun)" in said
    assert "71% (50%)" in said
    assert "0.7" in said


def test_the_document_has_every_number(judged: Judged) -> None:
    found: dict[str, Any] = json.loads(json.dumps(document(judged)))
    (step,) = [each for each in found["scaling"] if each["level"] == "4"]
    assert step["seen"][0] | {"said": ""} == {
        "what": "cpu", "said": "", "host": "box3", "name": "all", "value": 0.97,
    }  # fmt: skip
    (borne,) = found["borne"]
    assert borne["treatment"] == "scale=4"
    assert len(borne["strains"]) == 16
    (path,) = [s for s in borne["strains"] if s["host"] == "box3" and s["name"] == "sdb"]
    assert path["share"] == pytest.approx(700 / 990)
    assert path["even"] == 0.5


def test_a_table_of_many_hosts_ends_and_says_so(seen: ReportView) -> None:
    (borne,) = seen.borne
    named = (replace(each, name=f"{each.name}{n}") for n in range(10) for each in borne.strains)
    many = replace(borne, strains=tuple(named))
    assert len(borne_rows(many)) == MOST_BORNE


def test_what_many_hosts_bore_alike_is_one_line_and_what_differs_a_range(seen: ReportView) -> None:
    (borne,) = seen.borne
    first = [each for each in borne.strains if each.host == "box1"]
    strains = tuple(
        replace(each, host=f"n{n:02}", busy=0.2 + n / 100) for n in range(1, 51) for each in first
    )
    rows = borne_rows(replace(borne, strains=strains, shares={}))
    assert len(rows) == len(first) == 4
    assert {row[0] for row in rows} == {"all 50 hosts"}
    assert rows[0][1:] == ("CPU", "–", "–", "–", "21% to 70%", "–")
    (odd,) = [
        row
        for row in borne_rows(
            replace(
                borne,
                strains=(*strains, replace(first[0], host="n51", kind="nic", name="eth9")),
                shares={},
            )
        )
        if "eth9" in row[1]
    ]
    assert odd[0] == "n51"


def test_results_without_strains_and_torn_ones_still_have_their_steps(
    seen: ReportView, tmp_path: Path
) -> None:
    assert seen.borne
    for path in tmp_path.glob("trials/*/strain.json"):
        path.write_text('{"format": 1, "strains": [{"host"')
    made = results({"hosts": ("1", "2")}, ["reads"], 3, noisy(0.01, 1, EFFECTS))
    again = view(completed(replace(made, traces=FolderTraces(tmp_path)), judge(made)))
    assert [step.seen for step in steps(again).values()] == [(), ()]
    assert again.borne == ()


# -- how busy things were -------------------------------------------------------------------------


@pytest.fixture
def busy(tmp_path: Path) -> Judged:
    """One disk of one host: bfq keeps it busier, and waits; each trial has its samples."""
    made = results(
        {"scheduler": ("none", "bfq")}, ["reads"], 3, noisy(0.005, 1, {("reads", "bfq"): 0.8})
    )
    made = replace(made, folder=tmp_path, traces=FolderTraces(tmp_path))
    for record in made.records:
        bfq = record.trial.treatment[-1][1] == "bfq"
        folder = tmp_path / "trials" / record.trial.folder
        folder.mkdir(parents=True)
        cpu = ResourceUsage(
            "local", "cpu", "all", busy=0.25, iowait=0.5 if bfq else 0.0, load=3.5 if bfq else 2.0
        )
        disk = ResourceUsage(
            "local", "device", "sda", "disk",
            busy=0.97 if bfq else 0.61, ios=1000.0, latency=2e-3 if bfq else 1e-3, depth=4.0,
        )  # fmt: skip
        keep_strain(folder, [cpu, disk])
        lines = [
            {"t": float(t), "disk": {"reads": 100 * t, "writes": 0, "read_ms": 50 * t,
                                     "write_ms": 0, "weighted_ms": 80 * t}}
            for t in range(4)
        ]  # fmt: skip
        text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
        (folder / "telemetry.jsonl").write_text(text + "\n")
    return completed(made, judge(made))


@pytest.mark.parametrize("shape", ["text", "md", "html"])
def test_every_shape_says_how_busy_one_disk_of_one_host_was(busy: Judged, shape: str) -> None:
    told = shapes(view(busy))[shape]
    assert "Utilisation" in told
    for said in ("97%", "61%", "2.00 ms", "50%", "3.5"):
        assert said in told
    assert view(busy).borne == (), "there is nothing to share it among"


def test_the_document_says_how_busy_each_treatment_kept_its_device(busy: Judged) -> None:
    first, second = document(busy)["usage"]
    assert first["treatment"] == {"scheduler": "none"}
    assert (first["iowait"], second["iowait"], second["device"]) == (0.0, 0.5, 0.97)
    assert second["latency"] == pytest.approx(2e-3)
    assert "core" not in second, "nobody counted it"


def test_the_middle_trial_of_each_treatment_is_drawn_over_time(busy: Judged) -> None:
    (part,) = view(busy).parts
    assert [curve.group for curve in part.curves] == ["none", "bfq"]
    values = {r.trial.number: r.value("read.iops") for r in busy.results.records}
    for curve in part.curves:
        own = sorted(
            values[r.trial.number] or 0.0
            for r in busy.results.records
            if r.trial.treatment[-1][1] == curve.group
        )
        assert values[curve.trial] == own[1]
        assert [each.ios for each in curve.samples] == [100.0] * 3
        assert [each.latency for each in curve.samples] == [0.0005] * 3
    drawn = {figure.title for figure in pictures(view(busy)).parts[0]}
    assert {"I/O rate of the device over time", "Latency of the device over time"} <= drawn


def test_long_trials_are_drawn_as_means_over_neighbours() -> None:
    every = [DevicePoint(float(t), 100.0 + t % 2, 1e-3 if t % 2 else None, 2.0) for t in range(999)]
    fewer = coarser(every, 120)
    assert len(fewer) <= 120
    assert fewer[0].ios == pytest.approx(100.5, abs=0.1)
    assert fewer[0].latency == pytest.approx(1e-3)
    assert coarser(every[:5], 120) == tuple(every[:5])


def test_values_against_levels_have_a_line_for_each_combination_of_the_others() -> None:
    def titles(factors: dict[str, tuple[str, ...]]) -> set[str]:
        made = results(factors, ["reads"], 3, noisy(0.01, 1))
        return {each.title for each in pictures(view(completed(made, judge(made)))).parts[0]}

    depth, two = ("1", "4", "16"), ("none", "bfq")
    told = "read IOPS against depth"
    assert told in titles({"depth": depth, "scheduler": two})
    assert told not in titles({"depth": depth}), "one line: the knee has it"
    assert told not in titles({"depth": depth[:2], "scheduler": two}), "no line has two points"
    many = tuple(map(str, range(7)))
    assert told not in titles({"depth": ("1", "2", "3", "4", "5", "6", "7", "8"), "odd": many})
