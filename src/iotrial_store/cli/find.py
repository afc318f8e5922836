"""``iotrial find``: the results of a store that meet conditions."""

from __future__ import annotations

import click

from iotrial.cli.output import Output, common
from iotrial.report.layout import TextTable
from iotrial_store.cli import store_at, store_option


@click.command()
@click.argument("words", nargs=-1)
@click.option("--study", metavar="NAME", help="Of this study; * stands for anything.")
@click.option("--machine", metavar="NAME", help="Of a machine of this name or digest.")
@click.option("--kernel", metavar="RELEASE", help="Under this kernel; * stands for anything.")
@click.option(
    "--setting",
    metavar="TUNABLE[=VALUE]",
    help="Where this was in force in a trial, for example queue.scheduler=bfq.",
)
@click.option("--metric", metavar="NAME", help="Where this was measured.")
@click.option("--tag", metavar="NAME", help="With this tag.")
@click.option("--since", metavar="DAY", help="Begun on this day or later, for example 2026-11-20.")
@click.option("--until", metavar="DAY", help="Begun before this day.")
@store_option
@common
def command(  # noqa: PLR0913, PLR0917 (click's parameters)
    output: Output,
    words: tuple[str, ...],
    study: str | None,
    machine: str | None,
    kernel: str | None,
    setting: str | None,
    metric: str | None,
    tag: str | None,
    since: str | None,
    until: str | None,
    url: str | None,
) -> int:
    """Find results in a store, newest first.  WORDS occur in the question, answer or study file.

    Exit code 1: none were found.

    \b
    Example:
      iotrial find scheduler
      iotrial find --setting queue.scheduler=bfq --kernel '6.1*'
      iotrial find --study nightly --since 2026-11-01
    """
    from iotrial_store.asked import ResultCondition, day, never, results, unknown

    asked = ResultCondition(words, study, machine, kernel, setting, metric, tag, since, until)
    with store_at(url) as store:
        found = results(store, asked)
        names = {
            "study": study, "machine": machine, "kernel": kernel, "metric": metric, "tag": tag,
            "setting": setting and setting.partition("=")[0],
        }  # fmt: skip
        missing = [] if found else [*unknown(store, names), *never(store, setting or "")]
    output.document({"results": found})
    table = TextTable("result", "study", "began", "machines", "trials", "tags", "answer")
    for row in found:
        table.add_row(
            str(row["result"])[:8], str(row["study"]), day(row["began"]), str(row["machines"]),
            f"{row['valid']} of {row['trials']}", str(row["tags"] or ""),
            f"{'Pretended: ' if row['pretended'] else ''}{row['answer']}",
        )  # fmt: skip
    output.answer(table if found else "; ".join(("no results meet this", *missing)))
    return 0 if found else 1
