"""``run --live``: where the page is served, and what is said of it."""

from __future__ import annotations

import click

from iotrial.live.address import FREE, Address, is_address, parse
from iotrial.live.live import Live

FLAG = "--live"


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
