"""A store as a static site: its studies, each study's results and trends, every report.

Pages are made of the blocks of reports, by their renderer: nothing is fetched from elsewhere, and
every text is escaped.  Names of files are made of letters and digits, since others write to a
store, too.  The same store gives the same pages.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup, escape

from iotrial.errors import IotrialError, UsageError
from iotrial.judgement import judge
from iotrial.model.finding import Difference
from iotrial.report import drawing, render, words
from iotrial.report.blocks import (
    Block,
    BulletList,
    Column,
    Document,
    Figure,
    Figures,
    Heading,
    Section,
    Table,
    Text,
    TextSpan,
    Words,
)
from iotrial.report.charts import pictures
from iotrial.report.study import document
from iotrial.report.view import view
from iotrial.stats.changes import FEWEST, HistoryPoint
from iotrial.store import open_results
from iotrial.units import format_change, format_noise, format_value
from iotrial_store.asked import ResultCondition, day, results, studies
from iotrial_store.folder import made_again
from iotrial_store.history import StoreChange, StoreHistory, histories, series_of
from iotrial_store.model import ResultStore

MARKER = ".iotrial-site"
"""The file by which a site made before is known."""
MARGIN, ERROR = 0.02, 0.05
"""As ``iotrial history`` has them where nothing else is asked."""
_SHOWN = 12
_Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SiteCounts:
    """How much was written."""

    studies: int
    pages: int


def check_site_folder(out: Path) -> None:
    """Raises UsageError for a mount point, and for a folder that holds something else than a site
    made before."""
    if out.is_mount():
        raise UsageError(
            f"{out} is a mount point, which cannot be replaced as a whole",
            advice=f"Name a folder in it: --out {shlex.quote(str(out / 'site'))}",
        )
    if out.exists() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise UsageError(
            f"{out} is not empty, and no site that iotrial made",
            advice="Name another folder with --out.",
        )


def write_site(out: Path, pages: Iterator[tuple[str, str]]) -> SiteCounts:
    """All pages, by their paths below ``out``.  They come in place of a site made before once all
    are there: whoever reads it meanwhile sees the old one, or none that is half there."""
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as beside:
        new = Path(beside) / "new"
        new.mkdir()
        (new / MARKER).write_text("Made by iotrial site, which replaces this folder.\n")
        counts: defaultdict[str, int] = defaultdict(int)
        for name, text in pages:
            path = new / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode("utf-8", "backslashreplace"))
            counts[name.partition("/")[0]] += 1
        check_site_folder(out)
        if out.exists():
            out.rename(Path(beside) / "old")
        new.rename(out)
    return SiteCounts(counts["studies"], sum(counts.values()))


def store_site(
    store: ResultStore, study: str = "", *, told: Callable[[int, int, str], None] | None = None
) -> Iterator[tuple[str, str]]:
    """(path, text) of every page of all studies, or of one; ``told`` is called after each report,
    with how many of how many there are, and what it is of.  Raises UsageError where the store does
    not have the study."""
    many = series_of(store, study)  # first: results that are pushed meanwhile have pages, too
    found = [row for row in studies(store) if study in {"", row["study"]}]
    if study and not found:
        raise UsageError(
            f"the store has no study {study!r}", advice="See what it has: iotrial list"
        )
    rows: dict[str, list[_Row]] = {str(each["study"]): [] for each in found}
    pretended = {row[0] for row in store.query("SELECT result FROM results WHERE pretended").rows}
    doubts = _doubts(store)
    for row in results(store, ResultCondition()):
        if str(row["study"]) in rows:
            made_up = row["result"] in pretended
            answer = f"Pretended: {row['answer']}" if made_up else row["answer"]
            doubted = doubts.get(str(row["result"]), "none")
            rows[str(row["study"])].append({**row, "answer": answer, "doubts": doubted})
    changed: dict[str, list[StoreHistory]] = {name: [] for name in rows}
    for each in histories(store, many, margin=MARGIN, error=ERROR):
        changed[each.series.study].append(each)
    yield "index.html", render.html(_index(found, rows, changed))
    for name, those in rows.items():
        yield f"studies/{_file(name)}", render.html(_study(name, those, changed[name]))
    every = [one for those in rows.values() for one in those]
    for number, one in enumerate(every, 1):
        yield f"results/{_file(str(one['result']))}", _report(store, one)
        if told:
            told(number, len(every), f"{one['study']} {day(one['began'])}".rstrip())


def _doubts(store: ResultStore) -> dict[str, str]:
    rows = store.query(
        """SELECT result, count(*), string_agg(DISTINCT rule, ', ' ORDER BY rule)
        FROM doubts GROUP BY result"""
    ).rows
    return {str(result): f"{count} ({rules})" for result, count, rules in rows}


def _file(name: str) -> str:
    """A page's name, fit for any file system and for a link; names that are not have a digest, so
    that no two are the same.

    >>> _file("nightly"), _file("../<b>")
    ('nightly.html', 'b-9f46aef2.html')
    """
    if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,59}", name):
        return f"{name}.html"
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return "-".join([*re.findall("[a-z0-9]+", name.lower()[:40]), digest]) + ".html"


def _said(value: object) -> str:
    return words.visible(str(value or ""))


# -- the first page --------------------------------------------------------------------------------


def _index(
    found: Sequence[_Row],
    rows: Mapping[str, Sequence[_Row]],
    told: Mapping[str, Sequence[StoreHistory]],
) -> Document:
    head = (
        Column("study", "k"), Column("results", "n"), Column("first", "k"), Column("last", "k"),
        Column("machines"), Column("changes"), Column("last answer"),
    )  # fmt: skip
    lines = tuple(
        (
            TextSpan(_said(row["study"]), href=f"studies/{_file(str(row['study']))}"),
            str(row["results"]), day(row["first"]), day(row["last"]), _said(row["machines"]),
            _changed(told[str(row["study"])]), _said(rows[str(row["study"])][0]["answer"]),
        )
        for row in found
    )  # fmt: skip
    table = Table(head, lines, "Studies", "There are no results in this store.", "stacked")
    count = words.count(sum(map(len, rows.values())), "result")
    studies = "1 study" if len(lines) == 1 else f"{len(lines)} studies"
    lead = Text(f"{studies}, {count}. The study executed last is first.", "note")
    return Document("Studies", (lead,), (table,), searchable=bool(lines))


def _changed(told: Sequence[StoreHistory]) -> Words:
    """What history says of a study's series, the newest confirmed change first."""
    confirmed = [c for each in told for c in each.changes if c.at.state == "confirmed"]
    if confirmed:
        last = max(confirmed, key=lambda change: change.at.first)
        return TextSpan(f"{_how(last)} {_day(last.at.first)}", f"verdict {_look(last)}")
    if any(each.changes for each in told):
        return TextSpan("may be", "verdict cannot-tell")
    return "none" if any(each.history.sd is not None for each in told) else "too few results"


