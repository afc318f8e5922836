"""What a trial loads at the same time, and what each host sees of a study."""

from __future__ import annotations

from itertools import product

import pytest

from iotrial.look.reach import reach_of
from iotrial.model.hostlist import expanded
from iotrial.model.study import Study
from iotrial.model.trial import Trial
from iotrial.plan.ahead import each_study, loads_on
from iotrial.plan.design import target_of
from iotrial.plan.estimate import estimate
from iotrial.plan.load import parse_study
from iotrial.plan.parts import parts, parts_of, several, share
from iotrial.plan.stages import next_trials

LOAD = """
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "1s" }
"""
BOXES = "".join(f'[hosts.box{n}]\nssh = "root@box{n}"\n' for n in range(1, 5))
WIDE = f"""{BOXES}
[targets.disks]
devices = ["/dev/disk/by-id/a", "/dev/disk/by-id/b"]
hosts = "box[1-3]"
[targets.own]
loop = {{ size = "16MiB" }}
host = "box4"
[targets.all]
targets = ["own", "disks"]
[factors.hosts]
count = "hosts"
levels = [1, 2, 4]
[factors.width]
count = "devices"
levels = [1, 2]
[factors.ahead]
tunable = "queue.read_ahead_kb"
target = "own"
levels = [64, 128]
[design]
blocks = 1
{LOAD}"""


def study(text: str) -> Study:
    return parse_study(text, "many", lambda _: "")


def names(it: Study, trial: Trial) -> list[str]:
    return [part.name for part in parts_of(it, trial)]


def test_a_study_on_one_thing_has_no_parts() -> None:
    one = study(f'[targets.disk]\nloop = {{ size = "16MiB" }}\n{LOAD}')
    assert not several(one)
    assert [place.name for place in one.places] == ["local"]


def test_a_target_is_what_it_comes_to_on_each_of_its_hosts() -> None:
    it = study(WIDE)
    assert several(it)
    assert [part.name for part in parts(it, "disks")] == [
        "box1/disks#1", "box1/disks#2", "box2/disks#1", "box2/disks#2",
        "box3/disks#1", "box3/disks#2",
    ]  # fmt: skip
    assert [part.name for part in parts(it, "own")] == ["box4/own"]


def test_targets_loaded_together_are_under_test_as_one() -> None:
    it = study(WIDE)
    assert target_of(it, ()) == "all"
    assert {part.host for part in parts(it, "all")} == {"box1", "box2", "box3", "box4"}
    assert len(parts(it, "all")) == 7


def test_counts_take_the_first_hosts_and_the_first_devices_of_each() -> None:
    it = study(WIDE)
    seen = {
        (dict(trial.treatment)["hosts"], dict(trial.treatment)["width"]): names(it, trial)
        for trial in next_trials(it, (), ())
    }
    assert seen["1", "1"] == ["box1/disks#1"]
    assert seen["2", "1"] == ["box1/disks#1", "box2/disks#1"]
    assert seen["4", "2"] == [part.name for part in parts(it, "all")]


def test_each_device_of_several_is_armed_by_its_own_key() -> None:
    armed = study(
        '[targets.disks]\ndevices = ["/dev/disk/by-id/a", "/dev/disk/by-id/b"]\n'
        f'destroy = ["S1", "S2"]\n{LOAD}'
    )
    assert [(p.target.path, p.target.destroy) for p in parts(armed, "disks")] == [
        ("/dev/disk/by-id/a", "S1"), ("/dev/disk/by-id/b", "S2"),
    ]  # fmt: skip
    assert several(armed)


def test_a_host_sees_what_is_on_it_and_sets_nothing_for_others() -> None:
    it = study(WIDE)
    first, *_, last = (share(it, place) for place in it.places)
    assert [target.name for target in first.targets] == ["disks#1", "disks#2"]
    assert [target.name for target in last.targets] == ["own"]
    assert not any(level.settings for level in first.factor("ahead").levels)
    assert all(level.settings for level in last.factor("ahead").levels)
    assert first.place.name == "box1"


def test_a_target_may_be_compared_with_one_on_another_host() -> None:
    it = study(
        f'{BOXES}[targets.a]\nloop = {{ size = "1MiB" }}\nhost = "box2"\n'
        '[targets.b]\nloop = { size = "1MiB" }\nhost = "box1"\n'
        f'[factors.which]\ntargets = ["a", "b"]\n{LOAD}'
    )
    seen = {trial.target: names(it, trial) for trial in next_trials(it, (), ())}
    assert seen == {"a": ["box2/a"], "b": ["box1/b"]}
    assert [place.name for place in it.places] == ["box1", "box2"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("box[1-3]", ("box1", "box2", "box3")),
        ("a, b[2,4-5]", ("a", "b2", "b4", "b5")),
        ("n[08-10]x", ("n08x", "n09x", "n10x")),
        ("", ()),
    ],
)
def test_host_lists_are_written_as_clush_writes_them(text: str, found: tuple[str, ...]) -> None:
    assert expanded(text) == found


