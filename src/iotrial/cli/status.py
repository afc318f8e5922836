"""``iotrial status``: done, missing, doubtful, owed."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from iotrial.called import called
from iotrial.cli.block_shares import lines, shares
from iotrial.cli.machine import file_or_host, machine, means_a_file, place_of
from iotrial.cli.output import Output, common, pretend
from iotrial.errors import UsageError
from iotrial.execute.keep.kept import kept
from iotrial.execute.settings.journal import Session, sessions
from iotrial.execute.settings.restore import read_reports
from iotrial.hosts.places import holder, journal_folder, unseen
from iotrial.model.results import Results
from iotrial.model.trial import treatment_text
from iotrial.plan.ahead import most_left, standing
from iotrial.plan.race import Stand
from iotrial.plan.spread import waiting
from iotrial.plan.stages import next_trials
from iotrial.report.words import PRETENDED
from iotrial.store import open_results


@click.command()
@click.argument("what", required=False)
@click.option("--follow", "-f", is_flag=True, help="Show the run in the folder WHAT until it ends.")
@pretend
@common
def command(output: Output, what: str | None, *, follow: bool, pretend: bool) -> int:
    """Say how far the results folder WHAT is, or what the host WHAT (or this one) is owed.

    Exits with 4 when something is owed and no iotrial is at work that will give it back; with
    --follow as the run does, or with 1 when the run is gone without having ended.

    \b
    Example:
      iotrial status
      iotrial status results/2026-11-20-scheduler
      iotrial status results/2026-11-20-scheduler --follow
      iotrial status root@box7
    """
    if follow:
        return _follow(output, what)
    if what is not None and (Path(what).is_dir() or means_a_file(what)):
        _of_results(output, open_results(Path(what)))
        return 0
    return _of_host(output, what, pretend=pretend)


def _follow(output: Output, what: str | None) -> int:
    from iotrial.cli.follow import follow

    if what is None:
        raise UsageError("--follow needs a results folder", advice="`run` prints its name.")
    return follow(output, Path(what))


def _of_host(output: Output, what: str | None, *, pretend: bool) -> int:
    place = place_of(what)
    with file_or_host(what), machine(pretend=pretend, place=place) as here:
        owing = tuple(
            each for each in sessions(here, journal_folder(here)) if each.token or each.describe()
        )
        told = read_reports(here, journal_folder(here))
        keeps = kept(here)
        running = holder(here)
        blind = unseen(here)
    document = {"host": place.name, "running": running, "unseen": blind, "guard": list(told)}
    listed = [{"name": each.profile.name, "pending": each.pending} for each in keeps]
    output.document({**document, "sessions": [_session(each) for each in owing], "kept": listed})
    for each_kept in keeps:
        name = each_kept.profile.name
        how = "not confirmed: being tried, or interrupted" if each_kept.pending else "kept"
        output.answer(Text(f"{name}: {how} ({called()} keep {name} verify)"))
    for line in told:
        output.answer(Text(line))
    if running:
        output.answer(f"iotrial is at work here: {running}. What it holds, it gives back:")
    for each in owing:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.opened))
        owed = "" if running else ", is owed:"
        output.answer(Text(f"{each.study} ({each.results}), since {since}{owed}"))
        for line in each.describe():
            output.answer(Text(f"  {line}"))
    if not owing:
        output.answer("Nothing is owed.")
    if blind:
        output.note(blind)
    if owing and not running:
        there = f" -- '{place.ssh}'" if place.ssh else ""
        output.note(f"Give it back with: iotrial restore{there}")
    return 4 if owing and not running else 0


def _session(session: Session) -> dict[str, object]:
    return {
        "study": session.study,
        "results": session.results,
        "since": session.opened,
        "journal": session.path,
        "owed": list(session.describe()),
    }


def _of_results(output: Output, results: Results) -> None:
    missing = len(waiting(results.planned, results.records))
    added = () if missing else next_trials(results.study, results.planned, results.records)
    more = len(added)
    states = [record.state for record in results.records]
    stands = standing(results.study, results.planned, results.records)
    doubtful = [record for record in results.records if record.doubts or record.error]
    counts = {
        "planned": len(results.planned) + more,
        "valid": states.count("valid"),
        "invalid": states.count("invalid"),
        "failed": states.count("failed"),
        "missing": missing + more,
    }
    planned = (*results.planned, *added)
    most = most_left(results.study, planned, results.records, stands)
    where = shares(results)
    output.document(
        {
            "results": str(results.folder),
            "question": results.study.question,
            "pretended": results.pretended,
            **counts,
            **({"hosts": [asdict(each) for each in where]} if where else {}),
            "extended": list(results.study.design.extended),
            "blocks": results.study.design.blocks,
            "at_most": most,
            "races": [_race(each) for each in stands],
            "doubts": [
                {"trial": d.trial, "what": d.what, "advice": d.advice, "invalid": d.invalid}
                for record in results.records
                for d in record.doubts
            ],
        }
    )
    if results.pretended:
        output.answer(Text(PRETENDED, style="bold yellow"))
    output.answer(results.study.question)
    output.answer(", ".join(f"{count} {name}" for name, count in counts.items()))
    if before := results.study.design.extended:
        past = " and ".join(map(str, before))
        output.answer(f"Extended after {past} blocks, to {results.study.design.blocks}.")
    for line in lines(where):
        output.answer(Text(line))
    for each in stands:
        output.answer(Text(each.told))
    if most > counts["missing"]:
        output.answer(f"At most {most} trials are left; it ends as soon as it knows.")
    for record in doubtful:
        words = [record.error, *(doubt.what for doubt in record.doubts)]
        output.answer(
            f"  {record.trial.folder} {record.trial.workload}"
            f" {treatment_text(record.trial.treatment)}: {record.state}:"
            f" {'; '.join(word for word in words if word)}"
        )
    if counts["missing"]:
        again = " --pretend" if results.pretended else ""
        here = results.folder
        output.answer(f"To go on: iotrial run {here}/study.toml --out {here}{again}")


def _race(stand: Stand) -> dict[str, object]:
    return {
        "workload": stand.workload,
        "blocks": stand.blocks,
        "trials": stand.trials,
        "leads": stand.leader,
        "decided": stand.decided,
        "dropped": list(stand.dropped),
        "same": list(stand.same),
        "open": list(stand.still),
    }