def _how(change: StoreChange) -> str:
    return {True: "worse", False: "better", None: "changed"}[change.worse]


def _look(change: StoreChange) -> str:
    return {True: "worse", False: "better", None: "same"}[change.worse]


def _day(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d")


# -- a study ---------------------------------------------------------------------------------------


def _study(name: str, rows: Sequence[_Row], told: Sequence[StoreHistory]) -> Document:
    head = (
        Column("began", "k"), Column("answer"), Column("tags"), Column("machines"),
        Column("valid trials", "n"), Column("doubts"),
    )  # fmt: skip
    lines = tuple(
        (
            TextSpan(day(row["began"]) or _said(row["result"]), href=_report_at(row["result"])),
            _said(row["answer"]), _said(row["tags"] or "–"), _said(row["machines"]),
            f"{row['valid']} of {row['trials']}", _said(row["doubts"]),
        )
        for row in rows
    )  # fmt: skip
    return Document(
        title=_said(name),
        head=(Text(TextSpan("All studies", href="../index.html")),),
        sections=(
            Section("Trends", tuple(_trends(told)), "trends"),
            Section("Results", (Table(head, lines, "Results", look="stacked"),), "results"),
        ),
    )


def _report_at(result: object) -> str:
    return f"../results/{_file(str(result))}"


def _trends(told: Sequence[StoreHistory]) -> Iterator[Block]:
    """The series that changed, each with what changed there; then the others, side by side."""
    yield Text(
        "A point is one results folder, with an interval of 95 % from its own trials; hollow ones"
        " are left out, since most of their trials are doubted. Each point leads to its report.",
        "note",
    )
    if not told:
        yield Text("No results with a time and a number to follow.")
    for each in told:
        if each.changes:
            beside = tuple(block for change in each.changes for block in _told(change))
            yield Figures((_figure(each),), beside)
    few = f"Too few results to tell: fewer than {FEWEST}"
    for heading, short in (("No change", False), (few, True)):
        rest = [e for e in told if not e.changes and (e.history.sd is None) is short]
        if rest:
            yield Heading(heading, 3)
            yield Figures(tuple(map(_figure, rest)))


def _told(change: StoreChange) -> Iterator[Block]:
    at = change.at
    said = f" {_day(at.first)}, {_size(change)}; between {_day(at.earliest)} and {_day(at.latest)}."
    if at.state != "confirmed":
        said += f" It may be one: {at.more} more points like these tell."
    said += " Reports: "
    yield Text((
        TextSpan(_how(change), f"verdict {_look(change)}"),
        said,
        TextSpan("before", href=_report_at(change.before)), ", ",
        TextSpan("after", href=_report_at(change.after)), ".",
    ))  # fmt: skip
    items = [
        _said(f"{_what(d)} was {d.before}, is {d.after}")
        + _said(f" ({', '.join(d.where[:2])})" if d.where else "")
        for d in change.beside[:_SHOWN]
    ]
    if len(change.beside) > _SHOWN:
        items.append(f"and {len(change.beside) - _SHOWN} more differences")
    yield Text("What else changed there:" if items else "Nothing else that was noted differs.")
    if items:
        yield BulletList(tuple(items))


def _what(differing: Difference) -> str:
    kind, what = differing.kind, differing.what
    return what if what == kind else f"{kind}: {what}"


def _size(change: StoreChange) -> str:
    at = change.at
    return f"{format_change(at.ratio)} ({format_change(at.low)} … {format_change(at.high)})"


# -- a chart ---------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = drawing.NARROW, 210
_TICKS = 5
_LEFT, _RIGHT, _TOP, _BOTTOM = 78.0, _WIDTH - 10.0, 24.0, _HEIGHT - 24.0


def _figure(each: StoreHistory) -> Figure:
    series = each.series
    title = _said(f"{series.workload} {series.treatment}, {series.metric}")
    where = " on ".join(filter(None, (series.target, series.hosts)))
    caption = _said(where) + (
        f"; nights differ by {format_noise(each.history.sd)}" if each.history.sd else ""
    )
    return Figure("trend", _chart(each, title), title, caption)


def _chart(each: StoreHistory, title: str) -> Markup:
    """Drawn here, in the colours of charts: a site is made without the extra ``charts``, too."""
    points = each.series.points
    unit = "IOPS" if each.series.metric.endswith(".iops") else each.series.unit
    counted = [point for point in points if point.counts] or points
    spreads = [1.96 * p.sd / math.sqrt(max(p.trials - p.doubted, 1)) for p in points]
    spreads = [spread if math.isfinite(spread) else 0.0 for spread in spreads]
    ends = [p.mean + s * d for p, s in zip(points, spreads, strict=True) for d in (-1, 1)
            if p in counted]  # fmt: skip
    low, high = min(ends), max(ends)
    edge = max(0.05 * (high - low), 0.005)
    low, high = low - edge, high + edge
    first, last = counted[0].time, counted[-1].time
    first, last = min(first, points[0].time), max(last, points[-1].time)

    def x(time: float) -> float:
        share = (time - first) / (last - first) if last > first else 0.5
        return round(_LEFT + 8 + min(max(share, 0.0), 1.0) * (_RIGHT - _LEFT - 16), 1)

    def y(log: float) -> float:
        share = (min(max(log, low), high) - low) / (high - low)
        return round(_BOTTOM - share * (_BOTTOM - _TOP), 1)

    marks = _ticks(math.exp(low), math.exp(high))[::-1]
    ticks = {format_value(tick, unit): tick for tick in marks}  # each label once
    parts = [_line(_LEFT, y(math.log(tick)), _RIGHT, y(math.log(tick)), drawing.GRID)
             + _text(_LEFT - 6, y(math.log(tick)) + 4, said, "end")
             for said, tick in ticks.items()]  # fmt: skip
    parts += [_line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, drawing.LINE)]
    days = [(_LEFT, _day(first), "start")]
    days += [(_RIGHT, _day(last), "end")] if _day(last) != _day(first) else []
    parts += [_text(place, _BOTTOM + 17, said, anchor) for place, said, anchor in days]
    parts += [_mark(change, x(change.at.earliest), x(change.at.latest),
                    (x(_before(points, change)) + x(change.at.first)) / 2)
              for change in each.changes]  # fmt: skip
    for point, spread, result in zip(points, spreads, each.series.results, strict=True):
        parts.append(
            Markup('<a href="{}"><title>{}</title>{}<circle cx="{}" cy="{}" r="3.5" fill="{}"'
                   ' stroke="{}" stroke-width="1.5"/></a>').format(
                _report_at(result),
                f"{_day(point.time)}: {format_value(math.exp(point.mean), unit)}",
                _line(x(point.time), y(point.mean - spread), x(point.time), y(point.mean + spread),
                      drawing.SERIES[0]),
                x(point.time), y(point.mean),
                (drawing.SERIES[0] if point.counts else drawing.PAPER).light,
                (drawing.SERIES[0] if point.counts else drawing.MUTED).light,
            )
        )  # fmt: skip
    return Markup(
        '<svg class="chart" role="group" aria-label="{}" viewBox="0 0 {} {}" width="{}"'
        ' height="{}">{}</svg>'
    ).format(f"Trend of {title}", _WIDTH, _HEIGHT, _WIDTH, _HEIGHT, Markup("").join(parts))


