"""Several folders as one report: all beside its evidence, what is missing said, nothing markup."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from stats_studies import noisy, results

import factories
from iotrial.cli.main import status
from iotrial.judgement import completed
from iotrial.judgement.parts import VerdictRow
from iotrial.report.render.html import html as page_of
from iotrial.report.render.markdown import markdown as markdown_of
from iotrial.report.view import ReportView, view
from iotrial.report.words import visible
from iotrial.stats.judge import judge
from iotrial_suites.case import CaseResult, CheckResults, HostVersions
from iotrial_suites.session import session as sessions
from iotrial_suites.together.report import document
from iotrial_suites.together.view import CombinedReport, SessionFolder, StudyFolder, together

Form = Callable[[CombinedReport], str]
DATA = Path(__file__).parents[2] / "docs" / "five-studies" / "data"
EVIL = "<script>alert(1)</script>|[x](javascript:y) \x1b[31m"
MACHINE = HostVersions("n1", "6.1.0", "Debian 12", {"mdadm": "mdadm - v4.2", "dlm_tool": ""})
CREATE = CaseResult(
    "cluster-md/create", "It is made", 1, "pass", folder="cases/cluster-md.create-1"
)
GROW = CaseResult("cluster-md/bitmap", "It grows", 1, "known failure", ("refused",), "mdadm 4.2")
RAISED = CaseResult(
    "stress/verify", "No byte is lost", 1, "fail", ("byte 4096 differs",), seconds=3.0
)
THREE = CaseResult("cluster-md/three", "Three have it", 1, "not run", ("needs 3 hosts", "no mdadm"))


def html(all_: CombinedReport) -> str:
    return page_of(document(all_))


def markdown(all_: CombinedReport) -> str:
    return markdown_of(document(all_))


def checks(*results: CaseResult, name: str = "arrays", at: str = "../arrays/") -> SessionFolder:
    suites = tuple((each, each) for each in dict.fromkeys(r.case.split("/")[0] for r in results))
    return SessionFolder(name, at, CheckResults(suites, (MACHINE,), results, started=1763798400.0))


def seen() -> ReportView:
    results = factories.results()
    return view(completed(results, factories.comparison(results)))


def study(of: ReportView | None = None, name: str = "study") -> StudyFolder:
    return StudyFolder(name, "../study/", of or seen())


def with_rates(name: str, tool: str, metric: str, *rates: float) -> StudyFolder:
    """A study of one workload, whose levels reach these rates."""
    whole = seen()
    part = next(each for each in whole.parts if each.findings)
    row = part.findings[0]
    about = replace(row.metric, name=metric)
    rows = tuple(VerdictRow(row.finding, about, rate, rate) for rate in rates)
    only = replace(part, workload="load", tool=tool, metric=about, findings=rows)
    return study(replace(whole, parts=(only,)), name)


class Links(HTMLParser):
    """Every tag and every link of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


ALL = together([checks(CREATE, GROW, RAISED, THREE)], [study()])


def test_each_case_leads_to_its_commands_and_to_its_evidence() -> None:
    cases = {case.case: case for session in ALL.functional for case in session.cases}
    create = cases["cluster-md/create"]
    assert create.href == "../arrays/report.html#cluster-md-create-1"
    assert create.evidence == "../arrays/cases/cluster-md.create-1/"
    assert not cases["cluster-md/three"].evidence, "what was not run has none"
    for text in (html(ALL), markdown(ALL)):
        assert create.href in text
        assert create.evidence in text


def test_stress_has_a_table_of_its_own_and_each_is_summed_up_alone() -> None:
    assert [case.case for each in ALL.stress for case in each.cases] == ["stress/verify"]
    assert "stress/verify" not in [case.case for each in ALL.functional for case in each.cases]
    assert ALL.stress[0].summary.startswith("1 failed, in 3")
    assert ALL.functional[0].summary.startswith("1 passed, 1 known to fail, 1 not run")


def test_every_reason_for_which_a_case_was_not_run_or_fails_as_known_is_a_gap() -> None:
    told = "\n".join(ALL.gaps)
    assert "cluster-md/three was not run: needs 3 hosts; no mdadm." in told
    assert "cluster-md/bitmap is known to fail: refused; known: mdadm 4.2." in told
    assert "cluster-md/create" not in told


