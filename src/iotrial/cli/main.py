"""``iotrial``: the group of verbs, and where every error becomes a message and an exit code."""

from __future__ import annotations

import errno
import functools
import gc
import io
import os
import sys
import warnings
from typing import Any

import click
from click.shell_completion import CompletionItem

from iotrial import __version__
from iotrial.called import as_root, help_as_called
from iotrial.cli.output import UNREAD, Output, visible_parts
from iotrial.errors import IotrialError, UsageError

GROUPS = (
    (
        "Try it",
        (
            ("demo", "run an example study in three minutes"),
            ("init", "write a study from a template"),
        ),
    ),
    (
        "Measure",
        (
            ("plan", "show what a run would do"),
            ("run", "execute a study, or resume it"),
            ("saturate", "find the load of highest throughput"),
            ("tune", "find the best levels of many knobs"),
        ),
    ),
    (
        "Look",
        (
            ("status", "show progress, or settings to restore"),
            ("compare", "judge one folder, or compare two"),
            ("report", "write a report page or an export"),
            ("import", "import results of other tools"),
        ),
    ),
    (
        "Keep and restore",
        (
            ("keep", "make settings permanent, or undo"),
            ("restore", "restore settings that a killed run changed"),
        ),
    ),
    (
        "Collect",
        (
            ("push", "add results to a store"),
            ("list", "list the studies of a store"),
            ("find", "find results in a store"),
            ("history", "show since when results differ"),
            ("site", "write a static site of a store"),
            ("pull", "get results out of a store"),
            ("sql", "ask a store any question"),
        ),
    ),
    (
        "Check",
        (
            ("record", "record what disks are asked"),
            ("doctor", "check fitness of a host for measurements"),
            ("knobs", "list the settings that can be varied"),
            ("lint", "find settings that cannot work"),
            ("check", "run functional tests of storage"),
        ),
    ),
    (
        "Set up",
        (
            ("vmlab", "create virtual machines with disks"),
            ("plugins", "list the plugins"),
            ("completion", "print a shell completion script"),
        ),
    ),
)
"""Every verb, by what one wants, with its summary for the screen of help."""
SUMMARIES = dict(row for _, rows in GROUPS for row in rows)
VERBS = tuple(SUMMARIES)


WINGS = {
    "import": "iotrial_import.cli",
    "lint": "iotrial_lint.cli",
    "check": "iotrial_suites.cli",
    "vmlab": "iotrial_vmlab.cli",
    "record": "iotrial_record.cli",
    "push": "iotrial_store.cli.push",
    "pull": "iotrial_store.cli.pull",
    "list": "iotrial_store.cli.list",
    "find": "iotrial_store.cli.find",
    "sql": "iotrial_store.cli.sql",
    "history": "iotrial_store.cli.history",
    "site": "iotrial_store.cli.site",
}
"""Verbs of packages beside the core, which may be left out of an installation: their modules."""


class _LazyGroup(click.Group):
    """Verbs are imported when they are asked for: ``--help`` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            ctx.fail(f"no verb {cmd_name!r}.{_nearest(cmd_name)}")
        return _loaded(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs, grouped.  No module is imported for it."""
        del ctx
        width = max(map(len, VERBS))
        formatter.write("\n")
        for title, rows in GROUPS:
            formatter.write(f"{title}\n")
            for verb, summary in rows:
                formatter.write(f"  {verb:{width}}  {summary}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Verbs come first: they are what one looks for."""
        self.format_commands(ctx, formatter)
        formatter.write(help_as_called(BELOW))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without importing every verb, as click would for its summary."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(verb, help=summary)
            for verb, summary in SUMMARIES.items()
            if verb.startswith(incomplete)
        ]

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 (whatever a verb answers)
        """Do the verb.  A reader that went away is dealt with here: click would exit with 1,
        which is the code of a negative answer."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(UNREAD) from None


@functools.cache
def _loaded(name: str) -> click.Command:
    """The verb's command; its help names commands as they are to be typed here."""
    command = as_written(name)
    _tell(command)
    gc.freeze()  # what was imported stays: nobody need look at it again
    return command


def as_written(name: str) -> click.Command:
    """The verb's command as its module has it: in a new process, before any help was asked for."""
    from iotrial.plugins import wing  # not for --help alone, which answers at once

    place = WINGS.get(name, f"iotrial.cli.{name}")
    module = wing(place)
    if module is None:
        raise UsageError(
            f"the verb {name} is not installed: the package {place.partition('.')[0]} is missing",
            advice="Install the complete iotrial wheel, which has every verb.",
        )
    command: click.Command = module.command
    return command


