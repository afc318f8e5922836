"""The results folder: what lies on disk is the state.

::

    study.toml  jobfiles/    the study as it was, and the job files it names
    inventory.json           the hosts that an inventory came to, and how ssh(1) reaches them
    plan.jsonl               a head line, then one planned trial a line, appended and fsynced
    hosts/NAME.json          facts, written once
    sessions.jsonl           one line a run: the study may have been interrupted and taken up again
    trials/0007-3fa9c1/      a trial; ``.partial`` until complete: the rename is the commit
        strain.json          what each host, link, device and path bore (model/strain.py)
    measurements.jsonl       derived: one line a committed trial; delete and remake at will
    live.json                what the run says of itself while it goes on (iotrial.live.file)
    findings.json report.html  derived

Nothing here judges.  Everything raises :class:`~iotrial.errors.FormatError`, naming file and line,
for content that is not what it should be.
"""

from __future__ import annotations

import json
import shutil
import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from iotrial import files, rows
from iotrial.errors import FormatError, UsageError
from iotrial.model.doubt import Doubt
from iotrial.model.latency import Latency
from iotrial.model.results import Results
from iotrial.model.strain import Strain, strain_of
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan import prior, recorded
from iotrial.plan.aa import noted, restored
from iotrial.plan.available import Offer
from iotrial.plan.design import next_trials, with_baselines
from iotrial.plan.inventory import recorded as recorded_hosts
from iotrial.plan.load import parse_study
from iotrial.plan.spread import waiting
from iotrial.rows import Triples, line_out, record_in, record_out, trial_in_row, trial_out
from iotrial.tools import tool
from iotrial.tools.merging import merged

FORMAT = 1
STRAIN, STRAIN_FORMAT = "strain.json", 1
INVENTORY = "inventory.json"


