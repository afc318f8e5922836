"""SCSI, NVMe, multipath, md and LVM: every moment of death, then a restore, leaves nothing changed.

Exhaustive over what is listed here, on the pretended machine, whose devices have the couplings of
the real ones: a timeout that must stay below another, a depth cut down without a word, a bitmap
that takes its values along, a daemon that reads files only when it is told to.  A life owns its
groups, holds one treatment and then another, and pays; it ends at every operation, by the method of
:mod:`deaths`, in one way after another.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pytest

from deaths import (
    HOWS,
    Life,
    Moment,
    Moments,
    Tally,
    enumerate_deaths,
    hold_each_and_pay,
    killed,
    length,
    opened,
    some,
)
from iotrial.errors import OwedError
from iotrial.execute.settings.restore import restore
from iotrial.hosts.fake import FakeHost, HostCrashed
from iotrial.hosts.fake.disk import FakeBlockDevice, FakeQueue
from iotrial.hosts.fake.parts.paths import FOLDER, Multipath
from iotrial.hosts.fake.parts.stacks import ARRAY as MD_FOLDER
from iotrial.hosts.fake.parts.stacks import Crypt, Lvm, Md
from iotrial.hosts.places import journal_folder
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.tunable import Setting
from iotrial.tunables import Catalogue, tunable

STUDY = Study("?", "crash", (), (), (), Design(), DecisionRule(()))
STEPS = (1, 3)
"""How much later in the list the second treatment of a life is."""
ARRAY, VOLUME, MAP = "md127", "vg/mirror", "mpatha"
PORTS = ("rport-3:0-0", "rport-3:0-1")
PORT = "/sys/class/fc_remote_ports/rport-3:0-0/"

P = TypeVar("P")
Treatment = dict[str, str]
"""``DEVICE TUNABLE`` → value."""


@dataclass(frozen=True)
class Family:
    """Former states, as acts of an administrator; treatments; and what else is owned, because it
    belongs to another layer than what moves it."""

    formers: tuple[Callable[[FakeHost], None], ...]
    treatments: tuple[Treatment, ...]
    besides: tuple[tuple[str, str], ...] = ()


def as_booted(_host: FakeHost) -> None:
    pass


def meddled(**files: str) -> Callable[[FakeHost], None]:
    """Values written in this order; a name is the place that it has in PLACES."""

    def former(host: FakeHost) -> None:
        for name, value in files.items():
            host.meddle(PLACES[name], value.encode())

    return former


DISK, FABRIC = "/sys/block/fake0/", "/sys/class/nvme/nvme0/"
MD = f"/sys/block/{ARRAY}/md/"
PLACES = {
    "depth": f"{DISK}device/queue_depth",
    "milliseconds": f"{DISK}queue/io_timeout",
    "deadline": "/sys/class/scsi_host/host2/eh_deadline",
    "loss": f"{PORT}dev_loss_tmo",
    "fail": f"{PORT}fast_io_fail_tmo",
    "delay": f"{FABRIC}reconnect_delay",
    "wait": f"{FABRIC}ctrl_loss_tmo",
    "policy": "/sys/block/fake1/device/iopolicy",
    "cache": f"{MD}stripe_cache_size",
    "preread": f"{MD}preread_bypass_threshold",
    "speed": f"{MD}sync_speed_min",
    "base": f"{MD}bitmap/time_base",
    "bitmap": f"{MD}bitmap/location",
}


def administered(disabled: str = "", **overrides: str) -> Callable[[FakeHost], None]:
    def former(host: FakeHost) -> None:
        part(host, Multipath).configure(overrides, disabled=disabled)

    return former


def part(host: FakeHost, kind: type[P]) -> P:
    return next(each for each in host.machine.parts.values() if isinstance(each, kind))


def volume(**columns: str) -> Callable[[FakeHost], None]:
    return lambda host: part(host, Lvm).volumes[VOLUME].update(columns)


def flagged(*names: str) -> Callable[[FakeHost], None]:
    return lambda host: part(host, Crypt).flags.update(fakecrypt=set(names))


FAMILIES = {
    "scsi": Family(
        (
            as_booted,
            meddled(depth="17", milliseconds="31500", deadline="20"),
            meddled(fail="50", loss="51"),
            meddled(loss="3000000000"),
            meddled(loss="3000000000", fail="off"),
            meddled(fail="off", deadline="0"),
        ),
        (
            {"fake0 scsi.queue_depth": "64", "fake0 scsi.timeout": "5"},
            {"fake0 nvme.io_timeout": "1000", "fake0 scsi.eh_timeout": "3"},
            {f"{PORTS[0]} scsi.dev_loss_tmo": "20", f"{PORTS[0]} scsi.fast_io_fail_tmo": "2"},
            {f"{PORTS[0]} scsi.dev_loss_tmo": "500", f"{PORTS[0]} scsi.fast_io_fail_tmo": "400"},
            {f"{PORTS[0]} scsi.fast_io_fail_tmo": "off", f"{PORTS[0]} scsi.dev_loss_tmo": "10"},
            {"host2 scsi.host.eh_deadline": "off", "fake0 scsi.queue_depth": "200"},
            {"host3 scsi.host.lpfc_tgt_queue_depth": "64", "session1 scsi.recovery_tmo": "5"},
            {"fake0 scsi.queue_type": "none", "fake0 scsi.timeout": "7"},
        ),
    ),
    "nvme": Family(
        (as_booted, meddled(wait="-1"), meddled(delay="7", wait="100"), meddled(policy="numa")),
        (
            {"nvme0 nvme.reconnect_delay": "3"},
            {"nvme0 nvme.reconnect_delay": "20", "nvme0 nvme.ctrl_loss_tmo": "off"},
            {"nvme0 nvme.ctrl_loss_tmo": "60", "nvme0 nvme.fast_io_fail_tmo": "5"},
            {"fake1 nvme.iopolicy": "round-robin", "nvme1 nvme.pm_qos_latency_tolerance_us": "0"},
            {"nvme1 nvme.hmb": "0", "nvme1 nvme.pm_qos_latency_tolerance_us": "any"},
        ),
    ),
    "multipath": Family(
        (
            as_booted,
            administered(no_path_retry="queue"),
            administered(no_path_retry="12", disabled=MAP),
            administered(path_selector="round-robin 0", no_path_retry="fail"),
            administered(fast_io_fail_tmo="7", dev_loss_tmo="90"),
            meddled(fail="off", loss="600"),
        ),
        (
            {f"{MAP} multipath.queue_if_no_path": "0"},
            {f"{MAP} multipath.queue_if_no_path": "1"},
            {" multipath.path_selector": "queue-length 0"},
            {" multipath.path_selector": "round-robin 0", " multipath.no_path_retry": "5"},
            {" multipath.polling_interval": "30", " multipath.no_path_retry": "fail"},
            {" multipath.fast_io_fail_tmo": "3", " multipath.dev_loss_tmo": "30"},
        ),
        besides=(
            (MAP, "multipath.queue_if_no_path"),
            *itertools.product(PORTS, ("scsi.dev_loss_tmo", "scsi.fast_io_fail_tmo")),
        ),
    ),
    "md": Family(
        (
            as_booted,
            meddled(speed="5000", base="7.500"),
            meddled(cache="4096", preread="4000"),
            meddled(bitmap="none"),
        ),
        (
            {f"{ARRAY} md.bitmap": "none"},
            {f"{ARRAY} md.bitmap": "internal 1048576", f"{ARRAY} md.time_base": "9"},
            {f"{ARRAY} md.sync_speed_min": "90000", f"{ARRAY} md.sync_speed_max": "system"},
            {f"{ARRAY} md.stripe_cache_size": "17", f"{ARRAY} md.preread_bypass_threshold": "0"},
            {f"{ARRAY} md.stripe_cache_size": "9000", f"{ARRAY} md.group_thread_cnt": "4"},
            {f"{ARRAY} md.consistency_policy": "ppl", f"{ARRAY} md.safe_mode_delay": "0.400"},
        ),
    ),
    "lvm": Family(
        (as_booted, volume(lv_read_ahead="auto", raid_max_recovery_rate="128")),
        (
            {f"{VOLUME} lvm.read_ahead": "auto"},
            {f"{VOLUME} lvm.read_ahead": "4096", f"{VOLUME} lvm.max_recovery_rate": "50"},
            {f"{VOLUME} lvm.read_ahead": "0", f"{VOLUME} lvm.min_recovery_rate": "1000"},
            {"vg/cached lvm.cache_mode": "writeback", "vg/cached lvm.cache_policy": "mq"},
        ),
    ),
    "crypt": Family(
        (as_booted, flagged("no_read_workqueue"), flagged()),
        (
            {"fakecrypt crypt.same_cpu_crypt": "0", "fakecrypt crypt.no_read_workqueue": "1"},
            {"fakecrypt crypt.no_write_workqueue": "1", "fakecrypt crypt.no_read_workqueue": "0"},
            {"fakecrypt crypt.submit_from_crypt_cpus": "1", "fakecrypt crypt.same_cpu_crypt": "1"},
            {"fakecrypt crypt.submit_from_crypt_cpus": "0", f"{VOLUME} lvm.read_ahead": "256"},
        ),
    ),
}
TREATED = {
    name.partition(" ")[2]
    for family in FAMILIES.values()
    for treatment in family.treatments
    for name in treatment
}


def wanted(treatment: Treatment) -> list[Setting]:
    words = ((name.partition(" "), value) for name, value in treatment.items())
    return [Setting(device, name, value) for (device, _, name), value in words]


def live(host: FakeHost, family: Family, treatments: Sequence[Treatment]) -> None:
    """One life, to its end unless the host says otherwise."""
    bench = opened(host)
    groups: dict[str, list[str]] = {}
    asked = [(s.device, s.tunable) for treatment in treatments for s in wanted(treatment)]
    for device, name in sorted(set(asked) | set(family.besides)):
        groups.setdefault(device, []).append(name)
    bench.own_groups(groups)
    hold_each_and_pay(bench, map(wanted, treatments))


def prepared(former: Callable[[FakeHost], None]) -> FakeHost:
    host = FakeHost()
    host.machine.blocks[ARRAY] = FakeBlockDevice(
        ARRAY, (9, 127), 2**30, FakeQueue(schedulers=("none",))
    )
    host.machine.relink()
    former(host)
    return host


def everything(host: FakeHost) -> dict[str, str]:
    """All settings, and the files that multipathd would read.  Where there is no bitmap, the size
    of its chunks is what the last one had: it means nothing, and the next one brings its own."""
    files = host.machine.files
    read = {name: "there" for name in files if name.startswith(FOLDER) and name.endswith(".conf")}
    seen = host.settings() | read
    if seen[f"{MD_FOLDER}/bitmap/location"] == "none":
        del seen[f"{MD_FOLDER}/bitmap/chunksize"]
    return seen


def lives(family: Family) -> Iterator[tuple[Callable[[FakeHost], None], Sequence[Treatment]]]:
    for former in family.formers:
        for index, first in enumerate(family.treatments):
            step = STEPS[index % len(STEPS)]
            yield former, (first, family.treatments[(index + step) % len(family.treatments)])


def life(
    former: Callable[[FakeHost], None], family: Family, treatments: Sequence[Treatment]
) -> Life:
    return partial(prepared, former), partial(live, family=family, treatments=treatments)


def one_way_each(first: int) -> Moments:
    """At each operation in one way, the ways taking turns; the next life begins with the next."""

    def moments(operations: Sequence[str]) -> Iterator[Moment]:
        for at in range(1, len(operations) + 1):
            yield at, HOWS[(first + at) % len(HOWS)]

    return moments


@pytest.mark.parametrize("name", FAMILIES)
def test_no_crash_leaves_a_device_changed(name: str, times: Callable[[int], int]) -> None:
    family = FAMILIES[name]
    tally = Tally()
    for index, (former, treatments) in enumerate(lives(family)):
        mortal = life(former, family, treatments)
        tally += enumerate_deaths(*mortal, moments=some(one_way_each(index)), seen=everything)
    assert tally.crashes > times(70)
    assert tally.again > tally.crashes // 20


@pytest.mark.parametrize("name", ["scsi", "md"])
def test_without_the_group_devices_would_stay_changed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The enumeration can fail: owing only what is written, it finds what stays changed."""
    monkeypatch.setattr(
        Catalogue,
        "group",
        lambda _self, names: tuple(tunable(name) for name in dict.fromkeys(names)),
    )
    family = FAMILIES[name]
    changed = 0
    for former, treatments in lives(family):
        host = prepared(former)
        try:
            live(host, family, treatments[:1])
        except (OwedError, AssertionError):
            changed += 1
        else:
            changed += everything(host) != everything(prepared(former))
    assert changed > 0


