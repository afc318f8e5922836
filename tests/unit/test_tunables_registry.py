from __future__ import annotations

import dataclasses
import fnmatch
import re

import pytest

from iotrial.errors import StudyError, UsageError
from iotrial.plan.estimate import own_commands
from iotrial.plan.load import parse_study
from iotrial.tunables import (
    Catalogue,
    all_tunables,
    catalogue_of,
    families,
    group,
    tunable,
)


def test_every_row_says_what_it_is_and_who_says_so() -> None:
    for row in all_tunables():
        assert row.summary, row.name
        assert row.source, row.name
        assert row.path.startswith("/") or row.read, row.name
        told = " ".join((row.path, row.key, *row.read))
        one_for_all = row.scope == "host" or row.name.endswith("weight")
        assert one_for_all or "{device}" in told, row.name


def test_names_and_files_are_unique() -> None:
    rows = all_tunables()
    assert len({row.name for row in rows}) == len(rows)
    values = [row for row in rows if row.place is None]  # a rule is read where what it sets is
    assert len({(row.path, row.key, row.read) for row in values}) == len(values)
    assert [row.name for row in rows if row.place] == ["irq.spread"]


def test_every_row_is_found_by_its_name() -> None:
    assert all(tunable(row.name) is row for row in all_tunables())
    assert sum(len(rows) for rows in families().values()) == len(all_tunables())


def test_a_pattern_that_moves_nothing_is_a_slip() -> None:
    names = [row.name for row in all_tunables()]
    for row in all_tunables():
        for pattern in row.moves:
            assert fnmatch.filter(names, pattern), (row.name, pattern)


def test_what_is_moved_is_written_after_its_mover() -> None:
    """But for pairs that are one value in two units: of bfq the finer is written last; of the
    kernel's dirty limits the one that is not 0 counts, whatever the order; and for numbers that
    some drivers refuse while a mode is on, so that they go back before it."""
    pairs = {
        (mover.name, moved.name)
        for mover in all_tunables()
        for moved in all_tunables()
        if moved.moved_by(mover) and moved is not mover and moved.rank <= mover.rank
    }
    ratios = {("sysctl.vm.dirty_ratio", "sysctl.vm.dirty_bytes")}
    ratios |= {("sysctl.vm.dirty_background_ratio", "sysctl.vm.dirty_background_bytes")}
    both_ways = ratios | {(moved, mover) for mover, moved in ratios}
    governed = {("net.pause_autoneg", f"net.pause_{side}") for side in ("rx", "tx")}
    governed |= {
        ("net.adaptive_rx", f"net.{side}_{what}")
        for side in ("rx", "tx")
        for what in ("usecs", "frames")
    }
    assert pairs - governed == both_ways | {
        ("queue.iosched.slice_idle_us", "queue.iosched.slice_idle")
    }


def test_a_group_is_closed_and_in_rank_order() -> None:
    rows = group(["queue.iostats", "queue.scheduler"])
    names = [row.name for row in rows]
    assert names[0] == "queue.scheduler"
    assert {"queue.read_ahead_kb", "queue.nr_requests", "queue.iosched.async_depth"} <= set(names)
    assert [row.rank for row in rows] == sorted(row.rank for row in rows)
    assert group(names) == rows


def test_what_moves_nothing_is_a_group_of_its_own() -> None:
    assert [row.name for row in group(["queue.nomerges"])] == ["queue.nomerges"]
    assert group([]) == ()


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("queue.sheduler", "queue.scheduler"),
        ("scheduler", "queue.scheduler"),
        ("read_expire", "queue.iosched.read_expire"),
        ("queue.nr_request", "queue.nr_requests"),
    ],
)
def test_a_name_that_is_unknown_brings_the_nearest(asked: str, meant: str) -> None:
    with pytest.raises(UsageError, match=asked) as caught:
        tunable(asked)
    assert meant in caught.value.advice


def test_a_name_like_no_other_brings_the_list() -> None:
    with pytest.raises(UsageError) as caught:
        group(["xyz"])
    assert caught.value.advice == "`iotrial knobs` lists them all."


def test_any_kernel_parameter_is_a_tunable_and_no_other_name_is() -> None:
    row = tunable("sysctl.net.ipv4.conf.eth0/100.rp_filter")
    assert row.file("") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
    assert row.scope == "host"
    assert tunable("sysctl.vm.dirty_ratio").moves == ("sysctl.vm.dirty_bytes",)
    for name in ("sysctl.", "sysctl.vm", "sysctl.vm..x", "sysctl.vm.%s", "sysctl.../../etc/passwd"):
        with pytest.raises(UsageError):
            tunable(name)


