"""``docs/lint.md``: every rule, from the registry alone."""

from __future__ import annotations

from iotrial_lint.parsers import parsers
from iotrial_lint.rule import Rule
from iotrial_lint.rules import rules

_HEAD = """# Lint

Settings are copied from report to report, and kernels change.
`iotrial lint` reads files of settings, or a running host, and finds settings that cannot work, and
settings that do something else than they seem to; [the command line](command-line.md#lint) says
how to call it.
It changes nothing.

- An *error* cannot work: the kernel or the program refuses it, or skips it. The exit code is 1.
- A *warning* does something else than it seems to, or another setting overrides it.
- A *note* is information.

Rules depend on the kernel: the host's, or that of `--kernel`.
Distributions backport some changes to older kernels: if a rule and a host disagree, the host is
right, so check the host itself (`iotrial lint HOST`).

lint reads the files that a fio job file includes in their place, and reports them at the line that
includes them. It looks for them in the folder of the job file; they may neither include themselves
nor have sections of their own.

It reads:

"""
_TABLE = """
| rule | is | what it finds | in |
|---|---|---|---|
"""
_FOOT = """
<!-- Made from the rules in src/iotrial_lint/rules/: change them, then
     IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_lint_page.py -->
"""


def reference() -> str:
    """The whole page."""
    kinds = "".join(f"- `{kind}`: {each.title}\n" for kind, each in sorted(parsers().items()))
    every = rules().values()
    rows = "".join(map(_row, every))
    return f"{_HEAD}{kinds}{_TABLE}{rows}{_FOOT}{''.join(map(_section, every))}"


def _row(rule: Rule) -> str:
    cells = (f"[`{rule.name}`](#{rule.name})", rule.severity, _plain(rule.title), _of(rule))
    return f"| {' | '.join(cells)} |\n"


def _of(rule: Rule) -> str:
    kinds = "all" if len(rule.kinds) == len(parsers()) else ", ".join(rule.kinds)
    return ", ".join(filter(None, (kinds, "a host" if rule.of_host else "")))


def _section(rule: Rule) -> str:
    lines = (
        ("severity", rule.severity),
        ("in", _of(rule)),
        ("why", _plain(rule.reason)),
        ("instead", _plain(rule.fix)),
        ("source", _plain(rule.source)),
    )
    listed = "".join(f"- {title}: {words}\n" for title, words in lines if words)
    return f"\n## {rule.name}\n\n{_plain(rule.about)}\n\n{listed}"


def _plain(words: str) -> str:
    return " ".join(words.replace("<", "&lt;").replace("*", "\\*").split())
