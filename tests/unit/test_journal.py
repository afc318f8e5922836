"""A journal read back: what counts, what does not, and what is said of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import OwedError
from iotrial.execute.journal import (
    MadeDebt,
    SettingsDebt,
    fields,
    line,
    open_journal,
    read_session,
    sessions,
)
from iotrial.hosts.fake import FakeHost
from iotrial.model.step import PICKS, Act, Probe
from iotrial.model.target import Identity
from iotrial.model.tunable import Owed, Setting

OPEN = line("open", "2", "t", "b", "1.5", "/r", "s")
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
ACTS = st.builds(
    Act,
    st.sampled_from(["write", "save", "remove", "run"]),
    WORDS,
    WORDS,
    st.lists(WORDS, max_size=3).map(tuple),
)
OWED = st.builds(
    Owed,
    st.builds(Setting, st.just("sda"), WORDS, WORDS),
    st.builds(
        Probe, WORDS, st.lists(WORDS, max_size=3).map(tuple), st.sampled_from(PICKS), WORDS, WORDS
    ),
    st.lists(ACTS, max_size=3).map(tuple),
    st.booleans(),
)


def owed(name: str, value: str, device: str = "sda") -> Owed:
    probe, act = Probe(f"/sys/{name}"), Act("write", f"/sys/{name}", value)
    return Owed(Setting(device, name, value), probe, (act,))


def settings(*values: tuple[str, str], device: str = "sda") -> bytes:
    """The lines that a journal holds for these former values."""
    host = FakeHost()
    journal = open_journal(host, "/j", {"token": "t"})
    former = tuple(owed(name, value, device) for name, value in values)
    journal.owe_settings(SettingsDebt(device, None, former))
    return host.read(journal.path).split(b"\n", 1)[1]


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_any_text_comes_back_from_a_line(words: list[str]) -> None:
    written = line(*words)
    assert written.count(b"\n") == 1
    assert fields(written.decode("utf-8", "surrogateescape")[:-1]) == words


@given(st.lists(OWED, max_size=4, unique_by=lambda each: each.setting.tunable))
def test_every_debt_comes_back_whole(values: list[Owed]) -> None:
    host = FakeHost()
    journal = open_journal(host, "/j", {"token": "t", "boot_id": "b", "at": 2.5, "study": "s|"})
    identity = Identity("sda", "8:0", 512, (("wwid", "naa.5"),))
    debt = SettingsDebt("sda", identity, tuple(values), (("/sys/x", "a b"),))
    journal.owe_settings(debt)
    journal.owe_made(MadeDebt("file", {"file": "/a=b"}))
    (session,) = sessions(host, "/j")
    assert session.settings == ((debt,) if values else ())
    assert session.made == (MadeDebt("file", {"file": "/a=b"}),)
    assert (session.boot_id, session.opened, session.study) == ("b", 2.5, "s|")
    assert session.damage == ()


def test_the_first_value_of_a_tunable_is_the_one_that_is_owed() -> None:
    data = (
        OPEN
        + settings(("queue.scheduler", "none"))
        + settings(("queue.scheduler", "bfq"), ("queue.nr_requests", "64"))
    )
    (debt,) = read_session("j", data).settings
    assert [(o.setting.tunable, o.setting.value) for o in debt.values] == [
        ("queue.scheduler", "none"),
        ("queue.nr_requests", "64"),
    ]


def test_a_torn_last_line_is_a_change_that_never_happened() -> None:
    whole = OPEN + settings(("queue.scheduler", "none"))
    torn = settings(("queue.nr_requests", "64"))
    for end in range(len(torn)):
        session = read_session("j", whole + torn[:end])
        names = [o.setting.tunable for debt in session.settings for o in debt.values]
        assert names == ["queue.scheduler"]
        assert session.damage == ()


@pytest.mark.parametrize(
    "garbage",
    [b"{garbage}\n", b"value|sda|.\n", b"made\n", line("value", "a", "b", "c", "d"), line("x")],
)
def test_an_unreadable_line_elsewhere_is_named_and_the_rest_still_counts(garbage: bytes) -> None:
    session = read_session("/j", OPEN + garbage + settings(("queue.scheduler", "none")))
    assert session.damage == ("/j:2: line cannot be read; something may still be owed",)
    assert len(session.settings) == 1


def test_a_journal_of_another_format_is_owed_not_guessed() -> None:
    with pytest.raises(OwedError, match="format 3"):
        read_session("j", OPEN.replace(b"|2|", b"|3|", 1))


def test_a_journal_torn_in_its_first_line_owes_nothing() -> None:
    assert read_session("j", OPEN[:-5]).describe() == ()
