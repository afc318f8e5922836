"""The study that ``iotrial tune TARGET --load …`` makes, as the text of a study file; and the load
that it names.

A load is a job file of fio's, a folder that ``iotrial record`` made, a workload of a study or of a
template, or a pattern of fio's.  What it says of its length counts; else trials are short enough
for a search.

Pure, but for what :func:`load_named` reads.  The first line of the text says what was asked, so
that an unfinished run is found by it: what is in force may be another value then, as after a run
that was killed.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from iotrial.errors import StudyError, UsageError
from iotrial.files import read_given
from iotrial.model.study import digest
from iotrial.model.tool import SupportsSizedLoads, ToolTarget
from iotrial.model.workload import Workload
from iotrial.plan import template as templates
from iotrial.plan.candidates import Candidate
from iotrial.plan.problem import choices, inline
from iotrial.tools import tool
from iotrial.units import format_wait

TARGET, LOAD = "target", "load"
"""The names of the only target and of the only workload."""
PATTERNS = ("randread", "read", "randwrite", "write", "randrw", "rw")
"""fio's, each a load by its name: 4 KiB at depth 32 where it is random, else 1 MiB at depth 4."""
TRIALS, PER_KNOB, LEAST_TRIALS = 80, 10, 20
"""How many trials the time is divided into at least, or for each knob; and without how many nothing
is found."""
LONGEST, SHORTEST = 20.0, 2.0
"""Seconds of a trial that a load without a length of its own gets, and of its runtime at least."""
AROUND = 1.5
"""Seconds of a trial around its load: settings, waiting, the tool's start, what is read."""
_RAMP = 0.2
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class GivenLoad:
    """A load as a study says it: ``table`` is ``[workloads.load]``, ``files`` are the texts of job
    files that the table names, ``metric`` is what decides in the study that it comes from ('': not
    said)."""

    table: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    metric: str = ""

    @property
    def digest(self) -> str:
        """Changes with what the load does, as far as that is not in a recording."""
        return digest(inline(dict(self.table)), *self.files.values())[:8]


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """What is asked.  ``target`` is the table of the target, on the host that ssh(1) reaches by
    ``ssh`` ('': this one); ``limit`` is a latency and its bound in seconds ('': none); ``heading``
    is the first line of the study (:func:`heading`)."""

    heading: str
    target: Mapping[str, object]
    load: GivenLoad
    seconds: float
    ssh: str = ""
    metric: str = ""
    limit: tuple[str, float] = ("", 0.0)
    margin: float = 0.03


def heading(words: Sequence[str], load: GivenLoad) -> str:
    """The first line of the study: the ``words`` of the command, and which load that was."""
    return f"# iotrial tune {shlex.join(words)} (load {load.digest})"


def study_text(asked: TuneRequest, knobs: Sequence[Candidate] = ()) -> str:
    """The study file; without knobs that of the load alone, to look at what it would meet.  The
    same answer for the same question."""
    return "\n".join(_lines(asked, knobs)) + "\n"


def _lines(asked: TuneRequest, knobs: Sequence[Candidate]) -> Iterator[str]:
    yield asked.heading
    metric = f" {asked.metric}" if asked.metric else ""
    yield f"question = {inline(f'Which levels of {len(knobs)} knobs are best for{metric}?')}"
    if asked.ssh:
        yield "[hosts.there]"
        yield f"ssh = {inline(asked.ssh)}"
    yield f"[targets.{TARGET}]"
    yield from (f"{key} = {inline(value)}" for key, value in asked.target.items())
    if asked.ssh:
        yield 'host = "there"'
    yield f"[workloads.{LOAD}]"
    yield from (f"{key} = {inline(value)}" for key, value in asked.load.table.items())
    for name, each in zip(names([knob.knob for knob in knobs]), knobs, strict=True):
        yield f"# {each.reason}"
        yield f"[factors.{inline(name) if '.' in name else name}]"
        yield f"tunable = {inline(each.knob)}"
        yield f"levels = {inline(each.levels)}"
        yield f"baseline = {inline(each.levels[0])}"
    if knobs:
        yield "[design]"
        yield 'kind = "tune"'
        yield f'budget = "{asked.seconds:g}s"'
    yield "[decide]"
    if asked.metric:
        yield f"primary = {inline(asked.metric)}"
    yield f"margin = {asked.margin:g}"
    limited, bound = asked.limit
    if knobs and limited:
        yield f'limits = {{ {inline(limited)} = "{bound * 1e6:g}us" }}'


