"""Checks as one page that needs nothing beside it: results on top, and behind each its evidence:
every command with what it said, and what the kernel said meanwhile.

Whatever a host said is shown with its control characters made visible, and escaped.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from html import escape

from iotrial.model.checked import Checked, Command, Result
from iotrial.model.step import spoken
from iotrial.report.checked.words import (
    changed,
    ended,
    last_time,
    lines,
    machines,
    seconds,
    summary,
)
from iotrial.report.visible import visible, visible_lines

_STYLE = """\
:root{color-scheme:light dark;--ink:#1c1c1c;--paper:#fff;--dim:#666;--line:#ddd;--bad:#b00020;
--good:#1b6e3c;--warn:#8a5a00;--code:#f5f5f5}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#161616;--dim:#9a9a9a;--line:#333;
--bad:#ff7a85;--good:#6fce96;--warn:#e0b050;--code:#222}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;
margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
td.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.pass{color:var(--good)}.fail{color:var(--bad);font-weight:600}
.known{color:var(--warn)}.not,.dim{color:var(--dim)}.changed{color:var(--warn);font-weight:600}
pre{background:var(--code);padding:.5rem .7rem;overflow:auto;white-space:pre-wrap;margin:.2rem 0}
pre.err{border-left:3px solid var(--bad)}
summary{cursor:pointer}a{color:inherit}details{margin:.4rem 0}
"""
SHOWN = 2000
"""Characters of one output that stand on the page; the rest is in the evidence."""


def html(checked: Checked) -> str:
    """The page."""
    names = ", ".join(name for name, _ in checked.suites)
    return "".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Checks: {_text(names)}</title><style>{_STYLE}</style></head><body>\n",
            f"<h1>Checks: {_text(names)}</h1>\n<p><strong>{_text(summary(checked))}</strong></p>\n",
            *_head(checked),
            *_table(checked),
            *(part for each in checked.results for part in _section(checked, each)),
            "</body></html>\n",
        )
    )


def _head(checked: Checked) -> Iterator[str]:
    for each in checked.mended:
        yield (
            f'<p class="known"><strong>{_text(each.name)} was known to fail, and passes.'
            "</strong></p>\n"
        )
    if checked.stopped:
        yield f'<p class="fail">Stopped: {_text(checked.stopped)}</p>\n'
    yield "<ul>"
    yield from (f"<li>{_text(line)}</li>" for line in machines(checked))
    if checked.seed is not None:
        yield f"<li>shuffled with seed {checked.seed}</li>"
    if checked.last_from:
        yield f"<li>the last time: {_text(checked.last_from)}</li>"
    yield "</ul>\n"


def _table(checked: Checked) -> Iterator[str]:
    yield "<table><tr><th>case</th><th>result</th><th>time</th><th>last time</th></tr>\n"
    for each in checked.results:
        last = last_time(checked, each).removeprefix("last ")
        how = "changed" if changed(checked, each) else "dim"
        yield (
            f'<tr><td><a href="#{each.anchor}">{_text(each.name)}</a><br>'
            f'<span class="dim">{_text(each.title)}</span></td>'
            f'<td class="{_class(each)}">{each.state}</td>'
            f'<td class="n">{seconds(each.seconds)}</td><td class="{how}">{_text(last)}</td></tr>\n'
        )
    yield "</table>\n"


def _section(checked: Checked, each: Result) -> Iterator[str]:
    yield f'<h2 id="{each.anchor}">{_text(each.name)}: '
    yield f'<span class="{_class(each)}">{each.state}</span></h2>\n<p>{_text(each.title)}</p>\n'
    if why := lines(each):
        yield "<ul>" + "".join(f"<li>{_text(line)}</li>" for line in why) + "</ul>\n"
    if each.folder:
        yield f'<p class="dim">evidence: {_link(each.folder + "/")}</p>\n'
    commands = checked.commands.get(each.key, ())
    if commands:
        opened = " open" if each.state == "fail" else ""
        yield f"<details{opened}><summary>{len(commands)} commands</summary>\n"
        yield from (_command(command, each.folder) for command in commands)
        yield "</details>\n"
    if log := checked.logs.get(each.key, ""):
        yield f"<details><summary>kernel log</summary><pre>{_shown(log)}</pre></details>\n"


def _command(command: Command, folder: str) -> str:
    words = (
        spoken(command.argv) if any("\n" in w for w in command.argv) else shlex.join(command.argv)
    )
    style = "dim" if command.exit == 0 and not command.late else "fail"
    how = f"{ended(command)}, {command.seconds:.2f} s, {command.host}, {command.phase}"
    parts = [f'<p><code>{_text(words)}</code> <span class="{style}">{_text(how)}</span></p>']
    if command.stdin:
        parts.append(f'<pre class="dim">&lt; {_shown(command.stdin)}</pre>')
    for text, file, style in (
        (command.stdout, command.stdout_file, ""),
        (command.stderr, command.stderr_file, ' class="err"'),
    ):
        if text:
            parts.append(f"<pre{style}>{_shown(text)}</pre>")
        if file or len(text) > SHOWN:
            at = f"{folder}/{file or 'commands.jsonl'}"
            parts.append(f'<p class="dim">all of it: {_link(at)}</p>')
    return "".join(parts) + "\n"


def _shown(text: str) -> str:
    more = "\n…" if len(text) > SHOWN else ""
    return escape(visible_lines(text[:SHOWN])) + more


def _link(at: str) -> str:
    return f'<a href="{_text(at)}">{_text(at)}</a>'


def _text(text: str) -> str:
    return escape(visible(text))


def _class(each: Result) -> str:
    return each.state.partition(" ")[0]
