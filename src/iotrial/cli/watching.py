"""Two readers of one run: the terminal, and what is seen of it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from iotrial.cli.progress import Terminal
from iotrial.execute.interruption import Interruption
from iotrial.live.address import FREE, Address, is_address, parse
from iotrial.live.watcher import Live
from iotrial.model.results import Results
from iotrial.model.sample import Sample
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.tunable import Setting

FLAG = "--live"


class Watchers:
    """The runner's watcher (``iotrial.execute.runner.Watcher``): it tells both."""

    def __init__(self, terminal: Terminal, live: Live) -> None:
        self._terminal, self._live = terminal, live

    def said(self, text: str) -> None:
        self._terminal.said(text)
        self._live.said(text)

    def planned(self, pending: int, most: int, results: Path) -> None:
        self._terminal.planned(pending, most, results)
        self._live.planned(pending, most, results)

    def began(self, trial: Trial, seconds: float) -> None:
        self._terminal.began(trial, seconds)
        self._live.began(trial, seconds)

    def held(self, trial: Trial, host: str, settings: Sequence[Setting]) -> None:
        self._live.held(trial, host, settings)

    def sampled(self, trial: Trial, sample: Sample) -> None:
        self._live.sampled(trial, sample)

    def ticked(self, trial: Trial, elapsed: float) -> None:
        self._terminal.ticked(trial, elapsed)

    def ended(self, record: TrialRecord) -> None:
        self._terminal.ended(record)
        self._live.ended(record)

    def known(self, results: Results) -> None:
        self._live.known(results)

    def attended(self) -> bool:
        return self._terminal.attended()

    def asked(self, what: str, interruption: Interruption) -> None:
        self._live.asked(what)
        self._terminal.asked(what, interruption)


class Running(click.Command):
    """``run``, whose ``--live`` may stand alone: a word after it that is no address is STUDY."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args.index("--") if "--" in args else len(args)
        for at, word in enumerate(args[:words]):
            if word == FLAG and not is_address(" ".join(args[at + 1 : at + 2])):
                args[at] = f"{FLAG}={FREE}"
        return super().parse_args(ctx, args)


def address_of(text: str | None) -> Address | None:
    """Raises UsageError."""
    return None if text is None else parse(text)


def announce(live: Live) -> list[str]:
    """What a person needs to look at the page; nothing where there is none."""
    if live.place is None:
        return []
    port = live.place.port
    lines = [f"live: {live.place.url}"]
    if live.place.loopback:
        lines.append(
            f"  from elsewhere: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE, then the same address"
        )
    else:
        lines.append(
            "  whoever sees the network can read this address and the page: it is not encrypted."
            " Leave ADDR out and go through ssh -L where that matters."
        )
    return lines
