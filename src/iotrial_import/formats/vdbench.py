"""vdbench's averages: ``summary.html``, ``totals.html``, what it prints, and ``flatfile.html``.

A recording for each run (RD), by the row ``avg_2-60``, which leaves out the warm-up; its workload
is the RD's name, and what a run was varied in (``For loops``) is its treatment.  Runs that only
format (``format_for_rd1``) are no results.  A megabyte is 2^20 bytes, a response time is in ms.

Reads and writes of raw devices are counted together: where all are reads, or none, the rate is
theirs too.  Of files they are counted apart, and ``create.rate``, ``delete.rate``,
``create.dir.rate`` and ``delete.dir.rate`` are those of files and folders.

Sources: the head of a ``flatfile.html``, which says what its columns are; vdbench 5.04's manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.model.measurement import of_metric
from iotrial.model.recording import Buffer, Recording
from iotrial.model.trial import Doubt, Treatment

FLAT_HEAD = ["tod", "timestamp", "Run", "Interval"]
"""The first columns of ``flatfile.html``."""
_MIB, _MS, _PCT = 2.0**20, 1e-3, 0.01
_DEVICES = {
    ("i/o", "rate"): "rate", ("mb/sec", "1024**2"): "mb", ("bytes", "i/o"): "size",
    ("read", "pct"): "read%", ("resp", "time"): "resp", ("read", "resp"): "read_resp",
    ("write", "resp"): "write_resp", ("resp", "max"): "resp_max", ("read", "max"): "read_max",
    ("write", "max"): "write_max", ("resp", "stddev"): "resp_std", ("queue", "depth"): "depth",
    ("cpu%", "sys+u"): "cpu", ("cpu%", "sys"): "cpu_sys",
}  # fmt: skip
FLAT = {
    "rate": "rate", "MB/sec": "mb", "bytes/io": "size", "read%": "read%", "resp": "resp",
    "read_resp": "read_resp", "write_resp": "write_resp", "resp_max": "resp_max",
    "read_max": "read_max", "write_max": "write_max", "resp_std": "resp_std",
    "read_std": "read_std", "write_std": "write_std", "queue_depth": "depth", "cpu_used": "cpu",
    "cpu_kernel": "cpu_sys",
}  # fmt: skip
"""A column of ``flatfile.html`` → what it is."""
VARIED = {
    "xfersize": "xfersize", "threads": "threads", "rdpct": "rdpct", "seekpct": "seekpct",
    "rhpct": "rhpct", "whpct": "whpct", "reqrate": "iorate", "compratio": "compratio",
    "dedupratio": "dedupratio",
}  # fmt: skip
"""A column of ``flatfile.html`` → vdbench's own parameter."""
_GROUPS = {
    "reqstdops": ("ops.rate", "ops.resp"), "cpu%": ("cpu", "cpu_sys"),
    "mb/sec": ("read.mb", "write.mb"), "xfer": ("size",),
}  # fmt: skip
_HALVES = ("rate", "resp")
_METRICS = {
    "rate": ("total.iops", 1.0), "mb": ("total.bw", _MIB), "resp": ("total.lat.mean", _MS),
    "read_resp": ("read.lat.mean", _MS), "write_resp": ("write.lat.mean", _MS),
    "resp_max": ("total.lat.max", _MS), "read_max": ("read.lat.max", _MS),
    "write_max": ("write.lat.max", _MS), "resp_std": ("total.lat.sd", _MS),
    "read_std": ("read.lat.sd", _MS), "write_std": ("write.lat.sd", _MS),
    "depth": ("total.depth", 1.0), "cpu_sys": ("cpu.sys", _PCT),
    "ops.rate": ("total.iops", 1.0), "ops.resp": ("total.lat.mean", _MS),
    "read.rate": ("read.iops", 1.0), "read.resp": ("read.lat.mean", _MS),
    "write.rate": ("write.iops", 1.0), "write.resp": ("write.lat.mean", _MS),
    "read.mb": ("read.bw", _MIB), "write.mb": ("write.bw", _MIB), "total.mb": ("total.bw", _MIB),
    "create.rate": ("create.rate", 1.0), "delete.rate": ("delete.rate", 1.0),
    "mkdir.rate": ("create.dir.rate", 1.0), "rmdir.rate": ("delete.dir.rate", 1.0),
}  # fmt: skip
_ALL = 100.0
_OF_WORK = ("read.", "write.", "total.lat", "create.", "delete.")


