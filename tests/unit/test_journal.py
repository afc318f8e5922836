"""A journal read back: what counts, what does not, and what is said of the rest."""

from __future__ import annotations

import json

import pytest

from iotrial.errors import OwedError
from iotrial.execute.journal import read_session

HEAD = {"kind": "open", "format": 1, "boot_id": "b", "token": "t", "study": "s", "results": "r"}


def line(**entry: object) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def settings(*values: tuple[str, str], device: str = "sda") -> bytes:
    return line(
        kind="settings", device=device, identity=None, values=[list(value) for value in values]
    )


def test_the_first_value_of_a_tunable_is_the_one_that_is_owed() -> None:
    data = (
        line(**HEAD)
        + settings(("queue.scheduler", "none"))
        + settings(("queue.scheduler", "bfq"), ("queue.nr_requests", "64"))
    )
    (debt,) = read_session("j", data).settings
    assert [(s.tunable, s.value) for s in debt.values] == [
        ("queue.scheduler", "none"),
        ("queue.nr_requests", "64"),
    ]


def test_a_torn_last_line_is_a_change_that_never_happened() -> None:
    whole = line(**HEAD) + settings(("queue.scheduler", "none"))
    torn = settings(("queue.nr_requests", "64"))
    for end in range(len(torn)):
        session = read_session("j", whole + torn[:end])
        assert [s.tunable for debt in session.settings for s in debt.values] == ["queue.scheduler"]
        assert session.damage == ()


def test_an_unreadable_line_elsewhere_is_named_and_the_rest_still_counts() -> None:
    data = line(**HEAD) + b"{garbage}\n" + settings(("queue.scheduler", "none"))
    session = read_session("/var/j.jsonl", data)
    assert session.damage == ("/var/j.jsonl:2: line cannot be read; something may still be owed",)
    assert len(session.settings) == 1


def test_a_journal_of_a_later_format_is_owed_not_guessed() -> None:
    with pytest.raises(OwedError, match="format 2"):
        read_session("j", line(**{**HEAD, "format": 2}))


def test_a_journal_torn_in_its_first_line_owes_nothing() -> None:
    session = read_session("j", line(**HEAD)[:-5])
    assert session.describe() == ()
