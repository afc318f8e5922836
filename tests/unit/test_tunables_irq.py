from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import SettingRefused, StudyError, UsageError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_study
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.kernel import MANAGED, take_list
from iotrial.judgement import completed
from iotrial.keep.native import export
from iotrial.keep.winner import profile
from iotrial.look.refusals import obstacle, refusals
from iotrial.look.targets import ready
from iotrial.look.topology import topology
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.target import Topology, TopologyNode
from iotrial.model.tool import LoadAccess
from iotrial.model.tunable import Setting
from iotrial.plan.design import nodes
from iotrial.plan.load import parse_study
from iotrial.stats.judge import judge
from iotrial.store import open_results
from iotrial.tunables import tunable
from iotrial.tunables.irq import listed, spread

AFFINITY = tunable("irq.affinity")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0", ""),
        ("0-3,8", ""),
        ("0,1", "is read back as '0-1'"),
        ("3,1", "is read back as '1,3'"),
        ("0-1,1-2", "is read back as '0-2'"),
        ("00", "is read back as '0'"),
        ("3-1", "is not a list of CPUs"),
        ("", "is not a list of CPUs"),
        ("f", "is not a list of CPUs"),
        ("0-", "is not a list of CPUs"),
        ("0-99999999999", "is not a list of CPUs"),
        ("0\n", "is not a list of CPUs"),
    ],
)
def test_a_list_of_cpus_is_written_as_it_is_read_back(value: str, why: str) -> None:
    said = AFFINITY.domain(b"0-3\n").refusal(value)
    assert (why in said) if why else said == ""


@given(st.sets(st.integers(0, 300), min_size=1))
def test_the_spelling_of_the_kernel_is_kept(numbers: set[int]) -> None:
    spelt = listed(",".join(map(str, numbers)))
    assert listed(spelt) == spelt == take_list(spelt, cpus=301)


@pytest.mark.parametrize("code", [errno.EIO, errno.EPERM])
def test_an_interrupt_that_the_kernel_spreads_is_refused_with_the_reason(code: int) -> None:
    """EIO before Linux 6.12."""
    host = FakeHost(refuse={f"/proc/irq/{MANAGED}/*": code})
    with pytest.raises(SettingRefused, match="managed by the kernel") as caught:
        apply(host, [Setting(MANAGED, "irq.affinity", "0")])
    assert "its driver spreads them itself" in caught.value.message
    assert "root" not in caught.value.advice


def test_an_affinity_is_given_back() -> None:
    host = FakeHost()
    before = host.settings()
    group = snapshot(host, ["irq.affinity"], "42")
    apply(host, [Setting("42", "irq.affinity", "0,2-3")])
    assert observe(host, AFFINITY, "42") == "0,2-3"
    assert put_back(host, group.owed) == ()
    assert host.settings() == before


def test_a_managed_interrupt_that_is_only_held_as_it_is_is_not_written() -> None:
    host = FakeHost()
    apply(host, [Setting(MANAGED, "irq.affinity", "2")])
    assert host.operations == 0


@pytest.mark.parametrize("name", ["", "eth0", "../1", "-1", "1/2", "1 2"])
def test_what_is_no_number_is_no_interrupt(name: str) -> None:
    with pytest.raises(UsageError, match="no irq is named"):
        AFFINITY.probe(name)


def test_a_cpu_that_is_not_there_is_named_as_the_reason() -> None:
    with pytest.raises(SettingRefused, match="there are not so many CPUs"):
        apply(FakeHost(), [Setting("40", "irq.affinity", "99")])


def test_the_row_warns_of_irqbalance() -> None:
    assert "irqbalance" in AFFINITY.risk
    assert AFFINITY.moot
    assert AFFINITY.layer == "interrupts"


# Rules for all interrupts of a device.

SPREAD = tunable("irq.spread")
HOMES = {"0": "0", "1": "1", "2": "0", "3": "1", "4": "0", "5": "1", "6": "0", "7": "1"}
SECOND = ("4", "5", "6", "7")
"""Eight CPUs on two nodes, of which the upper four are second threads."""


