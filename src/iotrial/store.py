"""The results folder: what lies on disk is the state.

::

    study.toml  jobfiles/    the study as it was, and the job files and recordings it names
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

import os
import shutil
import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from iotrial import files, rows
from iotrial.errors import FormatError, UsageError
from iotrial.model.results import BootRecord, LatencyDistribution, Results
from iotrial.model.study import Study
from iotrial.model.trial import Doubt, Trial, TrialRecord
from iotrial.plan import in_blocks, prior, recorded
from iotrial.plan.aa import noted, restored
from iotrial.plan.available import HostCapabilities
from iotrial.plan.design import waiting, with_baselines
from iotrial.plan.extend import Extension, extended, extension_in
from iotrial.plan.inventory import check_ways
from iotrial.plan.inventory import recorded as recorded_hosts
from iotrial.plan.load import load_study, parse_study
from iotrial.plan.stages import next_trials
from iotrial.rows import Triples, line_out, record_in, record_out, trial_in_row, trial_out
from iotrial.trial_files import FORMAT, FolderTraces, belong, derived, known, placed, read_trial

INVENTORY = "inventory.json"
_KINDS = ("real", "pretended")


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
        text = "".join(files.line(trial_out(trial)) for trial in added)
        files.append(self.plan_file, text, self.folder)
        self.planned += added

    def begin(self, trial: Trial) -> Path:
        """An empty ``.partial`` folder for a trial; what an earlier crash left in it is gone."""
        folder = self.folder / "trials" / f"{trial.folder}.partial"
        with files.within(folder, self.folder, make=True) as trials:
            if folder.exists() or folder.is_symlink():
                shutil.rmtree(folder.name, dir_fd=trials)
            os.mkdir(folder.name, dir_fd=trials)
        return folder

    def commit(self, partial: Path, record: TrialRecord) -> None:
        """Write the record, sync, rename: from then on the trial is done."""
        files.write_json(partial / "trial.json", {"format": FORMAT, **record_out(record)})
        files.write_json(partial / "before.json", [list(row) for row in record.before])
        files.write_json(partial / "after.json", [list(row) for row in record.after])
        files.sync_all(partial)
        with files.within(partial, self.folder) as trials:
            done = partial.with_suffix("").name
            os.rename(partial.name, done, src_dir_fd=trials, dst_dir_fd=trials)
            os.fsync(trials)
        with self._adding:
            path = self.folder / "measurements.jsonl"
            files.append(path, files.line(line_out(record)), self.folder)
            self.records.append(record)

    def write_recorded(
        self,
        name: str,
        done: list[TrialRecord],
        doubts: Iterable[Doubt],
        merged: Iterable[LatencyDistribution],
    ) -> None:
        """Somebody else's trials, all of them, as the study ``name``, and their latencies merged;
        plan.jsonl last, since it makes the folder one."""
        files.write_text(self.folder / "study.toml", self.study.text, self.folder)
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
            files.make_folder(path.parent, self.folder)
            files.write_json(path, dict(facts), self.folder)
            files.sync(path)

    def begin_session(self, session: Mapping[str, Any]) -> None:
        """Note in sessions.jsonl that a run began, and on what."""
        files.append(self.folder / "sessions.jsonl", files.line(session), self.folder)

    def results(self) -> Results:
        return load(self.folder, self.study, self.planned, self.records)


def note_boot(folder: Path, boot: Mapping[str, Any]) -> None:
    """Note in boots.jsonl that a host was booted, with what, and what came up."""
    if (folder / "plan.jsonl").exists():
        files.append(folder / "boots.jsonl", files.line(boot), folder)


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
                advice="Name another folder with --out, or run the study.toml in that folder.",
            )
        if bool(head.get("pretended")) != study.pretended:
            holds, asked = _KINDS if study.pretended else reversed(_KINDS)
            raise UsageError(
                f"{folder} holds {holds} results, but this run is {asked}: they cannot be mixed",
                advice="Name another folder with --out.",
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is not empty and is not a results folder",
            advice="Name another folder with --out.",
        )


def studies_in(parent: Path, digest: str, *, pretended: bool = False) -> list[Path]:
    """Results folders below ``parent`` that hold this very study, oldest first: those of
    ``--pretend``, or those of real machines."""
    found = []
    for path in parent.glob("*/plan.jsonl"):
        try:
            head, _ = _plan(path.parent)
        except FormatError:
            continue  # another version's: not ours to resume
        if head.get("digest") == digest and bool(head.get("pretended")) == pretended:
            found.append(path.parent)
    return sorted(found, key=lambda folder: (folder / "plan.jsonl").stat().st_ctime)


def is_finished(folder: Path) -> bool:
    """Whether nothing is left to do in a results folder."""
    results = open_results(folder)
    if not results.planned or waiting(results.planned, results.records):
        return False
    return not next_trials(results.study, results.planned, results.records)


def create(folder: Path, study: Study, offer: HostCapabilities) -> Store:
    """A new results folder, or the same study's folder opened again to be resumed.

    ``offer`` is what the levels come to on this host; it counts for a new folder only, a resumed
    one keeps its own.  Raises as :func:`check` does.
    """
    check(folder, study)
    if (folder / "plan.jsonl").exists():
        return _reopen(folder)
    head: dict[str, Any] = {"format": FORMAT, "study": study.name, "digest": study.digest}
    if study.pretended:
        head["pretended"] = True
    head |= offer.as_dict() | noted(study) | prior.noted(study) | in_blocks.noted(study)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _begin(folder, study, head)
    except OSError:
        # On a full disk: half of it would be the results of no version, and not be resumed.
        with suppress(OSError):
            for each in folder.iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        raise
    return Store(folder, restored(study, offer, head.get("aa")))


def _begin(folder: Path, study: Study, head: Mapping[str, Any]) -> None:
    """Write what is there before the first trial, into an empty folder."""
    files.make_folder(folder / "trials", folder)
    files.write_text(folder / "study.toml", study.text, folder)
    for workload in study.workloads:
        if text := workload.jobfile or workload.trace:
            path = _jobfile(folder, workload.name)
            files.make_folder(path.parent, folder)
            files.write_text(path, text, folder)
    if study.inventory:
        files.write_json(folder / INVENTORY, dict(study.inventory), folder)
    files.append(folder / "plan.jsonl", files.line(head), folder)


def extend(folder: Path, more: Extension) -> None:
    """Note durably in plan.jsonl that the study goes on; from then on it is the longer one.

    A line of its own, which versions that know of no extensions refuse: they would take its
    results for those of one look.
    """
    open_results(folder)  # a torn last line is gone then
    files.append(folder / "plan.jsonl", files.line(more.as_row()), folder)


def written_study(folder: Path, added: str = "") -> Study:
    """The study of a results folder as it was given, extended as it was since: to be run again,
    where its file may be gone; with what is ``added`` to its text.  Raises as :func:`open_results`
    does, and StudyError for what cannot be added."""
    head, _ = _plan(folder)
    study = in_blocks.restored(_study(folder, added), head)
    study = extended(study, head.get("extensions", ()))
    pretended = bool(head.get("pretended"))
    return replace(study, name=str(head.get("study", study.name)), pretended=pretended)


def _reopen(folder: Path) -> Store:
    opened = open_results(folder)
    store = Store(folder, opened.study)
    store.planned = list(opened.planned)
    store.records = list(opened.records)
    return store


def open_results(folder: Path) -> Results:
    """Everything a results folder holds.  Raises FormatError, or UsageError for no such folder."""
    if not (folder / "plan.jsonl").is_file():
        said = (
            "is not a results folder: it has no plan.jsonl" if folder.exists() else "does not exist"
        )
        raise UsageError(
            f"{folder} {said}",
            advice="Name the folder that `iotrial run` printed; import files of other tools"
            " first: iotrial import.",
        )
    head, trials = _plan(folder)
    if head.get("recorded"):
        return _recorded(folder, head, trials)
    study = restored(_study(folder), HostCapabilities.from_dict(head), head.get("aa"))
    study = in_blocks.restored(prior.restored(study, head.get("prior")), head)
    study = extended(study, head.get("extensions", ()))
    pretended = bool(head.get("pretended"))
    study = replace(study, name=str(head.get("study", study.name)), pretended=pretended)
    return load(folder, study, trials, list(_records(folder)))


def _recorded(folder: Path, head: dict[str, Any], trials: list[Trial]) -> Results:
    """Imported results: measurements.jsonl is all there is of them, besides the originals."""
    path = folder / "study.toml"
    study = replace(
        recorded.parse(files.read_text(path, folder), str(path)), name=str(head.get("study"))
    )
    lines = derived(folder)
    if missing := [trial.folder for trial in trials if trial.folder not in lines]:
        raise FormatError(
            f"{folder}/measurements.jsonl: {len(missing)} runs are missing, {missing[0]} first",
            advice="Import the files in originals/ again, into another folder.",
        )
    memo: dict[str, Triples] = {}
    done = [_line_in(folder, lines[trial.folder], memo) for trial in trials]
    measured = ((each.trial.workload, each.measurements) for each in done)
    where = recorded.FileKey(str(path), "decide.primary")
    recorded.check_primary(study.decide.primary, measured, where)
    results = load(folder, study, trials, done)
    notes = tuple(Doubt(*note) for note in head.get("doubts", ()))
    merged = tuple(map(rows.latency_in, head.get("latencies", ())))
    return replace(results, doubts=(*results.doubts, *notes), latencies=merged)


def _line_in(folder: Path, row: dict[str, Any], memo: dict[str, Triples]) -> TrialRecord:
    with placed(f"{folder}/measurements.jsonl: {str(row['folder'])[:80]}"):
        return record_in(row, memo)


def study_at(path: Path) -> Study:
    """The study in a file.  One that lies in its results folder has its job files and its hosts
    there, wherever they lay when it began.  Raises as :func:`load_study` does, and FormatError."""
    if path.name == "study.toml" and (path.parent / "plan.jsonl").is_file():
        study = _study(path.parent)
        check_ways((each.name, each.ssh) for each in study.hosts)
        return study
    return load_study(path)


def _study(folder: Path, added: str = "") -> Study:
    """The study as it was, with the job files as they were, wherever they lay then."""
    path = folder / "study.toml"
    text = files.read_text(path, folder) + added

    def read(name: str) -> str:
        tables = tomllib.loads(text)["workloads"]
        workload = next(key for key, table in tables.items() if table.get("jobfile") == name)
        return files.read_text(_jobfile(folder, workload), folder)

    hosts: dict[str, Any] = {}
    if (folder / INVENTORY).exists():
        hosts = rows.inventory_in(files.read_object(folder / INVENTORY, folder))
    return parse_study(
        text,
        str(path),
        read,
        recorded_hosts(hosts),
        lambda workload, *_: files.read_text(_jobfile(folder, workload), folder),
    )


def _jobfile(folder: Path, workload: str) -> Path:
    return folder / "jobfiles" / quote(workload, safe="")


def load(folder: Path, study: Study, planned: list[Trial], records: list[TrialRecord]) -> Results:
    facts = {path.stem: _facts(path, folder) for path in sorted((folder / "hosts").glob("*.json"))}
    baselines: dict[str, str] = {}
    for each in facts.values():
        baselines |= each.get("baselines", {})
    notes = [Doubt(**doubt) for each in facts.values() for doubt in each.get("doubts", ())]
    belong(study, folder, (*planned, *(record.trial for record in records)))
    notes += _resumed(folder, records)
    ordered = tuple(sorted(records, key=lambda record: record.trial.number))
    study = with_baselines(study, baselines)
    return Results(
        folder,
        study,
        tuple(planned),
        ordered,
        facts,
        baselines,
        tuple(notes),
        boots=_boots(folder),
        traces=FolderTraces(folder),
    )


def _facts(path: Path, folder: Path) -> dict[str, Any]:
    with placed(str(path)):
        return rows.facts_in(files.read_object(path, folder))


def _boots(folder: Path) -> tuple[BootRecord, ...]:
    """The lines of boots.jsonl; a torn last one is a boot that was not noted."""
    path = folder / "boots.jsonl"
    lines = files.read_text(path, folder).split("\n")[:-1] if path.exists() else []
    found = []
    for number, line in enumerate(lines, 1):
        with placed(f"{path}:{number}"):
            found.append(rows.boot_in(files.parse_line(path, number, line)))
    return tuple(found)


def _resumed(folder: Path, records: list[TrialRecord]) -> list[Doubt]:
    """The doubt that trials of several sessions stand side by side, if they do."""
    path = folder / "sessions.jsonl"
    lines = files.read_text(path, folder).split("\n") if path.exists() else []
    starts = sorted(_session(path, n, line) for n, line in enumerate(lines, 1) if line)
    used = {sum(start <= record.started for start in starts) for record in records}
    if len(used) < 2:  # noqa: PLR2004 (one session: nothing to tell apart)
        return []
    what = (
        f"the trials were executed in {len(used)} sessions; a loop device or file was created again"
    )
    advice = "Treatments are compared within blocks. Check the plot over time for a step."
    return [Doubt("resumed", what, advice)]


def _session(path: Path, number: int, line: str) -> float:
    with placed(f"{path}:{number}"):
        return float(rows.session_in(files.parse_line(path, number, line)).get("started", 0))


def _plan(folder: Path) -> tuple[dict[str, Any], list[Trial]]:
    """The head of plan.jsonl and its trials.  A torn last line was never executed: dropped."""
    path = folder / "plan.jsonl"
    data = files.read_bytes(path, folder)
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        files.truncate(path, len(whole), folder)
    lines = [files.parse_line(path, n, line) for n, line in enumerate(whole.splitlines(), start=1)]
    head = lines[0] if lines else {}
    if head.get("format") != FORMAT:
        raise FormatError(
            f"{path}:1: results format {head.get('format')!r}; this version reads {FORMAT}",
            advice="Use the version of iotrial that wrote it.",
        )
    with placed(f"{path}:1"):
        head = rows.head_in(head)
    rest = list(enumerate(lines[1:], start=2))
    head["extensions"] = [_extension_in(path, n, row) for n, row in rest if "extended" in row]
    return head, [_trial_in(path, n, row) for n, row in rest if "extended" not in row]


def _records(folder: Path) -> Iterator[TrialRecord]:
    """Committed trials: from measurements.jsonl where it has them, else from their folders."""
    lines = derived(folder)
    trials = folder / "trials"
    names: list[str] = []
    if trials.exists() or trials.is_symlink():
        with files.within(trials / "x", folder) as handle:
            names = files.names(handle)
    memo: dict[str, Triples] = {}
    for name in names:
        if not name.endswith(".partial"):
            yield known(lines.get(name), name, memo) or read_trial(trials / name, folder)


def _extension_in(path: Path, number: int, row: dict[str, Any]) -> Extension:
    with placed(f"{path}:{number}"):
        return extension_in(row)


def _trial_in(path: Path, number: int, row: dict[str, Any]) -> Trial:
    with placed(f"{path}:{number}"):
        return trial_in_row(row)
