"""``docs/lint.md``: every rule, from the registry alone."""

from __future__ import annotations

from iotrial_lint.parsers import parsers
from iotrial_lint.rule import Rule
from iotrial_lint.rules import rules

_HEAD = """# Lint

Settings are copied from report to report, and kernels change.
`iotrial lint` reads files of settings, or a running host, and says which settings cannot work, and
which do something else than who wrote them thinks; [the command line](command-line.md#lint) says
how to call it.
It changes nothing.

- An *error* cannot work: the kernel or the program refuses it, or skips it. The exit code is 1.
- A *warning* works otherwise than it looks, or is undone by another setting.
- A *note* is worth knowing.

What a rule says holds for a kernel: the host's, or that of `--kernel`.
Distributions carry some changes back to older kernels: where a rule and a host disagree, the host
is right, so ask it (`iotrial lint HOST`).

What a job file of fio includes is judged in its place, and said at the line that includes it: it is
looked for in the folder of that file, and may neither include itself nor have sections of its own.

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