def _before(points: Sequence[HistoryPoint], change: StoreChange) -> float:
    times = [point.time for point in points if point.time < change.at.first]
    return times[-1] if times else change.at.first


def _mark(change: StoreChange, earliest: float, latest: float, at: float) -> Markup:
    """Where a change is: a band that it lies in with 95 %, a line, and its size."""
    colour = {"worse": drawing.WORSE, "better": drawing.BETTER, "same": drawing.SAME}[_look(change)]
    sure = change.at.state == "confirmed"
    band = Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>').format(
        earliest, _TOP, round(max(latest - earliest, 0), 1), _BOTTOM - _TOP, drawing.BAND.light
    )
    line = _line(round(at, 1), _TOP, round(at, 1), _BOTTOM, colour, "" if sure else "4 3")
    half = (_LEFT + _RIGHT) / 2
    said = _size(change) if sure else f"{_size(change)}?"
    text = _text(round(at, 1), _TOP - 8, said, "end" if at > half else "start", colour)
    return band + line + text


def _line(  # noqa: PLR0913, PLR0917 (a line has two ends)
    x1: float, y1: float, x2: float, y2: float, colour: drawing.Colour, dashes: str = ""
) -> Markup:
    dashed = Markup(' stroke-dasharray="{}"').format(dashes) if dashes else ""
    return Markup(
        '<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="1.5"{}/>'
    ).format(x1, y1, x2, y2, colour.light, dashed)


