"""Whether a workload can be what fio runs: every problem, with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from iotrial.errors import IotrialError, UsageError
from iotrial.formats.fio import jobfile as fio_jobfile
from iotrial.formats.fio.jobfile import Section, filenames
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import fio_rules as rules
from iotrial.tools.fio_options import value_text
from iotrial.tools.fio_reach import NO_FILES, spares_all

Problem = tuple[str, str]
# fio's own spellings of a time in seconds; it misreads others silently.
_TIME = re.compile(r"\d+(?:s|m|h|d|[mu]s(?:ec)?)?", re.IGNORECASE)


def problems(workload: Workload, facts: Mapping[str, float]) -> list[Problem]:
    """(option, what is wrong with it); empty when fio will take it."""
    found = list(_options(workload, facts))
    if workload.jobfile:
        found.extend(_jobfile(workload))
    if not found:
        engine = "psync" if workload.jobfile else "auto"
        found.extend(p for each in sections(workload) for p in _together(each, engine))
    if workload.name.startswith("global") or "/" in workload.name:
        found.append(("name", "a job of fio cannot be named global, nor hold a /: rename it"))
    return list(dict.fromkeys(found))


def sections(workload: Workload) -> tuple[Section, ...]:
    """What fio will run, job by job, with canonical names.  Values stay as they were written.

    Raises UsageError for a job file whose content is not all in the study.
    """
    table = rules.option_table()
    own = tuple((table.canonical(n), _plain(v)) for n, v in passed(workload))
    if not workload.jobfile:
        return (Section(workload.name, own, heads=(0,) * len(own)),)
    file = fio_jobfile.parse(jobfile(workload), f"job file of {workload.name}")
    if file.includes:
        advice = f"put the content of {file.includes[0]} in its place"
        raise UsageError("a job file with include cannot be known beforehand", advice=advice)
    return tuple(
        Section(
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
            yield name, f"it is {option}, which is there already: keep one of them"
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


def _named_after(section: Section) -> Iterator[Problem]:
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


def _found_by(section: Section) -> Iterator[Problem]:
    """fio takes every file that it finds below an ``opendir``, whosever it is."""
    if section.values("opendir") and not spares_all(section):
        what = "the job could change every file that fio finds there: name its files with filename"
        yield "jobfile", f"[{section.name}] opendir: {what}, or only read and give no size"


def _canonical(section: Section) -> set[str]:
    return {rules.option_table().canonical(name) for name, _ in section.options}


def _section(section: Section) -> Iterator[Problem]:
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
            yield "jobfile", f"[{section.name}] {name}: it names nothing: leave it out"
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
        yield name, "fio would write its buffers over that file: leave it out"
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


def _together(section: Section, default_engine: str) -> Iterator[Problem]:
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
