"""Every state of a network interface and its interrupts, every change, every moment of death.

By the method of :mod:`deaths`: a life opens the journal, owns the groups, holds one treatment,
holds another and pays; it is ended in every state that a death can leave.  What must be the same
afterwards includes what no listing shows: the requests behind the offloads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pytest

from deaths import SHARE, Life, Moment, Tally, enumerate_deaths, hold_each_and_pay, opened
from iotrial.hosts.fake import FakeHost
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.tunable import Setting, Tunable
from iotrial.tunables import Catalogue, tunable

NIC = "fakenic0"
STUDY = Study("?", "crash", (), (), (), Design(), DecisionRule(()))
DEVICES = {"nic": NIC, "rx": f"{NIC}/queues/rx-1", "tx": f"{NIC}/queues/tx-0", "irq": "41"}

Former = Sequence[tuple[str, ...]]
"""What an administrator did: commands, or a file and what was written to it."""
Treatment = Mapping[str, str]


def feature(word: str, value: str) -> tuple[str, ...]:
    return ("ethtool", "-K", NIC, word, value)


OFFLOADS: tuple[Former, ...] = (
    (),
    (feature("tx", "off"),),
    (feature("sg", "off"), feature("tx-tcp6-segmentation", "off")),
    (feature("tso", "off"),),
    (feature("tso", "on"), feature("tx-tcp-segmentation", "off")),
    (feature("rx", "off"), feature("lro", "on"), feature("gro", "off")),
    (
        (f"/sys/class/net/{NIC}/threaded", "1"),
        (f"/sys/class/net/{NIC}/mtu", "9000"),
        (f"/proc/sys/net/ipv6/conf/{NIC}/mtu", "1400"),
    ),
)
OFFLOAD_TREATMENTS: tuple[Treatment, ...] = (
    {"net.tso": "off"},
    {"net.tso": "on", "net.gso": "off"},
    {"net.tx_checksum": "off"},
    {"net.tx_checksum": "on", "net.sg": "on"},
    {"net.sg": "off", "net.tx_tcp6_segmentation": "off"},
    {"net.rx_checksum": "off", "net.lro": "on"},
    {"net.mtu": "2000", "net.gro": "off", "net.threaded": "0"},
    {"net.mtu": "1280", "net.gro": "on", "net.threaded": "1"},
)
HARDWARE: tuple[Former, ...] = (
    (),
    (("ethtool", "-A", NIC, "autoneg", "off"), ("ethtool", "-A", NIC, "tx", "on")),
    (("ethtool", "-C", NIC, "adaptive-rx", "off"), ("ethtool", "-C", NIC, "rx-usecs", "7")),
    (("ethtool", "-G", NIC, "rx", "64"), ("ethtool", "-C", NIC, "tx-frames", "9")),
    ((f"/sys/class/net/{NIC}/queues/rx-1/rps_cpus", "a"), ("/proc/irq/41/smp_affinity_list", "2")),
)
HARDWARE_TREATMENTS: tuple[Treatment, ...] = (
    {"net.pause_autoneg": "off", "net.pause_rx": "off", "net.pause_tx": "on"},
    {"net.pause_autoneg": "on"},
    {"net.adaptive_rx": "off", "net.rx_usecs": "3", "net.rx_frames": "1"},
    {"net.adaptive_rx": "on", "net.tx_usecs": "200"},
    {"net.ring_rx": "2048", "net.ring_tx": "1024"},
    {"net.qdisc": "fq", "net.txqueuelen": "10", "net.gro_flush_timeout": "20000"},
    {"net.qdisc": "pfifo", "net.rx_usecs": "11"},
    {"rps.cpus": "5", "rps.flow_cnt": "256", "xps.cpus": "8", "irq.affinity": "0,2-3"},
)
TREATED = {name for each in (*OFFLOAD_TREATMENTS, *HARDWARE_TREATMENTS) for name in each}


def prepared(former: Former) -> FakeHost:
    host = FakeHost()
    for words in former:
        if words[0].startswith("/"):
            host.meddle(words[0], words[1].encode())
        else:
            host.run(words)
    return host


def settings_of(host: FakeHost, treatment: Treatment) -> list[Setting]:
    """Those that preflight lets through: it asks each domain, of the former state."""
    wanted = []
    for name, value in treatment.items():
        knob = tunable(name)
        device = DEVICES[knob.scope]
        probe = knob.probe(device)
        raw = host.run(probe.argv).stdout if probe.argv else host.read(probe.path)
        if not knob.domain(raw).refusal(value):
            wanted.append(Setting(device, name, value))
    return wanted


def live(host: FakeHost, treatments: Sequence[Treatment]) -> None:
    """One life, to its end unless the host says otherwise."""
    bench = opened(host)
    wanted = [settings_of(host, treatment) for treatment in treatments]
    names: dict[str, list[str]] = {}
    for setting in itertools.chain(*wanted):
        names.setdefault(setting.device, []).append(setting.tunable)
    bench.own_groups(names)
    hold_each_and_pay(bench, wanted)


def moments(operations: Sequence[str]) -> Iterator[Moment]:
    """Every state that a death can leave, once: dead after an operation is dead before the next;
    half of a command is one that was not begun, and only the journal can be torn."""
    for at, operation in enumerate(operations, start=1):
        yield at, "before"
        if operation.startswith("append"):
            yield at, "torn"
    yield len(operations), "after"


def lives(formers: Sequence[Former], treatments: Sequence[Treatment]) -> Iterator[Life]:
    """Every former state, every treatment, and after it one of the others in turn."""
    count = itertools.count()
    for former in formers:
        for index, first in enumerate(treatments):
            step = 1 + next(count) % (len(treatments) - 1)
            pair = (first, treatments[(index + step) % len(treatments)])
            yield partial(prepared, former), partial(live, treatments=pair)


def crashes(formers: Sequence[Former], treatments: Sequence[Treatment]) -> int:
    fewer = itertools.islice(lives(formers, treatments), 0, None, SHARE[0])
    every = (enumerate_deaths(*life, moments=moments) for life in fewer)
    return sum(every, Tally()).crashes


def test_no_crash_leaves_an_offload_changed(times: Callable[[int], int]) -> None:
    assert crashes(OFFLOADS, OFFLOAD_TREATMENTS) > times(500)


def test_no_crash_leaves_flow_control_coalescing_steering_or_affinity_changed(
    times: Callable[[int], int],
) -> None:
    assert crashes(HARDWARE, HARDWARE_TREATMENTS) > times(500)


def in_rank_order(names: Sequence[str]) -> tuple[Tunable, ...]:
    return tuple(sorted(map(tunable, dict.fromkeys(names)), key=lambda row: (row.rank, row.name)))


@pytest.mark.parametrize(
    ("formers", "treatments"),
    [(OFFLOADS, OFFLOAD_TREATMENTS), (HARDWARE, HARDWARE_TREATMENTS)],
    ids=["offloads", "hardware"],
)
def test_without_the_declared_moves_the_interface_would_stay_changed(
    formers: Sequence[Former],
    treatments: Sequence[Treatment],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The enumeration can fail: journalling only what is written loses what it moves."""
    monkeypatch.setattr(Catalogue, "group", lambda _self, names: in_rank_order(names))
    changed = 0
    for former, whole in lives(formers, treatments):
        host = former()
        before = host.settings()
        whole(host)
        changed += host.settings() != before
    assert changed > 0
