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
from iotrial.formats.lines import text_of
from iotrial.model.measurement import Measurement, metric
from iotrial.model.recording import Buffer, Recording
from iotrial.model.trial import Doubt, Treatment
from iotrial_import.formats.vdbench.columns import FLAT, FLAT_HEAD, VARIED, metrics, names_of

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
        raise FormatError(f"{place}: {word[:30]!r} is no number", advice=AGAIN)
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
        measurements=tuple(
            Measurement(name, value, metric(name).unit, "all", raw)
            for name, value in metrics(run.values)
        ),
        line=run.line,
        treatment=run.treatment,
        seconds=run.seconds,
    )