def names(knobs: Sequence[str]) -> list[str]:
    """A name for the factor of each knob: its last part, or all of it where another has the same.

    >>> names(["queue.scheduler", "queue.read_ahead_kb", "nfs.read_ahead_kb"])
    ['scheduler', 'queue.read_ahead_kb', 'nfs.read_ahead_kb']
    """
    short = [each.rpartition(".")[2] for each in knobs]
    return [
        name if short.count(name) == 1 else knob for name, knob in zip(short, knobs, strict=True)
    ]


# -- the load that is named -----------------------------------------------------------------------


def load_named(word: str, lasting: float) -> GivenLoad:
    """The load that ``word`` names; of a recording the first ``lasting`` seconds.

    Raises UsageError where it names none, and for a study with several workloads.
    """
    path = Path(word)
    if path.is_dir():
        return _recorded(path, "", lasting)
    if path.is_file() and path.suffix != ".toml":
        name = str(path.absolute())
        return GivenLoad({"tool": "fio", "jobfile": name}, {name: _text(path)})
    stem, _, workload = word.partition(":")
    if Path(stem).suffix == ".toml" and Path(stem).is_file():
        return _of_study(_text(Path(stem)), Path(stem), workload, {})
    if word in PATTERNS:
        random = word.startswith("rand")
        size: dict[str, object] = {"bs": "4k", "iodepth": 32} if random else {"bs": "1m"}
        return GivenLoad({"tool": "fio", "options": {"rw": word, **({"iodepth": 4} | size)}})
    known = [name for name, _ in templates.templates()]
    if stem in known:
        files = templates.beside(stem)
        return _of_study(templates.template(stem), Path(stem), workload, files)
    folder, _, device = word.rpartition(":")  # whose name may have a colon
    if folder and Path(folder).is_dir():
        return _recorded(Path(folder), device, lasting)
    if "/" in word or path.suffix:
        raise UsageError(
            f"--load {word} does not exist",
            advice="Name a job file, a folder that `iotrial record` made, STUDY.toml[:WORKLOAD],"
            f" TEMPLATE[:WORKLOAD], or one of {', '.join(PATTERNS)}.",
        )
    advice = choices(word, [*PATTERNS, *known], "patterns and templates")
    raise UsageError(
        f"--load {word}: there is no such file, folder, pattern or template", advice=advice
    )


