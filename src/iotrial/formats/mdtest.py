"""mdtest's results, of 1.9 to 4.1: the table of rates.

``create.rate``, ``stat.rate``, ``read.rate`` and ``delete.rate`` are of files, in 1/s, over all
tasks; ``create.dir.rate`` and so on of directories, ``create.tree.rate`` and ``delete.tree.rate``
of the trees that hold them.  A read of files of no bytes is open and close.

The column Mean is taken: in 3.2 and later Max is that of the fastest task even where there was
one iteration.  Several iterations are one mean, which a doubt says, and their spread is
``create.rate.sd``: what ``-v`` prints of each is the first task's alone, and has another mean.  A
rate of 0.000 is a phase that was not asked for: it is left out, like the rates until a stonewall.

Minimum ≤ mean ≤ maximum must hold, and the spread must fit between them.

Sources: mdtest.c of 1.9.3, 1.9.4 and of IOR 3.2.1 to 4.1; recordings in ``tests/data/mdtest``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iotrial.errors import FormatError
from iotrial.formats import text_of, the_one
from iotrial.model.measurement import of_metric
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Doubt, Treatment

_BEGINS = re.compile(r"mdtest-(\S+) was launched with (\d+) total task\(s\) on (\d+) node")
_COMMAND = re.compile(r"Command line used: *(.*)")
_COUNT = re.compile(r"^\s{0,8}\d{1,9} tasks, (\d+) (files/directories|files|directories)")
_TABLE = re.compile(r"SUMMARY(?: (rate|time))?(?: \(in [\w/]+\))?: \(of (\d+) iterations?\)")
_KIND = r"(?P<kind>Directory|File|Tree) (?P<what>creation|stat|read|rename|removal|create)"
_ROW = re.compile(r"^ {1,6}" + _KIND + r" *(?P<wall>\(stonewall\))? *:?(?P<rest> .*)$")
_NUMBER = re.compile(r"\d{1,16}\.\d{1,6}")
_NAMES = {
    "creation": "create", "stat": "stat", "read": "read", "rename": "rename", "removal": "delete",
}  # fmt: skip
_PARTS = {"File": "", "Directory": ".dir", "Tree": ".tree"}
_AGAIN = "repeat the run, or take mdtest's output as it wrote it"
_HALF = 0.0006  # of the last of three decimals
_WORDS = re.compile(rb"mdtest-\S+ was launched with \d+ total task")
_SHAPE = re.compile(rb"SUMMARY(?: rate)?(?: \(in ops/sec\))?: \(of \d+ iterations?\)")


@dataclass(slots=True)
class _Run:
    """``rates``: metric → (max, min, mean, sd)."""

    line: int
    version: str = ""
    treatment: list[tuple[str, str]] = field(default_factory=list)
    iterations: int = 0
    rates: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)


class MdtestFormat:
    """The plugin."""

    name = "mdtest"
    title = "mdtest, its table of rates"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        return (1 if _SHAPE.search(head) else 0) + (2 if _WORDS.search(head) else 0)

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        text = text_of(data, raw)
        found = [each for run in _runs(text, raw) for each in _recordings(run, raw)]
        if not found:
            message = f"{raw}: no table of mdtest in {text.count(chr(10)) + 1} lines"
            raise FormatError(message, advice=_AGAIN)
        return tuple(found)


FORMAT = MdtestFormat()


def parse(data: bytes, raw: str) -> ParsedOutput:
    """The one iteration in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for
    several."""
    return the_one(FORMAT.read(data, raw), raw, "iterations of mdtest")


def _runs(text: str, raw: str) -> Iterator[_Run]:
    run, inside = _Run(0), False
    for at, line in enumerate(text.split("\n"), 1):
        if match := _BEGINS.search(line):
            yield from _ended(run, raw)
            run, inside = _Run(at, match[1]), False
            run.treatment = [("tasks", match[2]), ("nodes", match[3])]
        elif match := _TABLE.search(line):
            inside = match[1] != "time"
            if inside and run.rates:
                yield from _ended(run, raw)
                run = _Run(at)
            run.line = run.line or at
            run.iterations = int(match[2]) if inside else run.iterations
        elif inside and (match := _ROW.match(line)):
            _row(run, match, f"{raw}: line {at}")
        elif match := _COMMAND.search(line):
            run.treatment += _options(match[1])
        elif (match := _COUNT.search(line)) and "items" not in dict(run.treatment):
            run.treatment.append(("items", match[1]))
        elif inside and line.strip() and not re.match(r" +(?:Operation|-+) ", line):
            inside = False
    yield from _ended(run, raw)


def _ended(run: _Run, raw: str) -> Iterator[_Run]:
    if run.rates:
        yield run
    elif run.line:
        message = f"{raw}: line {run.line}: this run of mdtest has no rates: it did not end"
        raise FormatError(message, advice=_AGAIN)


def _options(words: str) -> Iterator[tuple[str, str]]:
    """What the command line says of files: letters alone are switches."""
    found = re.findall(
        r"(?<![\w/-])-([a-zA-Z])(?: +(\d\w{0,15}))?(?= |$)", re.sub("[\"']", "", words)
    )
    valued, switches = "nwezbIiNWV", "CDEFLPRTcrtuyY"
    for letter, value in found:
        if value and letter in valued:
            yield letter, value
        elif not value and letter in switches:
            yield letter, "1"


def _row(run: _Run, match: re.Match[str], place: str) -> None:
    if match["wall"] or match["what"] == "create":
        return
    words = match["rest"].split()
    if len(words) != 4:  # noqa: PLR2004 (max, min, mean, standard deviation)
        raise FormatError(f"{place}: {len(words)} numbers; a row of mdtest has 4", advice=_AGAIN)
    most, least, mean, spread = (_number(word, place) for word in words)
    name = f"{_NAMES[match['what']]}{_PARTS[match['kind']]}.rate"
    if name in run.rates:
        raise FormatError(f"{place}: a second row of {name}", advice=_AGAIN)
    if not least - _HALF - 1e-9 * least <= mean <= most + _HALF + 1e-9 * most:
        message = f"{place}: a mean of {mean:g} between {least:g} and {most:g}"
        raise FormatError(message, advice=_AGAIN)
    if spread > (most - least) + 2 * _HALF + 1e-6 * most:
        message = f"{place}: {spread:g} is not a spread between {least:g} and {most:g}"
        raise FormatError(message, advice=_AGAIN)
    run.rates[name] = (most, least, mean, spread)


def _number(word: str, place: str) -> float:
    if not _NUMBER.fullmatch(word):
        raise FormatError(f"{place}: {word[:30]!r} is not a number of mdtest", advice=_AGAIN)
    return float(word)


def _recordings(run: _Run, raw: str) -> Iterator[Recording]:
    """One: iterations are not told apart."""
    rates = {name: values for name, values in run.rates.items() if values[0] > 0}
    if not rates:
        raise FormatError(f"{raw}: line {run.line}: every rate is 0", advice=_AGAIN)
    values = {name: mean for name, (_, _, mean, _) in rates.items()}
    doubts: list[Doubt] = []
    if run.iterations > 1:
        what = f"only the mean of {run.iterations} iterations was printed"
        doubts.append(Doubt("mdtest-means", what, "Run it once more for each repeat."))
        values |= {f"{name}.sd": spread for name, (_, _, _, spread) in rates.items()}
    yield _recording(run, values, tuple(doubts), raw)


def _recording(
    run: _Run, values: Mapping[str, float], doubts: tuple[Doubt, ...], raw: str
) -> Recording:
    treatment: Treatment = tuple(dict(run.treatment).items())
    return Recording(
        tool="mdtest",
        workload="mdtest",
        measurements=tuple(of_metric(name, value, raw) for name, value in values.items()),
        version=run.version,
        line=run.line,
        treatment=treatment,
        doubts=doubts,
    )
