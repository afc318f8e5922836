"""What checks decide, on snapshots.

Those of heat, power, steal, a set clock and a resync were written by hand in the kernel's formats:
the machine that tests has none of these (no thermal sensors, no RAPL, no md).  The rest is provoked
for real in tests/integration/test_validity_on_a_loop.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from stats_studies import SCHEDULER, change, noisy, results

from iotrial.errors import FormatError
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Factor, Level
from iotrial.model.trial import Doubt, Trial, TrialRecord
from iotrial.model.validity import (
    BytesMoved,
    CheckContext,
    CheckReading,
    IOSample,
    LateSample,
    LoadEvidence,
    Snapshot,
)
from iotrial.model.workload import OptionValue, Workload
from iotrial.validity import checks, judged, of_study, readings, written
from iotrial.validity.course import rounds, slope
from iotrial.validity.processor import kept, used
from iotrial.validity.study import first_against_later

MIB = 2**20
STAT = "/sys/block/sda/stat"
PROCESSES = "`iotrial-processes`"
DIRECT = CheckContext("sda", ("sda",), direct=True, cpus=4)
BUFFERED = dataclasses.replace(DIRECT, direct=False, buffered="direct = 0")


def stat(read: float, written_: float) -> str:
    """``/sys/block/X/stat`` of a device that moved so many MiB."""
    return f"0 0 {int(read * 2048)} 0 0 0 {int(written_ * 2048)} 0 0 0 0"


def measurements(seconds: float = 10.0, **moved: float) -> tuple[Measurement, ...]:
    """What a load says that moved so many MiB within so many seconds."""
    return tuple(
        Measurement(f"{operation}.{quantity}", value * MIB / by, unit)
        for operation, value in moved.items()
        for quantity, unit, by in (("bytes", "bytes", 1.0), ("bw", "bytes/s", seconds))
    )


def case(
    before: dict[str, str] | None = None,
    after: dict[str, str] | None = None,
    scene: CheckContext = DIRECT,
    said: Sequence[Measurement] = (),
) -> LoadEvidence:
    """Ten seconds of load."""
    first, last = Snapshot(100.0, before or {}), Snapshot(110.0, after or {})
    return LoadEvidence(scene, first, last, 10.0, tuple(said))


def found(of: LoadEvidence) -> dict[str, Doubt]:
    return {doubt.check: doubt for doubt in judged(of)}


def moved(
    device: tuple[float, float], scene: CheckContext = DIRECT, **own: float
) -> dict[str, Doubt]:
    """The doubts where the device moved so many MiB, and the load says that it did ``own``."""
    return found(case({STAT: stat(5, 7)}, {STAT: stat(5 + device[0], 7 + device[1])}, scene,
                      measurements(**own)))  # fmt: skip


# The registry.


def test_every_check_says_what_a_person_needs() -> None:
    assert len(checks()) >= 14
    for name, check in checks().items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert all((check.title, check.looks_at, check.limit, check.remedy, check.source))
        assert check.remedy.endswith(".") or "`" in check.remedy or "/" in check.remedy


def test_nothing_that_was_read_means_no_doubt() -> None:
    """A kernel that lacks all of it is not doubted."""
    assert judged(case(scene=CheckContext(reads=True, writes=True))) == ()
    assert judged(case(said=measurements(read=100))) == ()


def test_each_place_is_read_once() -> None:
    places = [reading.probe.place for reading in readings(DIRECT)]
    assert len(places) == len(set(places))
    assert STAT in places
    assert not [place for place in map(str, places) if "None" in place]


def test_what_the_tool_has_said_already_is_not_said_twice() -> None:
    said = [Measurement("cpu.sys", 0.99, "fraction", "job#1")]
    assert [doubt.check for doubt in judged(case(said=said))] == ["generator-bound"]
    assert judged(case(said=said), {"generator-bound"}) == ()


# Another disk.


@pytest.mark.parametrize(
    ("named", "verdict"),
    [
        ((), None),
        (("dm-3", "sdb"), None),
        (("sda", "nvme0n1"), None),
        (("dm-3", "dm-0", "md127", "sdb"), None),
        (("dm-3", "sdc"), False),
        (("sdc",), True),
        (("dm-7", "sdc"), True),
        (("mdx",), True),
    ],
)
def test_the_disks_that_a_load_names_are_held_against_the_target(
    named: tuple[str, ...],
    verdict: bool | None,  # noqa: FBT001
) -> None:
    scene = dataclasses.replace(DIRECT, device="dm-3", disks=("sdb",), below=("sda", "nvme0n1"))
    doubt = found(dataclasses.replace(case(scene=scene), named=named)).get("other-disk")
    assert (doubt and doubt.invalid) == verdict
    if doubt:
        assert named[-1] in doubt.what
        assert "dm-3" in doubt.what


def test_no_disk_is_another_where_the_target_has_none() -> None:
    """A target on tmpfs or NFS has no device here."""
    seen = dataclasses.replace(case(scene=CheckContext(reads=True)), named=("sda",))
    assert "other-disk" not in found(seen)


def test_the_disks_that_a_load_names_are_kept_with_its_trial(tmp_path: Path) -> None:
    scene = dataclasses.replace(DIRECT, below=("sda1", "sda"))
    seen = dataclasses.replace(case(scene=scene), named=("sdc", "sdd"))
    written.save(tmp_path, seen)
    again = written.case(tmp_path, ())
    assert again.named == ("sdc", "sdd")
    assert again.scene == scene
    assert found(again) == found(seen)
    row = json.loads((tmp_path / written.FILE).read_text())
    del row["named"], row["scene"]["below"]
    (tmp_path / written.FILE).write_text(json.dumps(row))
    assert written.case(tmp_path, ()).named == ()  # as written before it was looked at


# Foreign I/O.


@pytest.mark.parametrize(
    ("excess", "verdict"), [(0, None), (30, None), (100, False), (200, True), (5000, True)]
)
def test_more_than_the_load_did_is_foreign(excess: float, verdict: bool | None) -> None:  # noqa: FBT001
    doubt = moved((1000 + excess, 0), read=1000).get("foreign-io")
    assert (doubt and doubt.invalid) == verdict


def test_a_load_that_was_over_before_its_moment_shows_nothing_foreign() -> None:
    seen = case({STAT: stat(5, 7)}, {STAT: stat(9005, 7)}, said=measurements(read=1000))
    assert "foreign-io" in found(seen)
    assert "foreign-io" not in found(dataclasses.replace(seen, seconds=0.0))


def test_writes_under_a_load_that_reads_are_foreign_whatever_the_cache() -> None:
    reads = dataclasses.replace(BUFFERED, writes=False)
    assert moved((1000, 300), reads, read=1000)["foreign-io"].invalid
    assert "wrote" in moved((1000, 300), reads, read=1000)["foreign-io"].what
    assert "foreign-io" not in moved((4000, 0), reads, read=1000)


def test_a_tool_of_which_nobody_knows_may_read_ahead() -> None:
    unknown = dataclasses.replace(DIRECT, direct=False)
    assert "foreign-io" not in moved((4000, 0), unknown, read=1000)


def test_a_superblock_is_nothing() -> None:
    reads = dataclasses.replace(DIRECT, writes=False)
    assert "foreign-io" not in moved((1, 7), reads, read=1)


def test_files_that_the_load_lays_out_are_not_foreign() -> None:
    folder = dataclasses.replace(DIRECT, kind="directory", writes=False)
    assert "foreign-io" not in moved((1000, 3000), folder, read=1000)


def test_on_files_the_time_measured_counts_and_writes_may_be_their_own() -> None:
    """A writer of 100 MiB/s beside a load that reads 100 MiB/s, and one that writes."""
    steady_ = {STAT: stat(0, 0)}, {STAT: stat(1000, 1000)}
    of = dataclasses.replace(
        case(*steady_, dataclasses.replace(DIRECT, kind="file"), measurements(read=1000)),
        samples=series([100] * 10, write=100),
    )
    assert found(of) == {}
    reads = dataclasses.replace(of.scene, writes=False)
    doubt = found(dataclasses.replace(of, scene=reads))["foreign-io"]
    assert "100%" in doubt.what
    assert not doubt.invalid


def series(rates: Sequence[float], write: float = 0.0) -> tuple[IOSample, ...]:
    """Samples once a second of a device that reads so many MiB in each."""
    total, done = 0.0, [IOSample(0.0, BytesMoved(0.0, 0.0))]
    for second, rate in enumerate(rates, 1):
        total += rate * MIB
        done.append(IOSample(float(second), BytesMoved(total, write * MIB * second)))
    return tuple(done)


# Standstill.


def stood(*pauses: LateSample, scene: CheckContext = DIRECT, counts: bool = True) -> Doubt | None:
    """The doubt of ten seconds at 100 MiB/s, but for these pauses."""
    done = 100 * (10 - sum(each.seconds for each in pauses))
    done += sum((each.bytes or 0.0) / MIB for each in pauses)
    said = measurements(read=done)
    of = case({STAT: stat(0, 0)}, {STAT: stat(done, 0)} if counts else {}, scene, said)
    return found(dataclasses.replace(of, pauses=pauses)).get("standstill")


def test_a_machine_that_stood_still_makes_the_trial_invalid_by_what_was_lost() -> None:
    doubt = stood(LateSample(4.0, 1.0, 0.0))
    assert doubt is not None
    assert doubt.invalid
    assert "stalled for 1.00 s, 10% of the measured time" in doubt.what
    some = stood(LateSample(4.0, 0.2, 0.0))
    assert some is not None
    assert not some.invalid
    both = stood(LateSample(2.0, 0.4, 0.0), LateSample(6.0, 0.4, 0.0))
    assert both is not None
    assert both.invalid


def test_a_look_that_alone_was_late_is_nothing() -> None:
    """The device did as much as always, or nearly so."""
    assert stood(LateSample(4.0, 1.0, 100.0 * MIB)) is None
    assert stood(LateSample(4.0, 1.0, 95.0 * MIB)) is None
    half = stood(LateSample(4.0, 1.0, 60.0 * MIB))
    assert half is not None
    assert not half.invalid


def test_what_is_short_or_not_measured_is_no_standstill() -> None:
    assert stood(LateSample(4.0, 0.09, 0.0)) is None
    ramp = case({STAT: stat(0, 0)}, {STAT: stat(600, 0)}, said=measurements(5.0, read=500))
    early = dataclasses.replace(ramp, pauses=(LateSample(1.0, 2.0, 0.0),))
    assert "standstill" not in found(early)
    late = dataclasses.replace(ramp, pauses=(LateSample(7.0, 2.0, 0.0),))
    assert found(late)["standstill"].invalid


def test_where_nobody_counts_a_standstill_is_a_doubt_at_most() -> None:
    doubts = (
        stood(LateSample(4.0, 1.0, None), scene=CheckContext()),
        stood(LateSample(4.0, 1.0, None), counts=False),
        stood(LateSample(4.0, 1.0, 0.0), scene=BUFFERED),
    )
    for doubt in doubts:
        assert doubt is not None
        assert not doubt.invalid
        assert "is unknown" in doubt.what


def silent(finished: Sequence[int], scene: CheckContext = DIRECT) -> Doubt | None:
    """The doubt of a device that finishes so many reads in each second, by telemetry alone."""
    total, samples = 0, [IOSample(0.0, BytesMoved(0.0, 0.0))]
    for second, each in enumerate(finished, 1):
        total += each
        samples.append(IOSample(float(second), BytesMoved(total * 4096.0, 0.0), total))
    said = measurements(float(len(finished)), read=total * 4096 / MIB)
    end = Snapshot(float(len(finished)), {STAT: stat(total * 4096 / MIB, 0)})
    start = Snapshot(0.0, {STAT: stat(0, 0)})
    of = LoadEvidence(scene, start, end, float(len(finished)), said, tuple(samples))
    return found(of).get("standstill")


def test_a_device_that_finished_nothing_for_seconds_is_a_doubt() -> None:
    doubt = silent([1000] * 10 + [0, 0] + [1000] * 8)
    assert doubt is not None
    assert not doubt.invalid
    assert "sda completed no I/O for 2.00 s" in doubt.what


def test_slow_devices_and_loads_that_wait_by_themselves_do_not_stand_still() -> None:
    assert silent([3, 0, 5, 1, 0, 4, 2, 3, 1, 2, 6, 0]) is None
    assert silent([12] * 10 + [0] + [15] * 8) is None
    assert silent([1000, 0, 1000] * 5) is None
    assert silent([1000, 10] * 10) is None
    assert silent([1000] * 10 + [0] + [1000] * 8, BUFFERED) is None


def test_pauses_are_kept_with_the_trial(tmp_path: Path) -> None:
    lines = '{"t": 1.5, "seconds": 0.3, "bytes": null}\n{"t": 2.0, "seconds": 0.2, "bytes": 7}\n{"t'
    (tmp_path / written.PAUSES).write_text(lines)
    assert written.pauses(tmp_path / written.PAUSES) == (
        LateSample(1.5, 0.3, None),
        LateSample(2.0, 0.2, 7.0),
    )
    assert written.pauses(tmp_path / "none") == ()


def test_a_ramp_that_was_faster_is_not_foreign_io() -> None:
    """300 MiB/s into a cache for ten seconds, 100 MiB/s for ten: only these were measured."""
    of = LoadEvidence(
        DIRECT,
        Snapshot(0.0, {STAT: stat(0, 0)}),
        Snapshot(20.0, {STAT: stat(4000, 0)}),
        20.0,
        measurements(read=1000),
        series([300] * 10 + [100] * 10),
    )
    assert found(of) == {}
    whole = dataclasses.replace(of, samples=())
    assert found(whole)["foreign-io"].invalid


@pytest.mark.parametrize(("device", "invalid"), [(1475.5, False), (1740, False), (3000, True)])
def test_a_short_load_may_have_been_twice_as_fast_before_it_measured(
    device: float, *, invalid: bool
) -> None:
    """The first is a load of one second, with a ramp, as it was seen on an undisturbed device."""
    of = LoadEvidence(
        DIRECT,
        Snapshot(0.0, {STAT: stat(0, 0)}),
        Snapshot(1.6, {STAT: stat(0, device)}),
        1.592,
        measurements(seconds=1.001, write=797),
        (IOSample(0.0, BytesMoved(0, 0)), IOSample(1.592, BytesMoved(0, device * MIB))),
    )
    assert ("foreign-io" in found(of)) == invalid


# Cached.


def test_a_device_that_read_less_than_the_load_was_not_asked() -> None:
    assert "direct = 0" in moved((100, 0), BUFFERED, read=1000)["cached"].what
    assert "unwritten" in moved((100, 0), DIRECT, read=1000)["cached"].what
    assert "cached" not in moved((990, 0), BUFFERED, read=1000)


def test_a_device_that_does_not_count_says_nothing() -> None:
    idle = {STAT: stat(5, 5)}
    off = case({**idle}, {**idle, "/sys/block/sda/queue/iostats": "0"}, said=measurements(read=9))
    assert "cached" not in found(off)
    on = case({**idle}, {**idle, "/sys/block/sda/queue/iostats": "1"}, said=measurements(read=9))
    assert "cached" in found(on)


@pytest.mark.parametrize(
    ("size", "cache", "read", "doubted"),
    [(50, "keep", 50, True), (250, "keep", 50, False), (50, "drop", 50, False),
     (50, "drop", 70, True), (0, "keep", 50, False)],
)  # fmt: skip
def test_where_nothing_counts_the_size_against_memory_has_to_do(
    size: int, cache: str, read: int, *, doubted: bool
) -> None:
    mount = CheckContext("", (), "directory", buffered="direct = 0", cache=cache, size=size * MIB,
                  memory=100 * MIB)  # fmt: skip
    assert ("cached" in found(case(scene=mount, said=measurements(read=read)))) == doubted


# The machine.


def cpu(busy: int, idle: int, steal: int = 0, btime: int = 1_700_000_000) -> dict[str, str]:
    return {"/proc/stat": f"cpu  {busy} 0 0 {idle} 0 0 0 {steal} 0 0\nbtime {btime}"}


def test_stolen_time_is_named() -> None:
    assert "10%" in found(case(cpu(0, 0), cpu(500, 400, 100)))["steal"].what
    assert found(case(cpu(0, 0), cpu(500, 490, 10))) == {}


def test_a_machine_without_idle_cpu_binds_the_load() -> None:
    assert "generator-bound" in found(case(cpu(0, 0), cpu(990, 10)))
    assert found(case(cpu(0, 0), cpu(900, 100))) == {}


def test_setting_the_clock_is_a_doubt_and_sleep_is_invalid() -> None:
    doubt = found(case(cpu(0, 0), cpu(1, 9, btime=1_700_000_030)))["clock"]
    assert "+30 s" in doubt.what
    assert not doubt.invalid
    slept = found(case({"/proc/uptime": "50.0 1"}, {"/proc/uptime": "90.0 1"}))["clock"]
    assert "30 s" in slept.what
    assert slept.invalid
    assert found(case({"/proc/uptime": "50.0 1"}, {"/proc/uptime": "60.9 1"})) == {}


def test_swapping_is_named_from_a_mebibyte_on() -> None:
    before = {"/proc/vmstat": "pswpin 100\npswpout 7"}
    assert "200 pages in" in found(case(before, {"/proc/vmstat": "pswpin 300\npswpout 107"}))["swap"].what  # fmt: skip # noqa: E501
    assert found(case(before, {"/proc/vmstat": "pswpin 200\npswpout 107"})) == {}


def test_waiting_for_memory_is_pressure() -> None:
    line = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 total=0"
    place = "/proc/pressure/memory"
    assert "5%" in found(case({place: line.format(0)}, {place: line.format(500_000)}))["pressure"].what  # fmt: skip # noqa: E501
    assert found(case({place: line.format(0)}, {place: line.format(50_000)})) == {}


def proc(pid: int, name: str, parent: int, ticks: int, children: int = 0, flags: int = 0) -> str:
    """A line of /proc/PID/stat (proc_pid_stat(5))."""
    return f"{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 {children} 0 20 0 1 0 5"


def others(before: Sequence[str], after: Sequence[str]) -> dict[str, float]:
    looker = {"/proc/self/stat": kept(proc(50, "iotrial", 40, 0))}
    first, last = ({PROCESSES: kept("\n".join(each)), **looker} for each in (before, after))
    return dict(used(case(first, last)))


SHELL = [proc(1, "init", 0, 5), proc(40, "bash", 1, 5), proc(50, "iotrial", 40, 5)]


def test_what_others_used_is_theirs_and_not_ours() -> None:
    before = [*SHELL, proc(60, "a (bad) name", 1, 100)]
    grown = [SHELL[0], proc(40, "bash", 1, 900, 900), proc(50, "iotrial", 40, 400, 900)]
    assert others(before, [*grown, proc(60, "a (bad) name", 1, 600), proc(61, "new", 60, 30)]) == {
        "a (bad) name (pid 60)": 5.0,
        "new (pid 61)": 0.3,
    }


def test_kernel_threads_may_work_for_the_load() -> None:
    assert others(SHELL, [*SHELL, proc(70, "kworker/u8:1", 2, 900, flags=0x04208060)]) == {}


def test_a_child_that_ends_does_not_count_its_former_life() -> None:
    """make waited for cc, which had used 8 s before, and 1 s since."""
    before = [*SHELL, proc(60, "make", 1, 10), proc(61, "cc", 60, 800)]
    assert others(before, [*SHELL, proc(60, "make", 1, 10, 900)]) == {"make (pid 60)": 1.0}


def test_a_burner_is_doubted_by_name() -> None:
    looker = {"/proc/self/stat": kept(SHELL[2])}
    before = {PROCESSES: kept("\n".join(SHELL)), **looker}
    after = {PROCESSES: kept("\n".join([*SHELL, proc(99, "burn", 1, 900)])), **looker}
    doubt = found(case(before, after))["other-cpu"]  # 9 s of 4 CPUs in 10 s
    assert "22%" in doubt.what
    assert "burn (pid 99) 9.0 s" in doubt.what


MDSTAT = """Personalities : [raid1] [raid6] [raid5] [raid4]
md0 : active raid1 sdb1[1] sda1[0]
      976630464 blocks super 1.2 [2/2] [UU]
      [==>..................]  check = 12.6% (123456789/976630464) finish=75.3min speed=188123K/sec
      bitmap: 0/8 pages [0KB], 65536KB chunk

