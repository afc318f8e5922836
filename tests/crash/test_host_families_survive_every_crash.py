"""CPUs, memory, module parameters and control groups: every moment of death, the former state.

The method is that of :mod:`deaths`; here the settings belong to the host, to CPUs and to the
control group of the load, which is itself made and owed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from deaths import Life, Tally, enumerate_deaths, hold_each_and_pay, killed, length, opened, some
from iotrial.errors import SettingRefused
from iotrial.execute.settings import tuning
from iotrial.execute.settings.journal import open_journal
from iotrial.execute.settings.restore import restore
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.kernel import CPU_ROOT, HBA
from iotrial.hosts.places import journal_folder
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.tunable import Setting
from iotrial.tunables import CATALOGUE, Catalogue, tunable
from iotrial.tunables.cgroup import of_neighbour

STUDY = Study("?", "crash", (), (), (), Design(), DecisionRule(()))
_FEW = 3
DEVICES = {"host": "", "cpu": "cpu1", "cgroup": "240:0", "disk": "fake0"}

Writes = tuple[tuple[str, str], ...]
Treatment = dict[str, str]

_FREQUENCY = f"{CPU_ROOT}/cpu1/cpufreq"
_THP = "/sys/kernel/mm/transparent_hugepage"


@dataclass(frozen=True)
class Family:
    """What administrators had set, and what a study holds."""

    formers: tuple[Writes, ...]
    treatments: tuple[Treatment, ...]


QOS = "cgroup.v2.cost.qos"
NUMBERS = "rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00"
FAMILIES = {
    "cpu": Family(
        (
            (),
            ((f"{_FREQUENCY}/scaling_governor", "performance"),),
            ((f"{_FREQUENCY}/energy_performance_preference", "power"),),
            (
                (f"{_FREQUENCY}/scaling_max_freq", "2000000"),
                (f"{_FREQUENCY}/scaling_min_freq", "1500000"),
            ),
            ((f"{CPU_ROOT}/smt/control", "off"), (f"{CPU_ROOT}/cpu1/cpuidle/state2/disable", "1")),
        ),
        (
            {"cpu.governor": "performance"},
            {"cpu.governor": "powersave", "cpu.energy_preference": "balance_power"},
            {"cpu.min_freq": "3000000", "cpu.max_freq": "3500000"},
            {"cpu.min_freq": "900000", "cpu.max_freq": "1000000"},
            {"cpu.boost": "0", "cpu.smt": "off", "cpu.dma_latency": "0"},
            {"cpu.no_turbo": "1", "cpu.dma_latency": "70"},
            {"cpu.idle.state2.disable": "1", "cpu.resume_latency": "n/a"},
        ),
    ),
    "mm": Family(
        ((), ((f"{_THP}/enabled", "always"), ("/sys/kernel/mm/ksm/run", "1"))),
        (
            {"mm.thp": "never", "mm.ksm": "0"},
            {"mm.thp": "always", "mm.thp_defrag": "defer"},
            {"mm.khugepaged_defrag": "0", "mm.ksm": "1"},
        ),
    ),
    "module": Family(
        ((), ((f"{HBA}/debug", "Y"), (f"{HBA}/lun_queue_depth", "8"))),
        (
            {"module.fake_hba.debug": "1", "module.fake_hba.link_speeds": "32"},
            {"module.fake_hba.debug": "0", "module.fake_hba.lun_queue_depth": "128"},
            {"module.fake_hba.hba_queue_depth": "7", "module.fake_hba.link_speeds": "4,8"},
        ),
    ),
    "cgroup v1": Family(
        ((),),
        (
            {"cgroup.v1.read_iops": "200"},
            {"cgroup.v1.read_iops": "unset", "cgroup.v1.write_bps": "1000000"},
            {"cgroup.v1.read_bps": "1", "cgroup.v1.write_iops": "5", "mm.thp": "never"},
        ),
    ),
    "cgroup v2": Family(
        ((), (("/sys/fs/cgroup/cgroup.subtree_control", "+io"),)),
        (
            {"cgroup.v2.read_iops": "200", "cgroup.v2.weight": "500"},
            {"cgroup.v2.read_iops": "max", "cgroup.v2.write_bps": "1000000"},
            {"cgroup.v2.latency": "75", "cgroup.v2.write_bps": "max"},
        ),
    ),
    "cgroups of two loads": Family(
        ((), (("/sys/fs/cgroup/io.cost.qos", "240:0 enable=1 ctrl=auto"),)),
        (
            {"cgroup.v2.weight": "500", "cgroup.v2.beside.weight": "10", QOS: "auto"},
            {"cgroup.v2.beside.read_iops": "200", QOS: NUMBERS},
            {"cgroup.v2.bfq_weight": "5", "cgroup.v2.beside.latency": "75", QOS: "off"},
        ),
    ),
}
TREATED = {
    name for family in FAMILIES.values() for treatment in family.treatments for name in treatment
}


def device_of(name: str) -> str:
    return DEVICES[tunable(name).scope]


def groups_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Device → tunables, with those that are moved on another layer, as a run finds them."""
    every = {(row.rank, device_of(row.name), row.name) for row in CATALOGUE.group(names)}
    devices: dict[str, list[str]] = {}
    for _, device, name in sorted(every):
        devices.setdefault(device, []).append(name)
    return devices


