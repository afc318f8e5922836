"""``iotrial completion``: the script that makes a shell complete verbs and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from iotrial.cli.output import Output, common


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def command(output: Output, shell: str) -> None:
    """Print the completion script of a SHELL.

    \b
    Example:
      iotrial completion bash > /etc/bash_completion.d/iotrial
    """
    from iotrial.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    script = kind(cli, {}, "iotrial", "_IOTRIAL_COMPLETE").source()
    output.document({"shell": shell, "script": script})
    if not output.json:
        output.text(script)
