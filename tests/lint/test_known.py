"""Names: what is known, and what a wrong one may mean."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.tunables import families
from iotrial_lint.known import is_sysctl, keywords, modules, nearest_sysctl, sysctls, version

LONG = sorted(name for name in sysctls() if "*" not in name and len(name.rpartition(".")[2]) > 9)


def misspelt(name: str, at: int, how: str) -> str:
    """The last part of a name with a letter left out, doubled, or swapped with the next."""
    folder, _, last = name.rpartition(".")
    at %= len(last) - 1
    a, b, rest = last[at], last[at + 1], last[at + 2 :]
    changed = {"left out": b, "doubled": a + a + b, "swapped": b + a}[how]
    return f"{folder}.{last[:at]}{changed}{rest}"


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(LONG),
    at=st.integers(0, 40),
    how=st.sampled_from(["left out", "doubled", "swapped"]),
)
def test_a_letter_too_few_or_too_many_is_seen_through(name: str, at: int, how: str) -> None:
    wrong = misspelt(name, at, how)
    if is_sysctl(wrong):
        return  # it is another real one, or the same
    found = nearest_sysctl(wrong)
    assert found
    assert found == name or len(found) - len(name) in range(-3, 4), "as near as the one meant"


def test_every_parameter_of_the_catalogue_is_known() -> None:
    keys = [row.name.removeprefix("sysctl.") for row in families()["sysctl"]]
    assert [key for key in keys if not is_sysctl(key)] == []


@pytest.mark.parametrize(
    "name",
    [
        "net.ipv4.conf.eth0.rp_filter",
        "net.ipv4.conf.eth0/100.rp_filter",
        "net.ipv6.neigh.br-0123.gc_stale_time",
        "net.ipv4.conf.*.rp_filter",
        "vm.dirty_*",
    ],
)
def test_interfaces_and_patterns_stand_for_what_they_may_be(name: str) -> None:
    assert is_sysctl(name)


def test_a_name_in_the_wrong_folder_is_found_where_it_is() -> None:
    assert nearest_sysctl("vm.aio-max-nr") == "fs.aio-max-nr"
    assert nearest_sysctl("net.tcp_rmem") == "net.ipv4.tcp_rmem"
    assert nearest_sysctl("net.ipv4.conf.eth0.rp_fliter") == "net.ipv4.conf.eth0.rp_filter"
    assert nearest_sysctl("nothing.like_any_of_them") == ""


def test_a_keyword_that_ended_began_before() -> None:
    for keyword in keywords().values():
        assert not keyword.until or keyword.first < keyword.until, keyword
    assert keywords()["devices/device", "getuid_callout"].until == (0, 9, 0)


def test_modules_have_parameters() -> None:
    assert all(len(names) > 0 for names in modules().values())
    assert "lpfc_lun_queue_depth" in modules()["lpfc"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("6.1", (6, 1)), ("6.18.0-rc3+", (6, 18, 0)), ("5.14.0-70.el9", (5, 14, 0)), ("new", ())],
)
def test_versions_are_numbers(text: str, expected: tuple[int, ...]) -> None:
    assert version(text) == expected
