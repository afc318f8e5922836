"""``docs/validity.md``: every check, from the registry alone."""

from __future__ import annotations

from iotrial.model.validity import ValidityCheck
from iotrial.validity import checks

_HEAD = """# Validity

A load that was disturbed still prints a number.
Each check below compares counters of the host before and after a load.
Its result is nothing, a *doubt*, or *INVALID*.
A doubt is stored with its trial and shown in every report.
Equal doubts of several trials are shown once, with their number and range.
An INVALID trial is excluded: it is queued again, and reports state the number of excluded trials.
The counters are stored in the trial's folder (`validity.json`), so the decision can be repeated.
Counters that a host does not have (thermal counters in a virtual machine, md, swap) are not judged.

A trial is also INVALID if a setting changed during the load (`drift`), if the cache was not
dropped as configured (`cache-kept`), or if the tool reports it (fio: truncated output, errors,
steady state not attained).
All settings are read before and after the load. Those that the study varies are also read every
second during it, as far as they are files (in /sys or /proc), so that one that was changed and
changed back is found.
[Good experiments](good-experiments.md) says how to avoid all this.

| check | of | when | can be INVALID |
|---|---|---|---|
"""
_FOOT = """
<!-- Made from the checks in src/iotrial/validity/: change them, then
     IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_validity_page.py -->
"""


def reference() -> str:
    """The whole page."""
    every = checks().values()
    return f"{_HEAD}{''.join(map(_row, every))}{_FOOT}{''.join(map(_section, every))}"


def _row(check: ValidityCheck) -> str:
    of = "the study" if check.of_study else "a trial"
    invalid = "yes" if check.invalid else "no"
    return f"| [`{check.name}`](#{check.name}) | {of} | {check.title} | {invalid} |\n"


def _section(check: ValidityCheck) -> str:
    _, _, about = check.about.partition("\n")
    prose = about.partition("\nSource")[0].partition("\nReference")[0]
    lines = (
        ("reads", check.looks_at),
        ("limit", check.limit),
        ("remedy", check.remedy),
        ("source", check.source),
    )
    listed = "".join(f"- {title}: {words}\n" for title, words in lines)
    words = [f"## {check.name}", f"{_plain(check.title)}.", _linked(prose), listed]
    return "\n" + "\n\n".join(filter(None, words))


def _plain(title: str) -> str:
    return title[0].upper() + title[1:]


def _linked(prose: str) -> str:
    """A check's prose for Markdown: one line a paragraph, names as code."""
    paragraphs = (" ".join(part.split()) for part in prose.strip().split("\n\n"))
    return "\n\n".join(paragraphs).replace(":data:`", "`").replace("``", "`")
