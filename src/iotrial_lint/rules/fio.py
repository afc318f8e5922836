"""Job files of fio."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.tools.fio_options import RW, SYNCHRONOUS, nearest_rw, option_table
from iotrial.units import format_bytes
from iotrial_lint.known import fio_options
from iotrial_lint.parsers.fio import FioSection, alike, by_entry, jobs, own, seconds
from iotrial_lint.rule import ConfigFile, LintContext, RuleMessage, at, rule, since


@rule(
    "fio-depth-ignored",
    "iodepth with a synchronous engine",
    "warning",
    ("fio",),
    reason="Engines that wait for each I/O keep one in flight; fio ignores iodepth without a word.",
    source="fio(1): iodepth; fio 3.33, tried out",
    fix="ioengine=io_uring or libaio; or numjobs",
)
def fio_depth_ignored(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """A depth for an engine that keeps one I/O in flight."""
    found = [job for job in jobs(sheet) if job.engine in SYNCHRONOUS]
    deep = [job for job in found if job.value("iodepth") not in ("", "0", "1")]
    for line, group in by_entry((job.entry("iodepth"), job) for job in deep):
        what = f"ioengine={group[0].engine} keeps one I/O in flight"
        yield RuleMessage(line, f"{alike(group)} iodepth", what)


_SIZE = re.compile(r"\b(\d+)\s?([kKmM])(?:i?[bB])?\b")


@rule(
    "fio-description",
    "a description that does not fit",
    "note",
    ("fio",),
    reason="What was copied and changed keeps its old description, and reports are labelled by it.",
    source="fio(1): description",
    fix="Describe in it what the job does.",
)
def fio_description(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """A description that says another block size."""
    for job in jobs(sheet):
        where, size = job.entry("description"), job.value("bs")
        found = _SIZE.search(where.value) if where else None
        said = f"{found[1]}{found[2]}".lower() if found else ""
        if where and said and size.isalnum() and said != size.lower().removesuffix("ib"):
            yield at(where, f"{where.value!r}, and bs={size}")


_ALWAYS = ("/dev/shm", "/run/shm")  # noqa: S108 (names in job files)


@rule(
    "fio-in-memory",
    "direct I/O on a filesystem in memory",
    "warning",
    ("fio",),
    reason=(
        "tmpfs refuses O_DIRECT before 6.6 (Invalid argument) and ignores it from then on: there"
        " is no disk below it."
    ),
    source="mm/shmem.c, commit e88e0d366f9c (6.6); open(2): O_DIRECT",
    fix="Name a folder on the filesystem that is to be measured.",
)
def fio_in_memory(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Jobs on a filesystem in memory."""
    places = (*_ALWAYS, *scene.memory_mounts)
    for job in jobs(sheet):
        for path in job.paths():
            if job.does_files and any(path == at or path.startswith(f"{at}/") for at in places):
                what = "from 6.6 on direct I/O means nothing there"
                if not since(scene, 6, 6):
                    what = "the kernel refuses direct I/O there"
                word = what if job.direct else "it is memory"
                yield RuleMessage(job.line, f"[{job.name}]", f"{path} lies in memory: {word}")


