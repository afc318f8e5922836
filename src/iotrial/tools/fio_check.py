"""What a workload is to fio, read from its options before anything is armed: every problem, with
what to do about it; what it will touch; how many I/Os it keeps in flight.

File names are put together as fio does it (3.33: ``str_filename_cb`` in options.c, ``add_file`` in
filesetup.c, ``add_job`` in init.c).  It takes the options of a section sorted, ``directory`` before
``filename``, and opens a name in the directory that is known *then*: one in ``[global]`` does not
lie in the directory that a job names later.  A directory goes before an absolute name as well.  A
job without a name gets one from its own: ``JOB.NUMBER.FILE``.

I/Os in flight are jobs times depth, known only where nothing else in the options lets a queue run
empty: rates, think time, syncs, verification, batches, jobs after each other.  Source: HOWTO of fio
(iodepth: a synchronous engine has one, whatever it says).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from iotrial.errors import IotrialError, UsageError
from iotrial.formats.fio import jobfile as fio_jobfile
from iotrial.formats.fio.jobfile import JobSection, filenames
from iotrial.model.tool import LoadAccess
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import fio_offered
from iotrial.tools import fio_options as rules
from iotrial.tools.fio_options import resolved, value_text
from iotrial.tools.fio_server import FOLDER

# -- what it will touch ---------------------------------------------------------------------------

_SIZE = re.compile(r"(\d{1,18})([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_PERCENT = re.compile(r"(\d{1,3})%")
_WHOLE = 100
_MOST_FILES = 4096
# What is there where fio is started, and no file: of a job of that name, fio opens that name itself
# (exists_and_not_regfile in init.c).
NO_FILES = (".", "..", FOLDER)


def reach_of(sections: Iterable[JobSection]) -> LoadAccess:
    """The union over all jobs.  What cannot be told counts as written to.

    ``paths`` are what the jobs name beside the target, in order, each once; a log or iolog
    counts only when it leaves the trial's folder.  Raises UsageError where a job opens thousands
    of files.
    """
    every = tuple(sections)
    paths = [path for each in every for path in (*opened(each), *_others(each))]
    runs = [command for each in every for command in _commands(each)]
    alters = [what for each in every if not _writes(each) for what in _alters(each)]
    extents = [(_extent(each) or 0, _sizes(each)) for each in every]
    extent, sized = max(extents, key=lambda each: each[0], default=(0, ""))
    return LoadAccess(
        reads=any(map(_reads, every)),
        writes=any(map(_writes, every)),
        paths=tuple(dict.fromkeys(paths)),
        runs=tuple(dict.fromkeys(runs)),
        extent=extent,
        sized=sized if extent else "",
        alters=tuple(dict.fromkeys(alters)),
    )


def _last(section: JobSection, option: str, default: str) -> str:
    values = section.values(option)
    return values[-1].partition(":")[0] if values else default


def waits(section: JobSection) -> bool:
    """Whether it begins when all jobs before it have ended."""
    ways = ("stonewall", "wait_for_previous")
    return any(not rules.is_off(value) for way in ways for value in section.values(way)[-1:])


def _writes(section: JobSection) -> bool:
    changes = _last(section, "ioengine", "") in rules.CHANGING_ENGINES
    replays = bool(section.values("read_iolog") or section.values("profile"))
    trims = any(not rules.is_off(value) for o in rules.TRIMS for value in section.values(o))
    zones = _last(section, "zonemode", "") == "zbd"
    asked = _last(section, "rw", "read") not in rules.READS
    return changes or replays or trims or zones or asked


def _reads(section: JobSection) -> bool:
    return _last(section, "rw", "read") not in rules.WRITES or bool(section.values("verify"))


# What happens to a file that is only read.


def spares_all(section: JobSection) -> bool:
    """Whether a job leaves every file as it is, whatever its size, that it finds by itself."""
    own = (option for option in _alters(section) if not option.startswith("opendir="))
    return not _writes(section) and not any(own) and not _extent(section)


def _alters(section: JobSection) -> Iterator[str]:
    """Options that are not known to leave a file as it is."""
    for option, value in section.options:
        off = option in rules.HARMLESS_AT_ZERO and rules.is_off(value)
        none = value in rules.HARMLESS_AT.get(option, ())
        if option not in rules.HARMLESS | rules.COMMAND_OPTIONS and not off and not none:
            yield f"{option}={value}"
    if _extent(section) is None:
        yield _sizes(section)


def _sizes(section: JobSection) -> str:
    return " ".join(f"{o}={value}" for o in _SIZES for value in section.values(o))


_SIZES = ("size", "filesize", "offset", "offset_increment", "numjobs")
_OFFSETS = ("offset", "offset_increment")


def _extent(section: JobSection) -> int | None:
    """How many bytes a file must have that fio is not to make longer; None: it cannot be told.

    An upper bound: the largest size after the furthest offset.  Per cents are of the file, so that
    nobody knows here how far so many bytes behind a share of it go.
    """
    length = _bytes(section, "size"), _bytes(section, "filesize")
    begin = _bytes(section, "offset")
    apart, jobs = _bytes(section, "offset_increment"), _bytes(section, "numjobs", 1)
    if None in (*length, begin, apart, jobs):
        return None
    if any(length) and any("%" in v for o in _OFFSETS for v in section.values(o)):
        return None
    furthest = (begin or 0) + (apart or 0) * max(0, (jobs or 1) - 1)
    return furthest + max(length[0] or 0, length[1] or 0)


def _bytes(section: JobSection, option: str, default: int = 0) -> int | None:
    """The largest of a range; None for what only fio, or the machine, can tell."""
    values = section.values(option)
    if not values:
        return default
    found = [_number(part) for part in re.split(r"[-:,]", values[-1])]
    return None if None in found else max(each or 0 for each in found)


def _number(text: str) -> int | None:
    if percent := _PERCENT.fullmatch(text):
        return 0 if int(percent[1]) <= _WHOLE else None
    match = _SIZE.fullmatch(text)
    return int(match[1]) * 1024 ** " kmgtp".index(match[2].lower() or " ") if match else None


# Names.


def opened(section: JobSection) -> list[str]:
    """The files that fio opens for a job, where it names any itself, or a directory for them.

    Relative ones lie in the folder that fio works in.
    """
    heads = section.heads or (0,) * len(section.options)
    folders: tuple[str, ...] = ()
    found: list[str] = []
    for head in sorted(set(heads)):
        mine = [o for o, at in zip(section.options, heads, strict=True) if at == head]
        for option, value in mine:
            if option == "directory":
                folders = filenames(value)
        names = [n for option, value in mine if option == "filename" for n in filenames(value)]
        found += [_joined(folder, name) for name in names for folder in folders or ("",)]
    found += [folder for value in section.values("opendir") for folder in filenames(value)]
    if found or not folders:
        return found
    return [_joined(folder, name) for folder in folders for name in _derived(section)]


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _derived(section: JobSection) -> list[str]:
    jobs, files = _bytes(section, "numjobs", 1), _bytes(section, "nrfiles", 1)
    if jobs is None or files is None or jobs * files > _MOST_FILES:
        raise UsageError(
            f"[{section.name}] opens too many files in a directory that it names itself",
            advice='Write filename = "target" among the options: the target takes their place.',
        )
    form = _last(section, "filename_format", "")
    if form:
        return [form]
    itself = [section.name] if section.name in NO_FILES else []
    return itself + [f"{section.name}.{job}.{file}" for job in range(jobs) for file in range(files)]


def _others(section: JobSection) -> Iterator[str]:
    for option, value in section.options:
        if option in rules.PATH_OPTIONS and option != "opendir" and "/" in value:
            yield from filenames(value)
        elif option == "mem" and ":" in value:
            yield value.partition(":")[2]


def _commands(section: JobSection) -> list[str]:
    found = [value for name, value in section.options if name in rules.COMMAND_OPTIONS]
    engines = section.values("ioengine")
    found.extend(each for each in engines if each.startswith(("exec", "external:")))
    return found


# -- every problem --------------------------------------------------------------------------------

Problem = tuple[str, str]
# fio's own spellings of a time in seconds; it misreads others silently.
_TIME = re.compile(r"\d+(?:s|m|h|d|[mu]s(?:ec)?)?", re.IGNORECASE)


def problems(workload: Workload, facts: Mapping[str, float]) -> list[Problem]:
    """(option, what is wrong with it); empty when fio will take it."""
    found = list(_options(workload, facts))
    if workload.offered:
        table = rules.option_table()
        said = {table.canonical(name): _plain(value) for name, value in workload.options}
        found.extend(fio_offered.problems(workload.offered, said))
    if workload.jobfile:
        found.extend(_jobfile(workload))
    if not found:
        engine = "psync" if workload.jobfile or workload.offered else "auto"
        found.extend(p for each in sections(workload) for p in _together(each, engine))
    if workload.name.startswith("global") or "/" in workload.name:
        found.append(("name", "a job of fio cannot be named global, nor hold a /: rename it"))
    return list(dict.fromkeys(found))


def sections(workload: Workload) -> tuple[JobSection, ...]:
    """What fio will run, job by job, with canonical names.  Values stay as they were written.

    Raises UsageError for a job file whose content is not all in the study.
    """
    table = rules.option_table()
    own = tuple((table.canonical(n), _plain(v)) for n, v in passed(workload))
    if workload.offered:
        return fio_offered.sections(workload.offered, own)
    if not workload.jobfile:
        return (JobSection(workload.name, own, heads=(0,) * len(own)),)
    file = fio_jobfile.parse(jobfile(workload), f"job file of {workload.name}")
    if file.includes:
        advice = f"put the content of {file.includes[0]} in its place"
        raise UsageError("a job file with include cannot be known beforehand", advice=advice)
    return tuple(
        JobSection(
            each.name,
            (*own, *((table.canonical(n), v) for n, v in each.options)),
            heads=(*(0,) * len(own), *each.heads),
        )
        for each in file.sections
    )


def replaces(workload: Workload) -> bool:
    """Whether the target stands in for every file and device that the job file names."""
    return bool(workload.jobfile) and ("filename", rules.TARGET) in workload.options


def passed(workload: Workload) -> tuple[tuple[str, OptionValue], ...]:
    """The study's options that fio is to see."""
    given = workload.options
    return tuple(o for o in given if o[0] != "filename") if replaces(workload) else given