def live(host: FakeHost, treatments: Sequence[Treatment]) -> None:
    """One life, to its end unless the host says otherwise."""
    bench = opened(host)
    names = [name for treatment in treatments for name in treatment]
    beside = any(of_neighbour(name) for name in names)
    tuning.own(host, bench.journal, names, neighbour=beside)
    bench.own_groups(groups_of(names))
    hold_each_and_pay(
        bench,
        ([Setting(device_of(n), n, value) for n, value in each.items()] for each in treatments),
    )


def prepared(former: Writes) -> FakeHost:
    host = FakeHost()
    for path, value in former:
        host.meddle(path, value.encode())
    return host


def lives(family: str) -> Iterator[Life]:
    """From every former state, every treatment, and after it others (where many: in turn)."""
    treatments = FAMILIES[family].treatments
    for number, former in enumerate(FAMILIES[family].formers):
        steps = (1, 2) if len(treatments) <= _FEW else (1 + number % 3,)
        for index, first in enumerate(treatments):
            for step in steps:
                pair = (first, treatments[(index + step) % len(treatments)])
                yield partial(prepared, former), partial(live, treatments=pair)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_crash_leaves_anything_changed(family: str, times: Callable[[int], int]) -> None:
    tally = sum((enumerate_deaths(*life, moments=some()) for life in lives(family)), Tally())
    assert tally.crashes > times(100)
    assert tally.again > tally.crashes // 10


@pytest.mark.parametrize("family", FAMILIES)
def test_every_treatment_changes_something(family: str) -> None:
    """Else a life that changes nothing would survive everything."""
    for treatment in FAMILIES[family].treatments:
        host = FakeHost()
        before = host.settings()
        books = open_journal(host, "/tmp", {"boot_id": "", "token": "t"})
        tuning.own(host, books, treatment, neighbour=True)
        for name, value in treatment.items():
            try:
                tuning.apply(host, [Setting(device_of(name), name, value)])
            except SettingRefused:
                assert name == "module.fake_hba.hba_queue_depth"
        assert host.settings() != before, treatment


def test_journalling_only_what_is_written_would_leave_the_machine_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The enumeration can fail: boost moves limits, and what is not in the group stays moved."""
    monkeypatch.setattr(
        Catalogue,
        "group",
        lambda _self, names: tuple(tunable(name) for name in dict.fromkeys(names)),
    )
    changed = 0
    for former, whole in itertools.islice(lives("cpu"), 0, None, 5):
        before = former().settings()
        for at in range(1, length(former, whole) + 1, 2):
            host = killed(former, whole, at, "after")
            restore(host, journal_folder(host))
            changed += host.settings() != before
    assert changed > 0


def test_a_group_that_is_not_owed_would_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "iotrial.execute.settings.journal.Journal.owe_made", lambda _self, _debt: None
    )
    host = prepared(())
    live(host, [{"cgroup.v1.read_iops": "200"}])
    assert host.settings() != prepared(()).settings()
