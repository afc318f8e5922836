"""``iotrial run --against``: a run, compared with what is stored, and measured in turn where the
stored results are not shown to be of the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from iotrial.cli.compare import ComparisonResults, against, measured_in_turn
from iotrial.cli.compare import compared as comparable
from iotrial.cli.machine import machines
from iotrial.cli.output import Output, write
from iotrial.cli.run import ComparisonRequest, execute, exit_code
from iotrial.errors import SettingLost, SettingRefused, StudyError, UsageError
from iotrial.look.facts import gather
from iotrial.model.finding import Difference
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.plan.convert import BLOCKS
from iotrial.plan.design import cells
from iotrial.plan.in_blocks import has_fixed_blocks, in_blocks
from iotrial.report.junit import skipped
from iotrial.report.words import some
from iotrial.stats.regress import blocks_needed, pairs_needed
from iotrial.store import written_study
from iotrial.units import format_wait
from iotrial_store import in_turn
from iotrial_store.against import PARTS, TAG_ADVICE, StoreResults, machines_of, stored_results
from iotrial_store.cli import store_at

_TIMES = 4
"""Sessions of each study that are executed in alternation."""
_SAID = 4
"""Differences in one line."""


def check(url: str | None, which: str) -> None:
    """Before hours of measuring.  Raises ExtraMissing and StoreError for a store that cannot be
    asked, UsageError for a tag that it does not have."""
    with store_at(url) as store:
        tagged = store.query("SELECT 1 FROM tags WHERE tag = ? LIMIT 1", (which,)).rows
        if which not in PARTS and not tagged:
            raise UsageError(f"no results in the store have the tag {which!r}", advice=TAG_ADVICE)


def shortened(output: Output, study: Study, asked: ComparisonRequest, *, pretend: bool) -> Study:
    """The study in as many blocks as its comparison with stored results needs, its own at most.
    Reads its machines, and changes nothing there.  Raises StoreError, HostUnreachable."""
    if not has_fixed_blocks(study):
        return study
    with store_at(asked.store) as store:
        if not store.query("SELECT 1 FROM results WHERE study = ? LIMIT 1", (study.name,)).rows:
            return study
        with stored_results(store, study, _machines(study, pretend=pretend), asked.which) as found:
            if found is None or not found.here:
                return study
            blocks, why = blocks_needed(
                found.results, most=study.design.blocks, between=found.between
            )
    if not why:
        return study
    output.note(why)
    return in_blocks(study, blocks)


def _machines(study: Study, *, pretend: bool) -> str:
    several = len(study.places) > 1
    facts = {}
    with machines(pretend=pretend, purpose=study.name, several=several) as reach:
        for place in study.places:
            with reach(place) as host:
                facts[host.name] = gather(host, (), ())
    return machines_of(facts)


def compared(output: Output, latter: Results, asked: ComparisonRequest) -> int:
    """Say what a run comes to beside stored results; the exit code.  Raises UsageError where
    nothing is comparable, and StoreError."""
    began = min((each.started for each in latter.records if each.started > 0), default=math.inf)
    here = machines_of(latter.facts)
    files = {"--junit": asked.junit, "--markdown": asked.markdown}
    with (
        store_at(asked.store) as store,
        stored_results(store, latter.study, here, asked.which, began) as stored,
    ):
        if stored is None:
            return _first(output, latter, files)
        output.answer("", f"against {asked.which}: {len(stored.results)} stored sessions")
        questions = {}
        if stored.here:
            sides = ComparisonResults(stored.results, (latter,), between=stored.between)
            questions["against"] = sides
        measured = list(_in_turn(output, stored, latter, asked))
        questions |= dict(measured)
        if not questions:
            raise UsageError(
                f"the store has no results of {latter.study.name} on this machine, and nothing of"
                " those of another one that iotrial can set here",
                advice="Execute it here on some nights, and push them: iotrial push DIR; or"
                " measure another study beside it: iotrial compare OLD NEW --paired 4",
            )
        code = against(output, questions, files)
        failed = [
            exit_code(each) for _, sides in measured for each in (*sides.former, *sides.latter)
        ]
        return code or max(failed, default=0)


def _first(output: Output, latter: Results, files: dict[str, Path | None]) -> int:
    """The first results of a study have nothing to be compared with, which is no mistake."""
    why = f"the store has no results of {latter.study.name} yet whose trials are without doubts"
    output.answer("", f"not compared: {why}; to add them: iotrial push {latter.folder}")
    if Output.pending is not None:
        Output.pending["against"] = None
    if path := files["--junit"]:
        write(path, skipped(latter.study.name, why).encode(), option="--junit")
    if path := files["--markdown"]:
        write(path, f"Not compared: {why}.\n".encode(), option="--markdown")
    return 0


def _in_turn(
    output: Output, stored: StoreResults, latter: Results, asked: ComparisonRequest
) -> Iterator[tuple[str, ComparisonResults]]:
    """What is measured again as it was, beside what is now."""
    former = stored.results[0]
    reasons = in_turn.reasons(former, latter)
    then, lost = in_turn.settings_then(former, latter) if reasons else ({}, ())
    _say(output, reasons, lost)
    wanted: dict[str, Callable[[], ComparisonResults]] = {}
    if then:
        wanted["in_turn"] = lambda: _settings(output, latter, then)
    if any(each.kind == "study" for each in reasons):
        wanted["in_turn_study"] = lambda: _studies(output, former, latter)
    if wanted and not asked.in_turn:
        output.answer("--in-turn never: old and new are not measured in turn")
        return
    if wanted:
        comparable(ComparisonResults((former,), (latter,)), 0.0)  # what would be said after hours
    for name, measured in wanted.items():
        try:
            yield name, measured()
        except (UsageError, StudyError, SettingRefused, SettingLost) as error:
            output.notice(f"what is stored cannot be measured in turn: {error.message}")


def _say(output: Output, reasons: Sequence[Difference], lost: Sequence[str]) -> None:
    """Why the stored results are not shown to be of the same, and what nobody brings back."""
    fixed = [each.what for each in reasons if each.kind not in ("settings", "study")]
    for said, found in (
        ("not shown to be the same", in_turn.told(reasons)),
        ("cannot be set as it was", list(lost)),
        ("cannot be measured again here", fixed),
    ):
        if found:
            output.answer(f"{said}: {some(found, _SAID)}")


def _settings(output: Output, latter: Results, then: in_turn.Then) -> ComparisonResults:
    study = written_study(latter.folder, in_turn.with_settings_then(latter.study, then))
    most = latter.study.design.blocks if has_fixed_blocks(latter.study) else BLOCKS
    pairs = pairs_needed(latter, in_turn.LEAST, max(in_turn.LEAST, most))
    study = in_blocks(replace(study, name=f"{study.name}-in-turn"), pairs)
    folder = latter.folder.with_name(f"{latter.folder.name}-in-turn")
    trials = pairs * sum(len(cells(study, load.name)) for load in study.judged)
    _announce(output, latter, trials, f"settings as stored and as found, into {folder}")
    outcome = execute(output, study, folder, pretend=latter.pretended)
    if outcome.stopped:
        output.notice(f"stopped: {outcome.stopped}")
    return ComparisonResults(*in_turn.sides(outcome.results, latter.study), paired=True)


def _studies(output: Output, former: Results, latter: Results) -> ComparisonResults:
    top = latter.folder.with_name(f"{latter.folder.name}-in-turn-study")
    trials = _TIMES * sum(len(each.planned) for each in (former, latter))
    _announce(output, latter, trials, f"the study as stored and as it is, into {top}")
    made = measured_in_turn(output, former.folder, latter.folder, _TIMES, top)
    return ComparisonResults(*made, paired=True)


def _announce(output: Output, latter: Results, trials: int, what: str) -> None:
    done = latter.records
    each = math.fsum(record.seconds + record.prepared for record in done) / max(len(done), 1)
    output.notice(f"measured in turn: {what}; {trials} trials, about {format_wait(trials * each)}")
