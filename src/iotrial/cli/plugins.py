"""``iotrial plugins``: what can be added to iotrial, and where each plugin comes from."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from iotrial.cli.output import Output, common
from iotrial.report.layout import TextTable


@click.group(invoke_without_command=True, subcommand_metavar="[try FILE]")
@click.option("--all", "every", is_flag=True, help="Also list the built-in plugins.")
@common
@click.pass_context
def command(context: click.Context, output: Output, *, every: bool) -> None:
    """List the plugins of installed packages and of your own folder, and count the built-in ones.

    A plugin adds a tunable, a load tool, a lint rule or another kind. Put its file into
    ~/.config/iotrial/plugins (IOTRIAL_PLUGINS names another folder).

    \b
    Example:
      iotrial plugins
      iotrial plugins --all
      iotrial plugins try my_tunables.py
    """
    if context.invoked_subcommand:
        return
    from iotrial.plugins import KINDS, folder, plugins

    found = [plugin for kind in KINDS for plugin in plugins(kind)]
    shown = [plugin for plugin in found if every or plugin.origin.kind != "built-in"]
    output.document(
        {
            "folder": str(folder() or ""),
            "plugins": [
                {
                    "kind": plugin.kind.name,
                    "name": plugin.name,
                    "origin": plugin.origin.kind,
                    "place": plugin.origin.place,
                    "version": plugin.origin.version,
                }
                for plugin in found
            ],
        }
    )
    table = TextTable("kind", "plugin", "from", header_style="bold")
    for plugin in shown:
        table.add_row(plugin.kind.name, plugin.name, str(plugin.origin))
    if shown:
        output.answer(table)
    kinds = TextTable("kind", "entry points", "built in", "added", "", header_style="bold")
    for kind in KINDS.values():
        mine = [plugin.origin.kind == "built-in" for plugin in found if plugin.kind is kind]
        added = str(mine.count(False) or "–")
        kinds.add_row(kind.name, kind.entry_points, str(sum(mine)), added, kind.about)
    output.answer(kinds, f"your own: {folder() or 'none, because IOTRIAL_PLUGINS is empty'}")


@command.command("try")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@common
def try_(output: Output, file: Path) -> int:
    """Import FILE and run the conformance checks of each plugin in it. No load is executed and
    this host is not changed. Exit code 1: a plugin does not conform.

    \b
    Example:
      iotrial plugins try my_tunables.py
    """
    from iotrial.conformance import problems
    from iotrial.plugins import in_file

    wrong = [(plugin, problems(plugin)) for plugin in in_file(file)]
    output.document(
        {
            "plugins": [
                {"kind": plugin.kind.name, "name": plugin.name, "problems": list(said)}
                for plugin, said in wrong
            ]
        }
    )
    for plugin, said in wrong:
        mark = Text("✗ ", "red") if said else Text("✓ ", "green")
        output.answer(Text.assemble(mark, (f"{plugin.kind.name} {plugin.name}", "bold")))
        for each in said:
            output.answer(f"  {each}")
    return int(any(said for _, said in wrong))