def machine(adapters: dict[str, tuple[str, tuple[str, ...]]], *, nodes: bool = True) -> Topology:
    """``adapters``: name → its node and its interrupts."""
    found = [
        TopologyNode(
            "nvme",
            name,
            tuple(("irq", irq) for irq in irqs),
            (("numa", home),) if home else (),
        )
        for name, (home, irqs) in adapters.items()
    ]
    found += [TopologyNode("irq", irq) for _, irqs in adapters.values() for irq in irqs]
    for cpu, home in HOMES.items():
        about = (("numa", home),) * nodes + (("thread", "2"),) * (cpu in SECOND)
        found.append(TopologyNode("cpu", f"cpu{cpu}", (), about))
    return Topology(tuple(found))


IRQS = ("40", "41", "42", "43", "44")
ON_ONE = {"nvme0": ("1", IRQS)}


@pytest.mark.parametrize(
    ("rule", "cpus"),
    [
        ("all", "0 1 2 3 4"),
        ("local", "1 3 5 7 1"),
        ("remote", "0 2 4 6 0"),
        ("numa", "0 1 2 3 4"),
        ("one", "1 1 1 1 1"),
    ],
)
def test_each_interrupt_of_a_device_gets_a_cpu_by_the_rule(rule: str, cpus: str) -> None:
    given = spread(rule, IRQS, machine(ON_ONE))
    assert [given[irq] for irq in IRQS] == cpus.split()


