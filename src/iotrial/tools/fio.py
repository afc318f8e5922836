"""fio, the flexible I/O tester.  A workload's options are fio's own.

What iotrial adds unless the study says otherwise: ``direct=1``; ``ioengine=auto`` (io_uring where
the kernel allows it, else libaio); ``time_based=1`` with a ``runtime``; ``norandommap=1`` for
random I/O with a runtime (a map of a large device costs memory, CPU and start-up time, and a load
that wraps around has no use for it); ``randrepeat=0`` (the same offsets in every trial would be
cached by what lies below after the first).  ``allow_file_create=0`` on devices: as root, fio
makes a regular file in /dev of a device that is gone, and measures memory.

In a directory its files lie in a folder of iotrial's own, ``iotrial-fio``: no file of somebody
else is taken for one of fio's, they are kept for the next trial, and at the end of the study they
go with the folder.  Files that a job file names itself go, too, where they were not there before.

A job file is passed unchanged and gets none of these.  How fio 3.33 combines it with the command
line: options there are ``[global]`` ones, wherever they stand; a section or ``[global]`` of the
file overrides them; but ``filename`` accumulates, so a target on the command line would be loaded
*beside* the files a section names.  Therefore the target is passed only to a job file in which no
section names a file or directory, and an option the file sets too is an error.  With
``filename = "target"`` in the study the target stands in for all names in the job file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from iotrial.errors import UsageError
from iotrial.formats.fio import json_output as fio_json
from iotrial.formats.fio.jobfile import JobSection, cut, escaped
from iotrial.formats.fio.log import OPERATIONS
from iotrial.formats.fio.log import course as fio_course
from iotrial.formats.fio.report import section_names
from iotrial.model.listen import ListenAddress
from iotrial.model.measurement import Measurement, sectioned
from iotrial.model.tool import (
    Leftover,
    Load,
    LoadAccess,
    LoadBarrier,
    LoadSection,
    ParsedOutput,
    RateSeries,
    ToolTarget,
    WorkloadCharacter,
    inside,
)
from iotrial.model.workload import OfferedRates, Workload
from iotrial.tools import fio_offered, fio_server
from iotrial.tools import fio_options as rules
from iotrial.tools.fio_check import (
    block_of,
    depth_of,
    flight_of,
    jobfile,
    opened,
    passed,
    pattern_of,
    problems,
    reach_of,
    sections,
    waits,
    write_rate_of,
)
from iotrial.tools.fio_options import resolved
from iotrial.tools.results import MERGED, result

_OUTPUT = "fio.json"
_FOLDER = "iotrial-fio"
_STARTUP = 0.35  # seconds; 0.3 measured for fio 3.33 (fork, shared memory, the last report)
_OLDEST = (3, 0)
# Only where a study gives no runtime: slow on purpose, since a time-out follows from it.
_SLOW_STREAM, _SLOW_RANDOM = 20e6, 200.0  # bytes/s, I/Os per second
_LOG, _KINDS = "rate", ("bw", "iops")
_WINDOWS = 100  # in a trial, of a log: enough to see a warm-up, few enough to cost nothing
_SHORTEST_WINDOW, _LONGEST_WINDOW = 20, 1000  # ms; fio's helper thread wakes up late by 1 or 2
_BYTES = re.compile(r"\d+[kmgt]?(?:i?b)?", re.IGNORECASE)
_CACHED = ("mmap", "splice")
_COMMON = ("fio", "--output-format=json+", f"--output={_OUTPUT}", "--eta=never")


class Fio:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "fio"
    summary = "flexible I/O tester: random and sequential, any depth, engine and mix"
    program = "fio"
    package = "fio"
    usual = "iops"
    measures = re.compile(
        r"(read|write|trim|mixed|total)\.(iops|bw)|(read|write|trim|mixed)\.bytes|total\.util|"
        r"((read|write|trim|mixed)\.[sc]?lat|sync\.lat)\.(mean|max|sd|p(50|9[059]|99\.99?))|"
        r"(read|write)\.(iops\.within|response\.p\d{1,2}(\.\d+)?)|"
        r"cpu\.(usr|sys|per_io)"
    )

    def check(self, workload: Workload, facts: Mapping[str, float]) -> list[tuple[str, str]]:
        return problems(workload, facts)

    def reach(self, workload: Workload) -> LoadAccess:
        """Raises UsageError for a job file with ``include``, FormatError for one without a job."""
        return reach_of(sections(workload))

    def sectioned(self, workload: Workload) -> tuple[LoadSection, ...]:
        """See :class:`iotrial.model.tool.SupportsSections`: of a job file, or offered rates."""
        if not (workload.jobfile or workload.offered):
            return ()
        found: dict[tuple[str, int], list[JobSection]] = {}
        group = 0
        for section in sections(workload):
            group += waits(section)
            found.setdefault((section.name, group), []).append(section)
        first = next(iter(found))[1]
        return tuple(
            LoadSection(
                name,
                reads=(reach := reach_of(own)).reads,
                writes=reach.writes,
                after=group > first or any(section.values("wait_for") for section in own),
                pooled=True,
            )
            for name, ((_, group), own) in zip(section_names(found), found.items(), strict=True)
            if len(found) > 1
        )

    def unnameable(self, workload: Workload, aimed: ToolTarget) -> str:  # noqa: ARG002 (any load)
        """See :class:`iotrial.model.tool.SupportsPathCheck`.  What stands before our folder is not
        cut."""
        return "" if aimed.kind == "directory" else _cut(aimed.path)

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """Raises UsageError with the first problem :meth:`check` finds, for a path that fio would
        take for another, and for a directory without a size."""
        for option, problem in problems(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        if why := self.unnameable(workload, aimed):
            raise UsageError(f"workload {workload.name}: {why}", advice="Rename it.")
        if aimed.kind == "file":
            _need_known_end(sections(workload), aimed)
        said = dict(resolved(replace(workload, options=passed(workload)), facts))
        if workload.offered:
            return _offering(workload.offered, said, aimed)
        if said.get("ioengine") == "auto" or not ("ioengine" in said or workload.jobfile):
            said["ioengine"] = "io_uring" if facts.get("io_uring") else "libaio"
        if workload.jobfile:
            named = any(map(_names_files, sections(workload)))
            words = {**({} if named else _target(aimed)), **said}
            job = (("job.fio", jobfile(workload).encode()),)
            return Load((*_COMMON, *_spelled(words), "job.fio"), job)
        words = {"name": workload.name, **_target(aimed), **_sized(said, aimed), **said}
        return Load((*_COMMON, *_spelled({**words, **_defaults(said)})))

    def leaves(
        self,
        workload: Workload,
        aimed: ToolTarget,
        facts: Mapping[str, float],  # noqa: ARG002 (names do not depend on the machine)
    ) -> tuple[Leftover, ...]:
        """See :class:`iotrial.model.tool.SupportsLeftovers`.  The files stay for the next trial,
        since laying them out takes long."""
        if aimed.kind != "directory":
            return ()
        known = sections(workload)
        if any(map(_names_files, known)):
            named = (path for each in known for path in opened(each))
            mine = (path for path in named if path.startswith(aimed.path.rstrip("/") + "/"))
            return tuple(Leftover(path, "file", "study") for path in dict.fromkeys(mine))
        return (Leftover(_folder(aimed), "folder", "study"),)

    def lay_out(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """fio makes the files it would read, and writes them, and no more (``create_only``)."""
        load = self.command(workload, aimed, facts)
        before = len(load.argv) - bool(load.files)
        return Load((*load.argv[:before], "--create_only=1", *load.argv[before:]), load.files)

    def buffered(self, workload: Workload) -> str:
        """See :class:`iotrial.model.tool.SupportsCaching`."""
        return next(filter(None, (_buffered(each, workload) for each in sections(workload))), "")

    def depth(self, workload: Workload, facts: Mapping[str, float]) -> int:
        """See :class:`iotrial.model.tool.SupportsQueueing`."""
        return depth_of(workload, facts)

    def character(self, workload: Workload, facts: Mapping[str, float]) -> WorkloadCharacter:
        """See :class:`iotrial.model.tool.SupportsCharacter`."""
        known = sections(workload)
        reach, patterns = reach_of(known), [pattern_of(each) for each in known]
        return WorkloadCharacter(
            reach.reads,
            reach.writes,
            sequential=any(sequential for sequential, _ in patterns),
            random=any(random for _, random in patterns),
            buffered=bool(self.buffered(workload)),
            metadata=False,
            block=max(block_of(each, facts) for each in known),
            depth=flight_of(known, facts),
        )

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """Start-up, and per stage (jobs that run at the same time) start delay, ramp and
        runtime; an upper bound where the size may end it earlier.  Without a runtime: the time a
        slow disk needs for the size."""
        stages: list[float] = [0.0]
        for index, section in enumerate(sections(workload)):
            if index and _waits(section):
                stages.append(0.0)
            stages[-1] = max(stages[-1], _lasting(dict(section.options), aimed))
        return _STARTUP + sum(stages)

    def write_rate(self, workload: Workload) -> float:
        """See :class:`iotrial.model.tool.SupportsWriteRate`: of ``rate`` and ``rate_iops``."""
        return sum(map(write_rate_of, sections(workload)))

    def traced(self, load: Load, workload: Workload) -> Load:
        """See :class:`iotrial.model.tool.SupportsTrace`.  Averages of short windows: a line for
        each I/O would cost CPU and room.  None of offered rates: each client has logs of its own,
        and the rates are known."""
        if workload.offered:
            return load
        lasts = max(rules.duration(v) for s in sections(workload) for v in _runtimes(s))
        window = min(max(round(lasts * 1000 / _WINDOWS), _SHORTEST_WINDOW), _LONGEST_WINDOW)
        logs = (*(f"--write_{kind}_log={_LOG}" for kind in _KINDS), f"--log_avg_msec={window}")
        return replace(load, argv=(*_COMMON, *logs, *load.argv[len(_COMMON) :]))

    def gated(self, load: Load, workload: Workload, gate: LoadBarrier) -> Load | None:
        """See :class:`iotrial.model.tool.SupportsBarrier`.  ``exec_prerun`` is done by each job
        when all else is ready, files laid out and memory held, right before its clock starts
        (thread_main in backend.c, the same from 3.0 to 3.42).  What fio adds to the command, a file
        named like the job, is a comment.  A start delay counts from fio's own start, so that it has
        none."""
        known = sections(workload)
        if any(each.values("startdelay") for each in known):
            return None
        waits = gate.first if any(map(_waits, known[1:])) else gate.every
        words = f"--exec_prerun={waits} #"
        return replace(load, argv=(*_COMMON, words, *load.argv[len(_COMMON) :]))

    def unserved(self, workload: Workload, path: str = "") -> list[tuple[str, str]]:
        """See :class:`iotrial.model.tool.SupportsServer`."""
        own = [(name, str(value)) for name, value in passed(workload)]
        found = [("start", what) for what in fio_server.problems(sections(workload), own)]
        if path and (what := fio_server.unfit(path)):
            found.append(("start", what))
        return list(dict.fromkeys(found))

    def serving(self, listen: ListenAddress | None = None) -> tuple[tuple[str, ...], str]:
        """See :class:`iotrial.model.tool.SupportsServer`."""
        socket = "" if listen else f"{fio_server.FOLDER}/{fio_server.SOCKET}"
        return fio_server.serving(listen), socket

    def client(self, load: Load, listen: ListenAddress | None = None) -> tuple[Load, str]:
        """See :class:`iotrial.model.tool.SupportsServer`."""
        called = listen.address if listen else fio_server.SOCKET
        return fio_server.through_client(load, _COMMON, listen), called

    def unlike(self, here: str, there: str) -> str:
        """See :class:`iotrial.model.tool.SupportsServer`."""
        return fio_server.version_problem(here, there)

    def failure(self, folder: Path) -> str:
        """See :class:`iotrial.model.tool.SupportsServer`."""
        return fio_server.failure(folder, _OUTPUT)

    def own_name(self, name: str, server: str) -> str:
        """See :class:`iotrial.model.tool.SupportsServer`."""
        return fio_server.own_name(name, server)

    def course(self, folder: Path, metric: str) -> RateSeries | None:
        """See :class:`iotrial.model.tool.SupportsTrace`."""
        metric, section = sectioned(metric)
        if section:  # its logs are those of all jobs
            return None
        operation, _, quantity = metric.partition(".")
        kind = quantity if quantity in _KINDS else "iops"
        logs = {path.name: path.read_bytes() for path in sorted(folder.glob(f"{_LOG}_{kind}.*"))}
        return fio_course(logs, kind, operation if operation in OPERATIONS else "")

    def version_problem(self, version: str) -> str:
        found = re.search(r"fio-(\d+)\.(\d+)", version)
        if not found:
            return (
                f"{version.strip()[:60]!r} is not a version of fio: is another program named fio?"
            )
        if (int(found[1]), int(found[2])) >= _OLDEST:
            return ""
        return (
            f"{found[0]} is too old: histograms and nanoseconds came with fio 3.0; install a newer"
        )

    def merge(self, several: Sequence[ParsedOutput]) -> tuple[Measurement, ...]:
        """See :class:`iotrial.model.tool.SupportsMerge`: as if all jobs stood in one report."""
        jobs = [job for each in several if isinstance(each.basis, tuple) for job in each.basis]
        more, _ = fio_offered.derived(jobs, MERGED)
        return (*fio_json.together(several, MERGED), *more)

    def parse(self, folder: Path) -> ParsedOutput:
        found = fio_json.parse(result(folder, _OUTPUT, "fio", what="report"), _OUTPUT)
        jobs = found.basis if isinstance(found.basis, tuple) else ()
        more, doubts = fio_offered.derived(jobs, _OUTPUT)
        measured, told = (*found.measurements, *more), (*found.doubts, *doubts)
        return replace(found, measurements=measured, doubts=told)


TOOL = Fio()


def _offering(offered: OfferedRates, said: Mapping[str, str], aimed: ToolTarget) -> Load:
    """The load of offered rates.  In a directory all clients share one file, by its name: of those
    with one ``filename_format`` only the first does any I/O (3.33)."""
    target = _target(aimed)
    if aimed.kind == "directory":
        target = {"filename": escaped(f"{inside(_folder(aimed))}/data")}
    words = {**target, **_sized(said, aimed), **said, **_defaults(said)}
    text = fio_offered.job_text(offered, [*said.items()])
    return Load((*_COMMON, *_spelled(words), "job.fio"), (("job.fio", text.encode()),))


def _spelled(words: Mapping[str, str]) -> list[str]:
    """Options as arguments; each is one word of an argument vector, whatever it contains."""
    return [f"--{option}={value}" for option, value in words.items()]


def _cut(path: str) -> str:
    found = cut(path)
    return (
        f"fio would open another file than {path!r}: it cuts a name at {found!r}" if found else ""
    )


def _folder(aimed: ToolTarget) -> str:
    return aimed.own(_FOLDER)


def _target(aimed: ToolTarget) -> dict[str, str]:
    if aimed.kind == "directory":
        return {"directory": escaped(inside(_folder(aimed)))}
    if aimed.kind == "device":
        return {"filename": escaped(aimed.path), "allow_file_create": "0"}
    return {"filename": escaped(aimed.path)}


def _sized(said: Mapping[str, str], aimed: ToolTarget) -> dict[str, str]:
    """The size from the target.  In a directory every job has files of its own."""
    if said.keys() & {"size", "filesize"}:
        return {}
    if aimed.kind == "directory":
        if not aimed.size:
            advice = 'set how much each job may use, for example size = "1g"'
            raise UsageError(f"fio needs a size in directory {aimed.path}", advice=advice)
        return {"size": str(aimed.size // max(1, int(_bytes(said.get("numjobs", "1"), 1))))}
    return {"size": _after_offsets(said, aimed)} if aimed.size else {}


def _after_offsets(said: Mapping[str, str], aimed: ToolTarget) -> str:
    """What is left of the target's size behind the furthest offset: fio takes a size from there on,
    and lays a file out anew that is not as long as both together (setup_files, 3.33)."""
    moved = [said[option] for option in ("offset", "offset_increment") if option in said]
    if aimed.kind != "file" or not moved:
        return str(aimed.size)
    if any("%" in each for each in moved):
        return "100%"  # of the file, as it is: up to its end
    if odd := [each for each in moved if not _BYTES.fullmatch(each)]:
        advice = "write it as a number of bytes, such as 1m"
        raise UsageError(f"offset {odd[0]} in {aimed.path} may be beyond its end", advice=advice)
    jobs = max(1, int(_bytes(said.get("numjobs", "1"), 1)))
    away = _bytes(said.get("offset", "0"), 0) + (jobs - 1) * _bytes(
        said.get("offset_increment", "0"), 0
    )
    if away >= aimed.size:
        advice = "take a smaller offset, or a larger file"
        raise UsageError(f"nothing of {aimed.path} is left behind the offset", advice=advice)
    return str(int(aimed.size - away))


def _need_known_end(known: Sequence[JobSection], aimed: ToolTarget) -> None:
    """Refuse a share of the file as the offset of a size in bytes: how far that goes depends on
    how long the file is, and fio lays it out anew where it is too short."""
    for each in known:
        shares = [v for o in ("offset", "offset_increment") for v in each.values(o) if "%" in v]
        sizes = [v for o in ("size", "filesize") for v in each.values(o) if "%" not in v]
        if shares and sizes:
            what = f"{each.name}: {sizes[-1]} bytes behind {shares[-1]} of {aimed.path}"
            raise UsageError(f"{what} may be beyond its end", advice="set the size in %, too")


def _defaults(said: Mapping[str, str]) -> dict[str, str]:
    """What is added to ``said``; never what it says itself."""
    found = {"randrepeat": "0"}
    if not said.keys() & {"direct", "buffered", "atomic"}:
        found["direct"] = "1"
    if "runtime" in said:
        found["time_based"] = "1"
        if said.get("rw", "read").startswith("rand") and "verify" not in said:
            found["norandommap"] = "1"
    return {option: value for option, value in found.items() if option not in said}


def _names_files(section: JobSection) -> bool:
    return any(section.values(option) for option in ("filename", "directory", "opendir"))


def _buffered(section: JobSection, workload: Workload) -> str:
    """A job file is passed as it is, and fio's own default is buffered; else ours counts."""
    said = dict(section.options)
    if said.get("ioengine") in _CACHED:
        return f"ioengine={said['ioengine']}"
    if "buffered" in said:
        return "" if rules.is_off(said["buffered"]) else f"buffered={said['buffered']}"
    if not rules.is_off(said.get("atomic", "0")):
        return ""
    direct = said.get("direct", "0" if workload.jobfile else "1")
    return f"job {section.name} has direct={direct}" if rules.is_off(direct) else ""


