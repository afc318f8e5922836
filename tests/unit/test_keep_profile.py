"""Profiles: written, read back, and refused with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import StudyError
from iotrial.keep.entry import KeptSetting
from iotrial.keep.profile import Profile, load, named, parse, plain, to_toml
from iotrial.model.study import StudyHost

HEAD = 'format = 1\nname = "n"\n'
ONE = f'{HEAD}[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = 10\n'

HOSTS = (
    f'{HEAD}[hosts.box1]\nssh = "root@box1"\n[hosts.box2]\n'
    '[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = 10\n'
)

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=30)
SEEN = WORDS.filter(lambda text: text.isprintable() and text == text.strip())
ASCII = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)


@given(question=WORDS, value=SEEN, former=WORDS, because=WORDS, wwid=ASCII)
def test_what_is_written_is_read_back(
    question: str, value: str, former: str, because: str, wwid: str
) -> None:
    entry = KeptSetting("queue.scheduler", value, "sda", (("wwid", wwid),), former, because)
    other = KeptSetting("sysctl.vm.swappiness", value)
    profile = Profile("some-name", (entry, other), question, "results/x")
    assert parse(to_toml(profile), "p.toml") == profile


def test_an_entry_is_of_every_host_or_of_those_it_names() -> None:
    more = '[[keep]]\ntunable = "queue.scheduler"\nvalue = "bfq"\non = "sda"\nhost = "box2"\n'
    profile = parse(HOSTS + more, "p.toml")
    assert parse(to_toml(profile), "p.toml") == profile
    assert profile.hosts == (StudyHost("box1", "root@box1"), StudyHost("box2"))
    swap = KeptSetting("sysctl.vm.swappiness", "10")
    first, second = profile.shares.values()
    assert first == Profile("n", (swap,))
    assert second == Profile("n", (swap, KeptSetting("queue.scheduler", "bfq", "sda")))
    one = parse(f'{HOSTS}host = "box[2]"\n', "p.toml")
    assert list(one.shares) == [StudyHost("box2")], (
        "a host without a share is none of the profile's"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"format = 1\n# \xff\n", "p.toml:2: is not UTF-8"),
        (b"#" * (2**20 + 1), "p.toml: is larger than 1 MiB"),
        (None, "p.toml: cannot be read: No such file"),
    ],
)
def test_a_file_that_is_no_text_is_named(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StudyError) as raised:
        load(path)
    assert said in str(raised.value)
    assert raised.value.advice


def test_a_number_may_be_written_as_one() -> None:
    assert parse(ONE, "p.toml").entries == (KeptSetting("sysctl.vm.swappiness", "10"),)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("format = ", 1, "Invalid value"),
        ("format = 2\n", 1, "format 2 is not known"),
        ('format = 1\nname = "A b"\n', 2, "is not a valid file name"),
        (f"{HEAD}", 1, "no setting to keep"),
        (f"{HEAD}what = 1\n", 3, "unknown key 'what'"),
        (f'{HEAD}[[keep]]\nvalue = "x"\n', 3, "tunable must be a text"),
        (f'{HEAD}[[keep]]\ntunable = "queue.schedular"\nvalue = "x"\n', 4, "unknown tunable"),
        (f'{HEAD}[[keep]]\ntunable = "queue.scheduler"\nvalue = "x"\n', 3, "belongs to a disk"),
        (
            f'{HEAD}[[keep]]\ntunable = "queue.scheduler"\non = "../x"\nvalue = "x"\n',
            5,
            "no disk is named",
        ),
        (f'{HEAD}[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = "1\\n2"\n', 5, "control"),
        (f'{HEAD}[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = true\n', 5, "must be a text"),
        (f'{HEAD}[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = 1\nids = 3\n', 6, "ids must"),
        (f"{ONE}{ONE.removeprefix(HEAD)}", 6, "occurs twice"),
        (f'{ONE}host = "b"\n', 6, "unknown host 'b'"),
        (f'{HOSTS}host = "box3"\n', 9, "unknown host 'box3'"),
        (f'{HOSTS}host = "box[1-"\n', 9, "a bracket is not closed"),
        (f"{HOSTS}{ONE.removeprefix(HEAD)}", 9, "swappiness on box1 occurs twice"),
        (f'{HEAD}hosts = "box1"\n{ONE.removeprefix(HEAD)}', 3, "hosts is not a table"),
        (f"{HEAD}[hosts]\nbox1 = 3\n{ONE.removeprefix(HEAD)}", 4, "box1 is not a table"),
        (f'{HEAD}[hosts."a/b"]\n{ONE.removeprefix(HEAD)}', 3, "is not a valid host name"),
        (f"{HEAD}[hosts.a]\nport = 3\n{ONE.removeprefix(HEAD)}", 4, "unknown key 'port'"),
        (f"{HEAD}x = {'[' * 5000}{']' * 5000}\n", 0, "nested too deeply"),
        (f"{HEAD}x = 1{'0' * 5000}\n", 0, "not TOML"),
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
    assert parse(to_toml(Profile(named(text), (KeptSetting("mm.thp", "never"),))), "p").name
    assert len(plain(text).splitlines()) <= 1


@given(st.binary())
def test_any_bytes_are_a_profile_or_an_error_that_says_where(data: bytes) -> None:
    try:
        parse(data.decode("utf-8", "surrogateescape"), "p.toml")
    except StudyError as error:
        assert "p.toml" in str(error)  # noqa: PT017 (either is right)
