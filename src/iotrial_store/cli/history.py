"""``iotrial history``: since when is it slower, and what changed?"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

import click

from iotrial.cli.output import Output, can_move, common
from iotrial.report.layout import TextTable
from iotrial.report.words import some
from iotrial.units import format_change, format_value, parse_fraction, parse_seconds
from iotrial_store.cli import store_at, store_option

if TYPE_CHECKING:
    from iotrial_store.history import StoreChange, StoreHistory

_SHOWN = 6


def _share(text: str) -> float:
    if not 0 < (found := parse_fraction(text)) < 1:
        raise ValueError(f"{text!r} is not between 0 and 100 %")
    return found


def _since(text: str) -> tuple[float, bool]:
    """Seconds, and whether they are before the newest results; else since 1970 in UTC."""
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        try:
            return parse_seconds(text), True
        except ValueError:
            raise ValueError(
                f"{text!r} is neither a day such as 2026-11-20 nor a time such as 30d"
            ) from None
    return dt.datetime.combine(day, dt.time(), dt.UTC).timestamp(), False


@click.command()
@click.argument("study", required=False)
@click.option("--metric", metavar="NAME", help="Of this metric; default: the study's primary ones.")
@click.option("--treatment", metavar="LEVELS", help="Of this treatment: scheduler=none, iodepth=8.")
@click.option(
    "--margin",
    type=click.types.FuncParamType(_share),
    default="2%",
    show_default=True,
    metavar="SHARE",
    help="The smallest change that matters.",
)
@click.option(
    "--error",
    type=click.types.FuncParamType(_share),
    default="5%",
    show_default=True,
    metavar="SHARE",
    help="Of all series told to have changed, at most so many are expected not to have, in a year.",
)
@click.option(
    "--since",
    type=click.types.FuncParamType(_since),
    default="7d",
    show_default=True,
    metavar="DAY|TIME",
    help="What became worse counts for the exit code where the results that told it are of this"
    " day or later (2026-11-20), or of so long before the newest (30d).",
)
@click.option("--all", "every", is_flag=True, help="List series without a change, too.")
@store_option
@common
def command(  # noqa: PLR0913, PLR0917 (click's parameters)
    output: Output,
    study: str | None,
    metric: str | None,
    treatment: str | None,
    margin: float,
    error: float,
    since: tuple[float, bool],
    every: bool,  # noqa: FBT001 (click's)
    url: str | None,
) -> int:
    """Tell since when a STUDY's numbers are others, by how much, and what else changed there.

    A point is one results folder, without INVALID and doubted trials; each machine has a series of
    its own.
    Exit code 1: something became worse, and results since then (--since) told it.

    \b
    Example:
      iotrial history nightly
      iotrial history nightly --since 30d
      iotrial history nightly --metric read.clat.p99 --treatment scheduler=none
      iotrial history --store postgresql://db.example.org/iotrial --json
    """
    from iotrial.errors import UsageError
    from iotrial_store.asked import unknown
    from iotrial_store.history import histories, series_of

    with store_at(url) as store:
        many = series_of(store, study or "", metric or "", treatment or "")
        if not many:
            names = {"study": study, "metric": metric, "treatment": treatment}
            missing = unknown(store, names) or ["the store has no such series"]
            raise UsageError(
                "; ".join(missing), advice="See what it has: iotrial list, iotrial find"
            )
        found = histories(store, many, margin=margin, error=error)
    begin, relative = since
    if relative:
        begin = max(each.series.points[-1].time for each in found) - begin
    output.document({
        "margin": margin, "error": error, "since": begin, "series": [_row(each) for each in found],
    })  # fmt: skip
    table = TextTable(
        "study", "treatment", "metric", "machines", "points", "noise", "now", "changes"
    )
    for each in found:
        if each.changes or every:
            table.add_row(*_line(each))
    worse = sum(_counts(change, begin) for each in found for change in each.changes)
    output.answer(_said(found) + (f" {worse} worse, told since {_day(begin)}." if worse else ""))
    if any(each.changes for each in found) or every:
        output.answer(table)
    for each in found:
        if each.changes or study or every:
            _draw(output, each)
        for change in each.changes:
            output.answer(_told(each, change, begin))
    return 1 if worse else 0


def _counts(change: StoreChange, begin: float) -> bool:
    """Whether it counts for the exit code.  The night that told it is asked: a small change is told
    many nights after it began."""
    return bool(change.worse) and change.at.told is not None and change.at.told >= begin


def _draw(output: Output, each: StoreHistory) -> None:
    """On a terminal that can show it."""
    from iotrial_store.trend_text import trend_text

    console = output.answers
    if can_move(console) and not output.quiet and console.encoding.startswith("utf"):
        drawn = trend_text(each, console.width)
        output.answer(*(["", drawn] if drawn else []))


def _said(found: tuple[StoreHistory, ...]) -> str:
    changed = sum(any(c.at.state == "confirmed" for c in each.changes) for each in found)
    perhaps = sum(any(c.at.state != "confirmed" for c in each.changes) for each in found)
    more = f"; in {perhaps} something may have changed" if perhaps else ""
    from iotrial.stats.changes import FEWEST

    few = [each for each in found if each.history.sd is None]
    have: dict[str, int] = {}
    for each in few:
        have[each.series.study] = max(each.history.used, have.get(each.series.study, 0))
    named = some([f"{name} has {used}" for name, used in have.items()], _SHOWN)
    short = f" {len(few)} of them cannot tell yet: {FEWEST} results folders are needed ({named})."
    short = short if few else ""
    return f"{len(found)} series, {changed} changed{more}.{short}"


def _line(each: StoreHistory) -> tuple[str, ...]:
    series, history = each.series, each.history
    counted = [point for point in series.points if point.counts]
    now = format_value(math.exp(counted[-1].mean), series.unit) if counted else "–"
    noise = "–" if history.sd is None else f"{history.sd:.1%}"
    dropped = f" ({len(history.left_out)} left out)" if history.left_out else ""
    return (
        series.study,
        f"{series.workload} {series.treatment}",
        series.metric,
        series.hosts,
        f"{history.used}{dropped}",
        noise,
        now,
        str(len(each.changes)),
    )


def _told(each: StoreHistory, change: StoreChange, begin: float) -> str:
    at, series = change.at, each.series
    how = {True: "worse", False: "better", None: "changed"}[change.worse]
    sure = "" if at.state == "confirmed" else f" (may be: {at.more} more points like these tell)"
    size = f"{format_change(at.ratio)} ({format_change(at.low)} … {format_change(at.high)})"
    pair = f"{change.before[:8]} before, {change.after[:8]} after"
    old = (
        "; told before --since"
        if change.worse and sure == "" and not _counts(change, begin)
        else ""
    )
    what = f"{series.workload} {series.treatment}, {series.metric}"
    lines = [
        f"{_day(at.first)}  {what}: {how}, {size}{sure}{old}",
        f"  between {_day(at.earliest)} and {_day(at.latest)}; {pair}",
    ]
    for one in change.beside[:_SHOWN]:
        where = f" ({', '.join(one.where[:2])})" if one.where else ""
        lines.append(f"  {one.kind}: {one.what} was {one.before}, is {one.after}{where}")
    if len(change.beside) > _SHOWN:
        lines.append(f"  and {len(change.beside) - _SHOWN} more differences: --json has them")
    if not change.beside:
        lines.append("  nothing else that was noted differs")
    return "\n".join(lines)


def _day(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d")


def _row(each: StoreHistory) -> dict[str, object]:
    series, history = each.series, each.history
    return {
        "study": series.study,
        "workload": series.workload,
        "treatment": series.treatment,
        "target": series.target,
        "metric": series.metric,
        "unit": series.unit,
        "machines": series.hosts,
        "noise": history.sd,
        "points": [
            {
                "began": point.time, "result": result, "mean": math.exp(point.mean),
                "sd": None if math.isnan(point.sd) else point.sd,
                "trials": point.trials, "doubted": point.doubted, "counts": point.counts,
            }
            for point, result in zip(series.points, series.results, strict=True)
        ],
        "changes": [
            {
                "first": change.at.first, "earliest": change.at.earliest,
                "latest": change.at.latest, "ratio": change.at.ratio, "low": change.at.low,
                "high": change.at.high, "state": change.at.state, "told": change.at.told,
                "more": change.at.more, "before": change.before, "after": change.after,
                "worse": change.worse,
                "beside": [
                    {"kind": d.kind, "what": d.what, "before": d.before, "after": d.after,
                     "where": list(d.where)}
                    for d in change.beside
                ],
            }
            for change in each.changes
        ],
    }  # fmt: skip