@rule(
    "fio-libaio-buffered",
    "libaio without direct=1",
    "warning",
    ("fio",),
    reason=(
        "Buffered I/O by libaio is not asynchronous: io_submit waits for each, and iodepth is 1 in"
        " truth, whatever it says."
    ),
    source="fio(1): ioengine libaio; io_submit(2)",
    fix="direct=1, or ioengine=io_uring",
)
def fio_libaio_buffered(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """libaio without direct I/O."""
    found = [job for job in jobs(sheet) if job.engine == "libaio" and not job.direct]
    for line, group in by_entry((job.entry("ioengine"), job) for job in found):
        yield RuleMessage(
            line, alike(group), "buffered I/O waits for each I/O, whatever iodepth says"
        )


@rule(
    "fio-no-ramp",
    "writes without ramp_time",
    "note",
    ("fio",),
    reason=(
        "The first seconds of writes go into caches of the device and into free flash: they are"
        " faster than what follows, and are averaged with it."
    ),
    source=(
        "fio(1): ramp_time; SNIA Solid State Storage Performance Test Specification"
        " (preconditioning)"
    ),
    fix="ramp_time=30s, or check the first seconds apart",
)
def fio_no_ramp(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Writes that are measured from the first second."""
    found = [job for job in jobs(sheet) if job.writes and job.does_files]
    timed = [job for job in found if job.on("time_based") and job.value("runtime")]
    cold = [job for job in timed if not job.value("ramp_time")]
    if cold:
        what = "writes are measured from the first I/O on"
        yield RuleMessage(cold[0].line, alike(cold), what)


@rule(
    "fio-not-direct",
    "no direct=1",
    "warning",
    ("fio",),
    reason=(
        "Without direct=1 reads come from the page cache and writes go into it: what is measured"
        " is memory, and when the kernel writes back."
    ),
    source="fio(1): direct, which is 0 by default; open(2): O_DIRECT",
    fix="direct=1",
)
def fio_not_direct(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Jobs that go through the page cache."""
    found = [job for job in jobs(sheet) if _cached(job)]
    for line, group in by_entry(
        (job.entry("direct") or job.entry("buffered"), job) for job in found
    ):
        yield RuleMessage(line, alike(group), "there is no direct=1: the page cache is measured")


def _cached(job: FioSection) -> bool:
    kept = any(map(job.on, ("sync", "fsync", "fdatasync", "end_fsync", "atomic")))
    # Of mmap that is the point; of libaio there is a rule of its own.
    return job.does_files and job.engine not in ("mmap", "libaio") and not job.direct and not kept


@rule(
    "fio-pattern",
    "a kind of I/O that fio does not know",
    "error",
    ("fio",),
    reason="fio refuses the job file (bad option value).",
    source="fio(1): rw",
    fix="Use one of read, write, randread, randwrite, rw, randrw, trim and the like.",
)
def fio_pattern(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Kinds of I/O that fio does not know."""
    for entry in own(sheet):
        kind = entry.value.partition(":")[0]
        if entry.name == "rw" and kind not in RW and "$" not in kind:
            near = nearest_rw(kind)
            hint = f"; the nearest is {near[0]}" if near else ""
            yield RuleMessage(entry.line, entry.key, f"there is no {kind[:40]!r}{hint}")


_FEW = 3


@rule(
    "fio-runtimes",
    "jobs that run for different times",
    "note",
    ("fio",),
    reason=(
        "Jobs that are compared should have run alike: a shorter one has more of its beginning in"
        " its average.  One that differs from all others is often a slip of the pen."
    ),
    source="fio(1): runtime",
    fix="Let them run for the same time.",
)
def fio_runtimes(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Jobs of one file that run for different times."""
    timed = [(job, where) for job in jobs(sheet) if (where := job.entry("runtime"))]
    lengths = [seconds(where.value) for _, where in timed]
    if len(timed) < _FEW or len(set(lengths)) != 2:  # noqa: PLR2004 (one, and the others)
        return
    for (job, where), length in zip(timed, lengths, strict=True):
        if lengths.count(length) == 1:
            others = next(other.value for _, other in timed if other.value != where.value)
            yield at(where, f"[{job.name}] runs for {where.value}, all others for {others}")


@rule(
    "fio-same-section",
    "two jobs of one name",
    "warning",
    ("fio",),
    reason="fio runs both.  Its output, and what reads it, cannot tell one from the other.",
    source="fio(1), job file format; fio 3.33, tried out",
    fix="Give each job a name of its own.",
)
def fio_same_section(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Two jobs of one name."""
    seen: dict[str, int] = {}
    for line, name in sheet.sections:
        if name in seen:
            yield RuleMessage(
                line, f"[{name}]", f"line {seen[name]} has a job of this name already"
            )
        seen.setdefault(name, line)


@rule(
    "fio-shared-file",
    "many jobs that write one file from its start",
    "warning",
    ("fio",),
    reason=(
        "Jobs of one section with one filename begin at the same offset: sequential writers"
        " overwrite each other, and what they overwrite is in a cache."
    ),
    source="fio(1): numjobs, filename, offset_increment",
    fix="offset_increment=, or a filename for each job",
)
def fio_shared_file(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Many jobs that write one file."""
    for job in jobs(sheet):
        apart = any(map(job.entry, ("offset_increment", "filename_format", "zonemode")))
        many = job.number("numjobs", 1) > 1 and job.paths() and job.entry("filename")
        if many and job.rw in ("write", "rw", "readwrite", "trimwrite") and not apart:
            what = f"{job.number('numjobs', 1)} jobs write the same places of one file"
            yield RuleMessage(job.line, f"[{job.name}]", what)


@rule(
    "fio-smaller-than-memory",
    "a buffered file that fits into memory",
    "warning",
    ("fio",),
    reason="Files that fit into memory are read once, and from memory ever after.",
    source="fio(1): size, direct, invalidate",
    fix="Take twice the memory, or direct=1.",
)
def fio_smaller_than_memory(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Buffered jobs whose files fit into memory."""
    found = [(job.entry("size"), job) for job in jobs(sheet) if 0 < _size(job) < scene.memory]
    for line, group in by_entry(found):
        size, memory = format_bytes(_size(group[0])), format_bytes(scene.memory)
        yield RuleMessage(line, alike(group), f"{size} fit into {memory} of memory")


def _size(job: FioSection) -> int:
    """Bytes that it may keep in the page cache; 0 where it does not, or nobody knows."""
    if job.direct or not job.does_files:
        return 0
    return job.size("size") * max(1, job.number("numjobs", 1))


@rule(
    "fio-time-without-runtime",
    "time_based without runtime",
    "error",
    ("fio",),
    reason="fio says that time_based requires a runtime, and runs once over the size instead.",
    source="fio init.c: fixup_options(); fio(1): time_based",
    fix="runtime=60s",
)
def fio_time_without_runtime(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """time_based without a runtime."""
    found = [job for job in jobs(sheet) if job.on("time_based")]
    endless = [job for job in found if job.value("runtime", "0") in ("0", "0s")]
    for line, group in by_entry((job.entry("time_based"), job) for job in endless):
        yield RuleMessage(line, f"{alike(group)} time_based", "there is no runtime")


@rule(
    "fio-unknown",
    "an option that fio does not have",
    "error",
    ("fio",),
    reason="fio refuses the whole job file (Bad option).",
    source="fio --cmdhelp=all of fio 3.33, and options of later releases",
    fix="Take the real name.",
)
def fio_unknown(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Options that fio does not have."""
    table = option_table()
    for entry in own(sheet):
        if entry.name in table.kinds or entry.key in fio_options():
            continue
        if not entry.key or any(mark in entry.key for mark in "$:"):
            continue
        near = table.nearest(entry.key)
        hint = f"; the nearest is {near}" if near else ""
        yield RuleMessage(entry.line, entry.key, f"fio has no such option{hint}")


@rule(
    "fio-verify-without-map",
    "norandommap with verify",
    "warning",
    ("fio",),
    reason=(
        "Without a map of what was written a block may be written twice: with more than one I/O in"
        " flight the order is not known, and fio reports errors that are none, or checks less."
    ),
    source="fio(1): norandommap, verify",
    fix="Take norandommap out, or random_generator=lfsr",
)
def fio_verify_without_map(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Verifying random writes without a map."""
    for job in jobs(sheet):
        where = job.entry("norandommap")
        checks = job.value("verify", "0") not in ("0", "") or job.on("do_verify")
        if where and job.on("norandommap") and checks and job.value("random_generator") != "lfsr":
            yield at(where, f"[{job.name}] verifies what it wrote")


@rule(
    "fio-writes-device",
    "a job that writes to a device",
    "warning",
    ("fio",),
    reason=(
        "fio does not ask: the content of the device is lost.  A mounted one it refuses, one"
        " that LVM, md or multipath hold it does not."
    ),
    source="fio(1): allow_mounted_write; fio filesetup.c",
    fix="Let a study name the target: iotrial looks who uses it before anything is written.",
)
def fio_writes_device(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Jobs that write to a device by name."""
    found: dict[str, list[FioSection]] = {}
    for job in jobs(sheet):
        if job.writes:
            for path in job.paths():
                if path.startswith("/dev/") and not _harmless(path):
                    found.setdefault(path, []).append(job)
    places: dict[tuple[FioSection, ...], list[str]] = {}
    for path, named in found.items():
        places.setdefault(tuple(named), []).append(path)
    for writers, paths in places.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        what = f"{writers[0].rw} destroys what is on {paths[0]}{more}"
        yield RuleMessage(writers[0].line, alike(writers), what)


def _harmless(path: str) -> bool:
    return path in ("/dev/null", "/dev/zero") or path.startswith(("/dev/shm/", "/dev/dax"))  # noqa: S108 (a name in a job file)