def names_of(head: str, below: str) -> list[str]:
    """What the columns after the interval are, by the two lines of a heading; '' for one that is
    not read.  Empty where the two do not fit each other."""
    words = [word.strip(".").lower() for word in head.split()]
    words = words[words.index("interval") + 1 :]
    lower = below.lower().split()
    return _of_files(words, lower) if words[0] == "reqstdops" else _of_devices(words, lower)


def _of_devices(words: list[str], below: list[str]) -> list[str]:
    if len(words) != len(below):
        return []
    return [_DEVICES.get(pair, "") for pair in zip(words, below, strict=True)]


def _of_files(words: list[str], below: list[str]) -> list[str]:
    """Of each group two columns, but one of ``read pct``, ``mb/sec total`` and ``xfer size``."""
    names: list[str] = []
    for word in words:
        if word == "read" and below[len(names) : len(names) + 1] == ["pct"]:
            names.append("read%")
        elif word == "mb/sec" and "read.mb" in names:
            names.append("total.mb")
        else:
            names += _GROUPS.get(word, [f"{word}.{half}" for half in _HALVES])
    return names if len(names) == len(below) else []


def metrics(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Metric and value in base units; what was not done is left out."""
    for name, value in values.items():
        if name not in _METRICS:
            continue
        wanted, scale = _METRICS[name]
        if not value and wanted.startswith(_OF_WORK):
            continue
        yield wanted, value * scale
    if "cpu" in values and "cpu_sys" in values:
        yield "cpu.usr", max(0.0, values["cpu"] - values["cpu_sys"]) * _PCT
    share = values.get("read%")
    if share in (0.0, _ALL) and "rate" in values:
        side = "read" if share else "write"
        yield f"{side}.iops", values["rate"]
        if "mb" in values:
            yield f"{side}.bw", values["mb"] * _MIB


AGAIN = "take summary.html or flatfile.html as vdbench wrote it, or repeat the run"
_WORDS = re.compile(
    rb"Vdbench (?:distribution|summary report|flatfile)|contains Vdbench generated information"
    rb"|Starting RD=\S|\bavg_\d{1,6}-\d{1,6}\s+\d"
)
_SHAPE = re.compile(
    rb"^.*[ .][iI]nterval[ .]+(?:i/o +MB/sec|\.ReqstdOps)|^ *tod +timestamp +Run +Interval ",
    re.MULTILINE,
)
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,300}>")
_START = re.compile(r".{0,60}?Starting RD=(?P<name>[^;\s]+)(?P<rest>.*)")
_LOOPS = re.compile(r"[Ff]or ?loops: *(.*)")
_OPTION = re.compile(r"(\w{1,30})=([^\s;,]{1,40})")
_ELAPSED = re.compile(r"elapsed=(\d{1,9})")
_HEAD = re.compile(r".*?[ .]interval[ .]+(?:i/o|\.reqstdops).*", re.IGNORECASE)
_ROW = re.compile(r"\s*\d\d:\d\d:\d\d\.\d{3}\s+(avg_\d{1,6}-\d{1,6}|\d{1,7})\s+(.*)")
_AVERAGE = re.compile(r"avg_\d{1,6}-\d{1,6}")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_SPELT = re.compile(r"(.+?)_?\((.+)\)")
_NO_RATE = "99999"  # what stands for as many as can be, or for a curve
_FORMATS = ("format_for_", "SD_format")


class Vdbench:
    """The plugin."""

    name = "vdbench"
    title = "vdbench, summary.html, totals.html and flatfile.html"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        return 2 * bool(_WORDS.search(head)) + bool(_SHAPE.search(head))

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        lines = text_of(data, raw).split("\n")
        heads = (at for at, line in enumerate(lines) if line.split()[: len(FLAT_HEAD)] == FLAT_HEAD)
        flat = next(heads, None)
        runs = _summary(lines, raw) if flat is None else _flat(lines, flat, raw)
        found = [run for run in runs if run.line and not run.name.startswith(_FORMATS)]
        read = [_recording(run, raw) for run in found if run.values]
        ended = [run for run in found if not run.values]
        lacking = ", ".join(f"{run.name} (line {run.line})" for run in ended[:5])
        if not read:
            what = f"{raw}: no average of vdbench in {len(lines)} lines"
            raise FormatError(what + (f": {lacking} did not end" * bool(ended)), advice=AGAIN)
        if ended:
            doubt = Doubt("vdbench-unfinished", f"no average of {lacking}: it did not end", AGAIN)
            read[-1] = replace(read[-1], doubts=(doubt,))
        return tuple(read)


FORMAT = Vdbench()


@dataclass(slots=True)
class _Run:
    """``values`` are the average's, by what each column is."""

    line: int
    name: str
    treatment: Treatment = ()
    seconds: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)


