"""Which knobs `iotrial tune` varies: by what lies below the target, what the load is, and what is
in force; and why not the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from iotrial.errors import SettingRefused, UsageError
from iotrial.look.topology import topology
from iotrial.model.host import Host
from iotrial.model.target import Topology, TopologyNode
from iotrial.model.tool import WorkloadCharacter
from iotrial.model.tunable import Domain
from iotrial.model.workload import Workload
from iotrial.plan.candidate_rules import CandidateFacts
from iotrial.plan.candidates import (
    Candidate,
    CandidateChoice,
    CandidateRequest,
    KnobReading,
    character_of,
    check_names,
    choose,
    looked_at,
    reasons,
    without,
)
from iotrial.tunables import all_tunables, tunable
from topologies import aim, fibre_channel, iscsi, machine, mounted, nvme

SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
IN_FORCE = {
    "cgroup.v1.read_iops": "unset",
    "queue.scheduler": "none",
    "queue.nr_requests": "128",
    "queue.nomerges": "0",
    "queue.rq_affinity": "1",
    "queue.add_random": "1",
    "queue.rotational": "0",
    "queue.max_sectors_kb": "1280",
    "queue.read_ahead_kb": "128",
    "scsi.queue_depth": "32",
    "md.stripe_cache_size": "256",
    "md.group_thread_cnt": "0",
    "md.rmw_level": "1",
    "mount.atime": "relatime",
    "mount.lazytime": "unset",
    "mount.dioread_nolock": "dioread_nolock",
    "mount.discard": "unset",
    "mount.rsize": "262144",
    "multipath.path_selector": "unset",
    "cpu.governor": "powersave",
    "cpu.dma_latency": "unset",
    "cpu.idle.state1.disable": "0",
    "mm.ksm": "0",
    "nvme.pm_qos_latency_tolerance_us": "100000",
    "sysctl.kernel.numa_balancing": "1",
    "sysctl.kernel.timer_migration": "1",
    "sysctl.vm.dirty_ratio": "20",
    "sysctl.vm.dirty_bytes": "0",
    "sysctl.vm.dirty_background_ratio": "10",
    "sysctl.vm.dirty_expire_centisecs": "3000",
    "sysctl.vm.dirty_writeback_centisecs": "500",
    "sysctl.vm.swappiness": "60",
    "sysctl.vm.min_free_kbytes": "65536",
    "sysctl.vm.watermark_scale_factor": "10",
    "net.rx_usecs": "3",
    "net.gro": "on",
    "sysctl.net.ipv4.tcp_rmem": "4096 131072 6291456",
}
"""What the machine of these tests says; it has nothing else."""
RAW = {"queue.scheduler": b"[none] mq-deadline kyber bfq\n"}
FACTS = CandidateFacts(cpus=4, memory=8 << 30, tags=256, transfer=4096)
DIRECT = WorkloadCharacter(
    writes=False, sequential=False, buffered=False, metadata=False, block=4096, depth=128
)
BUFFERED = WorkloadCharacter(random=False, metadata=False, block=65536, depth=1)
DISK = Topology((*Topology.of_disk("sda").nodes, TopologyNode("cpu", "cpu0")))
NO_WISH = CandidateRequest()


def below(*nodes: TopologyNode) -> Topology:
    return Topology((*nodes, *DISK.nodes))


def said(
    wish: CandidateRequest, where: Topology, values: Mapping[str, str]
) -> dict[str, tuple[KnobReading, ...]]:
    found = {}
    for name in looked_at(where, wish):
        value, knob = values.get(name, ""), tunable(name)
        why = "" if value else "this host does not have it"
        domain = knob.domain(RAW.get(name, value.encode()))
        found[name] = tuple(
            KnobReading(device, value, domain, why) for device in where.names(knob.scope)
        )
    return found


def chosen(
    load: WorkloadCharacter = DIRECT,
    where: Topology = DISK,
    wish: CandidateRequest = NO_WISH,
    facts: CandidateFacts = FACTS,
    **changed: str,
) -> CandidateChoice:
    values = IN_FORCE | {name.replace("__", "."): value for name, value in changed.items()}
    check_names(wish)
    return choose(load, where, said(wish, where, values), facts, wish)


def names(found: CandidateChoice) -> list[str]:
    return [each.knob for each in found.taken]


def levels(found: CandidateChoice) -> dict[str, tuple[str, ...]]:
    return {each.knob: each.levels for each in found.taken}


def named(*words: str, only: bool = False, removed: Sequence[str] = ()) -> CandidateRequest:
    pairs = (word.partition("=") for word in words)
    found = {name: tuple(filter(None, given.split(","))) for name, _, given in pairs}
    return CandidateRequest(found, only, tuple(removed))


# -- what the load is -----------------------------------------------------------------------------


def test_the_value_in_force_comes_first_and_is_the_baseline() -> None:
    found = levels(chosen())
    assert found["queue.scheduler"] == SCHEDULERS
    assert found["queue.rq_affinity"] == ("1", "0", "2")
    assert found["queue.nr_requests"] == ("128", "32", "64", "256")


def test_direct_random_reads_have_no_knobs_of_the_page_cache() -> None:
    found = chosen()
    assert not [name for name in names(found) if name.startswith("sysctl.vm.dirty")]
    assert found.missing["queue.read_ahead_kb"] == "all I/O of the load is direct"
    assert found.missing["sysctl.vm.dirty_ratio"] == "the load does not write"
    assert "smaller than any level" in found.missing["queue.max_sectors_kb"]


def test_buffered_writes_and_reads_have_at_least_twelve() -> None:
    found = levels(chosen(BUFFERED))
    assert len(found) >= 12
    assert found["queue.read_ahead_kb"] == ("128", "32", "512")
    assert found["sysctl.vm.dirty_ratio"] == ("20", "10", "40")
    assert found["queue.max_sectors_kb"] == ("1280", "320", "4096"), "the most that the disk takes"


def test_data_never_stays_unwritten_for_longer_than_it_does() -> None:
    found = levels(chosen(BUFFERED))
    for name in ("sysctl.vm.dirty_expire_centisecs", "sysctl.vm.dirty_writeback_centisecs"):
        first, *others = map(int, found[name])
        assert others
        assert all(0 < each < first for each in others)


def test_a_random_reader_is_not_read_ahead_for_more() -> None:
    found = levels(chosen(replace(BUFFERED, random=True, sequential=False)))
    assert found["queue.read_ahead_kb"] == ("128", "0", "32")


def test_a_queue_that_the_load_does_not_fill_is_not_varied() -> None:
    found = chosen(replace(DIRECT, depth=4))
    assert "fewer than any level would allow" in found.missing["queue.nr_requests"]
    assert "queue.nr_requests" in names(chosen(replace(DIRECT, depth=0))), "it is not known"


def test_idle_states_matter_to_a_load_that_waits() -> None:
    assert "cpu.dma_latency" in names(chosen(replace(DIRECT, depth=1)))
    assert "more than 8 I/Os" in chosen().missing["cpu.dma_latency"]
    without = chosen(replace(DIRECT, depth=1), cpu__idle__state1__disable="")
    assert without.missing["cpu.dma_latency"] == "the CPUs have no idle states to choose from"


def test_what_cannot_be_gained_is_not_tried() -> None:
    assert levels(chosen())["queue.add_random"] == ("1", "0")
    assert "no other value than 0" in chosen(queue__add_random="0").missing["queue.add_random"]


# -- what lies below ------------------------------------------------------------------------------


def test_a_map_has_its_selector_and_the_depth_of_its_paths() -> None:
    host = machine()
    where = topology(cast("Host", host), aim(fibre_channel(host)))
    found = levels(chosen(where=where))
    assert found["multipath.path_selector"][0] == "unset"
    assert found["scsi.queue_depth"] == ("32", "8")
    assert len(where.names("disk")) == 4
    assert chosen().missing["multipath.path_selector"] == "the target is not a multipath map"


def test_storage_over_a_network_has_knobs_of_the_interface() -> None:
    host = machine()
    where = topology(cast("Host", host), aim(iscsi(host, shared=True)))
    found = levels(chosen(where=where))
    assert found["net.rx_usecs"] == ("3", "0", "12")
    assert found["sysctl.net.ipv4.tcp_rmem"] == (
        "4096 131072 6291456",
        "4096 131072 25165824",
    )
    assert "not reached over a network" in chosen().missing["sysctl.net.ipv4.tcp_rmem"]
    assert "take the link down" in chosen(where=where).missing["net.mtu"]


def test_a_drive_that_sleeps_matters_to_a_load_that_waits() -> None:
    host = machine()
    where = topology(cast("Host", host), aim(nvme(host, 0)))
    assert "nvme.pm_qos_latency_tolerance_us" in names(chosen(replace(DIRECT, depth=1), where))
    assert "nvme.pm_qos_latency_tolerance_us" not in names(chosen(where=where))


def test_an_array_with_parity_has_a_stripe_cache_when_it_is_written() -> None:
    parity = below(TopologyNode("array", "md0", about=(("level", "raid5"),)))
    mirror = below(TopologyNode("array", "md0", about=(("level", "raid1"),)))
    found = levels(chosen(BUFFERED, parity))
    assert found["md.stripe_cache_size"] == ("256", "1024", "4096")
    assert found["md.rmw_level"] == ("1", "0", "2")
    assert chosen(BUFFERED, mirror).missing["md.stripe_cache_size"] == "the array has no parity"
    assert chosen(DIRECT, parity).missing["md.rmw_level"] == "the load does not write"
    assert "md.bitmap" in chosen(BUFFERED, parity).missing


def test_a_file_has_options_of_its_mount_that_lose_nothing() -> None:
    host = machine()
    host.block("/sys/devices/virtual/block/loop7", "7:7")
    mounted(host, "40 22 7:7 / /mnt rw,relatime - ext4 /dev/loop7 rw")
    where = topology(cast("Host", host), aim("loop7", "file", "/mnt/data"))
    both = replace(DIRECT, writes=True)
    found = chosen(both, where)
    assert {"mount.atime", "mount.lazytime", "mount.dioread_nolock"} <= set(names(found))
    for name in ("mount.barrier", "mount.data", "mount.commit", "mount.journal_async_commit"):
        assert "may cost data" in found.missing[name]
    root = Topology((TopologyNode("mount", "/", about=(("type", "ext4"),)), *DISK.nodes))
    assert "root file system" in chosen(both, root).missing["mount.lazytime"]


# -- what is never chosen -------------------------------------------------------------------------


def test_nothing_is_chosen_that_loses_data_holds_back_or_is_read_at_load_only() -> None:
    scopes = {knob.scope for knob in all_tunables()}
    everything = below(*(TopologyNode(scope, "x") for scope in scopes - {"host", "device", "disk"}))
    found = chosen(BUFFERED, everything)
    for name in names(found):
        knob = tunable(name)
        assert not knob.reload
        assert not knob.boot
        assert not name.startswith("cgroup.")
        assert "lost" not in knob.risk
        assert "power fails" not in knob.risk
    assert set(found.missing) | set(names(found)) >= {knob.name for knob in all_tunables()}


def test_every_knob_that_is_left_has_a_reason() -> None:
    found = chosen()
    assert all(found.missing.values())
    assert sum(len(knobs) for _, knobs in reasons(found.missing)) == len(found.missing)
    assert (
        "hold a load back"
        in chosen(where=below(TopologyNode("cgroup", "8:0"))).missing["cgroup.v1.read_iops"]
    )


def test_what_cannot_be_set_on_this_host_is_left() -> None:
    wish = CandidateRequest()
    seen = said(wish, DISK, IN_FORCE)
    seen["queue.nomerges"] = (replace(seen["queue.nomerges"][0], why="it is read-only"),)
    found = choose(DIRECT, DISK, seen, FACTS, wish)
    assert found.missing["queue.nomerges"] == "it is read-only"


# -- two knobs together ---------------------------------------------------------------------------


def test_settings_of_a_scheduler_are_varied_only_where_the_scheduler_is_not() -> None:
    deadline = {
        "queue__scheduler": "mq-deadline",
        "queue__iosched__fifo_batch": "16",
        "queue__iosched__front_merges": "1",
    }
    found = chosen(**deadline)
    assert "each scheduler has settings of its own" in found.missing["queue.iosched.fifo_batch"]
    held = chosen(wish=named(removed=["queue.scheduler"]), **deadline)
    assert levels(held)["queue.iosched.fifo_batch"] == ("16", "1", "64")
    assert held.missing["queue.scheduler"] == "removed by --not"


def test_more_requests_than_tags_do_not_go_with_none() -> None:
    facts = replace(FACTS, tags=128)
    deep = {"queue__scheduler": "mq-deadline", "queue__nr_requests": "256"}
    found = chosen(facts=facts, **deep)
    assert "128 tags" in found.missing["queue.nr_requests"]
    assert "queue.nr_requests" in names(
        chosen(facts=facts, wish=named(removed=["queue.scheduler"]), **deep)
    )


def test_of_two_that_zero_each_other_one_is_varied() -> None:
    found = chosen(BUFFERED, wish=named("sysctl.vm.dirty_bytes=100000000"))
    assert "sysctl.vm.dirty_bytes" in names(found)
    assert "changes sysctl.vm.dirty_ratio" in found.missing["sysctl.vm.dirty_ratio"]
    both = named("sysctl.vm.dirty_bytes=100000000", "sysctl.vm.dirty_ratio=5")
    with pytest.raises(UsageError, match=r"--knobs sysctl\.vm.dirty_bytes and sysctl"):
        chosen(BUFFERED, wish=both)


# -- several devices, devices to come -------------------------------------------------------------


def test_devices_that_differ_have_the_baseline_as_they_are() -> None:
    wish, where = CandidateRequest(), below(TopologyNode("disk", "sdb"))
    seen = said(wish, where, IN_FORCE)
    one, other = seen["queue.nomerges"]
    seen["queue.nomerges"] = (one, replace(other, value="2"))
    found = choose(DIRECT, where, seen, FACTS, wish)
    assert levels(found)["queue.nomerges"] == ("unset", "0", "1", "2")


def test_a_loop_device_to_come_has_the_baseline_as_it_will_be() -> None:
    wish = CandidateRequest()
    seen = {
        name: tuple(replace(each, likely=True) for each in found)
        for name, found in said(wish, DISK, IN_FORCE).items()
    }
    found = choose(DIRECT, DISK, seen, FACTS, wish)
    assert levels(found)["queue.scheduler"] == ("unset", "mq-deadline", "kyber", "bfq")


# -- what a person names --------------------------------------------------------------------------


def test_a_named_knob_has_the_levels_that_are_named_behind_the_one_in_force() -> None:
    found = chosen(wish=named("queue.nr_requests=64,128,200", "queue.scheduler=bfq"))
    assert levels(found)["queue.nr_requests"] == ("128", "64", "200")
    assert levels(found)["queue.scheduler"] == ("none", "bfq")
    assert len(found.taken) > 2


def test_only_restricts_to_those_named() -> None:
    found = chosen(wish=named("queue.nomerges", "queue.rq_affinity=0", only=True))
    assert levels(found) == {"queue.nomerges": ("0", "1", "2"), "queue.rq_affinity": ("1", "0")}
    assert "--only" in found.missing["queue.scheduler"]


def test_a_name_goes_before_a_pattern() -> None:
    wish = named("queue.nomerges=1", removed=["queue.*"])
    assert [name for name in names(chosen(wish=wish)) if name.startswith("queue.")] == [
        "queue.nomerges"
    ]


def test_a_limit_of_a_group_is_varied_when_it_is_named() -> None:
    where = below(TopologyNode("cgroup", "8:0"))
    found = chosen(where=where, wish=named("cgroup.v1.read_iops=2000"))
    assert levels(found)["cgroup.v1.read_iops"] == ("unset", "2000")
    first = chosen(where=where, wish=named("cgroup.v1.read_iops=2000,unset"))
    assert levels(first)["cgroup.v1.read_iops"] == ("2000", "unset"), "nothing is in force"
    assert first.taken[-1].in_force == "2000"


@pytest.mark.parametrize(
    ("wish", "error", "told"),
    [
        (named("queue.schedulr"), UsageError, "unknown tunable 'queue.schedulr'"),
        (named(removed=["queue.schedulr"]), UsageError, "unknown tunable 'queue.schedulr'"),
        (named("queue.nomerges", removed=["queue.nomerges"]), UsageError, "--knobs and in --not"),
        (named("queue.nr_requests=1"), UsageError, "queue.nr_requests: 1 is below 4"),
        (named("queue.scheduler=cfq"), UsageError, "'cfq' is not one of"),
        (named("queue.nomerges=0"), UsageError, "queue.nomerges has no other level than 0"),
        (named("boot.iommu=pt"), UsageError, "each level takes a boot"),
        (named("scsi.queue_type"), UsageError, "cannot be varied"),
        (named("mount.atime"), SettingRefused, "belongs to a mount, and the target has none"),
        (named("queue.wbt_lat_usec=0"), SettingRefused, "this host does not have it"),
    ],
)
def test_what_cannot_be_named_is_refused(
    wish: CandidateRequest, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        chosen(wish=wish)


def test_an_old_name_of_a_level_is_accepted() -> None:
    assert levels(chosen(wish=named("queue.scheduler=deadline")))["queue.scheduler"] == (
        "none",
        "mq-deadline",
    )


def test_the_same_answers_give_the_same_choice() -> None:
    one = chosen(wish=named("queue.nomerges", "queue.scheduler"))
    assert one == chosen(wish=named("queue.scheduler", "queue.nomerges"))
    assert all(isinstance(each, Candidate) and each.reason for each in one.taken)


# -- the character of a load ----------------------------------------------------------------------


def fio(jobfile: str = "", **options: str | int) -> WorkloadCharacter:
    workload = Workload("load", "fio", tuple(options.items()), jobfile)
    return character_of(workload, {"cpus": 4.0, "memory": 8e9})


def test_the_options_of_fio_say_what_a_load_is() -> None:
    found = fio(rw="randread", bs="16k", iodepth=8, numjobs="2*cpus")
    assert (found.reads, found.writes) == (True, False)
    assert (found.sequential, found.random) == (False, True)
    assert not found.buffered
    assert (found.block, found.depth) == (16384, 64)
    assert fio(rw="write", direct=0).buffered
    assert fio(rw="randread", ioengine="psync", numjobs=3).depth == 3


def test_a_job_file_is_all_of_its_jobs() -> None:
    found = fio("[a]\nrw=read\nbs=1m\n[b]\nrw=randwrite\niodepth=4\nioengine=libaio\ndirect=1\n")
    assert found == WorkloadCharacter(metadata=False, block=1 << 20, depth=5)


def test_a_replay_is_what_was_recorded() -> None:
    lines = "".join(f"{at * 100} 0 0 {at * 4096} 4096 50\n" for at in range(50))
    trace = f"iotrial trace 1 1.0\n{lines}"
    found = character_of(Workload("load", "replay", trace=trace), {})
    assert (found.reads, found.writes) == (True, False)
    assert (found.sequential, found.random, found.block) == (True, False, 4096)


def test_a_tool_that_does_not_say_may_do_anything() -> None:
    found = character_of(Workload("load", "bonnie++"), {})
    assert found.metadata
    assert found.sequential
    assert found.random


def test_the_levels_of_every_rule_are_in_the_domain() -> None:
    for each in (*chosen(BUFFERED).taken, *chosen().taken):
        domain: Domain = tunable(each.knob).domain(RAW.get(each.knob, b""))
        assert [level for level in each.levels if domain.refusal(level)] == []


def test_a_level_that_the_kernel_rejects_is_left_and_a_baseline_takes_the_knob_with_it() -> None:
    three = Candidate("queue.nomerges", ("0", "1", "2"), "why", "0")
    left = without(three, "2")
    assert left is not None
    assert left.levels == ("0", "1")
    assert without(left, "1") is None
    assert without(three, "0") is None
    assert without(three, "7") is None


def test_every_rule_is_about_a_knob_of_the_catalogue() -> None:
    scopes = {knob.scope for knob in all_tunables()} - {"host"}
    everything = Topology(tuple(TopologyNode(scope, "x") for scope in scopes))
    asked = set(looked_at(everything, NO_WISH))
    assert len(asked) > 50
    assert asked <= {knob.name for knob in all_tunables()}


@pytest.mark.parametrize(
    ("knob", "throttled", "wanted"),
    [
        ("queue.nr_requests", "4", "256"),
        ("queue.max_sectors_kb", "4", "4096"),
        ("queue.read_ahead_kb", "4", "128"),
        ("queue.rq_affinity", "0", "1"),
        ("sysctl.vm.dirty_ratio", "1", "20"),
        ("sysctl.vm.dirty_background_ratio", "1", "10"),
        ("sysctl.vm.watermark_scale_factor", "1000", "10"),
    ],
)
def test_a_value_that_holds_a_load_back_has_the_usual_one_beside_it(
    knob: str, throttled: str, wanted: str
) -> None:
    found = levels(chosen(replace(BUFFERED, random=True), **{knob.replace(".", "__"): throttled}))
    assert found[knob][0] == throttled
    assert wanted in found[knob]
