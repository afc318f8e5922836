"""``iotrial completion``: the script that makes a shell complete verbs and options, and what it
completes besides them: templates, knobs, suites, targets.

The functions are those that click's ``shell_complete`` takes.  None of them raises, changes
anything or waits for another machine: a shell asks while somebody types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from iotrial.cli.output import Output, common

if TYPE_CHECKING:
    from iotrial.tunables import TunableFamily

BY_ID = Path("/dev/disk/by-id")
_PARTITION = re.compile(r"-part[0-9]+$")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def command(output: Output, shell: str) -> None:
    """Print the completion script of a SHELL.

    \b
    Example:
      iotrial completion bash > /etc/bash_completion.d/iotrial
    """
    script = script_of(shell)
    output.document({"shell": shell, "script": script})
    if not output.json:
        output.text(script)


def script_of(shell: str) -> str:
    from iotrial.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    return kind(cli, {}, "iotrial", "_IOTRIAL_COMPLETE").source()


def of_templates(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Templates; with --full those that have such a form."""
    from iotrial.plan.template import templates, with_full_form

    full = with_full_form() if ctx.params.get("full") else None
    return _beginning([row for row in templates() if not full or row[0] in full], incomplete)


def of_loads(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Patterns of fio and templates; else files."""
    from iotrial.plan.template import templates
    from iotrial.plan.tune_request import PATTERNS

    rows = [*((each, "a pattern of fio") for each in PATTERNS), *templates()]
    return _beginning(rows, incomplete) or [CompletionItem(incomplete, type="file")]


def of_knobs(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Families; the knobs of one that is named, or the only one that begins so."""
    from iotrial.tunables import every_family

    families = every_family()
    if "." not in incomplete:
        found = _beginning([(each.name, each.title) for each in families], incomplete)
        if len(found) != 1:
            return found
        return [*found, *_knobs_of(families, f"{found[0].value}.")]
    return _knobs_of(families, incomplete)


def _knobs_of(families: Sequence[TunableFamily], incomplete: str) -> list[CompletionItem]:
    rows = [(row.name, row.summary) for each in families for row in each.rows]
    return _beginning(rows, incomplete)


def of_suites(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Suites; behind a suite's name and a slash, its cases."""
    from iotrial.plugins import values

    known = values("suites")
    name, slash, _ = incomplete.partition("/")
    if not slash:
        return _beginning([(each.name, each.title) for each in known.values()], incomplete)
    cases = known[name].cases if name in known else ()
    return _beginning([(f"{name}/{each.name}", each.title) for each in cases], incomplete)


def of_targets(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The word loop, and disks by ids that cannot move, each with what it is now; else files."""
    rows = [("loop", "a loop device, made and removed"), *_disks()]
    return _beginning(rows, incomplete) or [CompletionItem(incomplete, type="file")]


def of_devices(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Disks by ids that cannot move, each with what it is now."""
    return _beginning(_disks(), incomplete)


def _disks() -> list[tuple[str, str]]:
    try:
        links = sorted(BY_ID.iterdir())
        whole = [link for link in links if not _PARTITION.search(link.name)]
        return [(str(link), link.resolve().name) for link in whole]
    except OSError:  # no udev, as in a container
        return []


def _beginning(rows: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(n, help=about) for n, about in rows if n.startswith(incomplete)]