def test_taking_the_file_away_first_would_leave_the_daemon_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why the file is emptied, the daemon told, and only then the file removed."""
    row = tunable("multipath.path_selector")
    emptied, told, removed = row.acts("", "unset")
    assert [act.kind for act in (emptied, told, removed)] == ["save", "run", "remove"]
    family = FAMILIES["multipath"]
    treatments = ({" multipath.path_selector": "queue-length 0"},)

    def left_changed() -> int:
        changed = 0
        before = everything(prepared(as_booted))
        for at in range(1, 40):
            host = prepared(as_booted)
            host.crash_after, host.crash_how = at, "after"
            try:
                live(host, family, treatments)
            except HostCrashed:
                host.reconnect()
                restore(host, journal_folder(host))
                changed += everything(host) != before
        return changed

    assert left_changed() == 0
    hasty = lambda _device, value: (  # noqa: E731
        (removed, told) if value == "unset" else row.acts("", value)
    )
    swapped = replace(row, how=hasty)
    monkeypatch.setattr(
        Catalogue,
        "group",
        lambda _self, names: [swapped if n == row.name else tunable(n) for n in names],
    )
    assert left_changed() > 0


def test_a_bitmap_is_not_given_back_while_the_array_resyncs_and_is_named() -> None:
    host = prepared(as_booted)
    before = everything(host)
    without = life(as_booted, FAMILIES["md"], ({f"{ARRAY} md.bitmap": "none"},))
    host = killed(*without, length(*without) - 2, "after")
    part(host, Md).resyncing = True
    with pytest.raises(OwedError) as caught:
        restore(host, journal_folder(host))
    assert any("md.bitmap=internal 33554432" in line for line in caught.value.owed)
    part(host, Md).resyncing = False
    restore(host, journal_folder(host))
    assert everything(host) == before


def test_a_port_that_is_blocked_is_owed_until_it_comes_back() -> None:
    treatments = ({f"{PORTS[0]} scsi.dev_loss_tmo": "20"},)
    host = killed(*life(as_booted, FAMILIES["scsi"], treatments), 3, "after")
    host.refuse[f"{PORT}dev_loss_tmo"] = errno.EBUSY
    with pytest.raises(OwedError, match="could not be restored"):
        restore(host, journal_folder(host))
    host.refuse.clear()
    restore(host, journal_folder(host))
    assert everything(host) == everything(prepared(as_booted))