def _text(
    x: float, y: float, said: str, anchor: str, colour: drawing.Colour = drawing.MUTED
) -> Markup:
    return Markup('<text x="{}" y="{}" font-size="12" text-anchor="{}" fill="{}">{}</text>').format(
        x, y, anchor, colour.light, said
    )


def _ticks(low: float, high: float) -> list[float]:
    """Some round numbers between two.

    >>> _ticks(9.1, 11.3)
    [9.5, 10.0, 10.5, 11.0]
    """
    power = 10 ** math.floor(math.log10(high - low))
    step = next(power * n for n in (0.2, 0.5, 1, 2, 5, 10) if (high - low) / (power * n) <= _TICKS)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


# -- a report --------------------------------------------------------------------------------------


def _report(store: ResultStore, row: _Row) -> str:
    """As ``iotrial report`` makes it, with the way back, and without links to raw files."""
    way = Text((
        TextSpan("All studies", href="../index.html"), " / ",
        TextSpan(_said(row["study"]), href=f"../studies/{_file(str(row['study']))}"),
    ))  # fmt: skip
    result = shlex.quote(_said(row["result"]))
    with tempfile.TemporaryDirectory(prefix="iotrial-") as folder:
        into = Path(folder) / "results"
        try:
            made_again(store, str(row["result"]), into)
            seen = view(judge(open_results(into)))
            page = document(seen, pictures(seen), None)
        except IotrialError as error:  # one folder that is damaged leaves the others readable
            page = Document("No report", (), (Text(_said(error)),))
    place = Text(
        (
            f"Raw files were in {_said(row['place'])}. The folder again, without them: ",
            TextSpan(f"iotrial pull {result}", "code"),
        ),
        "note",
    )
    made = render.html(replace(page, head=(way, *page.head, place)))
    return made.replace(escape(into), escape(result))  # commands name the folder