def jobfile(workload: Workload) -> str:
    """The job file as fio gets it: unchanged, but for the names that the target stands in for."""
    if not replaces(workload):
        return workload.jobfile
    return fio_jobfile.without(workload.jobfile, rules.NAMES_FILES)


def _plain(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _options(workload: Workload, facts: Mapping[str, float]) -> Iterator[Problem]:
    table = rules.option_table()
    seen: set[str] = set()
    for name, value in passed(workload):
        option = table.canonical(name)
        refusal = {**rules.REFUSED, **rules.REFUSED_IN_OPTIONS}.get(option, "")
        if option in seen:
            yield name, f"it is {option}, which is already given: keep one of them"
        elif refusal and not _off(option, _plain(value)):
            yield name, refusal
        elif option not in table.kinds:
            yield name, _unknown(name)
        else:
            yield from _value(option, _plain(value), name)
            try:
                value_text(option, value, facts)
            except IotrialError as error:
                yield name, str(error).replace("\n ", ";")
        seen.add(option)


def _off(option: str, value: str) -> bool:
    return option in rules.HARMLESS_OFF and rules.is_off(value)


def _unknown(name: str) -> str:
    near = rules.option_table().nearest(name)
    hint = f"did you mean {near!r}?" if near else "see fio --cmdhelp=all for all of them"
    return f"fio has no option {name!r}; {hint}"


def _jobfile(workload: Workload) -> Iterator[Problem]:
    try:
        file = fio_jobfile.parse(jobfile(workload))
        known = sections(workload)
    except IotrialError as error:
        yield "jobfile", str(error).replace("\n ", ";")
        return
    for number, what in fio_jobfile.misread(workload.jobfile):
        yield "jobfile", f"line {number}: {what}"
    table = rules.option_table()
    own = {table.canonical(name): name for name, _ in passed(workload)}
    named = [any(map(each.values, rules.NAMES_FILES)) for each in known]
    if any(named) and not all(named):
        yield "jobfile", "some sections name files and some do not: let all do, or none"
    for option, name in own.items():
        if any(option in _canonical(each) for each in file.sections):
            yield name, "the job file sets it too, and would win: take it out of the job file"
    yield from dict.fromkeys(p for each in file.sections for p in _section(each))
    yield from dict.fromkeys(p for each in known for p in (*_named_after(each), *_found_by(each)))


def _named_after(section: JobSection) -> Iterator[Problem]:
    """Where a job names no file, fio names its files after the job, in whatever folder that is; and
    the same with a log.  With several jobs of a section, ``name`` is the name of the first only."""
    data = not section.values("filename") and not section.values("opendir")
    log = any(not value for option in rules.LOGS for value in section.values(option))
    for name in dict.fromkeys((section.name, *section.values("name"))) if data or log else ():
        if "/" in name:
            what = "fio makes a file name of it, which a / leads elsewhere: rename it"
            said = "" if name == section.name else f"name={name}: "
            yield "jobfile", f"[{section.name}] {said}{what}"
    if data and section.name in NO_FILES:
        yield "jobfile", f"[{section.name}] fio would load the folder of that name: rename it"
    for value in section.values("filename_format") if data else ():
        if "/" in value:
            yield "jobfile", f"[{section.name}] filename_format: a / leads elsewhere: take it out"


def _found_by(section: JobSection) -> Iterator[Problem]:
    """fio takes every file that it finds below an ``opendir``, whosever it is."""
    if section.values("opendir") and not spares_all(section):
        what = "the job could change every file that fio finds there: name its files with filename"
        yield "jobfile", f"[{section.name}] opendir: {what}, or only read and give no size"


def _canonical(section: JobSection) -> set[str]:
    return {rules.option_table().canonical(name) for name, _ in section.options}


def _section(section: JobSection) -> Iterator[Problem]:
    table = rules.option_table()
    for name, value in section.options:
        option = table.canonical(name)
        if option in rules.REFUSED and not _off(option, value):
            yield "jobfile", f"[{section.name}] {name}: {rules.REFUSED[option]}"
        elif option not in table.kinds:
            yield "jobfile", f"[{section.name}] {_unknown(name)}"
        else:
            for _, problem in (*_value(option, value, name), *_misread(option, value)):
                yield "jobfile", f"[{section.name}] {name}: {problem}"
        if option in rules.NAMES_FILES and not filenames(value):
            yield "jobfile", f"[{section.name}] {name}: it names nothing: remove it"
        if "$" in value and option in {"filename", "directory", *rules.PATH_OPTIONS}:
            yield "jobfile", f"[{section.name}] {name}: write the path out, without $"


def _misread(option: str, value: str) -> Iterator[Problem]:
    """A job file is passed unchanged.  fio 3.33 reads 0.5 and 0.5s as 0, and, without a word, 1.5
    and 1 min as a second, 1sec and 2min as microseconds."""
    if option not in rules.SECONDS:
        return
    if "." in value:
        yield option, f"fio cuts {value} off at the point; write milliseconds, such as 500ms"
    elif not _TIME.fullmatch(value.rpartition("-")[2]):
        yield option, f"fio does not read {value} as it is meant; write 90s, 500ms, 2m or 1h"


def _value(option: str, value: str, name: str) -> Iterator[Problem]:
    """What can be said of one value by itself."""
    kind = value.partition(":")[0]
    if option == "rw" and kind not in rules.RW:
        yield name, _unknown_rw(value, kind)
    if option == "ioengine" and kind != "auto" and kind not in rules.ENGINES:
        yield (
            name,
            (
                f"{value!r} may reach beyond the target, or execute code; iotrial uses "
                "io_uring, libaio, psync and other engines that work on files"
            ),
        )
    if option == "mem" and ":" in value:
        yield name, "fio would write its buffers over that file: remove it"
    if option in rules.LOGS and "/" in value:
        yield name, "a log stays in the trial's folder: give a name without /"
    if option in rules.SECONDS:
        try:
            rules.duration(value.rpartition("-")[2])
        except UsageError as error:
            yield name, str(error)


def _unknown_rw(value: str, kind: str) -> str:
    near = rules.nearest_rw(kind)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"{value!r} is not one of {', '.join(sorted(rules.RW))}{hint}"


def _together(section: JobSection, default_engine: str) -> Iterator[Problem]:
    """What is wrong only in combination."""
    said = dict(section.options)
    engine, depth = said.get("ioengine", default_engine), said.get("iodepth", "1")
    if engine in rules.SYNCHRONOUS and depth not in {"1", ""}:
        what = (
            f"ioengine={engine} keeps one I/O in flight, and fio ignores iodepth={depth} silently"
        )
        yield "iodepth", f"{what}; use io_uring or libaio, or numjobs"
    if not rules.is_off(said.get("time_based", "0")) and "runtime" not in said:
        yield "time_based", "it needs a runtime"
    if "runtime" in said and not rules.duration(said["runtime"]):
        yield "runtime", "zero seconds: fio would run once over the whole size"


# -- I/Os in flight -------------------------------------------------------------------------------

_ASYNCHRONOUS = ("auto", "io_uring", "io_uring_cmd", "libaio", "posixaio")
_EMPTYING = (
    "rate", "thinktime", "latency_target", "iodepth_", "fsync", "fdatasync", "sync_file_range",
    "end_fsync", "verify", "flow", "startdelay", "read_iolog", "io_size", "serialize_overlap",
    "zonemode", "trim_", "io_submit_mode", "number_ios",
)  # fmt: skip


def depth_of(workload: Workload, facts: Mapping[str, float]) -> int:
    """I/Os in flight of all jobs together; 0 where it does not follow from the options."""
    if workload.jobfile or workload.offered:
        return 0
    try:
        said = dict(resolved(replace(workload, options=passed(workload)), facts))
    except UsageError:
        return 0
    if "runtime" not in said or rules.is_off(said.get("time_based", "1")):
        return 0
    if any(option.startswith(_EMPTYING) for option in said):
        return 0
    deep = said.get("ioengine", "auto") in _ASYNCHRONOUS
    jobs, depth = said.get("numjobs", "1"), said.get("iodepth", "1") if deep else "1"
    return int(jobs) * int(depth) if jobs.isdigit() and depth.isdigit() else 0


# -- what it is to storage ------------------------------------------------------------------------

_BLOCK = 4096
"""fio's own, where the options say none."""


def pattern_of(section: JobSection) -> tuple[bool, bool]:
    """Whether some I/Os of a job are sequential, and whether some are random.  What it replays or
    a mix that it names may be both."""
    if section.values("read_iolog") or section.values("percentage_random"):
        return True, True
    random = _last(section, "rw", "read").startswith("rand")
    return not random, random


def block_of(section: JobSection, facts: Mapping[str, float]) -> int:
    """Bytes of the largest I/O of a job; 0 where only fio can say."""
    said = [v for o in ("bs", "bsrange", "bssplit") for v in section.values(o)[-1:]]
    if not said:
        return _BLOCK
    sizes = [
        _sized(part.partition("/")[0], "bs", facts)
        for text in said
        for part in re.split(r"[-:,]", text)
    ]
    return 0 if 0 in sizes else max(sizes)


def flight_of(known: Iterable[JobSection], facts: Mapping[str, float]) -> int:
    """I/Os in flight at most, of all jobs together, as if none waited for another; 0 where that
    cannot be told.  A rate that is offered has no such limit."""
    total = 0
    for each in known:
        if each.values("rate_process") or each.values("read_iolog"):
            return 0
        deep = _last(each, "ioengine", "auto") in _ASYNCHRONOUS
        depth = _sized(_last(each, "iodepth", "1"), "iodepth", facts) if deep else 1
        jobs = _sized(_last(each, "numjobs", "1"), "numjobs", facts)
        if not depth * jobs:
            return 0
        total += depth * jobs
    return total


def write_rate_of(section: JobSection) -> float:
    """Bytes per second that a job and its clones write at most; infinite where no option, or an
    option that only the machine can tell, says so."""
    if not _writes(section):
        return 0.0
    if _last(section, "rw", "read") in rules.READS or section.values("read_iolog"):
        return math.inf
    jobs, block = _sized(_last(section, "numjobs", "1"), "numjobs", {}), block_of(section, {})
    bytes_, ios = _rate_of_writes(section, "rate"), _rate_of_writes(section, "rate_iops")
    found = [each for each in (bytes_, ios * block) if each]
    return jobs * min(found) if jobs and found else math.inf


def _rate_of_writes(section: JobSection, option: str) -> int:
    """Of ``READS,WRITES,TRIMS``; one alone is of each.  0 where none is said."""
    said = [part for value in section.values(option)[-1:] for part in value.split(",")]
    return (_number(said[1 % len(said)]) or 0) if said else 0


def _sized(text: str, option: str, facts: Mapping[str, float]) -> int:
    """A number of an option, which may be an expression of facts; 0 for what is none."""
    try:
        return _number(value_text(option, text, facts)) or 0
    except IotrialError:
        return 0