def _text(path: Path) -> str:
    try:
        return read_given(path, _MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise UsageError(f"--load {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--load {path} is not UTF-8", advice="Save it as text.") from None


def _recorded(folder: Path, device: str, lasting: float) -> GivenLoad:
    from iotrial.plugins import wing  # noqa: PLC0415  only where there is a recording

    module = wing("iotrial_record.again")
    if module is None:
        advice = "Install iotrial with all of its packages."
        raise UsageError("iotrial_record is not installed", advice=advice)
    index, _ = module.load_device(folder, device, lambda name: f"--load {folder}:{name}")
    part = {"device": device} if device else {}
    if lasting < index.seconds:
        part["time"] = f"{lasting:g}s"
    table = {"tool": "replay", "recorded": {"folder": str(folder.absolute()), **part}}
    return GivenLoad(table)


def _of_study(text: str, path: Path, workload: str, files: Mapping[str, str]) -> GivenLoad:
    """A workload of a study: as it is written there."""
    try:
        study = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"not TOML: {error}", file=str(path)) from None
    tables = study.get("workloads", {})
    if not workload and len(tables) != 1:
        advice = f"Add one: {' or '.join(f'{path}:{name}' for name in tables)}"
        raise UsageError(f"--load {path} has {len(tables)} workloads", advice=advice)
    name = workload or next(iter(tables))
    if name not in tables:
        advice = choices(name, [*tables], "workloads")
        raise UsageError(f"--load {path} has no workload {name!r}", advice=advice)
    table: dict[str, Any] = tables[name]
    for key in ("beside", "target"):
        if key in table:
            message = f"workload {name} of {path} has {key}, which is about other targets and loads"
            raise UsageError(message, advice="Tune for a load that runs alone.")
    if isinstance(table.get("recorded"), str):
        table["recorded"] = {"folder": table["recorded"]}
    if "recorded" in table:
        table["recorded"]["folder"] = str((path.parent / table["recorded"]["folder"]).absolute())
    if job := table.get("jobfile"):
        read = files[job] if job in files else _text(path.parent / job)
        table["jobfile"] = job if job in files else str((path.parent / job).absolute())
        return GivenLoad(table, {table["jobfile"]: read}, _primary(study, name))
    return GivenLoad(table, metric=_primary(study, name))


def _primary(study: Mapping[str, Any], workload: str) -> str:
    """The one metric by which a study decides about a workload; '' where it says none, or more."""
    said = study.get("decide", {}).get("primary", "")
    if isinstance(said, dict):
        said = said.get(workload, "")
    if isinstance(said, list):
        said = said[0] if len(said) == 1 else ""
    return str(said)


# -- how long -------------------------------------------------------------------------------------


def load_seconds(budget: float, knobs: int = 0) -> float:
    """How long the load of each trial is, so that the budget has enough of them for a search among
    so many knobs."""
    trials = max(TRIALS, PER_KNOB * knobs)
    return max(min(LONGEST, budget / trials) - AROUND, SHORTEST * (1 + _RAMP))


def with_length(load: GivenLoad, workload: Workload, seconds: float) -> GivenLoad:
    """The load with a length of so many ``seconds``, where it has none; and with the target in
    place of the files that a job file names.  ``workload`` is what it is to the study."""
    if workload.tool != "fio":
        return load
    from iotrial.tools.fio_check import sections, waits  # noqa: PLC0415  fio's alone

    known = sections(workload)
    options = dict(load.table.get("options", {}))
    named = ("filename", "directory")
    if workload.jobfile and any(each.values(name) for each in known for name in named):
        options["filename"] = "target"
    if not workload.offered and not any(each.values("runtime") for each in known):
        whole = seconds / (1 + sum(map(waits, known[1:])))
        runtime = max(whole / (1 + _RAMP), SHORTEST)
        options["runtime"] = f"{runtime * 1e3:.0f}ms"
        if not any(each.values("ramp_time") for each in known):
            options["ramp_time"] = f"{runtime * _RAMP * 1e3:.0f}ms"
        if workload.jobfile and not any(each.values("time_based") for each in known):
            options["time_based"] = 1
    return replace(load, table={**load.table, **({"options": options} if options else {})})


def length_of(workload: Workload, target: ToolTarget, budget: float) -> tuple[float, int]:
    """Seconds of the load of each trial, and how many trials the budget has.

    Raises UsageError where these are too few for a search.
    """
    driver = tool(workload.tool)
    seconds = driver.seconds(workload, target)
    if isinstance(driver, SupportsSizedLoads):
        seconds = driver.likely(workload, target)
    count = int(budget / (seconds + AROUND))
    if count < LEAST_TRIALS:
        need = LEAST_TRIALS * (seconds + AROUND)
        message = (
            f"--for {format_wait(budget)} has room for {count} trials of {format_wait(seconds)},"
            f" and a search needs {LEAST_TRIALS} at least"
        )
        advice = f"Set --for {format_wait(need).replace(' ', '')} or more, or a shorter runtime."
        raise UsageError(message, advice=advice)
    return seconds, count