def _tell(command: click.Command) -> None:
    """Once for each: what is told must not be told again."""
    command.help = help_as_called(command.help or "")
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        if each is not command:
            _tell(each)


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, VERBS, n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


BELOW = """
Example
  sudo IOTRIAL demo                   run an example study
  iotrial init scheduler study.toml   write a study to edit
  iotrial plan study.toml             show what a run would do; changes nothing
  sudo IOTRIAL run study.toml         run it; run it again to resume
  iotrial VERB --help                 help of a verb, with an example
  iotrial --version                   the version

Exit codes: 0 success, 1 negative result, 2 error in usage or study, 3 refused
for safety, 4 settings not restored, 5 trials failed, 6 host or store
unreachable, 75 locked, 130 interrupted.
"""


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    options_metavar="",
    subcommand_metavar="VERB [ARGUMENTS] [OPTIONS]",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="iotrial")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Controlled trials of Linux storage settings."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


_LITTER = 50_000
"""Objects more than there were that Python looks for rings among (its own habit: 700).  A verb
holds nearly all that it makes until it ends, so that looking finds nothing; with many hosts there
is much to look at."""


_THREADS = "OPENBLAS_NUM_THREADS"
"""A thread for each CPU waits for work that never comes, which takes a quarter of a verb's time, on
a machine that is being measured: the matrices here have a few rows."""


def main() -> None:
    """Entry point: run a verb; say what went wrong; exit with the design's code."""
    gc.set_threshold(_LITTER, 20, 20)
    if _THREADS not in os.environ:
        os.putenv(_THREADS, "1")  # os.environ, which loads get, stays as it was
    warnings.formatwarning = _warning
    for stream in (sys.stdout, sys.stderr):  # an answer has characters that ASCII has not
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    sys.exit(status(sys.argv[1:]))


def _warning(message: Warning | str, *_place: object, **_more: object) -> str:
    """A warning, such as of a plugin that is left out, as a sentence: the line of iotrial's code
    that it comes from helps nobody."""
    return f"iotrial: {visible_parts(str(message))}\n"


def status(arguments: list[str]) -> int:
    """Run one command line and give back its exit code."""
    try:
        answer = cli.main(arguments, prog_name="iotrial", standalone_mode=False)
    except IotrialError as error:
        return _complain(arguments, type(error).__name__, error.message, error.advice, error)
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        help_at = f"Try: {where.command_path} --help" if where else ""
        return _complain(arguments, "UsageError", error.format_message(), help_at, error)
    except (click.Abort, KeyboardInterrupt):
        return _complain(arguments, "Interrupted", "interrupted", "", None, 130)
    except OSError as error:
        return _complain(arguments, "OSError", str(error), _remedy(error, arguments), error, 5)
    return int(answer or 0)


def _complain(  # noqa: PLR0913, PLR0917 (the parts of one message)
    arguments: list[str],
    kind: str,
    message: str,
    advice: str,
    error: BaseException | None,
    code: int | None = None,
) -> int:
    code = code if code is not None else int(getattr(error, "exit_code", 2))
    output = Output(json="--json" in arguments)
    output.error(kind, message, advice, code)
    return code


_ACTING = ("demo", "run", "saturate", "tune", "restore", "check")
"""Verbs that change settings; the others leave a machine as it is."""


def _remedy(error: OSError, arguments: list[str]) -> str:
    acting = arguments[:1] in ([verb] for verb in _ACTING)
    if error.errno == errno.ENOSPC and arguments[:1] == ["check"]:
        return "Free space, then resume with --resume and its results folder: results are kept."
    if error.errno == errno.ENOSPC and arguments[:1] == ["record"]:
        return "Free space, or name a folder elsewhere with --out; whole parts are kept."
    if error.errno == errno.ENOSPC:
        kept = ": committed trials are kept" if acting else ""
        return f"Free space, then run the same command again{kept}."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"Check the owner and mode of the file, or run it as root: {as_root()} …"
    if not acting:
        return "No host was changed."
    return "Settings are restored; `iotrial status` lists any that are not."


def describe() -> dict[str, Any]:
    """Verb → its click command: what the documentation tests walk over."""
    context = click.Context(cli)
    return {name: cli.get_command(context, name) for name in VERBS}


if __name__ == "__main__":
    main()
