"""``docs/validity.md``: every check, from the registry alone."""

from __future__ import annotations

from iotrial.model.validity import ValidityCheck
from iotrial.validity import checks

_HEAD = """# Validity

A load that was disturbed still prints a number.
Each check below looks at what the machine counted before and after a load.
It comes to nothing, to a *doubt*, or to *INVALID*.
A doubt travels with its trial into every report.
What many trials say alike stands there once, with their number and its range.
An INVALID trial does not count: it is queued again, and reports say how many there were.
What is read is kept in the trial's folder (`validity.json`), so the decision can be made again.
What a machine does not have (thermal counters in a virtual one, md, swap) is not judged.

Other things make a trial INVALID too: a setting that changed under the load (`drift`), a cache
that was to be dropped and was not (`cache-kept`), and what the tool itself says (fio: cut short,
errors, steady state not attained).
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
        ("looks at", check.looks_at),
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
