"""What iotrial knows of fio's options: their names, those it will not pass on, with why, and a
workload's own as fio's command line wants them: canonical names, plain values.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from iotrial.errors import UsageError
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.expression import evaluate
from iotrial.units import parse_bytes, parse_seconds

Kind = Literal["text", "number", "switch", "time"]


@dataclass(frozen=True, slots=True)
class OptionTable:
    """``kinds`` maps each option to its kind; ``aliases`` a second name to the first."""

    kinds: Mapping[str, Kind]
    aliases: Mapping[str, str]

    def canonical(self, name: str) -> str:
        return self.aliases.get(name, name)

    def nearest(self, name: str) -> str:
        names = [*self.kinds, *self.aliases]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        return near[0] if near else ""


@cache
def option_table() -> OptionTable:
    """fio's job options, from ``fio_options.txt``."""
    kinds: dict[str, Kind] = {}
    aliases: dict[str, str] = {}
    for line in (files(__package__) / "fio_options.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, kind, *others = line.split()
            kinds[name] = kind  # type: ignore[assignment]  # one of Kind, a test makes sure
            aliases.update(dict.fromkeys(others, name))
    return OptionTable(kinds, aliases)


READS = frozenset({"read", "randread"})
WRITES = frozenset({"write", "randwrite", "trim", "randtrim", "trimwrite", "randtrimwrite"})
MIXES = frozenset({"rw", "readwrite", "randrw"})
RW = READS | WRITES | MIXES


def nearest_rw(word: str) -> list[str]:
    """Values of rw that ``word`` may mean, the nearest first: random in order, and trim, only
    for a word that says so."""
    short = word.lower()
    known = [
        name
        for name in sorted(RW)
        if ("rand" in name) == ("ran" in short) and ("trim" in name) == ("trim" in short)
    ]
    return difflib.get_close_matches(short, known, n=3, cutoff=0.5)


# Engines whose I/O goes to the files they are given, and nowhere else.
ENGINES = frozenset({
    "sync", "psync", "vsync", "pvsync", "pvsync2", "io_uring", "io_uring_cmd", "libaio",
    "posixaio", "mmap", "splice", "sg", "falloc", "ftruncate", "filecreate", "filestat",
    "filedelete", "e4defrag", "null", "cpuio", "dev-dax", "libpmem", "mtd", "libzbc", "xnvme",
    "dircreate", "dirstat", "dirdelete",
})  # fmt: skip
# They wait for each I/O: fio 3.33 silently runs them at depth 1, whatever iodepth says.
SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"})
# They change files without any rw option saying so; libpmem sets their length as it opens them.
CHANGING_ENGINES = frozenset({
    "libpmem", "falloc", "ftruncate", "filecreate", "filedelete", "e4defrag", "dircreate",
    "dirdelete",
})  # fmt: skip

# Options that name a file or device, beside filename and directory.
PATH_OPTIONS = frozenset({
    "opendir", "lockfile", "replay_redirect", "write_iolog", "write_bw_log", "write_lat_log",
    "write_iops_log", "write_hist_log", "merge_blktrace_file", "filename_format", "donorname",
})  # fmt: skip
# Those of them that fio writes to.
LOGS = frozenset({
    "write_iolog", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log",
    "merge_blktrace_file", "donorname",
})  # fmt: skip
# Options that have blocks discarded, or zones reset, whatever rw says.
TRIMS = frozenset({
    "trim_percentage", "trim_backlog", "trim_backlog_batch", "zone_reset_frequency",
    "zone_reset_threshold",
})  # fmt: skip
# Options with which a load that reads a file, of the size it needs, leaves it as it is (fio 3.33,
# filesetup.c and backend.c): those that say how I/O is asked for, timed, counted and told.  What a
# newer fio adds is not known, until it is entered here.
HARMLESS = frozenset({
    "allow_file_create", "allrandrepeat", "ba", "block_error_percentiles", "bs", "bs_is_seq_rand",
    "bs_unaligned", "bsrange", "bssplit", "buffer_compress_chunk", "buffer_compress_percentage",
    "buffer_pattern", "buffered", "bwavgtime", "clat_percentiles", "clocksource", "cmdprio",
    "cmdprio_bssplit", "cmdprio_class", "cmdprio_hint", "cmdprio_percentage", "continue_on_error",
    "cpuchunks", "cpuload", "cpumask", "cpumode", "cpus_allowed", "cpus_allowed_policy",
    "create_fsync", "create_serialize", "dedupe_global", "dedupe_mode", "dedupe_percentage",
    "dedupe_working_set_percentage", "description", "direct", "directory",
    "disable_bw_measurement", "disable_clat", "disable_lat", "disable_slat", "disk_util",
    "end_fsync", "error_dump", "exit_on_io_done", "exit_what", "exitall", "exitall_on_error",
    "fadvise_hint", "fdatasync", "file_service_type", "filename", "filesize", "fixedbufs", "flow",
    "flow_id", "flow_sleep", "force_async", "fsync", "fsync_on_close", "grace_time",
    "group_reporting", "gtod_cpu", "gtod_reduce", "hipri", "hipri_percentage", "hugepage-size",
    "ignore_error", "invalidate", "io_size", "io_submit_mode", "iodepth", "iodepth_batch",
    "iodepth_batch_complete_max", "iodepth_batch_complete_min", "iodepth_low", "ioengine",
    "iomem_align", "iopsavgtime", "job_start_clock_id", "kb_base", "lat_percentiles",
    "latency_percentile", "latency_run", "latency_target", "latency_window", "libaio_vectored",
    "lockfile", "lockmem", "log_alternate_epoch", "log_alternate_epoch_clock_id", "log_avg_msec",
    "log_compression", "log_compression_cpus", "log_entries", "log_hist_coarseness",
    "log_hist_msec", "log_issue_time", "log_max_value", "log_offset", "log_prio",
    "log_store_compressed", "log_unix_epoch", "log_window_value", "loops", "max_latency", "mem",
    "name", "new_group", "nice", "nonvectored", "norandommap", "nowait", "numa_cpu_nodes",
    "numa_mem_policy", "number_ios", "numjobs", "offset", "offset_align", "offset_increment",
    "openfiles", "per_job_logs", "percentage_random", "percentile_list", "pre_read", "prio",
    "prioclass", "priohint", "ramp_size", "ramp_time", "random_distribution", "random_generator",
    "random_sequence_stride", "randrepeat", "randseed", "rate", "rate_cycle",
    "rate_ignore_thinktime", "rate_iops", "rate_iops_min", "rate_min", "rate_process",
    "refill_buffers", "registerfiles", "runtime", "rw", "rw_sequencer", "rwmixread", "rwmixwrite",
    "scramble_buffers", "serialize_overlap", "significant_figures", "size", "slat_percentiles",
    "softrandommap", "sqthread_poll", "sqthread_poll_cpu", "startdelay", "stats", "steadystate",
    "steadystate_check_interval", "steadystate_duration", "steadystate_ramp_time", "stonewall",
    "sync", "thinkcycles", "thinktime", "thinktime_blocks", "thinktime_blocks_type",
    "thinktime_iotime", "thinktime_spin", "thp", "thread", "time_based", "unified_rw_reporting",
    "unique_filename", "unit_base", "uncached", "userspace_reap", "wait_for", "write_bw_log",
    "write_hint", "write_hist_log", "write_iops_log", "write_lat_log", "zero_buffers",
})  # fmt: skip
# The others that a 0 turns off.
HARMLESS_AT_ZERO = frozenset({
    "atomic", "create_on_open", "do_verify", "file_append", "overwrite", "unlink",
    "unlink_each_loop", "verify_only", "verify_state_save", "verify_state_load",
})  # fmt: skip
# Those that only some values make harmless: what fio does without them.
HARMLESS_AT: Mapping[str, frozenset[str]] = {
    "fallocate": frozenset({"none", "0"}),
    "nrfiles": frozenset({"1"}),
    "zonemode": frozenset({"none"}),
}
COMMAND_OPTIONS = frozenset({"exec_prerun", "exec_postrun", "program"})

_EXECUTES = "it would execute a command; iotrial runs nothing but the load"
_TARGETS = "what the load is aimed at is the study's: say it under [targets]"

# Refused wherever they stand, in a study's options and in a job file.
REFUSED: Mapping[str, str] = {
    "exec_prerun": _EXECUTES,
    "exec_postrun": _EXECUTES,
    "program": _EXECUTES,
    "arguments": _EXECUTES,
    "ioscheduler": "fio sets the scheduler and never puts it back: make queue.scheduler a factor",
    "cgroup": "it changes the host's cgroups and leaves them behind",
    "cgroup_weight": "it changes the host's cgroups and leaves them behind",
    "cgroup_nodelete": "it changes the host's cgroups and leaves them behind",
    "fill_device": "it writes until no space is left: give a size or a runtime",
    "create_only": "it measures nothing; iotrial lays out files itself",
    "allow_mounted_write": "iotrial never writes to a mounted device: make a file the target",
    "profile": "a profile replaces the options, so it is not possible to tell what it writes to",
    "read_iolog": "a replayed log says itself what is written to: iotrial cannot check it",
    "verify_only": "it measures nothing",
}
TARGET = "target"
"""filename = "target" beside a job file: the target in place of every name in it."""
NAMES_FILES = frozenset({"filename", "directory", "opendir"})

# Refused in a study's options only: there, targets and iotrial say it.
REFUSED_IN_OPTIONS: Mapping[str, str] = {
    "filename": _TARGETS,
    "directory": _TARGETS,
    "opendir": _TARGETS,
    "filename_format": _TARGETS,
    "output": "iotrial keeps fio's whole output in the trial's folder",
    "output-format": "iotrial asks for json+, the only format with histograms",
    "name": "the workload's name is the job's name",
    "stonewall": "one workload is one job: make a second workload, or use a jobfile",
    "wait_for": "one workload is one job: make a second workload, or use a jobfile",
}
# Names that can be taken for a switch off or a zero: then there is nothing to refuse.
HARMLESS_OFF = frozenset({
    "fill_device", "create_only", "allow_mounted_write", "verify_only", "stonewall",
})  # fmt: skip

# fio takes seconds here, and cuts fractions off: 0.5 and 0.5s are 0 (fio 3.33).
SECONDS = frozenset({
    "runtime", "ramp_time", "startdelay", "steadystate_duration", "steadystate_ramp_time",
})  # fmt: skip


def is_off(value: str) -> bool:
    return value.strip() == "0"


def duration(text: str) -> float:
    """A time in seconds: ``10``, ``2s``, ``500ms``, ``100usec``, ``1 min``.

    Raises :class:`~iotrial.errors.UsageError`, quoting the text as it was written.
    """
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise UsageError(str(error)) from error


def spelled(seconds: float) -> str:
    """Seconds as fio reads them without loss: whole seconds, else milliseconds, else µs."""
    microseconds = round(seconds * 1e6)
    for unit, step in (("s", 1_000_000), ("ms", 1_000)):
        if microseconds % step == 0:
            return f"{microseconds // step}{unit}"
    return f"{microseconds}us"


# fio's own numbers: 32, 4k, 50%, 4k-16k, 4k,64k, 0x10, 70:30.  Anything else is an expression.
_UNIT = r"(?:[kmgtpe]i?b?|[bdhsz%]|[mun]s(?:ec)?)?"
_PART = rf"[-+]?(?:0x[0-9a-f]+|\d+(?:\.\d+)?{_UNIT})"
_LITERAL = re.compile(rf"(?:{_PART})?(?:[-,:/](?:{_PART})?)*", re.IGNORECASE)
_IEC = re.compile(r"(?<![\w.])\d+(?:\.\d+)?\s?[kmgtKMGT]iB\b")


def resolved(workload: Workload, facts: Mapping[str, float]) -> list[tuple[str, str]]:
    """(option, value) in the study's order.  Raises :class:`~iotrial.errors.UsageError`."""
    table = option_table()
    return [
        (table.canonical(name), value_text(table.canonical(name), value, facts))
        for name, value in workload.options
    ]


def value_text(option: str, value: OptionValue, facts: Mapping[str, float]) -> str:
    """One value as fio reads it; ``option`` is canonical.

    true and false are 1 and 0, durations get a unit (fio cuts fractions of a second off),
    expressions get their value, and sizes in KiB, MiB … become bytes: fio 3 reads 64MiB as
    64,000,000 (kb_base=1024, for the sake of old job files), and 64m as 67,108,864.
    Raises :class:`~iotrial.errors.UsageError`.
    """
    if isinstance(value, bool):
        return "1" if value else "0"
    text = str(value)
    if not text.isprintable():
        raise UsageError(f"{text!r} holds a character that cannot be shown")
    if "$" in text:
        raise UsageError(f"{text!r}: fio would put a shell or the environment to work; use cpus")
    if option_table().kinds.get(option) == "number" or option.startswith("bs"):
        text = _IEC.sub(lambda found: str(parse_bytes(found[0])), text)
    if option in SECONDS:
        # Only a start delay may be a range, from which fio draws.
        parts = text.split("-") if option == "startdelay" else [text]
        return "-".join(spelled(duration(part)) for part in parts)
    if option_table().kinds.get(option) == "number" and not _LITERAL.fullmatch(text):
        return _whole(text, facts)
    return text


def _whole(text: str, facts: Mapping[str, float]) -> str:
    number = evaluate(text, facts)
    if 0 < number < 1:
        raise UsageError(f"{text!r} is {number:g} here: less than one")
    return str(math.floor(number))
