"""JUnit XML: the findings as test cases, for a CI server.

A study asks, and ``worse`` is an answer; between two folders ``worse`` is a regression.  So the
caller says which verdicts fail.  A guardrail that is exceeded always fails.  What the trials
cannot tell is skipped, with the reason; a failed trial is an error; trials that were never done
are a skipped case, so that half a study does not look like a whole one.

Sources: JUnit's own Ant task (junitreport), and the schema of the Jenkins xunit plugin
(junit-10.xsd), whose order of attributes and elements is kept.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from xml.etree import ElementTree as ET

from iotrial.judgement.parts import VerdictRow
from iotrial.model.finding import Finding, Verdict
from iotrial.model.trial import Doubt
from iotrial.report import words
from iotrial.report.view import ReportView, WorkloadView
from iotrial.report.words import visible
from iotrial.units import format_value

REGRESSION: tuple[Verdict, ...] = ("worse",)
"""The verdicts that fail where one folder is held against another."""


def junit(*views: ReportView, failing: Collection[Verdict] = ()) -> str:
    """The document, with its XML declaration: a suite a view.  ``failing`` are the verdicts of
    primary findings that fail; ``failures`` of a view the failed trials."""
    suites = [_suite(view, failing) for view in views]
    root = ET.Element("testsuites", {"name": "iotrial", **_counts(_cases(suites))})
    root.extend(suites)
    return text_of(root)


def not_compared(name: str, why: str, *, pretended: bool, mistaken: bool) -> str:
    """The document of a study that is not compared: one case, skipped where it has nothing to be
    compared with, an error where that is a mistake (``mistaken``)."""
    name = f"{name} (pretended)" if pretended else name
    case = _case(name, "comparison with stored results")
    ET.SubElement(case, "error" if mistaken else "skipped", message=why)
    suite = ET.Element("testsuite", {"name": name, **_counts([case])})
    suite.append(case)
    root = ET.Element("testsuites", {"name": "iotrial", **_counts([case])})
    root.append(suite)
    return text_of(root)


def _cases(suites: Collection[ET.Element]) -> list[ET.Element]:
    return [case for suite in suites for case in suite.iter("testcase")]


def _suite(view: ReportView, failing: Collection[Verdict]) -> ET.Element:
    cases = [*_findings(view, failing), *map(_trial, view.failures), *_missing(view)]
    name = f"{view.study} (pretended)" if view.pretended else view.study
    suite = ET.Element("testsuite", {"name": name, **_counts(cases)})
    if view.started is not None:
        suite.set("timestamp", timestamp(view.started))
    suite.set("time", f"{max(view.seconds, 0):.3f}")
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(view):
        ET.SubElement(properties, "property", name=name, value=value)
    suite.extend(cases)
    doubts = (f"doubt {each.check}: {each.what}" for each in view.doubt_groups)
    said = (words.PRETENDED if view.pretended else "", view.answer, view.method, *doubts)
    ET.SubElement(suite, "system-out").text = "\n".join(filter(None, said))
    return suite


def text_of(root: ET.Element) -> str:
    """A document, indented, with its XML declaration."""
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def timestamp(at: float) -> str:
    """Seconds since the epoch as a suite has them."""
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _counts(cases: Collection[ET.Element]) -> dict[str, str]:
    found = [child.tag for case in cases for child in case]
    tags = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    return {"tests": str(len(cases)), **{n: str(found.count(tag)) for n, tag in tags.items()}}


def _properties(view: ReportView) -> Iterator[tuple[str, str]]:
    if view.pretended:
        yield "pretended", words.PRETENDED
    yield "question", view.question
    yield "margin", words.share(view.margin)
    yield "confidence", words.share(view.confidence)
    for name in ("planned", "valid", "invalid", "failed", "missing"):
        yield f"trials.{name}", str(getattr(view.counts, name))


def _findings(view: ReportView, failing: Collection[Verdict]) -> Iterator[ET.Element]:
    for part in view.parts:
        yield from (_finding(view, part, row, failing) for row in part.findings)
        yield from (_guardrail(view, row) for row in part.guardrails)
        yield from (_finding(view, part, row, ()) for row in (*part.secondary, *part.others))


def _finding(
    view: ReportView, part: WorkloadView, row: VerdictRow, failing: Collection[Verdict]
) -> ET.Element:
    said = f"{words.VERDICTS[row.finding.verdict]}: {_numbers(row)}"
    could = ""
    if part.resolvable is not None:
        could = f"; smallest detectable difference {words.share(part.resolvable)}"
    for more in filter(None, (words.by_ranks(row.finding), words.needs(row.finding))):
        could += f"; {more}"
    return _judged(_named(view, row, ""), row.finding, failing, (said, could))


def _guardrail(view: ReportView, row: VerdictRow) -> ET.Element:
    said = f"{words.guard(row.finding, row.tolerated)}: {_numbers(row)}"
    return _judged(_named(view, row, " (guardrail)"), row.finding, REGRESSION, (said, ""))


def _named(view: ReportView, row: VerdictRow, kind: str) -> ET.Element:
    finding = row.finding
    level = f"{finding.factor}={finding.level}"
    if finding.factor == "results":  # of two folders: the level is the whole treatment
        level = finding.level
    name = f"{finding.metric}{kind}: {level} against {finding.baseline}"
    return _case(f"{view.study}.{words.load(finding)}", name)


def _judged(
    case: ET.Element, finding: Finding, failing: Collection[Verdict], said: tuple[str, str]
) -> ET.Element:
    what, could = said
    if finding.verdict == "cannot-tell":
        ET.SubElement(case, "skipped", message=what + could)
    elif finding.verdict in failing:
        failure = ET.SubElement(case, "failure", message=what, type=finding.verdict)
        failure.text = "\n".join(["trials:", *map(visible, finding.trials)])
    else:
        ET.SubElement(case, "system-out").text = what
    return case


def _numbers(row: VerdictRow) -> str:
    """``−18.0 % (−19.9 … −16.1), 66.1 kIOPS against 80.6 kIOPS, n = 5``."""
    unit = row.metric.display_unit
    values = [None if v is None else format_value(v, unit) for v in (row.value, row.base)]
    shown = f", {values[0]} against {values[1]}" if None not in values else ""
    return f"{words.change(row.finding)}{shown}, n = {words.number(row.finding)}"


def _trial(failure: Doubt) -> ET.Element:
    case = _case("trials", failure.trial)
    error = ET.SubElement(case, "error", message=failure.what, type="failed")
    error.text = failure.advice
    return case


def _missing(view: ReportView) -> Iterator[ET.Element]:
    case = _case("trials", "all planned trials executed")
    counts = view.counts
    if counts.missing:
        said = f"{counts.missing} of {words.count(counts.planned, 'trial')} not executed"
        ET.SubElement(case, "skipped", message=said)
    yield case


def _case(group: str, name: str) -> ET.Element:
    return ET.Element("testcase", classname=group, name=name, time="0")
