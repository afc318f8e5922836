"""IOzone's phases as jobs of fio, for machines that have no IOzone, where the study says so.

One after another on the same files, ``ioengine=sync`` (read and write) or ``psync`` (pread and
pwrite), each phase over the whole file in whole records, one file for each process, removed by
the last phase.  What is another thing in fio: the phases of stdio (fwrite, fread) and rewriting
one record do not exist; a stride passes the file once; fio's processes do not stop when the first
is done.  So a doubt labels every trial, and such numbers are compared with each other only.

Metrics have IOzone's names (``random_read.bw``), with fio's quantities.

Sources: fio(1) (``rw``, ``ddir_seq_add``: ``read:-8k`` reads backwards), iozone(1); seen with
fio 3.33.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrial.errors import FormatError
from iotrial.formats.fio import json_output as fio_json
from iotrial.formats.fio.jobfile import escaped, unwritable
from iotrial.model.measurement import Measurement
from iotrial.model.tool import Load, Parsed
from iotrial.model.trial import Doubt
from iotrial.tools.result import result

JOBS = "iozone.fio"
_OUTPUT = "fio.json"
_STRIDE = 17  # records from one to the next; IOzone's default
_PHASES = {
    "write": ("write", "rewrite"),
    "read": ("read", "reread"),
    "random": ("random_read", "random_write"),
    "backward": ("backward_read",),
    "stride": ("stride_read",),
    "mixed": ("mixed",),
    "pwrite": ("pwrite",),
    "pread": ("pread",),
}
_AGAIN = "repeat the trial: fio did not end by itself"


@dataclass(frozen=True, slots=True)
class Phases:
    """What IOzone would have been told.  Sizes in bytes; ``mix_read`` in percent."""

    operations: tuple[str, ...]
    threads: int
    size: int
    record: int
    direct: bool
    flush: bool
    mix_read: int


def missing(operations: Sequence[str]) -> list[str]:
    """The operations that fio has no counterpart of."""
    return [each for each in operations if each not in _PHASES]


def unfit(directory: str, name: str) -> str:
    """Why a job file cannot name such files in ``directory``, or would name others; '' it can."""
    found = unwritable(directory) or unwritable(f"{name}.0")
    if not found:
        return ""
    return f"fio would load other files than {directory}/{name}.0: {found!r} is in their path"


def load(phases: Phases, directory: str, name: str) -> Load:
    """The files are ``name.0`` and so on in ``directory``."""
    lines = [
        "[global]",
        f"directory={escaped(directory)}",
        f"filename_format={name}.$jobnum",
        f"size={phases.size}",
        f"bs={phases.record}",
        f"numjobs={max(1, phases.threads)}",
        f"direct={int(phases.direct)}",
        f"end_fsync={int(phases.flush)}",
        "group_reporting=1",
        "randrepeat=0",
        "fallocate=none",
        "ioengine=sync",
    ]
    steps = [step for each in phases.operations for step in _PHASES[each]]
    for at, step in enumerate(steps, 1):
        lines += [f"[{step}]", "stonewall", *_job(step, phases)]
        lines += ["unlink=1"] if at == len(steps) else []
    argv = ("fio", "--output-format=json+", f"--output={_OUTPUT}", "--eta=never", JOBS)
    return Load(argv, ((JOBS, ("\n".join(lines) + "\n").encode()),))


def _job(step: str, phases: Phases) -> list[str]:
    if step == "backward_read":
        return [f"rw=read:-{2 * phases.record}"]
    if step == "stride_read":
        records = phases.size // phases.record
        stops = -(-records // _STRIDE)
        return [f"rw=read:{(_STRIDE - 1) * phases.record}", f"io_size={stops * phases.record}"]
    if step == "mixed":
        return ["rw=randrw", f"rwmixread={phases.mix_read}", "unified_rw_reporting=1"]
    engine = ["ioengine=psync"] if step in ("pwrite", "pread") else []
    kinds = {"random_read": "randread", "random_write": "randwrite"}
    kind = kinds.get(step, "read" if step in ("read", "reread", "pread") else "write")
    return [f"rw={kind}", *engine]


def parse(folder: Path) -> Parsed:
    """IOzone's names for fio's numbers, and the doubt that says whose they are."""
    data = result(folder, _OUTPUT, "fio, which stands in for IOzone,", what="report")
    parsed = fio_json.parse(data, _OUTPUT)
    found = [renamed for each in parsed.measurements for renamed in _renamed(each)]
    if not found:
        raise FormatError(f"{folder / _OUTPUT}: no phase of IOzone in fio's report", advice=_AGAIN)
    what = "fio ran these phases in IOzone's place (stand_in): these are not IOzone's numbers"
    doubt = Doubt("stand-in", what, "Compare them only with others that fio ran.")
    return Parsed(tuple(found), (*_others(parsed.doubts), doubt))


def _renamed(each: Measurement) -> list[Measurement]:
    """A phase's own numbers; ``all`` would put phases together that ran one after another."""
    phase, _, ordinal = each.job.rpartition("#")
    operation, _, quantity = each.metric.partition(".")
    if ordinal != "1" or not any(phase in steps for steps in _PHASES.values()):
        return []
    if operation == "cpu":
        return []
    return [Measurement(f"{phase}.{quantity}", each.value, each.unit, "all", each.raw)]


def _others(doubts: Sequence[Doubt]) -> list[Doubt]:
    """Without fio's doubt that its jobs ran one after another: that is how it was meant."""
    return [doubt for doubt in doubts if doubt.check != "one-after-another"]
