"""study.toml → Study.  All that is wrong with a file is told at once: file, line, key, what is
allowed, the nearest name."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from iotrial.errors import StudyError, UsageError
from iotrial.files import read_given
from iotrial.formats.fio.jobfile import without
from iotrial.model.study import Study, StudyHost, digest
from iotrial.model.tunable import Tunable
from iotrial.model.workload import TRACED, Workload, metrics_of
from iotrial.plan import convert
from iotrial.plan.beside import with_neighbours
from iotrial.plan.check import checks, host_problems
from iotrial.plan.convert import staged_loads, stages, with_finer
from iotrial.plan.inventory import Book, check_ways, inventory_problems, looked_up, with_inventory
from iotrial.plan.problem import StudyProblem, StudySource, locate, raise_all, study_error
from iotrial.plan.schema import KnobTable, RecordedTable, StudyFile
from iotrial.plan.sense import chore_problems, decide, study_problems, tool_problems, unmeasured
from iotrial.plan.validate import validate
from iotrial.plugins import wing
from iotrial.tunables import Catalogue, command
from iotrial.tunables import file as configuration

_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_YAML = re.compile(r"\s*(?:- )?[\w.-]+:(?:\s|$)|\s*---\s*$|\s*- ")
_LONGEST_LINE = 4000  # bytes; fio has room for 4096 or more
_MOST_BYTES = 2**20


def load_study(path: Path) -> Study:
    """Read a study file, and the job files it names (relative to its own folder).

    Raises StudyError for a file that is not there, not UTF-8, not TOML, or not a study that this
    version can execute.
    """
    study = parse_study(
        _text(path),
        str(path),
        lambda name: job_text(path.parent / name),
        lambda table: looked_up(table, path.parent),
        recording=lambda _, tool, table: recording_text(path.parent, tool, table),
    )
    check_ways((each.name, each.ssh) for each in study.hosts)
    raise_all(
        dict.fromkeys(unmeasured(study)), StudySource(str(path), study.text, locate(study.text))
    )
    return study


def _text(path: Path) -> str:
    try:
        raw = read_given(path, _MOST_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            message = "is larger than any study (1 MiB)"
            raise StudyError(message, file=str(path)) from None
        advice = "`iotrial init` writes a study to start from."
        message = f"cannot be read: {error.strerror}"
        raise StudyError(message, file=str(path), advice=advice) from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        advice = "Save it as UTF-8 text."
        raise StudyError("is not UTF-8", file=str(path), line=line, advice=advice) from None


def job_text(path: Path) -> str:
    """The text of a job file.  Nobody can wait for a FIFO, or read a device without an end.

    Raises OSError, with what it is instead of a file, and UnicodeDecodeError.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its name contains a NUL byte")
    with open(path, "rb", opener=_without_waiting) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        raw = stream.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise OSError(errno.EFBIG, "it is larger than any job file (1 MiB)")
    return raw.decode("utf-8")


def recording_text(folder: Path, tool: str, table: RecordedTable) -> str:
    """What a tool does of a recording, by the wing that records."""
    module = wing("iotrial_record.again")
    if module is None:
        raise UsageError(
            "iotrial_record is not installed", advice="Install iotrial with all of its packages."
        )
    place = folder / table.folder
    text: str = module.text_for(tool, place, table.begin, table.time, device=table.device)
    return text


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _misread(text: str) -> str:
    """What fio would take for something else than stands there, or ''.

    It ends a text at a NUL, and goes on with the rest of a long line as if that were another
    (``fgets`` with ``OPT_LEN_MAX`` bytes in ``__parse_jobs_ini``, 3.33).
    """
    for number, line in enumerate(text.split("\n"), 1):
        if not all(each.isprintable() or each == "\t" for each in line.removesuffix("\r")):
            return f"line {number} contains a non-printable character"
        if len(line.encode("utf-8", "surrogateescape")) > _LONGEST_LINE:
            return (
                f"line {number} is longer than {_LONGEST_LINE} bytes, the limit at which fio"
                " splits it"
            )
    return ""


def _rows(name: str, table: KnobTable) -> tuple[Tunable, ...]:
    if table.write:
        return command.rows(name, read=table.read, write=table.write, field=table.field)
    return configuration.rows(
        name,
        file=table.file,
        content=table.content,
        reload=table.reload,
        read=table.read,
        field=table.field,
    )


def _no_recording(*_: object) -> str:
    raise UsageError("a recording cannot be read here", advice="Name the study's file.")


def parse_study(
    text: str,
    file: str,
    read: Callable[[str], str],
    book: Book | None = None,
    recording: Callable[[str, str, RecordedTable], str] = _no_recording,
) -> Study:
    """The study that ``text`` says.  ``file`` is its name, for messages and for the study's own
    name; ``read`` gives the text of a job file by the name the study has for it (OSError or
    UnicodeDecodeError where there is none), ``book`` the hosts of an inventory, and ``recording``
    what a workload's tool does of a recording (UsageError where it cannot be read).

    Factors with ``levels = "available"`` have no levels yet: see :mod:`iotrial.plan.available`.
    Raises StudyError.
    """
    spec, source = _tables(text, file)
    spec, entries = with_inventory(spec, book)
    knobs = tuple(row for name, table in spec.knobs.items() for row in _rows(name, table))
    raise_all(checks(spec, Catalogue(knobs)), source)
    workloads = _workloads(spec, read, recording, source)
    study = _study(spec, workloads, knobs, source)
    if not entries:
        return study
    known = tuple((entry.name, entry.ssh) for entry in entries)
    more = (f"{name} {ssh}" for name, ssh in known)
    return replace(study, inventory=known, digest=digest(study.digest, *more))