class Store:
    """One results folder, open for a run.  ``planned`` and ``records`` mirror what is on disk.
    Trials may be begun and committed by several threads."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.folder = folder
        self.study = study
        self.planned: list[Trial] = []
        self.records: list[TrialRecord] = []
        self._adding = threading.Lock()

    @property
    def plan_file(self) -> Path:
        return self.folder / "plan.jsonl"

    def append_plan(self, trials: Iterable[Trial]) -> None:
        """Append to plan.jsonl durably, before any of them is executed."""
        added = list(trials)
        files.append(self.plan_file, "".join(files.line(trial_out(trial)) for trial in added))
        self.planned += added

    def begin(self, trial: Trial) -> Path:
        """An empty ``.partial`` folder for a trial; what an earlier crash left in it is gone."""
        folder = self.folder / "trials" / f"{trial.folder}.partial"
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return folder

    def commit(self, partial: Path, record: TrialRecord) -> None:
        """Write the record, sync, rename: from then on the trial is done."""
        files.write_json(partial / "trial.json", {"format": FORMAT, **record_out(record)})
        files.write_json(partial / "before.json", [list(row) for row in record.before])
        files.write_json(partial / "after.json", [list(row) for row in record.after])
        files.sync_all(partial)
        partial.rename(partial.with_suffix(""))
        files.sync(partial.parent)
        with self._adding:
            files.append(self.folder / "measurements.jsonl", files.line(line_out(record)))
            self.records.append(record)

    def write_recorded(
        self, name: str, done: list[TrialRecord], doubts: Iterable[Doubt], merged: Iterable[Latency]
    ) -> None:
        """Somebody else's trials, all of them, as the study ``name``, and their latencies merged;
        plan.jsonl last, since it makes the folder one."""
        study = self.folder / "study.toml"
        study.write_text(self.study.text, encoding="utf-8")
        files.append(
            self.folder / "measurements.jsonl", "".join(files.line(line_out(r)) for r in done)
        )
        notes = [[d.check, d.what, d.advice] for d in doubts]
        head = {"format": FORMAT, "study": name, "recorded": True, "doubts": notes}
        head["latencies"] = [rows.latency_out(each) for each in merged]
        plan = [files.line(head), *(files.line(trial_out(record.trial)) for record in done)]
        files.append(self.plan_file, "".join(plan))
        self.planned, self.records = [record.trial for record in done], done

    def write_facts(self, name: str, facts: Mapping[str, Any]) -> None:
        """hosts/NAME.json, once: facts of an earlier session are kept."""
        path = self.folder / "hosts" / f"{name}.json"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            beside = path.with_suffix(".new")
            files.write_json(beside, dict(facts))
            files.sync(beside)
            beside.rename(path)

    def begin_session(self, session: Mapping[str, Any]) -> None:
        """Note in sessions.jsonl that a run began, and on what."""
        files.append(self.folder / "sessions.jsonl", files.line(session))

    def results(self) -> Results:
        return load(self.folder, self.study, self.planned, self.records)


def check(folder: Path, study: Study) -> None:
    """Whether ``folder`` may receive this study's results: new, empty, or its own to resume.

    Raises UsageError when it belongs to another study or holds something else, FormatError when
    it is of a format this version does not know.
    """
    if (folder / "plan.jsonl").exists():
        head, _ = _plan(folder)
        if head.get("digest") != study.digest:
            raise UsageError(
                f"{folder} holds another study ({head.get('study')}, {head.get('digest')})",
                advice="Name another folder with --out, or run the study.toml that lies in it.",
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is not empty and is no results folder",
            advice="Name another with --out.",
        )


def studies_in(parent: Path, digest: str) -> list[Path]:
    """Results folders below ``parent`` that hold this very study, oldest first."""
    found = []
    for path in parent.glob("*/plan.jsonl"):
        try:
            head, _ = _plan(path.parent)
        except FormatError:
            continue  # another version's: not ours to resume
        if head.get("digest") == digest:
            found.append(path.parent)
    return sorted(found, key=lambda folder: (folder / "plan.jsonl").stat().st_ctime)


def is_finished(folder: Path) -> bool:
    """Whether nothing is left to do in a results folder."""
    results = open_results(folder)
    if not results.planned or waiting(results.planned, results.records):
        return False
    return not next_trials(results.study, results.planned, results.records)


def create(folder: Path, study: Study, offer: Offer) -> Store:
    """A new results folder, or the same study's folder opened again to be resumed.

    ``offer`` is what the levels come to on this host; it counts for a new folder only, a resumed
    one keeps its own.  Raises as :func:`check` does.
    """
    check(folder, study)
    if (folder / "plan.jsonl").exists():
        return _reopen(folder)
    (folder / "trials").mkdir(parents=True, exist_ok=True)
    (folder / "study.toml").write_text(study.text, encoding="utf-8")
    for workload in study.workloads:
        if workload.jobfile:
            path = _jobfile(folder, workload.name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(workload.jobfile, encoding="utf-8")
    if study.inventory:
        files.write_json(folder / INVENTORY, dict(study.inventory))
    head: dict[str, Any] = {"format": FORMAT, "study": study.name, "digest": study.digest}
    head |= offer.as_dict() | noted(study) | prior.noted(study)
    files.append(folder / "plan.jsonl", files.line(head))
    return Store(folder, restored(study, offer, head.get("aa")))


def _reopen(folder: Path) -> Store:
    opened = open_results(folder)
    store = Store(folder, opened.study)
    store.planned = list(opened.planned)
    store.records = list(opened.records)
    return store


def open_results(folder: Path) -> Results:
    """Everything a results folder holds.  Raises FormatError, or UsageError for no such folder."""
    if not (folder / "plan.jsonl").is_file():
        said = "is no results folder: it has no plan.jsonl" if folder.exists() else "does not exist"
        raise UsageError(f"{folder} {said}", advice="Name the folder that `iotrial run` printed.")
    head, trials = _plan(folder)
    if head.get("recorded"):
        return _recorded(folder, head, trials)
    study = restored(_study(folder), Offer.from_dict(head), head.get("aa"))
    study = prior.restored(study, head.get("prior"))
    study = replace(study, name=str(head.get("study", study.name)))
    return load(folder, study, trials, list(_records(folder)))


def _recorded(folder: Path, head: dict[str, Any], trials: list[Trial]) -> Results:
    """Imported results: measurements.jsonl is all there is of them, besides the originals."""
    path = folder / "study.toml"
    study = replace(recorded.parse(files.read_text(path), str(path)), name=str(head.get("study")))
    lines = _derived(folder)
    if missing := [trial.folder for trial in trials if trial.folder not in lines]:
        raise FormatError(
            f"{folder}/measurements.jsonl: {len(missing)} runs are missing, {missing[0]} first",
            advice="Import the files in originals/ again, into another folder.",
        )
    memo: dict[str, Triples] = {}
    done = [record_in(lines[trial.folder], memo) for trial in trials]
    measured = ((each.trial.workload, each.measurements) for each in done)
    where = recorded.Key(str(path), "decide.primary")
    recorded.check_primary(study.decide.primary, measured, where)
    results = load(folder, study, trials, done)
    notes = tuple(Doubt(*note) for note in head.get("doubts", ()))
    merged = tuple(map(rows.latency_in, head.get("latencies", ())))
    return replace(results, doubts=(*results.doubts, *notes), latencies=merged)


def _study(folder: Path) -> Study:
    """The study as it was, with the job files as they were, wherever they lay then."""
    path = folder / "study.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: {error}") from error

    def read(name: str) -> str:
        tables = tomllib.loads(text)["workloads"]
        workload = next(key for key, table in tables.items() if table.get("jobfile") == name)
        return _jobfile(folder, workload).read_text(encoding="utf-8")

    hosts = files.read_json(folder / INVENTORY) if (folder / INVENTORY).exists() else {}
    return parse_study(text, str(path), read, recorded_hosts(hosts))


def _jobfile(folder: Path, workload: str) -> Path:
    return folder / "jobfiles" / quote(workload, safe="")


def load(folder: Path, study: Study, planned: list[Trial], records: list[TrialRecord]) -> Results:
    facts = {path.stem: files.read_json(path) for path in sorted((folder / "hosts").glob("*.json"))}
    baselines: dict[str, str] = {}
    for each in facts.values():
        baselines |= each.get("baselines", {})
    notes = [Doubt(**doubt) for each in facts.values() for doubt in each.get("doubts", ())]
    notes += _resumed(folder, records)
    ordered = tuple(sorted(records, key=lambda record: record.trial.number))
    study = with_baselines(study, baselines)
    return Results(folder, study, tuple(planned), ordered, facts, baselines, tuple(notes))


def _resumed(folder: Path, records: list[TrialRecord]) -> list[Doubt]:
    """The doubt that trials of several sessions stand side by side, if they do."""
    path = folder / "sessions.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    starts = sorted(
        files.parse_line(path, n, line).get("started", 0) for n, line in enumerate(lines, 1)
    )
    used = {sum(start <= record.started for start in starts) for record in records}
    if len(used) < 2:  # noqa: PLR2004 (one session: nothing to tell apart)
        return []
    what = f"the trials were done in {len(used)} sessions; a loop device or file was made anew"
    advice = "Treatments are compared within blocks. Look at the plot over time for a step."
    return [Doubt("resumed", what, advice)]


def _plan(folder: Path) -> tuple[dict[str, Any], list[Trial]]:
    """The head of plan.jsonl and its trials.  A torn last line was never executed: dropped."""
    path = folder / "plan.jsonl"
    text = path.read_text(encoding="utf-8", errors="replace")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        files.truncate(path, len(whole.encode()))
    rows = [files.parse_line(path, n, line) for n, line in enumerate(whole.splitlines(), start=1)]
    head = rows[0] if rows else {}
    if head.get("format") != FORMAT:
        raise FormatError(
            f"{path}:1: results format {head.get('format')!r}; this version reads {FORMAT}",
            advice="Use the version of iotrial that wrote it.",
        )
    return head, [_trial_in(path, n, row) for n, row in enumerate(rows[1:], start=2)]


def _records(folder: Path) -> Iterator[TrialRecord]:
    """Committed trials: from measurements.jsonl where it has them, else from their folders."""
    known = _derived(folder)
    trials = folder / "trials"
    names = sorted(path.name for path in trials.iterdir()) if trials.is_dir() else []
    memo: dict[str, Triples] = {}
    for name in names:
        if name.endswith(".partial"):
            continue
        row = known.get(name)
        record = record_in(row, memo) if row else read_trial(trials / name)
        yield record


def _derived(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / "measurements.jsonl"
    rows: dict[str, dict[str, Any]] = {}
    if not path.is_file():
        return rows
    with path.open("rb") as file:
        for line in file:
            try:
                row = json.loads(line)
                rows[row["folder"]] = row
            except (ValueError, KeyError, TypeError):
                continue  # derived and damaged: the trial's own folder is read instead
    return rows


def read_strains(folder: Path) -> tuple[Strain, ...]:
    """What everything on the way bore in a trial; () where that was not kept (an older version's
    trial, one that failed early).  Raises FormatError for what is not whole."""
    path = folder / STRAIN
    if not path.is_file():
        return ()
    row = files.read_json(path)
    try:
        if row["format"] != STRAIN_FORMAT:
            raise FormatError(f"{path}: format {row['format']!r} is not known")
        return tuple(map(strain_of, row["strains"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: {error!r}") from error


def read_trial(folder: Path) -> TrialRecord:
    """A committed trial from its own folder, its raw output parsed again."""
    row = files.read_json(folder / "trial.json")
    if row.get("format") != FORMAT:
        raise FormatError(f"{folder}/trial.json: format {row.get('format')!r} is not known")
    row |= {part: files.read_text(folder / f"{part}.json") for part in ("before", "after")}
    try:
        record = record_in(row | {"values": {}}, {})
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{folder}/trial.json: {error!r}") from error
    if record.state == "failed":
        return record
    driver = tool(str(row["tool"]))
    if record.parts:
        told = [(part, driver.parse(folder / part)) for part in record.parts]
        return replace(record, measurements=merged(driver, told))
    return replace(record, measurements=driver.parse(folder).measurements)


def _trial_in(path: Path, number: int, row: dict[str, Any]) -> Trial:
    try:
        return trial_in_row(row)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}:{number}: not a planned trial ({error!r})") from error
