"""Reports of checks: whole documents against golden files, and what no host may put into them.

After a change that is meant, remake the golden files: ``IOTRIAL_GOLDEN=write pytest FILE``.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown
from iotrial_suites.case import CaseResult, CheckResults, CommandRecord, HostVersions
from iotrial_suites.report import FORMS, document, junit, summary, tap, written

GOLDEN = Path(__file__).parents[1] / "golden"
EVIL = 'mdadm: <script>alert("x")</script> # SKIP | \x1b[31mred\x1b[0m ]]> \u202e\ufffe'
RESULTS = (
    CaseResult("md/create", "A mirror is made", 1, "pass", (), "", 1763798400.0, 1.5, "cases/a", 3),
    CaseResult(
        "md/spare", "A spare takes over", 1, "fail",
        (EVIL, "kernel log: [7.5] BUG: it\nbreaks"), "", 1763798402.0, 12.25, "cases/md.spare-1", 2,
        ("n1: command mdadm --stop /dev/md100: busy",),
    ),
    CaseResult(
        "md/grow", "It grows", 1, "known failure", ("mdadm: inverted",),
        "mdadm 4.2 has the check the wrong way round (a source)", 1763798420.0, 0.8,
    ),
    CaseResult("md/replace", "It is replaced", 1, "pass", (), "it was broken (a source)", 0.0, 2.0),
    CaseResult(
        "md/replace", "It is replaced", 2, "not run",
        ("the command mdadm is not installed", "needs Linux 6.2, and this is 6.1.0"), "", 0.0, 0.1,
    ),
)  # fmt: skip
CHECKED = CheckResults(
    suites=(("md", "md: arrays are made, broken and mended"),),
    machines=(HostVersions("n1", "6.1.0-56-amd64", "Debian 12", {"mdadm": "mdadm - v4.2"}),),
    results=RESULTS,
    started=1763798400.0,
    last={"md/create": replace(RESULTS[0], state="fail", seconds=1.75), "md/spare": RESULTS[1]},
    last_from="2026-11-21-081500-check-md",
    seed=7,
    commands={
        ("md/spare", 1): (
            CommandRecord(1, "n1", "steps", ("mdadm", "--create"), 0.0, 0.25, 0, stdout=EVIL),
            CommandRecord(
                2, "n1", "clean-up", ("sh", "-c", "a\nb", "iotrial-x", "y"), 0.0, 9.0, -9, late=True
            ),
        )
    },
    logs={("md/spare", 1): "[7.5] BUG: <b>it</b>\n"},
)


@pytest.mark.parametrize("name", FORMS)
def test_a_report_is_as_it_was(name: str) -> None:
    path = GOLDEN / name.replace("report", "check")
    text = FORMS[name](CHECKED)
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_junit_is_xml_and_counts_what_is_in_it() -> None:
    root = ET.fromstring(junit(CHECKED))  # noqa: S314 (our own document)
    cases = root.findall(".//testcase")
    assert len(cases) == int(root.get("tests", "")) == 5
    assert len(root.findall(".//failure")) == int(root.get("failures", "")) == 1
    assert len(root.findall(".//skipped")) == int(root.get("skipped", "")) == 2


def test_tap_has_a_line_a_case_and_directives_of_its_own_only() -> None:
    lines = tap(CHECKED).splitlines()
    assert lines[:2] == ["TAP version 13", "1..5"]
    told = [line for line in lines if re.match(r"(not )?ok ", line)]
    assert [line.split()[0] for line in told] == ["ok", "not", "not", "ok", "ok"]
    directives = [re.search(r"(?<!\\)#.*", line) for line in told]
    assert [found[0].split()[1] if found else "" for found in directives] == [
        "", "", "TO" + "DO", "", "SKIP",
    ]  # fmt: skip


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.targets: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.targets += [value or "" for name, value in attrs if name in ("href", "src")]
        self.ids |= {value or "" for name, value in attrs if name == "id"}


def test_the_page_runs_nothing_loads_nothing_and_its_links_lead_somewhere() -> None:
    page = Tags()
    page.feed(html(document(CHECKED)))
    assert not {"script", "b", "img", "iframe", "link"} & set(page.seen)
    inside = {target[1:] for target in page.targets if target.startswith("#")}
    assert inside <= page.ids
    assert inside
    assert not [target for target in page.targets if "://" in target]
    assert "\x1b" not in html(document(CHECKED))


def test_what_a_host_said_cannot_break_a_report(tmp_path: Path) -> None:
    broken = replace(CHECKED, results=(replace(RESULTS[1], reasons=("\udcff\ud800\x00",)),))
    for path in written(broken, tmp_path):
        assert path.read_text("utf-8")
    ET.fromstring(junit(broken))  # noqa: S314


def test_a_summary_counts_what_there_is() -> None:
    said = "2 passed, 1 failed, 1 known to fail, 1 not run, in 17 s"
    assert summary(CHECKED) == said
    assert summary(replace(CHECKED, results=())).startswith("nothing was run")
    assert CHECKED.as_dict()["counts"] == {"pass": 2, "fail": 1, "known_failure": 1, "not_run": 1}
    assert [each.case for each in CHECKED.mended] == ["md/replace"]


def test_what_a_session_did_not_come_to_is_in_every_report() -> None:
    early = replace(CHECKED, undone=(("md/late", 1), ("md/late", 2)), stopped="SIGINT")
    root = ET.fromstring(junit(early))  # noqa: S314 (our own document)
    assert int(root.get("tests", "")) == len(root.findall(".//testcase")) == 7
    assert int(root.get("skipped", "")) == len(root.findall(".//skipped")) == 4
    lines = tap(early).splitlines()
    assert lines[1] == "1..7"
    assert lines[-1] == "Bail out! SIGINT"
    for text in (tap(early), markdown(document(early)), html(document(early)), junit(early)):
        assert "late (round 2)" in text
