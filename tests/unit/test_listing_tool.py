"""listing: what it is asked, what it prints, and what may become of that."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import FormatError, UsageError
from iotrial.model.measurement import metric
from iotrial.model.tool import ParsedOutput, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.plan.sense import known_metric
from iotrial.tools import tool
from iotrial.tools.listing import TOOL, _parsed

AIMED = ToolTarget("/mnt/x", "directory")
COLD = """\
listing 1 ls cold 1000 2
create 1000 500000000
drop 5000 300
pass 1000 100000000
drop 5000 300
pass 1000 300000000
delete 1000 250000000
end
"""


def load(**options: OptionValue) -> Workload:
    return Workload("w", "listing", tuple(options.items()))


def values(parsed: ParsedOutput, job: str = "all") -> dict[str, float]:
    return {each.metric: each.value for each in parsed.measurements if each.job == job}


def test_the_registry_finds_it() -> None:
    assert tool("listing") is TOOL
    assert TOOL.reach(load()).writes


def test_passes_are_summed_and_kept_apart() -> None:
    found = _parsed(COLD, "f")
    assert values(found) == pytest.approx(
        {"list.rate": 5000, "list.seconds": 0.2, "create.rate": 2000, "delete.rate": 4000}
    )
    assert values(found, "pass#2") == pytest.approx({"list.rate": 1000 / 0.3, "list.seconds": 0.3})
    assert found.doubts == ()


def test_asking_for_sizes_is_a_storm_of_stats() -> None:
    found = values(_parsed(COLD.replace(" ls ", " stat "), "f"))
    assert {"stat.rate", "stat.seconds"} < set(found)


def test_a_cache_that_was_not_emptied_makes_the_trial_invalid() -> None:
    (doubt,) = _parsed(COLD.replace("drop 5000 300", "drop 5000 4900", 1), "f").doubts
    assert (doubt.check, doubt.invalid) == ("cache", True)


def test_names_that_a_listing_did_not_ask_for_need_not_be_dropped_again() -> None:
    """Seen with ls on ext4: the entries' names are there once made, and not after a listing."""
    text = "drop 5000 300".join(COLD.rsplit("drop 5000 300", 1))
    text = "drop 350 310".join(text.rsplit("drop 5000 300", 1))
    assert text != COLD
    assert _parsed(text, "f").doubts == ()
    (doubt,) = _parsed(text.replace("drop 350 310", "drop 4900 4850"), "f").doubts
    assert (doubt.check, doubt.invalid) == ("cache", True)


def test_a_pass_that_was_too_short_is_doubted() -> None:
    (doubt,) = _parsed(COLD.replace("pass 1000 100000000", "pass 1000 10000000"), "f").doubts
    assert (doubt.check, doubt.invalid) == ("short", False)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("end\n", "", "has no end"),
        ("end\n", "end", "has no end"),
        ("listing 1", "listing 2", "line 1"),
        ("pass 1000 1", "pass 999 1", "a pass that saw other than 1000"),
        ("pass 1000 100000000\n", "", "1 lines of pass where 2 belong"),
        ("drop 5000 300\npass 1000 1", "pass 1000 1", "1 drops for 2 passes"),
        ("create 1000 500000000", "create 1000 0", "line 2: a create in no time"),
        ("delete", "deleted", "line 7: "),
    ],
)
def test_what_is_not_whole_is_an_error(old: str, new: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        _parsed(COLD.replace(old, new, 1), "f")


@given(st.data())
def test_a_mutated_output_gives_sound_numbers_or_a_format_error(data: st.DataObject) -> None:
    text = COLD
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 9)) :]
        )
    try:
        found = _parsed(text, "f")
    except FormatError:
        return
    for each in found.measurements:
        assert math.isfinite(each.value)
        assert each.value > 0
        assert each.unit == metric(each.metric).unit


def test_it_is_told_what_the_study_says() -> None:
    made = TOOL.command(load(entries=5, what="find", cache="warm"), AIMED, {})
    assert made.argv == (
        "sh",
        "listing.sh",
        "/mnt/x/iotrial-listing/data",
        "5",
        "find",
        "warm",
        "3",
    )
    assert dict(made.files)["listing.sh"].startswith(b"#!/bin/sh")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"entries": 0}, "from 1 to"), ({"entries": "many"}, "from 1 to"),
        ({"passes": True}, "from 1 to"), ({"what": "dir"}, "none of ls, find"),
        ({"cache": "hot"}, "none of cold, warm"), ({"depth": 1}, "no such option"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_before(options: dict[str, OptionValue], problem: str) -> None:
    assert problem in dict(TOOL.check(load(**options), {}))[next(iter(options))]
    with pytest.raises(UsageError):
        TOOL.command(load(**options), AIMED, {})


def test_it_works_in_directories_only() -> None:
    with pytest.raises(UsageError, match="works in a directory"):
        TOOL.command(load(), ToolTarget("/dev/loop7", "device"), {})


@pytest.mark.parametrize("name", ["list.rate", "list.seconds", "stat.rate", "create.rate"])
def test_a_study_may_decide_by_what_it_measures(name: str) -> None:
    assert known_metric(name) is not None


def test_no_output_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="wrote no result"):
        TOOL.parse(tmp_path)


def test_more_takes_longer_and_another_find_is_noticed() -> None:
    assert TOOL.seconds(load(entries=10), AIMED) < TOOL.seconds(load(entries=10**5), AIMED)
    assert TOOL.version_problem("find (GNU findutils) 4.9.0") == ""
    assert "not GNU find" in TOOL.version_problem("BusyBox v1.35")
