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
from iotrial.model.trial import Treatment
from iotrial.plan.convert import BLOCKS
from iotrial.plan.design import cells, open_factors
from iotrial.plan.in_blocks import has_fixed_blocks, in_blocks
from iotrial.report.junit import not_compared
from iotrial.report.words import PRETENDED, count, some, visible
from iotrial.stats.regress import blocks_needed, pairs_needed, unlike_loads
from iotrial.store import written_study
from iotrial.units import format_wait
from iotrial_store import in_turn
from iotrial_store.against import PARTS, TAG_ADVICE, StoreResults, machines_of, stored_results
from iotrial_store.asked import nearest
from iotrial_store.cli import store_at

_TIMES = 4
"""Sessions of each study that are executed in alternation."""
_SAID = 4
"""Differences in one line."""
_MORE = (
    "Push the results of more sessions (iotrial push), or of A/A studies on this machine (iotrial"
    " run STUDY --aa), which say how far sessions are apart."
)
_NEAR = "Compare with sessions of different days: push the results of more nights."


def check(url: str | None, which: str) -> None:
    """Before hours of measuring.  Raises ExtraMissing and StoreError for a store that cannot be
    asked, UsageError for a tag that it does not have."""
    with store_at(url) as store:
        tags = [str(row[0]) for row in store.query("SELECT DISTINCT tag FROM tags").rows]
        if which not in (*PARTS, *tags):
            near = nearest(which, (*PARTS, *tags))
            meant = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"no results in the store have the tag {which!r}{meant}", advice=TAG_ADVICE
            )


def shortened(output: Output, study: Study, asked: ComparisonRequest, *, pretend: bool) -> Study:
    """The study in as many blocks as its comparison with stored results needs, its own at most;
    before hours of measuring it says where nothing is going to be compared.
    Reads its machines, and changes nothing there.  Raises StoreError, HostUnreachable."""
    with store_at(asked.store) as store:
        if not store.query("SELECT 1 FROM results WHERE study = ? LIMIT 1", (study.name,)).rows:
            return study
        with stored_results(store, study, _machines(study, pretend=pretend), asked.which) as found:
            if found is None:
                return study
            if why := _incomparable(found, study):
                output.notice(f"will not be compared with what is stored: {why}")
            if why or not found.here or not has_fixed_blocks(study):
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
    nothing is comparable, which the files that were asked for say as well, and StoreError."""
    began = min((each.started for each in latter.records if each.started > 0), default=math.inf)
    here, study = machines_of(latter.facts), replace(latter.study, pretended=latter.pretended)
    files = {"--junit": asked.junit, "--markdown": asked.markdown}
    with (
        store_at(asked.store) as store,
        stored_results(store, study, here, asked.which, began) as stored,
    ):
        if stored is None:
            # The first results of a study have nothing to be compared with, which is no mistake.
            why = f"the store has no results of {study.name} yet whose trials are without doubts"
            _not_compared(latter, files, why)
            output.answer("", f"not compared: {why}; to add them: iotrial push {latter.folder}")
            return 0
        output.answer("", f"against {asked.which}: {count(len(stored.results), 'stored session')}")
        if why := _incomparable(stored, study):
            advice = (
                "If that is meant, add the new results, and later ones are compared with them:"
                f" iotrial push {latter.folder}"
            )
            _not_compared(latter, files, why, advice)
            raise UsageError(f"not compared: {why}", advice=advice)
        questions = {}
        if stored.here:
            questions["against"] = ComparisonResults(
                stored.results, (latter,), between=stored.between, more=_MORE, near=_NEAR
            )
        measured = list(_in_turn(output, stored, latter, asked))
        questions |= dict(measured)
        if not questions:
            why = (
                f"the store has no results of {study.name} on this machine, and nothing of those of"
                " another one that iotrial can set here"
            )
            advice = (
                "Execute it here on some nights, and push them: iotrial push DIR; or measure"
                " another study beside it: iotrial compare OLD NEW --paired 4"
            )
            _not_compared(latter, files, why, advice)
            raise UsageError(why, advice=advice)
        code = against(output, questions, files)
        failed = [
            exit_code(each) for _, sides in measured for each in (*sides.former, *sides.latter)
        ]
        return code or max(failed, default=0)


def _incomparable(stored: StoreResults, study: Study) -> str:
    """Why nothing of a study is the same as what is stored ('': something is)."""
    then = stored.results[0].study
    unlike = unlike_loads(then, study)
    loads = {load.name for load in study.judged} & {load.name for load in then.judged}
    if loads and loads <= unlike.keys():
        said = [f"{name} (then and now: {why})" for name, why in unlike.items() if name in loads]
        return f"the load is another one than then: {some(said, _SAID)}"
    if study.stages or then.stages or open_factors(study):
        return ""  # which levels are "available" is known when the host was asked
    alike = (_treatments(then) & _treatments(study)) if loads else ()
    return "" if alike else "no workload and treatment is the same"


def _treatments(study: Study) -> set[tuple[str, Treatment]]:
    return {(load.name, each) for load in study.judged for each in study.treatments(load.name)}


def _not_compared(
    latter: Results, files: dict[str, Path | None], why: str, advice: str = ""
) -> None:
    """In every file that was asked for; with ``advice`` it is a mistake."""
    if Output.pending is not None:
        Output.pending["against"] = None
    if path := files["--junit"]:
        said = not_compared(
            latter.study.name, why, pretended=latter.pretended, mistaken=bool(advice)
        )
        write(path, said.encode("utf-8", "backslashreplace"), option="--junit")
    if path := files["--markdown"]:
        head = f"> **{PRETENDED}**\n\n" if latter.pretended else ""
        lines = f"{head}Not compared: {visible(why)}.\n\n{visible(advice)}"
        write(path, f"{lines.rstrip()}\n".encode("utf-8", "backslashreplace"), option="--markdown")


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