def test_nodes_take_turns_where_the_cpus_of_a_node_are_numbered_in_a_row() -> None:
    cpus = [
        TopologyNode("cpu", f"cpu{n}", (), (("numa", str(n // 4)),))
        for n in (7, 6, 5, 4, 3, 2, 1, 0)
    ]
    below = Topology((TopologyNode("nvme", "nvme0", tuple(("irq", i) for i in IRQS)), *cpus))
    assert list(spread("numa", IRQS, below).values()) == ["0", "4", "1", "5", "2"]
    assert list(spread("all", IRQS, below).values()) == ["0", "1", "2", "3", "4"]


def test_every_device_begins_with_the_first_cpu_so_that_its_neighbours_change_nothing() -> None:
    both = machine({"nvme0": ("1", ("40", "41")), "nvme1": ("0", ("50", "51"))})
    assert spread("local", ("40", "41", "50", "51"), both) == {
        "40": "1",
        "41": "3",
        "50": "0",
        "51": "2",
    }
    assert spread("local", ("50", "51"), both) == {"50": "0", "51": "2"}


@pytest.mark.parametrize("rule", ["local", "one", "all"])
def test_a_device_on_no_node_is_near_to_all_cpus(rule: str) -> None:
    given = spread(rule, IRQS, machine({"nvme0": ("", IRQS)}))
    assert set(given.values()) == ({"0"} if rule == "one" else {"0", "1", "2", "3", "4"})


def test_where_no_other_node_is_known_none_is_remote() -> None:
    one_node = machine({"nvme0": ("0", IRQS)}, nodes=False)
    for below in (one_node, machine({"nvme0": ("", IRQS)})):
        with pytest.raises(SettingRefused, match="nvme0 has no CPU on another NUMA node"):
            spread("remote", IRQS, below)


def test_a_rule_is_no_value_of_one_interrupt() -> None:
    with pytest.raises(UsageError, match="is a rule, and no value of one interrupt"):
        SPREAD.acts("40", "all")
    assert SPREAD.written == AFFINITY.written == "irq.affinity"


SAME = "the same settings on this host: remove one of them"
DISK = "naa.600fa4e000000001"
"""fake1, which has the interrupts 40 to 42."""


def study(levels: str, more: str = "") -> Study:
    text = (
        f'[targets.disk]\ndevice = "{DISK}"\n[workloads.read]\ntool = "fio"\n'
        'options = { rw = "randread", bs = "4k", runtime = "1s" }\n'
        f'[factors.irqs]\ntunable = "irq.spread"\nlevels = {levels}\n{more}'
        '[design]\nkind = "full"\nblocks = 2\nsettle = "0s"\n'
    )
    return parse_study(text, "study.toml", lambda _name: "")


@pytest.fixture
def ran(tmp_path: Path) -> tuple[FakeHost, Results]:
    host = FakeHost()
    it = study('["unset", "local", "one"]')
    execute_study(it, host, tmp_path / "r", interruption=Interruption())
    return host, open_results(tmp_path / "r")


@pytest.mark.usefixtures("state")
def test_a_level_is_held_read_back_and_restored_as_a_whole(ran: tuple[FakeHost, Results]) -> None:
    host, results = ran
    assert host.settings() == FakeHost().settings()
    wanted = {"unset": "0-3 0-3 1", "local": "0 2 0", "one": "0 0 0"}
    seen = {}
    for record in results.valid:
        assert record.before == record.after
        assert [triple[:2] for triple in record.before] == [
            (irq, "irq.affinity") for irq in ("40", "41", "42")
        ]
        label = record.trial.treatment[0][1]
        assert " ".join(value for *_, value in record.before) == wanted[label]
        seen[label] = True
    assert seen.keys() == wanted.keys()
    assert results.baselines == {"irqs": "unset"}


@pytest.mark.usefixtures("state")
def test_a_rule_is_kept_as_what_it_put_where(ran: tuple[FakeHost, Results]) -> None:
    _, results = ran
    kept = profile(completed(results, judge(results)), {"irqs": "local"}, "irqs")
    assert [(e.tunable, e.device, e.value, e.former) for e in kept.entries] == [
        ("irq.affinity", "40", "0", "0-3"),
        ("irq.affinity", "41", "2", "0-3"),
        ("irq.affinity", "42", "0", "1"),
    ]
    script = next(file for file in export(kept).files if file.path.endswith(".irq"))
    assert "moved 2 fake1q1\n" in script.text


@pytest.mark.usefixtures("state")
def test_the_level_in_force_at_the_start_is_the_baseline(tmp_path: Path) -> None:
    host = FakeHost()
    apply(host, [Setting(irq, "irq.affinity", "0") for irq in ("40", "41", "42")])
    it = study('["local", "one"]')
    execute_study(it, host, tmp_path / "r", interruption=Interruption())
    assert open_results(tmp_path / "r").baselines == {"irqs": "one"}


@pytest.mark.usefixtures("state")
def test_a_level_is_refused_as_a_whole_and_every_managed_interrupt_is_named(
    tmp_path: Path,
) -> None:
    managed = {f"/proc/irq/{irq}/*": errno.EIO for irq in ("41", "42")}
    host = FakeHost(refuse=managed)
    with pytest.raises(StudyError) as caught:
        execute_study(
            study('["unset", "local"]'), host, tmp_path / "r", interruption=Interruption()
        )
    said = f"{caught.value.message} {caught.value.advice}"
    assert "irq.affinity=2 on 41, as on 42 (" in said
    assert "managed by the kernel" in said
    assert host.settings() == FakeHost().settings()


def test_where_the_file_says_that_the_kernel_spreads_it_nothing_is_tried() -> None:
    path = "/proc/irq/40/smp_affinity_list"
    assert "managed by the kernel" in obstacle(AFFINITY, "40", {path: 0o444})
    assert obstacle(AFFINITY, "40", {path: 0o644}) == ""


def test_rules_that_come_to_the_same_here_are_not_compared() -> None:
    host, it = FakeHost(), study('["all", "numa", "local"]')
    below = {
        "disk": topology(host, ready(host, it.targets[0], LoadAccess(reads=True, writes=False)))
    }
    said = list(refusals(host, it, below))
    assert said == [f"factor irqs: levels all and numa come to {SAME}"]


def test_a_rule_that_does_not_exist_is_refused_with_those_that_do() -> None:
    host, it = FakeHost(), study('["unset", "near"]')
    below = {
        "disk": topology(host, ready(host, it.targets[0], LoadAccess(reads=True, writes=False)))
    }
    (said, *_) = list(refusals(host, it, below))
    assert "'near' is not one of all, local, remote, numa, one" in said


def test_on_names_what_the_interrupts_belong_to() -> None:
    below = machine({"nvme0": ("0", ("40",)), "nvme1": ("1", ("50", "51"))})
    factor = study('["unset", "local"]', 'on = "nvme1"\n').factor("irqs")
    assert nodes(factor, SPREAD, below) == ("50", "51")
    assert nodes(replace(factor, on="eth0"), SPREAD, below) == ()


def test_two_factors_cannot_set_the_same_interrupts() -> None:
    other = '[factors.mask]\ntunable = "irq.affinity"\nlevels = ["0", "1"]\n'
    with pytest.raises(StudyError, match=r"already varies irq\.affinity"):
        study('["unset", "local"]', other)
