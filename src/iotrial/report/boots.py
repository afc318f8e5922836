"""The boots of a study in words: how often each host was booted with what, and how long that
took."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from iotrial.look.boots import METHODS
from iotrial.model.results import BootRecord
from iotrial.report.blocks import Block, Section, Text, plain
from iotrial.report.words import visible
from iotrial.units import format_seconds

HEAD = ("host", "booted with", "boots", "took (least … most)", "by", "failed")


def section(boots: Sequence[BootRecord]) -> Iterator[Section]:
    """Nothing for a study without boots."""
    if boots:
        yield Section("Boots", tuple(_blocks(boots)), "boots")


def _blocks(boots: Sequence[BootRecord]) -> Iterator[Block]:
    took = sum(each.seconds for each in boots)
    hosts = len({each.host for each in boots})
    yield Text(
        f"{len(boots)} boots of {hosts} {'host' if hosts == 1 else 'hosts'},"
        f" {format_seconds(took)} in all. boots.jsonl has each, with the command line that came up."
    )
    yield plain(HEAD, rows(boots), "Boots")
    yield from (Text(visible(f"Block {b.block}: {b.problem}"), "note") for b in boots if b.problem)


def rows(boots: Sequence[BootRecord]) -> list[tuple[str, ...]]:
    """The lines of the table: one for each host and what it was booted with."""
    kinds = sorted(dict.fromkeys((each.host, each.changes) for each in boots))
    return [_row([b for b in boots if (b.host, b.changes) == kind]) for kind in kinds]


def _row(alike: Sequence[BootRecord]) -> tuple[str, ...]:
    first = alike[0]
    asked = " ".join(f"{name.partition('.')[2]}={value}" for name, value in first.changes)
    took = [each.seconds for each in alike if not each.problem]
    span = f"{format_seconds(min(took))} … {format_seconds(max(took))}" if took else ""
    return (
        visible(first.host),
        visible(asked or "its own parameters"),
        str(len(alike)),
        f"{format_seconds(statistics.median(took))} ({span})" if took else "–",
        ", ".join(dict.fromkeys(METHODS.get(each.method, each.method) for each in alike)),
        str(sum(bool(each.problem) for each in alike) or "–"),
    )