@pytest.mark.parametrize("form", [html, markdown])
def test_what_was_not_done_is_said_and_not_left_out(form: Form) -> None:
    nothing: CombinedReport = together([], [])
    text = form(nothing)
    assert text.count("None was run.") == 2
    assert "Nothing was measured." in text
    assert len(nothing.gaps) == 2
    assert "No stress suite was run" in form(together([checks(CREATE)], [study()]))


@pytest.mark.parametrize("form", [html, markdown])
def test_cases_without_a_result_are_said_each_where_it_belongs(form: Form) -> None:
    """Nobody says that it was stopped: the folder is read later."""
    session = checks(CREATE)
    undone = (("cluster-md/mdstat", 1), ("cluster-md/mdstat", 2), ("stress/xfs", 1))
    whole = together([replace(session, checked=replace(session.checked, undone=undone))], [study()])
    assert whole.functional[0].summary.startswith("1 passed, 2 without a result, in ")
    assert whole.stress[0].summary == "1 without a result, in 0 s"
    gaps = [gap for gap in whole.gaps if "no result" in gap]
    assert [("cluster-md/mdstat" in gap, "stress/xfs" in gap) for gap in gaps] == [
        (True, False),
        (False, True),
    ]
    assert "has no result of stress/xfs" in form(whole)


def test_machines_are_told_with_their_packages_by_each_folder_that_knows_them() -> None:
    hosts = {each.host: each for each in ALL.hosts}
    assert hosts["n1"].about == ("Linux 6.1.0", "Debian 12")
    assert hosts["n1"].packages == ("mdadm - v4.2", "no dlm_tool")
    assert {each.told_by for each in ALL.hosts} == {"arrays", "study"}


def test_every_primary_finding_stands_with_its_verdict_and_leads_to_its_workload() -> None:
    page = html(ALL)
    for part, href in ALL.measured[0].parts:
        assert href in Links(page).links or not part.findings
    rows = [row for part, _ in ALL.measured[0].parts for row in part.findings]
    assert page.count('<span class="verdict ') == len(rows) > 0


def test_it_asks_what_the_disks_are_asked_and_not_what_was_asked_of_the_link_before() -> None:
    link, disks = with_rates("link", "iperf3", "write.bw", 100e6), study(name="disks")
    link = replace(link, view=replace(link.view, question="What does the link carry?"))
    assert together([], [link, disks]).title == disks.view.question
    assert together([], [link]).title == "What does the link carry?"
    assert together([checks(CREATE)], []).title == "Checks"


@pytest.mark.parametrize(
    ("writes", "reads", "told"),
    [
        (1.9, 1.0, "Change nodes=1 to 2: "),
        (0.5, 1.0, "Keep nodes=1: "),
        (0.5, 1.9, "Which nodes is best depends on the workload: "),
        (1.0, 1.0, ""),
    ],
)
def test_a_factor_of_which_something_was_shown_stands_first_though_it_is_not_the_first(
    writes: float, reads: float, told: str
) -> None:
    """The published comparison asks two things: what an array costs, and what a second node."""
    levels = {"storage": ("local", "lvm"), "nodes": ("1", "2")}
    effects = {("write", "2"): writes, ("read", "2"): reads}
    judged = judge(results(levels, ["write", "read"], 5, noisy(0.002, 1, effects)))
    whole = together([], [study(replace(seen(), answer=judged.recommendation))])
    lead = next(each for each in whole.leads if each.startswith("Performance"))
    assert lead.startswith(
        "Performance, study: No difference that matters (±2 %) between storage=local and"
        " storage=lvm."
    )
    assert (f" {told}for write nodes=2 is " in lead) == bool(told)
    assert "Same as" not in lead


def test_what_a_change_may_cost_stands_first_beside_it() -> None:
    answer = "Change nodes=1 to 2: for write 2 is 9 % faster. Guardrail undecided: write 2 (p99)."
    (_, _, lead) = together([], [study(replace(seen(), answer=answer))]).leads
    assert lead == f"Performance, study: {answer}"


def test_comparisons_that_are_undecided_are_named_among_the_gaps() -> None:
    whole = seen()
    part = next(each for each in whole.parts if each.findings)
    row = replace(
        part.findings[0], finding=replace(part.findings[0].finding, verdict="cannot-tell")
    )
    only = replace(whole, parts=(replace(part, findings=(row,)),))
    told = "\n".join(together([checks(CREATE)], [study(only)]).gaps)
    assert f"study cannot tell 1 of 1 comparison: {part.workload} ({row.finding.factor}=" in told


