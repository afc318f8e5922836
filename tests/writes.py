"""Writes into the files of a block queue, for kernels and what pretends to be one: mostly sensible,
sometimes not."""

from __future__ import annotations

import random

from iotrial.tunables import all_tunables

SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
QUEUE = [row for row in all_tunables() if row.name.startswith("queue.")]
NUMBERS = ("0", "1", "2", "3", "4", "7", "8", "9", "16", "17", "64", "100", "128", "129", "250")
NUMBERS += ("256", "500", "1000", "1280", "2000", "2048", "2049", "4294", "4295", "100000")
ODD = ("", "-1", "-2", "abc", " 7", "+7", "007", "0x10", "1 2", "5\n", "5\n\n", "1.5")
ODD += ("2147483646", "4294967295", "4294967296", "9223372036854775808", "99999999999999999999")
WORDS = ("none", "mq-deadline", "kyber", "bfq", "deadline", "noop", "cfq", " bfq", "bfq\n", "BFQ")


def any_write(luck: random.Random) -> tuple[str, str]:
    """A tunable, and what to write to it."""
    if luck.random() < 0.12:
        return "queue.scheduler", luck.choice(WORDS)
    row = luck.choice(QUEUE)
    return row.name, luck.choice(NUMBERS if luck.random() < 0.8 else ODD)


def any_writes(seed: int, count: int) -> list[tuple[str, str]]:
    luck = random.Random(seed)
    return [any_write(luck) for _ in range(count)]


def every_write() -> list[list[tuple[str, str]]]:
    """Every value into every file, under every scheduler that could make a difference to it."""
    texts = (*NUMBERS, *ODD)
    return [
        [("queue.scheduler", scheduler), *((row.name, text) for text in texts)]
        for scheduler in SCHEDULERS
        for row in QUEUE
        if row.name != "queue.scheduler"
        and (row.name.startswith("queue.iosched.") or scheduler in ("none", "bfq"))
    ]


def paths() -> dict[str, str]:
    """Tunable → its file, with ``LOOP`` in the device's place."""
    return {row.name: row.file("LOOP") for row in QUEUE}