md1 : active (auto-read-only) raid1 nvme1n1p2[1] nvme0n1p2[0]
      1046528 blocks super 1.2 [2/2] [UU]
        resync=PENDING

unused devices: <none>
"""


@pytest.mark.parametrize(
    ("scene", "invalid"),
    [(CheckContext("md0", ("sda", "sdb")), True), (CheckContext("sda3", ("sda",)), True),
     (CheckContext("nvme0n1", ("nvme0n1",)), False)],
)  # fmt: skip
def test_an_array_at_work_on_the_disks_of_the_target_is_invalid(
    scene: CheckContext, *, invalid: bool
) -> None:
    doubt = found(case({"/proc/mdstat": MDSTAT}, {"/proc/mdstat": ""}, scene))["resync"]
    assert "md0" in doubt.what
    assert "check at 12.6%" in doubt.what
    assert doubt.invalid == invalid


def test_an_array_at_rest_is_nothing() -> None:
    assert found(case({"/proc/mdstat": MDSTAT.replace("check = 12.6%", "")}, {})) == {}


THROTTLING = "`iotrial-throttling sda`"
CPU0 = "/sys/devices/system/cpu/cpu0/thermal_throttle"
RAPL = "/sys/class/powercap/intel-rapl:0"
DRIVE = "/sys/block/nvme0n1/device/hwmon3"


def lines(**values: object) -> dict[str, str]:
    paths = {"core": f"{CPU0}/core_throttle_count", "power": f"{CPU0}/package_power_limit_count",
             "energy": f"{RAPL}/energy_uj", "limit": f"{RAPL}/constraint_0_power_limit_uw",
             "range": f"{RAPL}/max_energy_range_uj", "name": f"{RAPL}/name",
             "heat": f"{DRIVE}/temp1_input", "most": f"{DRIVE}/temp1_max"}  # fmt: skip
    return {THROTTLING: "\n".join(f"{paths[key]}:{value}" for key, value in values.items())}


def test_a_processor_that_became_too_hot_is_invalid() -> None:
    doubt = found(case(lines(core=4, power=0), lines(core=9, power=0)))["throttling"]
    assert doubt.invalid
    assert "core thermal throttling (5 times)" in doubt.what
    assert found(case(lines(core=9, power=2), lines(core=9, power=2))) == {}
    assert not found(case(lines(power=2), lines(power=3)))["throttling"].invalid


def test_a_processor_at_its_power_limit_is_doubted_also_when_the_counter_wraps() -> None:
    after = {"limit": 65_000_000, "range": 1_000_000_000, "name": "package-0"}
    assert (
        "65 W of its limit of 65 W"
        in found(case(lines(energy=800_000_000), lines(energy=450_000_000, **after)))[
            "throttling"
        ].what
    )
    assert found(case(lines(energy=0), lines(energy=300_000_000, **after))) == {}


def test_a_drive_at_its_warning_temperature_is_doubted() -> None:
    hot = lines(heat=84_850, most=84_850)
    assert "nvme0n1 is at 84 °C" in found(case(lines(heat=40_000, most=84_850), hot))["throttling"].what  # fmt: skip # noqa: E501


# Steady state.


def steady(rates: Sequence[float], scene: CheckContext = DIRECT) -> dict[str, Doubt]:
    said = measurements(float(len(rates)), read=sum(rates))
    end = Snapshot(float(len(rates)), {})
    return found(LoadEvidence(scene, Snapshot(), end, float(len(rates)), said, series(rates)))


def test_rounds_are_means_of_fifths() -> None:
    assert rounds(series([1.0] * 5 + [3.0] * 5)) == pytest.approx(
        [MIB, MIB, 2 * MIB, 3 * MIB, 3 * MIB]
    )
    assert slope([1.0, 3.0, 5.0, 7.0]) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("rates", "doubted"),
    [([100.0] * 20, False), ([100 + 0.4 * i for i in range(20)], False),
     ([100 - 1.5 * i for i in range(20)], True), ([100.0] * 10 + [70.0] * 10, True),
     ([100.0, 70.0] * 10, False), ([100.0, 50.0] * 4, False)],
)  # fmt: skip
def test_snia_rules_on_the_series_of_the_device(rates: list[float], *, doubted: bool) -> None:
    assert ("steady-state" in steady(rates)) == doubted


def test_writeback_is_not_judged_for_steadiness() -> None:
    assert "steady-state" not in steady([100.0] * 10 + [70.0] * 10, BUFFERED)


# Studies.


def test_first_trials_that_all_differ_are_said() -> None:
    quiet = noisy(0.01, 3)
    slow = results(SCHEDULER, ["read"], 6, lambda t: quiet(t) * (0.8 if t.block == 1 else 1.0))
    (doubt,) = of_study(slow)
    assert doubt.check == "first-run"
    assert "−20" in doubt.what
    assert of_study(change(slow, margin=0.3)) == ()


def test_first_trials_like_the_others_are_seldom_doubted() -> None:
    """By chance in less than one study of a hundred."""
    doubted = [of_study(results(SCHEDULER, ["read"], 6, noisy(0.05, seed))) for seed in range(200)]
    assert sum(bool(each) for each in doubted) <= 4


def test_too_few_trials_say_nothing_of_the_first() -> None:
    assert first_against_later([[1.0, 5.0, 5.0]]) == (0.0, 0.0)
    assert of_study(results(SCHEDULER, ["read"], 2, lambda t: 100.0 * t.block)) == ()


def study_of(
    rates: dict[str, float],
    metric: str = "read.bw",
    options: dict[str, dict[str, OptionValue]] | None = None,
    tools: dict[str, str] | None = None,
) -> Results:
    """Two treatments, the second 0.2 % slower, of workloads that move so much."""
    plain = results({"x": ("a", "b")}, list(rates), 2, lambda _: 1.0)
    records = [
        dataclasses.replace(
            record,
            measurements=(
                Measurement(metric, _rate(rates, record.trial), "bytes/s"),
                Measurement("read.iops", 1.0, "1/s"),
            ),
        )
        for record in plain.records
    ]
    workloads = tuple(
        Workload(name, (tools or {}).get(name, "fio"), tuple((options or {}).get(name, {}).items()))
        for name in rates
    )
    study = dataclasses.replace(plain.study, workloads=workloads)
    return dataclasses.replace(plain, records=tuple(records), study=study)


def _rate(rates: dict[str, float], trial: Trial) -> float:
    return rates[trial.workload] * (1.0 if trial.treatment[0][1] == "a" else 0.998)


def named(of: Results) -> list[str]:
    return [doubt.check for doubt in of_study(of)]


@pytest.mark.parametrize(("rate", "doubted"), [(1.0e9, ["link"]), (0.993e9, ["link"]), (0.9e9, [])])
def test_a_link_that_is_full_at_every_treatment_shows_no_difference(
    rate: float, doubted: list[str]
) -> None:
    tools = {"net": "iperf3"}
    assert named(study_of({"net": 1.0e9, "nas": rate}, tools=tools)) == doubted


def disk(of: Results, name: str, rotational: str) -> Results:
    about = {"queue": {"rotational": rotational}}
    return dataclasses.replace(of, facts={"local": {"devices": {name: about}}})


def test_random_reads_as_fast_as_sequential_ones_are_no_turning_disk() -> None:
    patterns: dict[str, dict[str, OptionValue]] = {
        "seq": {"rw": "read", "bs": "4k"},
        "random": {"rw": "randread", "bs": "4k"},
    }
    fast = study_of({"seq": 1e8, "random": 0.9e8}, options=patterns)
    assert named(disk(fast, "sda", "1")) == ["working-set"]
    assert named(disk(fast, "nvme0n1", "0")) == []
    assert named(disk(fast, "loop0", "1")) == []
    slow = study_of({"seq": 1e8, "random": 1e6}, options=patterns)
    assert named(disk(slow, "sda", "1")) == []
    other: dict[str, dict[str, OptionValue]] = {
        **patterns,
        "random": {"rw": "randread", "bs": "1m"},
    }
    assert named(disk(study_of({"seq": 1e8, "random": 1e8}, options=other), "sda", "1")) == []


def sizes(small: float) -> Results:
    plain = results({"size": ("1g", "64g")}, ["read"], 3,
                    lambda t: 100.0 * (small if t.treatment[0][1] == "1g" else 1.0))  # fmt: skip
    levels = tuple(Level(label, option=label) for label in ("1g", "64g"))
    factor = Factor("size", "option", levels, subject="size")
    return dataclasses.replace(plain, study=dataclasses.replace(plain.study, factors=(factor,)))


def test_a_small_size_that_is_much_faster_lay_in_a_cache() -> None:
    (doubt,) = of_study(sizes(3.0))
    assert doubt.check == "working-set"
    assert "1g" in doubt.what
    assert of_study(sizes(1.1)) == ()


TWO_SIZES: dict[str, dict[str, OptionValue]] = {
    "small": {"rw": "randread", "bs": "4k", "size": "1g"},
    "large": {"rw": "randread", "bs": "4k", "size": "64g"},
}


def two_sizes(
    small: float,
    large: float,
    options: dict[str, dict[str, OptionValue]] | None = None,
    tools: dict[str, str] | None = None,
) -> Results:
    """A study of two workloads, by what they read per second."""
    rates = {"small": small, "large": large}
    of = study_of(rates, options=options or TWO_SIZES, tools=tools)
    rule = DecisionRule(tuple((name, "read.bw") for name in rates))
    return dataclasses.replace(of, study=dataclasses.replace(of.study, decide=rule))


def test_a_second_working_set_that_is_much_slower_names_the_cache() -> None:
    jump = two_sizes(5e8, 1e8)
    (doubt,) = of_study(jump)
    assert doubt.check == "working-set"
    assert "small moves 5.0 times as much over 1.00 GiB as large" in doubt.what
    assert "the array or the drive" in doubt.what
    known = dataclasses.replace(jump, facts={"local": {"memory": 16 * 2**30}})
    assert "fits in memory (16.0 GiB), the larger does not" in of_study(known)[0].what


def test_two_working_sets_as_fast_as_each_other_are_no_doubt() -> None:
    assert named(two_sizes(1.1e8, 1e8)) == []
    assert named(two_sizes(1e8, 5e8)) == []


def test_only_workloads_that_differ_in_nothing_else_are_held_against_each_other() -> None:
    other = {**TWO_SIZES, "small": {**TWO_SIZES["small"], "bs": "64k"}}
    assert named(two_sizes(5e8, 1e8, other)) == []
    assert named(two_sizes(5e8, 1e8, tools={"small": "dd"})) == []


# On disk.


def test_a_case_is_read_as_it_was_written(tmp_path: Path) -> None:
    of = case({STAT: stat(1, 2), "`x`": "é\udcff\n"}, {STAT: stat(3, 4)}, said=measurements(read=9))
    (tmp_path / written.TELEMETRY).write_text(
        json.dumps({"t": 1.0, "disk": {"sectors_read": 8, "sectors_written": 16}})
        + '\n{"t": 2.0, "network": {}}\n{"t": 3'
    )
    written.save(tmp_path, of)
    again = written.case(tmp_path, of.measurements)
    assert again == dataclasses.replace(of, samples=(IOSample(1.0, BytesMoved(4096.0, 8192.0)),))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "scene": 3}', '{"format": 1}']
)
def test_what_is_not_whole_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / written.FILE).write_text(text)
    with pytest.raises(FormatError, match=r"validity\.json"):
        written.case(tmp_path, ())
    with pytest.raises(FormatError):
        written.case(tmp_path / "nowhere", ())


def test_readings_keep_only_what_is_looked_at() -> None:
    texts = {"/proc/vmstat": "nr_free 5\npswpin 1\npswpout 2\n", "/proc/stat": "cpu  1\ncpu0 1\n"}
    found_ = {
        r.probe.place: r.keep(texts[r.probe.place]) for r in readings(DIRECT) if _of(r, texts)
    }
    assert found_ == {"/proc/vmstat": "pswpin 1\npswpout 2", "/proc/stat": "cpu  1"}


def _of(reading: CheckReading, texts: dict[str, str]) -> bool:
    return reading.probe.place in texts


def test_a_trial_that_failed_is_no_case() -> None:
    plain = results({"x": ("a",)}, ["read"], 1, lambda _: None)
    assert isinstance(plain.records[0], TrialRecord)
    assert of_study(plain) == ()


# What the kernel said.

LOGGED = next(each for each in readings(DIRECT) if "iotrial-kernel-log" in each.probe.place)
LOG = LOGGED.probe.place
OLD = "[  100.000000] I/O error, dev sda, sector 1 op 0x0:(READ) flags 0x0"
NVME = CheckContext("nvme0n1", disks=("nvme0n1",), direct=True)
FABRIC = CheckContext("nvme0n1", disks=("nvme0c0n1", "nvme0c1n1"), direct=True)
MAP = CheckContext(
    "dm-3", disks=("sdb", "sdc"), direct=True, ways=(("sdb", "host1", "0"), ("sdc", "host2", "0"))
)


def logged(*lines: str, scene: CheckContext = DIRECT, known: str = OLD) -> Doubt | None:
    """After a load in which these lines came beside the one that was there before."""
    numbers = {"/sys/block/sdb/dev": "8:16", "/sys/block/sdc/dev": "8:32"}
    after = LOGGED.keep("\n".join([known, *lines]))
    return found(case({LOG: known}, {LOG: after, **numbers}, scene)).get("kernel-errors")


@pytest.mark.parametrize(
    ("line", "scene"),
    [
        ("[  200.1] I/O error, dev sda, sector 2048 op 0x1:(WRITE) flags 0x800", DIRECT),
        ("[  200.1] Buffer I/O error on dev sda1, logical block 3, async page read", DIRECT),
        ("[  200.1] sd 2:0:0:0: [sda] tag#12 timing out command, waited 180s", DIRECT),
        ("[  200.1] EXT4-fs error (device sda): ext4_find_entry:1463: inode #2", DIRECT),
        ("[  200.1] nvme nvme0: I/O 22 QID 3 timeout, aborting", NVME),
        ("[  200.1] nvme nvme0: resetting controller", NVME),
        ("[  200.1] device-mapper: multipath: 253:3: Failing path 8:32.", MAP),
        ("[  200.1] sd 3:0:0:1: [sdc] Synchronize Cache failed: hard resetting link", MAP),
        ("[  200.1] nvme nvme1: queue 1: timeout request 0x5 type 4", FABRIC),
        ("[  200.1] nvme nvme1: failed nvme_keep_alive_end_io error=10", FABRIC),
        ("[  200.1] nvme nvme1: starting error recovery", FABRIC),
        ("[  200.1] nvme nvme1: Reconnecting in 2 seconds...", FABRIC),
        ("[  200.1] nvme nvme1: Failed reconnect attempt 1", FABRIC),
    ],
)
def test_an_error_that_names_the_device_makes_the_trial_invalid(
    line: str, scene: CheckContext
) -> None:
    doubt = logged(line, scene=scene)
    assert doubt is not None
    assert doubt.invalid
    assert doubt.what.startswith("the kernel said: " + line.partition("] ")[2][:40])


def test_old_errors_and_those_of_others_spoil_nothing() -> None:
    assert logged() is None
    assert logged("[  200.1] I/O error, dev sda, sector 7 op 0x0:(READ)", known="") is not None
    assert logged("[  200.1] I/O error, dev sdb, sector 7 op 0x0:(READ)") is None
    assert logged("[  200.1] nvme nvme1: resetting controller", scene=NVME) is None
    assert logged("[  200.1] nvme nvme2: starting error recovery", scene=FABRIC) is None
    assert (
        logged("[  200.1] nvme nvme1: Successfully reconnected (1 attempt)", scene=FABRIC) is None
    )
    assert logged("[  200.1] sda: detected capacity change from 0 to 2048") is None
    unreadable = found(case({}, {LOG: "[  200.1] I/O error, dev sda, sector 2"}))
    assert "kernel-errors" not in unreadable, "nobody knows what was there before"


def test_the_same_message_again_is_a_new_one_and_all_are_counted() -> None:
    again = "[  200.1] I/O error, dev sda, sector 1 op 0x0:(READ) flags 0x0"
    doubt = logged(again, again.replace("200.1", "200.2"))
    assert doubt is not None
    assert doubt.what.endswith("(and 1 more lines)")


def test_a_server_that_does_not_answer_spoils_a_load_without_a_device() -> None:
    line = "[  200.1] nfs: server box7 not responding, still trying"
    here, there = logged(line), logged(line, scene=dataclasses.replace(DIRECT, device="", disks=()))
    assert here is not None
    assert there is not None
    assert (here.invalid, there.invalid) == (False, True)


def paths(before: str, after: str, status: tuple[str, str] = ("A", "A")) -> Doubt | None:
    """sdb runs; sdc was in the state ``before`` and is in ``after``, ``status`` by the map."""
    sides = [
        {
            "/sys/block/sdb/device/state": "running",
            "/sys/block/sdb/dev": "8:16",
            "/sys/block/sdc/device/state": state,
            "/sys/block/sdc/dev": "8:32",
            "`dmsetup status --target multipath`":
                f"m: 0 9 multipath 2 0 0 0 1 1 A 0 2 2 8:16 A 0 0 1 8:32 {flag} 1 0 1",
        }
        for state, flag in zip((before, after), status, strict=True)
    ]  # fmt: skip
    return found(case(*sides, MAP)).get("lost-path")


@pytest.mark.parametrize(
    ("before", "after", "status", "says", "invalid"),
    [
        ("running", "transport-offline", ("A", "A"), "went down during the load", True),
        ("running", "running", ("A", "F"), "failed in the multipath map", True),
        ("offline", "running", ("F", "A"), "came back during the load", True),
        ("offline", "offline", ("F", "F"), "is down (offline): it does not stand by", False),
    ],
)
def test_a_path_that_is_down_does_not_stand_by(
    before: str, after: str, status: tuple[str, str], says: str, *, invalid: bool
) -> None:
    doubt = paths(before, after, status)
    assert doubt is not None
    assert says in doubt.what
    assert "path sdc of dm-3" in doubt.what
    assert doubt.invalid is invalid


def test_paths_that_run_are_no_doubt() -> None:
    assert paths("running", "running") is None


@pytest.mark.parametrize(
    ("before", "after", "says", "invalid"),
    [
        ("live", "", "went down during the load (it is not there any more)", True),
        ("", "live", "came back during the load", True),
        ("connecting", "", "is down (it is not there any more): it does not stand by", False),
    ],
)
def test_a_path_that_is_removed_or_comes_spoils_the_trial(
    before: str, after: str, says: str, *, invalid: bool
) -> None:
    """Native paths of NVMe: hidden disks without a number, which go with their controller."""
    scene = dataclasses.replace(
        MAP, device="nvme0n1", ways=(("nvme0c0n1", "nvme0", ""), ("nvme0c1n1", "nvme1", ""))
    )
    sides = [
        {"/sys/block/nvme0c0n1/device/state": "live"}
        | ({"/sys/block/nvme0c1n1/device/state": state} if state else {})
        for state in (before, after)
    ]
    doubt = found(case(*sides, scene)).get("lost-path")
    assert doubt is not None
    assert doubt.invalid is invalid
    assert doubt.what == f"path nvme0c1n1 of nvme0n1 {says}"


# A cap.


def offered(rate: float, sd: float, options: dict[str, OptionValue]) -> list[Doubt]:
    made = results(SCHEDULER, ["reads"], 4, noisy(sd, 1))
    load = Workload("reads", "fio", tuple(options.items()))
    records = tuple(
        dataclasses.replace(
            r,
            measurements=(
                Measurement(
                    "read.iops", min(rate, (r.value("read.iops") or 0) / 1000 * rate), "1/s"
                ),
            ),
        )
        for r in made.records
    )
    made = dataclasses.replace(
        made, study=dataclasses.replace(made.study, workloads=(load,)), records=records
    )
    return [doubt for doubt in of_study(made) if doubt.check == "capped"]


def test_a_rate_that_the_load_offers_is_no_limit_of_the_device() -> None:
    (told,) = offered(800.0, 0.01, {"rate_iops": "200", "numjobs": 4})
    assert "every trial reached the 800 IOPS that the load offers" in told.what
    assert offered(400.0, 0.05, {"rate_iops": "200", "numjobs": 4}) == [], "the device is slower"
    assert offered(800.0, 0.05, {}) == []


def test_rates_steadier_than_storage_are_those_of_a_limit_somewhere() -> None:
    (told,) = offered(5000.0, 0.0005, {})
    assert "steadier than storage is" in told.what
    assert offered(5000.0, 0.01, {}) == []


# Credits.


def in_order(levels: Sequence[float], sd: float = 0.03, seed: int = 1) -> list[Doubt]:
    """A study of four schedulers whose trials have these rates one after the other."""
    made = results(SCHEDULER, ["reads"], -(-len(levels) // 4), noisy(sd, seed))
    records = tuple(
        dataclasses.replace(
            r,
            measurements=(
                Measurement("read.iops", (r.value("read.iops") or 0) * level, "1/s"),
                Measurement("read.bytes", 2.0**30, "bytes"),
            ),
        )
        for r, level in zip(made.records, levels, strict=False)
    )
    told = of_study(dataclasses.replace(made, records=records))
    return [doubt for doubt in told if doubt.check == "credits"]


def test_a_rate_that_falls_after_so_many_bytes_is_that_of_credits() -> None:
    (told,) = in_order([1.0] * 13 + [0.6] * 11)
    assert "reads: read.iops fell by a step of −39.5 %" in told.what
    assert "before trial 14, after 13.0 GiB in all" in told.what
    (early,) = in_order([2.5] * 4 + [1.0] * 28)
    assert "before trial 5" in early.what


def test_what_rises_drifts_or_falls_a_little_is_no_credit() -> None:
    assert in_order([0.6] * 12 + [1.0] * 12) == [], "a warm-up"
    assert in_order([1.0 - 0.02 * at for at in range(24)]) == [], "a slow drift"
    assert in_order([1.0] * 12 + [0.95] * 12) == []
    assert in_order([1.0] * 3 + [0.5]) == [], "too few"


def test_trials_without_a_step_are_next_to_never_doubted() -> None:
    assert sum(bool(in_order([1.0] * 24, sd=0.3, seed=seed)) for seed in range(60)) <= 1
