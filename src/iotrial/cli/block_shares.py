"""How far each host is, where blocks are spread over hosts: for ``iotrial status``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iotrial.model.folding import folded
from iotrial.model.results import Results
from iotrial.plan.spread import holders, waiting

MOST = 16
"""Hosts with a line each; of more, those that are as far have one together."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Numbers of blocks: ``done`` on ``host``, ``left`` for it (one that is begun is left), and
    ``given`` to others that were planned on it."""

    host: str
    done: tuple[int, ...]
    left: tuple[int, ...]
    given: tuple[int, ...]


def shares(results: Results) -> tuple[Blocks, ...]:
    """Every host, in the study's order; none where blocks are not spread."""
    if not results.study.spread:
        return ()
    held = holders(results.planned)
    mine: dict[str, set[int]] = {place.name: set() for place in results.study.places}
    for trial in results.planned:
        mine.setdefault(trial.host, set()).add(trial.block)
    left = {(trial.host, trial.block) for trial in waiting(results.planned, results.records)}
    return tuple(
        Blocks(
            host,
            tuple(b for b in sorted(own) if held[b] == host and (host, b) not in left),
            tuple(b for b in sorted(own) if (host, b) in left),
            tuple(b for b in sorted(own) if held[b] != host),
        )
        for host, own in mine.items()
    )


def lines(found: Sequence[Blocks]) -> Iterator[str]:
    """``h1: blocks 1, 4 done; 7 left``."""
    if len(found) <= MOST:
        yield from (f"  {each.host}: {_said(each)}" for each in found)
        return
    alike: dict[tuple[int, int, int], list[str]] = {}
    for each in found:
        key = (len(each.done), len(each.left), len(each.given))
        alike.setdefault(key, []).append(each.host)
    for (done, left, given), hosts in alike.items():
        words = [f"{done} done", *([f"{left} left"] * bool(left))]
        words += [f"{given} given to others"] * bool(given)
        yield f"  {folded(hosts)}: blocks on each: {', '.join(words)}"


def _said(each: Blocks) -> str:
    words = [
        f"{', '.join(map(str, numbers))} {what}"
        for numbers, what in (
            (each.done, "done"),
            (each.left, "left"),
            (each.given, "given to others"),
        )
        if numbers
    ]
    return f"blocks {'; '.join(words)}" if words else "no blocks"
