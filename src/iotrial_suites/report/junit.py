"""JUnit XML of checks, for a CI server.

A failure that is known is skipped, with why it is known; one that begins to pass, passes, and says
so in its output; what has no result, as the session ended early, is skipped too.

Sources: as :mod:`iotrial.report.junit`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from iotrial.report.visible import visible
from iotrial_suites.report.words import last_time, lines, machines, summary, without_result
from iotrial_suites.result import Checked, Result


def junit(checked: Checked) -> str:
    """The document, with its XML declaration: a suite of it for each suite."""
    whole = _counts(checked.results, len(checked.undone))
    root = ET.Element("testsuites", {"name": "iotrial check", **whole})
    root.set("time", f"{checked.seconds:.3f}")
    for name, _ in checked.suites:
        mine = [each for each in checked.results if each.case.partition("/")[0] == name]
        root.append(_suite(checked, name, mine))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(results: Sequence[Result], undone: int) -> dict[str, str]:
    states = [each.state for each in results]
    skipped = states.count("not run") + states.count("known failure") + undone
    return {
        "tests": str(len(states) + undone),
        "failures": str(states.count("fail")),
        "errors": "0",
        "skipped": str(skipped),
    }


def _suite(checked: Checked, name: str, results: Sequence[Result]) -> ET.Element:
    undone = [each for each in without_result(checked) if each.partition("/")[0] == name]
    suite = ET.Element("testsuite", {"name": name, **_counts(results, len(undone))})
    if checked.started:
        at = dt.datetime.fromtimestamp(checked.started, dt.UTC)
        suite.set("timestamp", at.strftime("%Y-%m-%dT%H:%M:%S"))
    suite.set("time", f"{sum(each.seconds for each in results):.3f}")
    properties = ET.SubElement(suite, "properties")
    for number, line in enumerate(machines(checked), start=1):
        ET.SubElement(properties, "property", name=f"host.{number}", value=line)
    if checked.seed is not None:
        ET.SubElement(properties, "property", name="seed", value=str(checked.seed))
    suite.extend(_case(checked, each) for each in results)
    for each in undone:
        left = ET.SubElement(suite, "testcase", classname=name, name=each.partition("/")[2])
        ET.SubElement(left, "skipped", message="it has no result")
    said = [summary(checked), *([checked.stopped] if checked.stopped else [])]
    ET.SubElement(suite, "system-out").text = visible("; ".join(said))
    return suite


def _case(checked: Checked, result: Result) -> ET.Element:
    suite, _, case = result.case.partition("/")
    name = case if result.round == 1 else f"{case} (round {result.round})"
    element = ET.Element("testcase", classname=suite, name=name, time=f"{result.seconds:.3f}")
    why = lines(result)
    if result.state == "fail":
        failure = ET.SubElement(element, "failure", message=why[0] if why else "", type="fail")
        failure.text = "\n".join([*why, f"evidence: {result.folder}"])
    elif result.state != "pass":
        ET.SubElement(element, "skipped", message="; ".join(why))
    said = [visible(result.title), *filter(None, [last_time(checked, result)])]
    if result.state == "pass":
        said += why
    ET.SubElement(element, "system-out").text = "\n".join(said)
    return element
