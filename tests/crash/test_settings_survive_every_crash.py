"""Every state of a queue, every change of it, every moment of death: the former state comes back.

Exhaustive over what is listed here, by the method of :mod:`deaths`.  A life opens the journal,
owns the group, holds one treatment, holds another, and pays.  However it ends, every file of every
queue and every kernel parameter must read as before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from deaths import Life, Tally, enumerate_deaths, hold_each_and_pay, killed, length, opened, some
from iotrial.execute.settings.restore import restore
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.places import journal_folder
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.tunable import Setting
from iotrial.tunables import Catalogue, tunable

DEVICE = "fake0"
QUEUE = f"/sys/block/{DEVICE}/queue/"
STUDY = Study("?", "crash", (), (), (), Design(), DecisionRule(()))

SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
OWN = {
    "mq-deadline": ("iosched/fifo_batch", "7"),
    "kyber": ("iosched/read_lat_nsec", "1234567"),
    "bfq": ("iosched/low_latency", "0"),
}


@dataclass(frozen=True)
class Former:
    """What an administrator had set, written in an order that keeps all of it."""

    writes: tuple[tuple[str, str], ...]


def formers() -> Iterator[Former]:
    for scheduler, requests, latency, ahead, own in itertools.product(
        SCHEDULERS, (None, "72"), (None, "1500"), (None, "320"), (False, True)
    ):
        writes = [("scheduler", scheduler)]
        if requests:
            writes.append(("nr_requests", requests))
        if latency:
            writes.append(("wbt_lat_usec", latency))
        if ahead:
            writes.append(("read_ahead_kb", ahead))
        if own and scheduler in OWN:
            writes.append(OWN[scheduler])
        elif own:
            continue
        yield Former(tuple(writes))


TREATMENTS: tuple[dict[str, str], ...] = (
    *({"queue.scheduler": scheduler} for scheduler in SCHEDULERS),
    {"queue.scheduler": "mq-deadline", "queue.nr_requests": "32"},
    {"queue.scheduler": "bfq", "queue.iosched.slice_idle": "0"},
    {"queue.rotational": "1", "queue.read_ahead_kb": "64"},
    {"queue.max_sectors_kb": "256", "queue.wbt_lat_usec": "0"},
)


KEYS = "/proc/sys/"
KERNEL_FORMERS = (
    Former(()),
    Former(((f"{KEYS}vm/dirty_bytes", "100000000"),)),
    Former(((f"{KEYS}vm/dirty_background_bytes", "50000000"), (f"{KEYS}vm/swappiness", "1"))),
    Former(
        (
            (f"{KEYS}net/ipv4/ipfrag_low_thresh", "100"),
            (f"{KEYS}net/ipv4/ipfrag_high_thresh", "200"),
        )
    ),
)
KERNEL_TREATMENTS: tuple[dict[str, str], ...] = (
    {"sysctl.vm.dirty_ratio": "40", "sysctl.vm.dirty_background_ratio": "5"},
    {"sysctl.vm.dirty_bytes": "200000000"},
    {"sysctl.vm.dirty_background_bytes": "300000", "sysctl.vm.swappiness": "0"},
    {
        "sysctl.net.ipv4.ipfrag_low_thresh": "9000000",
        "sysctl.net.ipv4.ipfrag_high_thresh": "9900000",
    },
    {"sysctl.net.ipv4.ipfrag_low_thresh": "10", "sysctl.net.ipv4.ipfrag_high_thresh": "20"},
    {"sysctl.net.ipv4.tcp_rmem": "4096 87380 16777216", "queue.scheduler": "bfq"},
)
TREATED = {name for treatment in (*TREATMENTS, *KERNEL_TREATMENTS) for name in treatment}


def live(host: FakeHost, treatments: Sequence[dict[str, str]]) -> None:
    """One life, to its end unless the host says otherwise."""
    bench = opened(host)
    names = [name for treatment in treatments for name in treatment]
    for device in sorted({device_of(name) for name in names}):
        bench.own_groups({device: [name for name in names if device_of(name) == device]})
    hold_each_and_pay(
        bench, ([Setting(device_of(n), n, v) for n, v in each.items()] for each in treatments)
    )


def device_of(name: str) -> str:
    return "" if tunable(name).scope == "host" else DEVICE


def prepared(former: Former) -> FakeHost:
    host = FakeHost()
    for name, value in former.writes:
        host.meddle(name if name.startswith("/") else QUEUE + name, value.encode())
    return host


def life(former: Former, *treatments: dict[str, str]) -> Life:
    return partial(prepared, former), partial(live, treatments=treatments)


def lives(scheduler: str | None = None) -> Iterator[Life]:
    """Every former state (with this scheduler), two sequences of treatments from each."""
    for former in formers():
        if scheduler not in (None, dict(former.writes)["scheduler"]):
            continue
        for index, first in enumerate(TREATMENTS):
            for step in (1, 3):
                yield life(former, first, TREATMENTS[(index + step) % len(TREATMENTS)])


def pairs(formers: Iterable[Former], treatments: Sequence[dict[str, str]]) -> Iterator[Life]:
    for former in formers:
        for first, second in itertools.permutations(treatments, 2):
            yield life(former, first, second)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_no_crash_leaves_a_setting_of_a_queue_changed(
    scheduler: str, times: Callable[[int], int]
) -> None:
    tally = sum((enumerate_deaths(*each, moments=some()) for each in lives(scheduler)), Tally())
    assert tally.crashes > times(3_000)
    assert tally.again > tally.crashes // 10


@pytest.mark.parametrize("part", range(3))
def test_no_crash_leaves_a_kernel_parameter_changed(part: int) -> None:
    every = [*pairs(KERNEL_FORMERS, KERNEL_TREATMENTS)][part::3]
    tally = sum((enumerate_deaths(*each, moments=some()) for each in every), Tally())
    assert tally.crashes > 1_000 // 6
    assert tally.again > tally.crashes // 10


def test_journalling_only_what_is_written_would_leave_the_machine_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The enumeration can fail: without the group it finds machines that stay changed."""
    monkeypatch.setattr(
        Catalogue,
        "group",
        lambda _self, names: tuple(tunable(name) for name in dict.fromkeys(names)),
    )
    changed = 0
    for former, whole in itertools.islice(lives(), 0, None, 7):
        before = former().settings()
        for at in range(1, length(former, whole) + 1, 3):
            host = killed(former, whole, at, "after")
            restore(host, journal_folder(host))
            changed += host.settings() != before
    assert changed > 0
