"""Checks as Markdown: for an issue, a wiki, a merge request."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.checked import Checked, Result
from iotrial.report.checked.words import (
    changed,
    last_time,
    lines,
    machines,
    seconds,
    summary,
    without_result,
)
from iotrial.report.visible import visible

_SPECIAL = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<>|#~"})


def markdown(checked: Checked) -> str:
    """The document."""
    return "\n".join(_lines(checked)) + "\n"


def _lines(checked: Checked) -> Iterator[str]:
    yield f"# Checks: {', '.join(_plain(name) for name, _ in checked.suites)}"
    yield ""
    yield f"{_plain(summary(checked))}."
    for each in checked.mended:
        yield ""
        yield f"**{_plain(each.name)} was known to fail, and passes.**"
    if checked.stopped:
        yield ""
        yield f"Ended early: {_plain(checked.stopped)}."
    if undone := without_result(checked):
        yield ""
        yield f"Without a result: {', '.join(map(_plain, undone))}."
    yield ""
    yield from (f"- {_plain(line)}" for line in machines(checked))
    if checked.seed is not None:
        yield f"- shuffled with seed {checked.seed}"
    if checked.last_from:
        yield f"- the last time: {_plain(checked.last_from)}"
    yield ""
    yield "| case | result | time | last time |"
    yield "|---|---|--:|---|"
    for each in checked.results:
        yield _row(checked, each)
    for each in checked.results:
        if why := lines(each):
            yield ""
            yield f"## {_plain(each.name)}: {each.state}"
            yield ""
            yield _plain(each.title)
            yield ""
            yield from (f"- {_plain(line)}" for line in why)
            if each.folder:
                yield f"- evidence: [{_plain(each.folder)}]({each.folder})"


def _row(checked: Checked, each: Result) -> str:
    state = f"**{each.state}**" if each.state == "fail" else each.state
    last = last_time(checked, each).removeprefix("last ")
    if changed(checked, each):
        last = f"**{last}**"
    return f"| {_plain(each.name)} | {state} | {seconds(each.seconds)} | {last} |"


def _plain(text: str) -> str:
    return visible(text).translate(_SPECIAL)
