"""A journal read back: what counts, what does not, and what is said of the rest."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import OwedError, RefusedError
from iotrial.execute.settings.debris import KINDS
from iotrial.execute.settings.journal import (
    Journal,
    ResourceUndo,
    SettingsUndo,
    fields,
    line,
    open_journal,
    read_session,
    sealed,
    sessions,
)
from iotrial.execute.settings.restore import forget, restore
from iotrial.hosts.fake import FakeHost
from iotrial.model.step import PICKS, Change, Probe
from iotrial.model.target import DeviceIdentity
from iotrial.model.tunable import FormerValue, Setting

FOLDER = "/j"
OPEN = line("open", "3", "t", "", "1.5", "/r", "s")
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
ACTS = st.builds(
    Change,
    st.sampled_from(["write", "save", "remove", "run"]),
    WORDS,
    WORDS,
    st.lists(WORDS, max_size=3).map(tuple),
)
OWED = st.builds(
    FormerValue,
    st.builds(Setting, st.just("sda"), WORDS, WORDS),
    st.builds(
        Probe, WORDS, st.lists(WORDS, max_size=3).map(tuple), st.sampled_from(PICKS), WORDS, WORDS
    ),
    st.lists(ACTS, max_size=3).map(tuple),
    st.booleans(),
)


def owed(name: str, value: str, device: str = "sda") -> FormerValue:
    probe, act = Probe(f"/sys/{name}"), Change("write", f"/sys/{name}", value)
    return FormerValue(Setting(device, name, value), probe, (act,))


def settings(*values: tuple[str, str], device: str = "sda") -> bytes:
    """The lines that a journal holds for these former values."""
    host = FakeHost()
    journal = open_journal(host, "/j", {"token": "t"})
    former = tuple(owed(name, value, device) for name, value in values)
    journal.owe_settings(SettingsUndo(device, None, former))
    return host.read(journal.path).split(b"\n", 1)[1].rpartition(b"whole|")[0]


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_any_text_comes_back_from_a_line(words: list[str]) -> None:
    written = line(*words)
    assert written.count(b"\n") == 1
    assert fields(written.decode("utf-8", "surrogateescape")[:-1]) == words


@given(st.lists(OWED, max_size=4, unique_by=lambda each: each.setting.tunable))
def test_every_debt_comes_back_whole(values: list[FormerValue]) -> None:
    host = FakeHost()
    journal = open_journal(host, "/j", {"token": "t", "boot_id": "b", "at": 2.5, "study": "s|"})
    identity = DeviceIdentity("sda", "8:0", 512, (("wwid", "naa.5"),))
    debt = SettingsUndo("sda", identity, tuple(values), (("/sys/x", "a b"),))
    journal.owe_settings(debt)
    journal.owe_made(ResourceUndo("file", {"file": "/a=b"}))
    (session,) = sessions(host, "/j")
    assert session.settings == ((debt,) if values else ())
    assert session.made == (ResourceUndo("file", {"file": "/a=b"}),)
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


@pytest.mark.parametrize(
    "garbage",
    [b"{garbage}\n", b"value|sda|.\n", b"made\n", line("value", "a", "b", "c", "d"), line("x")],
)
def test_an_unreadable_line_elsewhere_is_named_and_the_rest_still_counts(garbage: bytes) -> None:
    data = OPEN + garbage + settings(("queue.scheduler", "none"))
    session = read_session("/j", sealed(data))
    assert session.damage == ("/j:2: line cannot be read; a setting may be left to restore",)
    assert len(session.settings) == 1


# Damage: whatever is missing or altered is said, and never taken for nothing.


def whole() -> tuple[FakeHost, Journal, bytes]:
    """A journal with an entry of every kind."""
    host = FakeHost()
    journal = open_journal(host, FOLDER, {"token": "t", "at": 2.5, "study": "s"})
    lasting = replace(owed("kernel.x", "1", ""), durable=True)
    journal.owe_settings(SettingsUndo("", None, (owed("vm.x", "1", ""), lasting)))
    identity = DeviceIdentity("sda", "8:0", 512, (("wwid", "naa.5"),))
    value = owed("queue.scheduler", "none")
    journal.owe_settings(SettingsUndo("sda", identity, (value,), (("/sys/x", "a b"),)))
    for kind in KINDS:
        journal.owe_made(ResourceUndo(kind, {"file": "/a=b", "name": kind}))
    return host, journal, host.read(journal.path)


def test_a_journal_that_is_cut_anywhere_says_so_and_what_is_left_of_it_counts() -> None:
    _, _, data = whole()
    full = read_session("/j", data)
    assert full.damage == ()
    for cut in range(len(data)):
        session = read_session("/j", data[:cut])
        assert "more settings may have to be restored" in session.damage[-1], cut
        assert session.made == full.made[: len(session.made)], cut
        names = [o.setting.tunable for debt in session.settings for o in debt.values]
        there = [o.setting.tunable for debt in full.settings for o in debt.values]
        assert names == there[: len(names)], cut


def test_a_journal_that_is_altered_anywhere_says_so() -> None:
    _, _, data = whole()
    for at in range(len(data)):
        for byte in (b"\0", b"\n", bytes([data[at] ^ 1])):
            if byte != data[at : at + 1]:
                assert read_session("/j", data[:at] + byte + data[at + 1 :]).damage, at


@given(st.binary(max_size=200))
def test_no_bytes_are_taken_for_a_journal_that_owes_nothing(data: bytes) -> None:
    assert read_session("/j", data).damage


def test_of_the_format_before_a_torn_last_line_is_a_change_that_never_happened() -> None:
    former = OPEN.replace(b"|3|", b"|2|", 1) + settings(("queue.scheduler", "none"))
    torn = settings(("queue.nr_requests", "64"))
    for end in range(len(torn)):
        session = read_session("j", former + torn[:end])
        names = [o.setting.tunable for debt in session.settings for o in debt.values]
        assert names == ["queue.scheduler"]
        assert session.damage == ()


def test_a_journal_of_another_format_keeps_no_other_from_being_paid() -> None:
    host, journal, data = whole()
    host.save(journal.path, OPEN.replace(b"|3|", b"|4|", 1) + data)
    host.machine.put("/var/tmp/x", b"x")
    other = open_journal(host, FOLDER, {"token": "u"})
    other.owe_made(ResourceUndo("file", {"file": "/var/tmp/x"}))
    with pytest.raises(OwedError, match=r"format 4 is not known.*with the version") as owed:
        restore(host, FOLDER)
    assert len(owed.value.owed) == 1
    assert "/var/tmp/x" not in host.machine.files
    assert host.list(FOLDER) == ["t.journal"]
    assert len(forget(host, FOLDER).notes) == 1
    assert host.list(FOLDER) == []


@pytest.mark.parametrize("data", [b"", b"\0" * 40, OPEN[:-5], OPEN])
def test_a_restore_of_a_damaged_journal_does_not_say_that_nothing_is_owed(data: bytes) -> None:
    host, journal, _ = whole()
    host.save(journal.path, data)
    for _ in range(2):
        with pytest.raises(OwedError, match="more settings may have to be restored"):
            restore(host, FOLDER)
    assert all(note.startswith("discarded: ") for note in forget(host, FOLDER).notes)
    restore(host, FOLDER)


def test_a_folder_that_cannot_be_read_is_not_an_empty_one() -> None:
    host, _, _ = whole()
    host.refuse[f"read {FOLDER}"] = errno.EIO
    with pytest.raises(OwedError, match="the list of settings to restore cannot be read"):
        restore(host, FOLDER)
    host.refuse = {f"read {FOLDER}/t.journal": errno.EIO}
    with pytest.raises(OwedError, match="Input/output error"):
        restore(host, FOLDER)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_what_cannot_be_written_leaves_what_was(code: int) -> None:
    host, journal, data = whole()
    host.refuse[f"{FOLDER}/*"] = code
    with pytest.raises(RefusedError, match="iotrial changes no setting without it"):
        journal.owe_made(ResourceUndo("file", {"file": "/x"}))
    host.refuse.clear()
    assert host.read(journal.path) == data
    journal.check(*host.batch([journal.look]))
    journal.owe_made(ResourceUndo("file", {"file": "/y"}))
    (session,) = sessions(host, FOLDER)
    assert [debt.plan["file"] for debt in session.made[-2:]] == ["/x", "/y"]


SPOILT = {
    "removed": lambda host, path: host.machine.files.pop(path),
    "emptied": lambda host, path: host.machine.put(path, b""),
    "truncated": lambda host, path: host.machine.put(path, host.machine.files[path].data[:-9]),
    "changed by another program": lambda host, path: host.machine.put(path, b"x\n"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_before_more_is_owed_the_file_is_looked_at(how: str) -> None:
    host, journal, _ = whole()
    SPOILT[how](host, journal.path)
    with pytest.raises(OwedError, match=f"{journal.path} was {how}") as lost:
        journal.owe_made(ResourceUndo("file", {"file": "/x"}))
    assert set(lost.value.owed) == set(journal.describe())
    assert len(lost.value.owed) == 3 + len(KINDS)