LINK = ("link", "iperf3")


@pytest.mark.parametrize(
    ("metric", "rates", "told"),
    [
        ("read.bw", (114e6, 117e6), "is at what the link carries"),
        ("read.bw", (114e6, 90e6), ""),
        ("read.bw", (58e6, 59e6), ""),
        ("write.bw", (58e6, 59e6), "is at half of what the link carries"),
        ("write.bw", (58e6, 20e6), ""),
        ("write.iops", (117e6,), ""),
    ],
)
def test_a_load_at_the_link_cannot_show_what_an_array_costs(
    metric: str, rates: tuple[float, ...], told: str
) -> None:
    link = with_rates(*LINK, metric if metric.endswith("bw") else "write.bw", 117.5e6)
    gaps = together([checks(CREATE)], [link, with_rates("arrays", "fio", metric, *rates)]).gaps
    found = [gap for gap in gaps if "the link carries" in gap]
    assert bool(found) == bool(told)
    assert all(told in gap for gap in found)


@pytest.mark.parametrize("form", [html, markdown])
def test_nothing_that_a_host_a_case_or_a_folder_is_called_becomes_markup(form: Form) -> None:
    machine = HostVersions(EVIL, EVIL, EVIL, {"mdadm": EVIL})
    bad = CaseResult(f"md/{EVIL}", EVIL, 1, "fail", (EVIL,), EVIL, folder=f"cases/{EVIL}")
    checked = CheckResults(((EVIL, EVIL),), (machine,), (bad,), stopped=EVIL)
    hostile = replace(seen(), question=visible(EVIL), answer=visible(EVIL))
    text = form(together([SessionFolder(EVIL, "../x/", checked)], [study(hostile, EVIL)]))
    assert "\x1b" not in text
    if form is html:
        assert "script" not in Links(text).tags
        assert not [each for each in Links(text).links if each.startswith("javascript")]
    else:
        assert "<script" not in text.replace("\\<script", "")
        assert "](javascript" not in text.replace("\\]", "")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = status([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """A session of checks and a study, in folders with names that need care."""
    arrays, bonnie = tmp_path / "check md #1", tmp_path / "bonnie"
    header = sessions.SessionHeader(
        (("cluster-md", "arrays"),), ("create",), (MACHINE,), 1763798400.0
    )
    sessions.begin(arrays, header)
    sessions.add(arrays, CREATE)
    (arrays / CREATE.folder).mkdir(parents=True)
    label = "scheduler=cfq,deadline,anticipatory,noop"
    code, _ = run(
        capsys, "import", str(DATA / "bonnie.csv"), "--label", label, "--out", str(bonnie)
    )
    assert code == 0
    return arrays, bonnie


def test_several_folders_become_one_page_whose_links_lead_somewhere(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "pages" / "all.html"
    page.parent.mkdir()
    code, told = run(capsys, "report", *map(str, folders), "--out", str(page))
    assert code == 0
    assert told["report"] == str(page)
    links = [each for each in Links(page.read_text("utf-8")).links if not each.startswith("#")]
    assert {(page.parent / unquote(each.partition("#")[0])).exists() for each in links} == {True}
    assert any("%231" in each for each in links), "a # in a folder's name is no anchor"


def test_without_a_place_it_lies_in_the_first_folder_and_a_single_folder_is_reported_as_before(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, bonnie = folders
    _, told = run(capsys, "report", str(bonnie), str(arrays), "--as", "md")
    assert told["report"] == str(bonnie / "together.md")
    _, told = run(capsys, "report", str(bonnie))
    assert told["report"] == str(bonnie / "report.html")
    _, told = run(capsys, "report", str(arrays))
    assert told["report"] == str(arrays / "together.html")


def test_as_json_it_is_what_check_and_compare_say_of_each_folder(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["report", *map(str, folders), "--as", "json", "--out", "-"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["format"] == 1
    assert whole["checks"][0]["counts"]["pass"] == 1
    _, compared = run(capsys, "compare", str(folders[1]))
    assert whole["studies"][0]["findings"] == compared["findings"]


def test_a_table_of_trials_is_refused_of_several_folders(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = run(capsys, "report", *map(str, folders), "--as", "csv")
    assert code == 2
    assert "html, md, json" in told["error"]["advice"]