@pytest.mark.parametrize(
    "key",
    [
        *("kernel.core_pattern", "kernel/core_pattern", "kernel/modprobe", "vm/drop_caches"),
        *("kernel/usermodehelper/bset", "fs.binfmt_misc.register", "fs/binfmt_misc/register"),
        *("kernel.sysrq-trigger", "kernel/poweroff_cmd", "kernel/hotplug"),
        # As a reader has it that takes dots and slashes for the same.
        *("fs.binfmt_misc/register", "fs/binfmt_misc.register", "kernel.usermodehelper/bset"),
        *("net.ipv4.route/flush", "net/ipv6/route.flush"),
    ],
)
def test_a_refused_parameter_is_refused_in_every_spelling(key: str) -> None:
    with pytest.raises(UsageError, match=r"names a program|decides|an act"):
        tunable(f"sysctl.{key}")


def test_the_first_separator_of_a_parameter_says_what_the_others_are() -> None:
    row = tunable("sysctl.net/ipv4/conf/eth0.100/rp_filter")
    assert row.file("") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
    row = tunable("sysctl.vm/dirty_ratio")
    assert (row.name, row.file("")) == ("sysctl.vm/dirty_ratio", "/proc/sys/vm/dirty_ratio")
    assert row.moves == ("sysctl.vm.dirty_bytes",)


def test_a_parameter_of_several_words_reads_as_it_is_written() -> None:
    row = tunable("sysctl.net.ipv4.tcp_rmem")
    assert row.observe(b"4096\t87380\t16777216\n") == "4096 87380 16777216"


def test_a_knob_of_a_study_is_in_its_catalogue_alone() -> None:
    own = dataclasses.replace(tunable("sysctl.vm.swappiness"), name="knob.of.this.study")
    known = Catalogue((own,))
    assert known.tunable(own.name) is own
    assert known.group([own.name]) == (own,)
    with pytest.raises(UsageError, match=own.name):
        group([own.name])


KNOBS = """
question = "Does the client's setting matter?"
[knobs.rsize]
file = "/etc/{name}.conf"
content = "rsize {{value}}\\n"
read = ["{name}", "show"]
[targets.disk]
loop = {{ size = "16MiB" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "read", bs = "4k", runtime = "1s" }}
[factors.rsize]
tunable = "file.rsize"
levels = [4096, 65536]
"""


def test_two_studies_with_other_knobs_of_one_name_are_alive_at_once() -> None:
    first, second = (
        parse_study(KNOBS.format(name=name), f"{name}.toml", str) for name in ("one", "two")
    )
    for study, name in ((first, "one"), (second, "two"), (first, "one")):
        known = catalogue_of(study)
        assert known.group(["file.rsize"])[0].path == f"/etc/{name}.conf"
        assert known.tunable("file.rsize").read[-2:] == (name, "show")
        assert known.said_by_command("file.rsize")
        assert [each.argv[0] for each in own_commands(study)] == [name]
    with pytest.raises(UsageError, match=r"file\.rsize"):
        tunable("file.rsize")


BY_COMMAND = """
question = "?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.w]
tool = "fio"
options = { rw = "randread", runtime = "1s" }
[knobs.rpcs]
read = ["lctl", "get_param", "-n", "osc.{x}.rpcs"]
write = ["lctl", "set_param", "osc.{x}.rpcs={value}"]
[factors.rpcs]
tunable = "command.rpcs"
levels = [8, 32]
"""


def test_a_knob_may_be_read_and_written_by_commands() -> None:
    known = catalogue_of(parse_study(BY_COMMAND, "study.toml", str))
    (row,) = known.group(["command.rpcs"])
    assert row.probe("").argv == ("lctl", "get_param", "-n", "osc.{x}.rpcs")
    (act,) = row.acts("", "8")
    assert act.argv[-3:] == ("lctl", "set_param", "osc.{x}.rpcs=8")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("={value}", "=8", "{value} is missing: every level would write the same"),
        ("write = ", 'file = "/etc/x"\nwrite = ', "a file or a command that writes it, not both"),
        ('write = ["lctl", "set_param", "osc.{x}.rpcs={value}"]', "", "file is missing, or write"),
    ],
)
def test_a_knob_that_nothing_sets_or_two_things_is_refused(old: str, new: str, told: str) -> None:
    assert old in BY_COMMAND
    with pytest.raises(StudyError, match=re.escape(told)):
        parse_study(BY_COMMAND.replace(old, new), "study.toml", str)