def _runtimes(section: JobSection) -> tuple[str, ...]:
    return tuple(section.values("runtime")) or ("0",)


def _waits(section: JobSection) -> bool:
    """Whether it begins only after those before it."""
    return any(not rules.is_off(value) for value in section.values("stonewall")) or bool(
        section.values("wait_for")
    )


def _lasting(options: Mapping[str, str], aimed: ToolTarget) -> float:
    delay = rules.duration(options.get("startdelay", "0").rpartition("-")[2])
    ramp = rules.duration(options.get("ramp_time", "0"))
    if "runtime" in options:
        return delay + ramp + rules.duration(options["runtime"])
    return delay + ramp + _guess(options, aimed)


def _guess(options: Mapping[str, str], aimed: ToolTarget) -> float:
    size = _bytes(options.get("io_size", options.get("size", "")), aimed.size) or aimed.size
    if options.get("rw", "read").startswith("rand"):
        block = _bytes(options.get("bs", "4k"), 0) or 4096
        return size / block / _SLOW_RANDOM
    return size / _SLOW_STREAM


def _bytes(text: str, whole: float) -> float:
    """A size as fio spells it; a percentage is of ``whole``; 0 for what cannot be told."""
    match = re.match(r"(\d+(?:\.\d+)?)\s*([kmgtKMGT%]?)", text)
    if not match:
        return 0.0
    if match[2] == "%":
        return whole * float(match[1]) / 100
    return float(match[1]) * 1024.0 ** " kmgt".index(match[2].lower() or " ")


_OURS = ("output", "output-format", "eta", "log_avg_msec", "write_bw_log", "write_iops_log")
"""What iotrial asks of fio for itself."""


def job_of(
    loads: Mapping[str, Sequence[str]], heading: Sequence[str], instead: Mapping[str, str]
) -> str:
    """A job file that does what a trial's command did, for people to use.

    ``loads`` are fio's commands, each a section of that name, which fio executes at the same time;
    ``heading`` lines of comment, ``instead`` options that get another value than the command's
    (added where it has none).
    """
    lines = [f"# {line}" for line in heading]
    for name, argv in loads.items():
        said: dict[str, str] = {}
        for word in argv[1:]:
            if word.startswith("--"):
                option, _, value = word[2:].partition("=")
                if option not in (*_OURS, "name"):
                    said[option] = value
        said |= instead
        lines += [f"[{name}]", *(f"{key}={value}" for key, value in said.items())]
    return "\n".join([*lines, ""])
