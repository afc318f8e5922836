"""Profiles: written, read back, and refused with file, line and key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import StudyError
from iotrial.keep.profile import Entry, Profile, named, parse, plain, to_toml

HEAD = 'format = 1\nname = "n"\n'
ONE = f'{HEAD}[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = 10\n'

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=30)


@given(question=WORDS, value=WORDS, former=WORDS, because=WORDS, wwid=WORDS)
def test_what_is_written_is_read_back(
    question: str, value: str, former: str, because: str, wwid: str
) -> None:
    entry = Entry("queue.scheduler", value, "sda", (("wwid", wwid),), former, because)
    other = Entry("sysctl.vm.swappiness", value)
    profile = Profile("some-name", (entry, other), question, "results/x")
    assert parse(to_toml(profile), "p.toml") == profile


def test_a_number_may_be_written_as_one() -> None:
    assert parse(ONE, "p.toml").entries == (Entry("sysctl.vm.swappiness", "10"),)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("format = ", 0, "Invalid value"),
        ("format = 2\n", 1, "format 2 is not known"),
        ('format = 1\nname = "A b"\n', 2, "cannot name files"),
        (f"{HEAD}", 1, "nothing to keep"),
        (f"{HEAD}what = 1\n", 3, "no key 'what'"),
        (f'{HEAD}[[keep]]\nvalue = "x"\n', 3, "tunable must be a text"),
        (f'{HEAD}[[keep]]\ntunable = "queue.schedular"\nvalue = "x"\n', 4, "no tunable"),
        (f'{HEAD}[[keep]]\ntunable = "queue.scheduler"\nvalue = "x"\n', 3, "belongs to a disk"),
        (f'{HEAD}[[keep]]\ntunable = "queue.scheduler"\non = "../x"\nvalue = "x"\n', 5, "names no"),
        (f'{HEAD}[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = "1\\n2"\n', 3, "control"),
        (f'{HEAD}[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = true\n', 5, "must be a text"),
        (f'{HEAD}[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = 1\nids = 3\n', 6, "ids must"),
        (f"{ONE}{ONE.removeprefix(HEAD)}", 6, "kept twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(StudyError, match=said) as raised:
        parse(text, "p.toml")
    assert raised.value.line == line
    assert str(raised.value).startswith("p.toml")
    assert raised.value.advice


@given(st.text())
def test_any_text_makes_a_name_and_a_line(text: str) -> None:
    assert parse(to_toml(Profile(named(text), (Entry("mm.thp", "never"),))), "p").name
    assert len(plain(text).splitlines()) <= 1


@given(st.binary())
def test_any_bytes_are_a_profile_or_an_error_that_says_where(data: bytes) -> None:
    try:
        parse(data.decode("utf-8", "surrogateescape"), "p.toml")
    except StudyError as error:
        assert "p.toml" in str(error)  # noqa: PT017 (either is right)
