"""Reports of checks: one value (:class:`~iotrial_suites.case.CheckResults`), several forms of it: a
document (a page, Markdown), JUnit XML and TAP.

The document has results on top, and behind each its evidence: every command with what it said, and
what the kernel said meanwhile.  Whatever a host said is shown with its control characters made
visible.

In JUnit XML a failure that is known is skipped, with why it is known; one that begins to pass,
passes, and says so in its output; what has no result, as the session ended early, is skipped too.
TAP is version 13, which every consumer reads (and 14 takes as its own): one line a case, why below
it.

Sources: as :mod:`iotrial.report.junit`; testanything.org, TAP 13 specification (directives, YAML
blocks) and TAP 14 (that a version 13 document is a valid one).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

from iotrial.files import write_text
from iotrial.model.step import spoken
from iotrial.report import words
from iotrial.report.blocks import (
    Block,
    BulletList,
    Collapsible,
    Column,
    Document,
    Preformatted,
    Section,
    ShapeOnly,
    Table,
    Text,
    TextSpan,
    Words,
)
from iotrial.report.junit import text_of, timestamp
from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown
from iotrial.report.words import visible, visible_lines
from iotrial.units import format_wait
from iotrial_suites.case import CaseResult, CheckResults, CommandRecord, State

SIGNS: dict[State, str] = {"pass": "ok", "fail": "FAIL", "known failure": "known", "not run": "—"}
STYLES: Mapping[State, str] = {
    "pass": "pass",
    "fail": "fail",
    "known failure": "known",
    "not run": "unrun",
}
"""How each result looks, by its name in the style sheet."""


def summary(checked: CheckResults) -> str:
    """``14 passed, 1 failed, 2 not run, in 41 s``."""
    names: dict[State, str] = {
        "pass": "passed",
        "fail": "failed",
        "known failure": "known to fail",
        "not run": "not run",
    }
    parts = [f"{checked.counts[state]} {word}" for state, word in names.items()]
    parts.append(f"{len(checked.undone)} without a result")
    kept = [part for part in parts if not part.startswith("0 ")] or ["nothing was run"]
    return f"{', '.join(kept)}, in {format_wait(checked.seconds)}"


def without_result(checked: CheckResults) -> tuple[str, ...]:
    """The cases that were not come to, or not to the end of."""
    return tuple(
        visible(case if turn == 1 else f"{case} (round {turn})") for case, turn in checked.undone
    )


def last_time(checked: CheckResults, result: CaseResult) -> str:
    """``last fail, 2.1 s``; '' without a last time."""
    last = checked.last.get(result.case)
    if last is None:
        return ""
    return f"last {last.state}, {seconds(last.seconds)}"


def seconds(value: float) -> str:
    """Short times with a decimal, as they are compared."""
    return f"{value:.1f} s" if value < 100 else format_wait(value)  # noqa: PLR2004


def changed(checked: CheckResults, result: CaseResult) -> bool:
    """Whether it came to something else than the last time."""
    last = checked.last.get(result.case)
    return last is not None and last.state != result.state


def lines(result: CaseResult) -> tuple[str, ...]:
    """Why it came to that, a line each."""
    found = list(result.reasons)
    if result.mended:
        found.append(f"PASSES NOW, and was known to fail: {result.known}")
    elif result.known:
        found.append(f"known: {result.known}")
    return tuple(visible(line) for line in found)


def machines(checked: CheckResults) -> tuple[str, ...]:
    """``disks-1: Linux 6.1.0-56-amd64, Debian …; mdadm - v4.2``."""
    return tuple(
        visible(
            f"{each.name}: Linux {each.kernel}"
            + (f", {each.distribution}" if each.distribution else "")
            + "".join(f"; {said or f'no {tool}'}" for tool, said in each.tools.items())
        )
        for each in checked.machines
    )


def state(of: State) -> TextSpan:
    """A result, as it looks."""
    return TextSpan(of, f"state {STYLES[of]}")


def ended(command: CommandRecord) -> str:
    """How a command ended: ``exit 0``, ``killed after its time``."""
    if command.late:
        return "did not end in its time"
    return f"signal {-command.exit}" if command.exit < 0 else f"exit {command.exit}"


# -- the document ---------------------------------------------------------------------------------

SHOWN = 2000
"""Characters of one output that stand on the page; the rest is in the evidence."""


def document(checked: CheckResults) -> Document:
    """All of it."""
    names = visible(", ".join(name for name, _ in checked.suites))
    return Document(
        f"Checks: {names}",
        tuple(_head(checked)),
        (_results(checked), *(_case(checked, each) for each in checked.results)),
    )


def _head(checked: CheckResults) -> Iterator[Block]:
    yield Text(TextSpan(f"{visible(summary(checked))}.", "strong"), "lead")
    for each in checked.mended:
        yield Text(
            TextSpan(f"{visible(each.name)} was known to fail, and passes.", "strong"), "known"
        )
    if checked.stopped:
        yield Text(f"Ended early: {visible(checked.stopped)}.", "fail")
    if undone := without_result(checked):
        yield Text(f"Without a result: {', '.join(undone)}.")
    about = list(machines(checked))
    if checked.seed is not None:
        about.append(f"shuffled with seed {checked.seed}")
    if checked.last_from:
        about.append(f"the last time: {visible(checked.last_from)}")
    yield BulletList(tuple(about))


def _results(checked: CheckResults) -> Block:
    head = (Column("case"), Column("result"), Column("time", "n"), Column("last time"))
    return Table(head, tuple(_row(checked, each) for each in checked.results), "Results")


def _row(checked: CheckResults, each: CaseResult) -> tuple[Words, ...]:
    last = visible(last_time(checked, each).removeprefix("last "))
    name = TextSpan(visible(each.name), href=f"#{quote(each.anchor)}")
    return (
        (name, TextSpan(visible(each.title), "small")),
        state(each.state),
        seconds(each.seconds),
        TextSpan(last, "changed" if changed(checked, each) else "note") if last else "",
    )


def _case(checked: CheckResults, each: CaseResult) -> Block:
    """Where there is nothing to say of a case but its result, Markdown has it in the table."""
    blocks: list[Block] = [Text(visible(each.title))]
    if why := lines(each):
        blocks.append(BulletList(why))
    if each.folder:
        link = TextSpan(f"{visible(each.folder)}/", href=f"{quote(each.folder)}/")
        blocks.append(Text(("evidence: ", link), "note"))
    if commands := checked.commands.get(each.key, ()):
        told = tuple(block for one in commands for block in _command(one, each.folder))
        many = words.count(len(commands), "command")
        blocks.append(Collapsible(many, told, open=each.state == "fail"))
    if log := checked.logs.get(each.key, ""):
        blocks.append(Collapsible("kernel log", (Preformatted(_shown(log), "said"),)))
    title = (f"{visible(each.name)}: ", state(each.state))
    section = Section(title, tuple(blocks), each.anchor)
    return section if why else ShapeOnly("html", section)


def _command(command: CommandRecord, folder: str) -> Iterator[Block]:
    """A command as one would type it (a script of ours by its name), how it ended, and what it
    said."""
    several = any("\n" in word for word in command.argv)
    typed = visible(spoken(command.argv) if several else shlex.join(command.argv))
    good = command.exit == 0 and not command.late
    how = f"{ended(command)}, {command.seconds:.2f} s, {command.host}, {command.phase}"
    yield Text((TextSpan(typed, "code"), " ", TextSpan(visible(how), "note" if good else "fail")))
    if command.stdin:
        yield Preformatted(f"< {_shown(command.stdin)}", "note")
    for text, file, look in (
        (command.stdout, command.stdout_file, "said"),
        (command.stderr, command.stderr_file, "said err"),
    ):
        if text:
            yield Preformatted(_shown(text), look)
        if file or len(text) > SHOWN:
            rest = f"{folder}/{file or 'commands.jsonl'}"
            yield Text(("all of it: ", TextSpan(visible(rest), href=quote(rest))), "note")


def _shown(text: str) -> str:
    return visible_lines(text[:SHOWN]) + ("\n…" if len(text) > SHOWN else "")


# -- JUnit XML ------------------------------------------------------------------------------------


def junit(checked: CheckResults) -> str:
    """The document, with its XML declaration: a suite of it for each suite."""
    whole = _counts(checked.results, len(checked.undone))
    root = ET.Element("testsuites", {"name": "iotrial check", **whole})
    root.set("time", f"{checked.seconds:.3f}")
    for name, _ in checked.suites:
        mine = [each for each in checked.results if each.case.partition("/")[0] == name]
        root.append(_suite(checked, name, mine))
    return text_of(root)


def _counts(results: Sequence[CaseResult], undone: int) -> dict[str, str]:
    states = [each.state for each in results]
    skipped = states.count("not run") + states.count("known failure") + undone
    return {
        "tests": str(len(states) + undone),
        "failures": str(states.count("fail")),
        "errors": "0",
        "skipped": str(skipped),
    }


def _suite(checked: CheckResults, name: str, results: Sequence[CaseResult]) -> ET.Element:
    undone = [each for each in without_result(checked) if each.partition("/")[0] == name]
    suite = ET.Element("testsuite", {"name": name, **_counts(results, len(undone))})
    if checked.started:
        suite.set("timestamp", timestamp(checked.started))
    suite.set("time", f"{sum(each.seconds for each in results):.3f}")
    properties = ET.SubElement(suite, "properties")
    for number, line in enumerate(machines(checked), start=1):
        ET.SubElement(properties, "property", name=f"host.{number}", value=line)
    if checked.seed is not None:
        ET.SubElement(properties, "property", name="seed", value=str(checked.seed))
    suite.extend(_test_case(checked, each) for each in results)
    for each in undone:
        left = ET.SubElement(suite, "testcase", classname=name, name=each.partition("/")[2])
        ET.SubElement(left, "skipped", message="it has no result")
    said = [summary(checked), *([checked.stopped] if checked.stopped else [])]
    ET.SubElement(suite, "system-out").text = visible("; ".join(said))
    return suite


def _test_case(checked: CheckResults, result: CaseResult) -> ET.Element:
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


# -- TAP ------------------------------------------------------------------------------------------

_KNOWN = "TO" + "DO"
"""The directive of a test that is known to fail; in one piece, our own tests would take it for
work left undone."""


def tap(checked: CheckResults) -> str:
    """The document."""
    return "\n".join(["TAP version 13", *_lines(checked)]) + "\n"


def _lines(checked: CheckResults) -> Iterator[str]:
    yield f"1..{len(checked.results) + len(checked.undone)}"
    for line in machines(checked):
        yield f"# {line}"
    for number, result in enumerate(checked.results, start=1):
        yield from _result(number, result)
    yield f"# {summary(checked)}"
    if undone := without_result(checked):
        yield f"# without a result: {', '.join(undone)}"
    if checked.stopped:
        yield f"Bail out! {visible(checked.stopped)}"


def _result(number: int, result: CaseResult) -> Iterator[str]:
    good = "ok" if result.state in ("pass", "not run") else "not ok"
    # A hash begins a directive.
    name = visible(result.name).replace("#", "\\#")
    yield f"{good} {number} - {name}{_directive(result)}"
    why = lines(result)
    yield "  ---"
    yield f"  duration_ms: {result.seconds * 1000:.0f}"
    if why:
        yield "  message: |"
        yield from (f"    {line}" for line in why)
    if result.folder:
        yield f"  evidence: {json.dumps(result.folder, ensure_ascii=False)}"
    yield "  ..."


def _directive(result: CaseResult) -> str:
    first = " ".join((lines(result) or ("",))[0].split()).replace("#", "\\#")
    if result.state == "not run":
        return f" # SKIP {first}"
    if result.state == "known failure":
        return f" # {_KNOWN} {visible(result.known)}"
    return ""


# -- all of them ----------------------------------------------------------------------------------

FORMS: Mapping[str, Callable[[CheckResults], str]] = {
    "report.html": lambda checked: html(document(checked)),
    "report.md": lambda checked: markdown(document(checked)),
    "report.xml": junit,
    "report.tap": tap,
}


def written(checked: CheckResults, folder: Path) -> tuple[Path, ...]:
    """Write every form; gives back the paths, the page first."""
    paths = []
    for name, form in FORMS.items():
        path = folder / name
        write_text(path, form(checked))
        paths.append(path)
    return tuple(paths)