def load_hosts(path: Path) -> tuple[StudyHost, ...]:
    """All hosts that a study file may use: its own, and its inventory's whether a target names
    them or not.  Raises StudyError."""
    spec, source = _tables(_text(path), str(path))
    every = spec.model_copy(update={"targets": {}})
    spec, _ = with_inventory(every, lambda table: looked_up(table, path.parent))
    raise_all(host_problems(spec), source)
    check_ways((name, table.ssh) for name, table in spec.hosts.items())
    return tuple(convert.place(name, table) for name, table in spec.hosts.items())


def _tables(text: str, file: str) -> tuple[StudyFile, StudySource]:
    """The file's tables, their keys and types checked.  Raises StudyError."""
    data = _toml(text, file)  # before anything is located in it
    source = StudySource(file, text, locate(text))
    spec, problems = validate(data)
    if spec is None:
        raise study_error(problems, source)
    raise_all(inventory_problems(spec), source)
    return spec, source


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
        match = _PLACE.fullmatch(str(error))
        lines = text.splitlines() or [""]
        line = int(match[2]) if match and match[2] else len(lines)
        where = f" at column {match[3]}" if match and match[3] else ""
        what = match[1] if match else str(error)
        message = f"not TOML: {what}{where}"
        raise StudyError(message, file=file, line=line, advice=_advice(lines, line)) from None
    except RecursionError:
        raise StudyError("not a study: nested too deeply", file=file) from None


def _advice(lines: Sequence[str], line: int) -> str:
    shown = lines[line - 1].strip() if line <= len(lines) else ""
    if _YAML.match(shown) or any(re.match(r"---\s*$|\w+:\s*$", each) for each in lines[:line]):
        return 'This looks like YAML; a study is TOML: [tables] and key = "value".'
    return f"The line reads: {shown[:60]}" if shown else 'A line is [table] or key = "value".'


def _workloads(
    spec: StudyFile,
    read: Callable[[str], str],
    recording: Callable[[str, str, RecordedTable], str],
    source: StudySource,
) -> tuple[Workload, ...]:
    found: list[Workload] = []
    problems: list[StudyProblem] = []
    for name, table in spec.workloads.items():
        if table.recorded is not None:
            path = ("workloads", name, "recorded")
            text = ""
            try:
                text = recording(name, table.tool, table.recorded)
            except UsageError as error:
                problems.append(StudyProblem(path, error.message, error.advice))
            if not text.startswith(TRACED):  # the study's own options instead
                text = without(text, frozenset(table.options))
            found.append(convert.workload(name, table, text))
            continue
        jobfile = ""
        try:
            jobfile = read(table.jobfile) if table.jobfile else ""
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8"
            advice = "The path is relative to the study."
            message = f"{table.jobfile} cannot be read: {why}"
            problems.append(StudyProblem(("workloads", name, "jobfile"), message, advice))
        if why := _misread(jobfile):
            message, advice = (
                f"{table.jobfile}: {why}",
                "Check that it is a job file in plain text.",
            )
            problems.append(StudyProblem(("workloads", name, "jobfile"), message, advice))
        found.append(convert.workload(name, table, jobfile))
    raise_all(problems, source)
    return tuple(found)


def _study(
    spec: StudyFile,
    workloads: tuple[Workload, ...],
    knobs: tuple[Tunable, ...],
    source: StudySource,
) -> Study:
    plain = tuple(convert.factor(name, table) for name, table in spec.factors.items())
    factors = with_finer(spec, plain)
    beside = {each.target for each in workloads if each.target}
    # The first is under test: what only a load beside others is aimed at comes after it.
    targets = tuple(sorted(convert.targets(spec.targets), key=lambda each: each.name in beside))
    parts = stages(spec)
    workloads = with_neighbours(workloads, factors)
    raise_all(tool_problems((*workloads, *staged_loads(workloads, parts)), factors), source)
    raise_all(chore_problems(workloads, factors, targets), source)
    rule, problems = decide(spec.decide, workloads, factors)
    study = Study(
        question=spec.question,
        name=Path(source.file).stem,
        hosts=tuple(convert.place(name, table) for name, table in spec.hosts.items()),
        targets=targets,
        workloads=workloads,
        factors=factors,
        design=convert.design(spec.design, rule, factors, metrics_of(workloads)),
        decide=rule,
        exclude=convert.exclusions(spec),
        text=source.text,
        digest=digest(
            source.text, *(w.jobfile or w.trace for w in workloads if w.jobfile or w.trace)
        ),
        stages=parts,
        knobs=knobs,
    )
    raise_all([*problems, *study_problems(study)], source)
    return study