def _summary(lines: Sequence[str], raw: str) -> Iterator[_Run]:
    """The runs of a table of intervals; where runs are not named, by their averages."""
    run = _Run(0, "vdbench")
    columns: list[str] = []
    for at, line in enumerate(lines, 1):
        plain = _TAG.sub("", line).rstrip()
        if said := _START.fullmatch(plain):
            yield run
            run = _started(said, at)
        elif _HEAD.fullmatch(plain):
            columns = names_of(plain, _TAG.sub("", lines[at]) if at < len(lines) else "")
            if not columns:
                raise FormatError(f"{raw}: line {at}: columns that are not known", advice=AGAIN)
        elif row := _ROW.fullmatch(plain):
            values = _values(row[2].split(), columns, f"{raw}: line {at}")
            if _AVERAGE.fullmatch(row[1]) and run.values:
                yield run
                run = _Run(at, run.name, run.treatment, run.seconds)
            if _AVERAGE.fullmatch(row[1]):
                run.line, run.values = at, values
    yield run


def _started(said: re.Match[str], at: int) -> _Run:
    loops = _LOOPS.search(said["rest"])
    elapsed = _ELAPSED.search(said["rest"])
    name, within = _split(said["name"])
    varied = dict(_OPTION.findall(within)) | dict(_OPTION.findall(loops[1] if loops else ""))
    return _Run(at, name, tuple(varied.items()), float(elapsed[1]) if elapsed else 0.0)


def _split(name: str) -> tuple[str, str]:
    """``rd1_(xfersize=4k,threads=8)`` → the name, and what was varied."""
    match = _SPELT.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def _values(words: Sequence[str], columns: Sequence[str], place: str) -> dict[str, float]:
    if len(words) != len(columns):
        what = f"{place}: {len(words)} numbers; {len(columns)} columns are named"
        raise FormatError(what, advice=AGAIN)
    return {
        name: _number(word, f"{place}: {name}")
        for name, word in zip(columns, words, strict=True)
        if name and word.lower() not in ("n/a", "-", "nan")
    }


def _number(word: str, place: str) -> float:
    if not _NUMBER.fullmatch(word):
        raise FormatError(f"{place}: {word[:30]!r} is not a number", advice=AGAIN)
    return float(word)


def _flat(lines: Sequence[str], head: int, raw: str) -> Iterator[_Run]:
    columns = lines[head].split()
    kinds = [kind for each, kind in FLAT.items() if each in columns]
    for at, line in enumerate(lines[head + 1 :], head + 2):
        words = _TAG.sub("", line).split()
        if not words or words[0].startswith("*"):
            continue
        place = f"{raw}: line {at}"
        if len(words) != len(columns):
            what = f"{place}: {len(words)} cells; {len(columns)} columns are named"
            raise FormatError(what, advice=AGAIN)
        row = dict(zip(columns, words, strict=True))
        if not _AVERAGE.fullmatch(row["Interval"]):
            continue
        name, within = _split(row["Run"])
        varied = {key: row[column] for column, key in VARIED.items()
                  if row.get(column, "n/a").lower() not in ("n/a", "-1")
                  and not (key == "iorate" and row[column].startswith(_NO_RATE))}  # fmt: skip
        told = dict(_OPTION.findall(within)) | varied
        values = _values([row[each] for each in FLAT if each in row], kinds, place)
        yield _Run(at, name, tuple(told.items()), values=values)


def _recording(run: _Run, raw: str) -> Recording:
    return Recording(
        tool="vdbench",
        workload=run.name,
        measurements=tuple(of_metric(name, value, raw) for name, value in metrics(run.values)),
        line=run.line,
        treatment=run.treatment,
        seconds=run.seconds,
    )