@pytest.mark.parametrize("text", ["a[1-3", "a]1", "a[]", "a[3-1]", "a[1-99999]"])
def test_a_host_list_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|descending|more than"):
        expanded(text)


def test_a_stage_on_targets_together_knows_what_they_are_made_of() -> None:
    it = study(
        '[targets.a]\nloop = { size = "1MiB" }\n[targets.b]\nloop = { size = "2MiB" }\n'
        '[targets.all]\ntargets = ["a", "b"]\n[factors.ahead]\ntunable = "queue.read_ahead_kb"\n'
        f'levels = [64, 128]\nbaseline = 128\n[[stage]]\nvary = ["ahead"]\nthen = "best"\n{LOAD}'
    )
    (stage,) = each_study(it)
    assert [target.name for target in stage.whole] == ["all"]
    assert [part.name for part in parts(stage, "all")] == ["local/a", "local/b"]
    assert estimate(it).trials


STAGED = f"""{BOXES}
[targets.test]
loop = {{ size = "16MiB" }}
hosts = "box[1-2]"
[targets.array]
devices = ["/dev/disk/by-id/a", "/dev/disk/by-id/b"]
host = "box3"
[targets.live]
targets = ["array"]
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "1s" }}
[workloads.writes]
tool = "fio"
options = {{ rw = "randwrite", bs = "4k", runtime = "1s" }}
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [64, 128]
baseline = 64
[[stage]]
vary = ["ahead"]
[[stage]]
target = "live"
workloads = ["reads"]
then = "confirm"
[decide]
primary = {{ reads = "read.iops", writes = "write.iops" }}
"""


def test_each_host_has_of_a_staged_study_what_its_stages_load_there() -> None:
    it = study(STAGED)
    shares = {place.name: share(it, place) for place in it.places}
    assert {name: [stage.here for stage in of.stages] for name, of in shares.items()} == {
        "box1": [("test",), ()],
        "box2": [("test",), ()],
        "box3": [(), ("array#1", "array#2")],
    }
    loads = {name: [[w.name for w in part.workloads] for part in each_study(of)]
             for name, of in shares.items()}  # fmt: skip
    assert loads["box1"] == [["reads", "writes"], []]
    assert loads["box3"] == [[], ["reads"]]


def test_what_is_only_read_where_a_stage_confirms_needs_no_arming_there() -> None:
    """An earlier stage writes, but to another host."""
    it = study(STAGED)
    live = share(it, it.places[2])
    assert [w.name for w in loads_on(live, "array#2")] == ["reads"]
    assert not reach_of(live, live.target("array#2")).writes
    test = share(it, it.places[0])
    assert reach_of(test, test.target("test")).writes


def test_levels_that_are_options_are_part_of_what_a_load_may_do() -> None:
    """Of each combination, and of so many that nobody looks at all, of each pair."""
    levels = {"rw": ("read", "rw"), "size": ("1m", "2m"), "offset": ("0", "1m")}
    text = "".join(
        f'[factors.{name}]\noption = "{name}"\nworkload = "w"\nlevels = {list(values)}\n'
        for name, values in levels.items()
    )
    head = '[targets.t]\nfile = "/x/f"\nsize = "1MiB"\n[workloads.w]\ntool = "fio"\n'
    few = study(f'{head}options = {{ bs = "4k" }}\n{text}[decide]\nprimary = "read.iops"\n')
    found = {tuple(dict(load.options)[name] for name in levels) for load in loads_on(few, "t")}
    assert found == set(product(*levels.values()))
    many = study(
        f"{head}{''.join(_number(name) for name in ('bs', 'iodepth', 'numjobs', 'nrfiles'))}"
    )
    loads = [dict(load.options) for load in loads_on(many, "t")]
    assert len(loads) < 5000
    pairs = {(load.get("bs"), load.get("nrfiles")) for load in loads}
    assert pairs >= set(product(range(1, 11), repeat=2))


def test_what_goes_over_a_network_alone_is_no_storage() -> None:
    head = '[targets.t]\ndirectory = "/x"\n[workloads.link]\ntool = "iperf3"\n'
    link = f'{head}options = {{ server = "box2" }}\n{_number("parallel", "link")}'
    alone = study(link)
    assert not reach_of(alone, alone.target("t")).storage
    ls = study(link + '[workloads.ls]\ntool = "listing"\n')
    assert reach_of(ls, ls.target("t")).storage


def _number(name: str, load: str = "w") -> str:
    levels = list(range(1, 11))
    return f'[factors.{name}]\noption = "{name}"\nworkload = "{load}"\nlevels = {levels}\n'
