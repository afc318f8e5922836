"""What holding settings costs: 50 of them, writes that freeze a queue, beside tuned, over SSH.

    ./dev bench settings [--rounds 40] [--pairs 20]

Needs root: a loop device is made, and parameters of this kernel are changed for moments by the
smallest step and put back.  Everything goes the way of a run: group and journal (fsync), apply
with read-back, restore with read-back.  tuned switches the same settings on and off in the same
run, on a bus of its own (``_tuned.py``), once by ``tuned-adm profile`` and once by its D-Bus call
alone, which keeps no journal and does not wait.  Prints each figure with its interval beside its
limit; exits 1 when one is missed, or could not be measured.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _limits import Limits, machine, median_of, run_main
from _relay import relay

from iotrial.execute.session import HostSession
from iotrial.execute.settings.journal import open_journal
from iotrial.execute.settings.restore import boot_id
from iotrial.hosts.local import LocalHost
from iotrial.hosts.places import journal_folder
from iotrial.hosts.ssh import SSHHost
from iotrial.look.identity import identify
from iotrial.model.host import Host
from iotrial.model.step import Read
from iotrial.model.study import Study
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tunable import Setting
from iotrial.plan.load import parse_study
from iotrial.tunables import tunable

COUNT = 50
DELAY = 0.025  # seconds each way over the slow link
STUDY = """
question = "What do settings cost?"
[targets.disk]
loop = { size = "64MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "read", bs = "4k", runtime = "1s" }
"""
# What the last word of each is raised by.  None of them acts when it is written.
SYSCTLS = {
    "vm.dirty_expire_centisecs": 10,
    "vm.dirty_writeback_centisecs": 10,
    "vm.dirty_ratio": 1,
    "vm.dirty_background_ratio": 1,
    "vm.vfs_cache_pressure": 1,
    "vm.swappiness": 1,
    "vm.page-cluster": 1,
    "vm.stat_interval": 1,
    "vm.dirtytime_expire_seconds": 1,
    "vm.extfrag_threshold": 1,
    "vm.max_map_count": 1,
    "vm.admin_reserve_kbytes": 4,
    "vm.user_reserve_kbytes": 4,
    "vm.page_lock_unfairness": 1,
    "net.core.rmem_default": 1024,
    "net.core.rmem_max": 1024,
    "net.core.wmem_default": 1024,
    "net.core.wmem_max": 1024,
    "net.core.netdev_max_backlog": 1,
    "net.core.netdev_budget": 1,
    "net.core.netdev_budget_usecs": 1,
    "net.core.optmem_max": 1024,
    "net.core.somaxconn": 1,
    "net.core.dev_weight": 1,
    "net.core.message_burst": 1,
    "net.core.message_cost": 1,
    "net.ipv4.tcp_rmem": 4096,
    "net.ipv4.tcp_wmem": 4096,
    "net.ipv4.tcp_fin_timeout": 1,
    "net.ipv4.tcp_keepalive_time": 1,
    "net.ipv4.tcp_keepalive_intvl": 1,
    "net.ipv4.tcp_keepalive_probes": 1,
    "net.ipv4.tcp_syn_retries": 1,
    "net.ipv4.tcp_synack_retries": 1,
    "net.ipv4.tcp_retries2": 1,
    "net.ipv4.tcp_max_syn_backlog": 1,
    "net.ipv4.tcp_max_tw_buckets": 1,
    "net.ipv4.tcp_reordering": 1,
    "net.ipv4.ipfrag_time": 1,
    "fs.aio-max-nr": 1,
    "fs.inotify.max_queued_events": 1,
    "fs.inotify.max_user_instances": 1,
    "fs.lease-break-time": 1,
    "fs.mount-max": 1,
    "fs.nr_open": 1024,
    "fs.inotify.max_user_watches": 1,
    "fs.epoll.max_user_watches": 1,
    "fs.pipe-user-pages-soft": 1,
    "net.ipv4.tcp_orphan_retries": 1,
    "net.ipv4.tcp_base_mss": 1,
    "net.ipv4.tcp_limit_output_bytes": 4096,
    "net.ipv4.tcp_probe_interval": 1,
    "net.ipv4.tcp_probe_threshold": 1,
    "net.ipv4.tcp_min_tso_segs": 1,
    "net.ipv4.tcp_pacing_ss_ratio": 1,
    "net.ipv4.tcp_pacing_ca_ratio": 1,
    "net.ipv4.tcp_invalid_ratelimit": 4,
    "net.ipv4.igmp_max_memberships": 1,
    "kernel.printk_ratelimit_burst": 1,
    "kernel.keys.gc_delay": 1,
    "kernel.hung_task_warnings": 1,
}
QUEUE = {
    "queue.read_ahead_kb": 128,
    "queue.nomerges": 1,
    "queue.iosched.fifo_batch": 1,
    "queue.iosched.writes_starved": 1,
    "queue.iosched.read_expire": 40,
    "queue.iosched.write_expire": 40,
}
ADM, BUS, BUS_HELD = 20.0, 0.25, 0.5
"""tuned's time to switch the same settings on and off / ours: by ``tuned-adm profile``; by its
D-Bus call alone, which keeps no journal; and by that call / our applying and restoring, which read
back."""
FREEZING = ("queue.scheduler", "queue.max_sectors_kb", "queue.rotational", "queue.wbt_lat_usec")


@contextmanager
def loop(folder: Path) -> Iterator[str]:
    """A loop device of our own under mq-deadline."""
    backing = folder / "loop.img"
    backing.write_bytes(b"")
    os.truncate(backing, 64 * 2**20)
    attach = ("losetup", "--find", "--show", "--direct-io=on", str(backing))
    path = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    try:
        name = Path(path).name
        Path("/sys/block", name, "queue/scheduler").write_text("mq-deadline")
        yield name
    finally:
        subprocess.run(("losetup", "--detach", path), check=True)


def fifty(host: Host, device: str) -> list[Setting]:
    """Real settings of this kernel that freeze no queue, each at a value it does not have."""
    knobs = [tunable(name) for name in (*(f"sysctl.{key}" for key in SYSCTLS), *QUEUE)]
    steps = [*SYSCTLS.values(), *QUEUE.values()]
    devices = ["" if knob.scope == "host" else device for knob in knobs]
    probes = [knob.probe(where) for knob, where in zip(knobs, devices, strict=True)]
    paths = [probe.path for probe in probes]
    writable = host.run(["find", *paths, "-maxdepth", "0", "-writable"]).text.split("\n")
    found = []
    for knob, step, where, answer in zip(
        knobs, steps, devices, host.batch([Read(probe) for probe in probes]), strict=True
    ):
        if answer.errno or knob.probe(where).path not in writable:
            continue  # another kernel, or the parameters of another network namespace
        words = str(knob.observe(answer.raw)).split()
        raised = [" ".join([*words[:-1], str(int(words[-1]) + by)]) for by in (step, -step)]
        taken = [value for value in raised if not knob.domain(answer.raw).refusal(value)]
        found.append(Setting(where, knob.name, taken[0]))
    if len(found) < COUNT:
        raise SystemExit(f"this kernel has only {len(found)} of the settings that are changed here")
    return found[-COUNT:]  # those of the queue are among them


def session(host: Host, study: Study, device: str, number: int) -> HostSession:
    """A bench as a run has it when the first treatment comes: the journal is open, and who the
    device is was read as the target was made ready."""
    header = {"boot_id": boot_id(host), "token": f"bench-{number}", "study": "settings"}
    path = f"/dev/{device}"
    aim = PreparedTarget(Target("disk", "device", path=path), path, device, identify(host, path))
    journal = open_journal(host, journal_folder(host), header)
    return HostSession(host, study, journal, aims={"disk": aim})


@dataclass(frozen=True)
class Cycle:
    """Seconds and round trips by part, and ``all``; ``fsync`` is a part of ``own``."""

    seconds: dict[str, float]
    rounds: dict[str, float]


PARTS = ("own", "apply", "restore")


class Counted:
    """The parts of one cycle in seconds and, over SSH, in round trips."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.marks = [self._now()]

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), getattr(self._host, "rounds", 0)

    def mark(self) -> None:
        self.marks.append(self._now())

    def parts(self, what: int) -> dict[str, float]:
        """What (0: seconds, 1: round trips) each part and all of it took."""
        steps = [later[what] - former[what] for former, later in itertools.pairwise(self.marks)]
        return {**dict(zip(PARTS, steps, strict=True)), "all": sum(steps)}


def cycle(host: Host, study: Study, wanted: Sequence[Setting], number: int) -> Cycle:
    """One treatment's settings, from the first read of the group to the last read-back."""
    made = session(host, study, max(setting.device for setting in wanted), number)
    names: dict[str, list[str]] = {}
    for setting in wanted:
        names.setdefault(setting.device, []).append(setting.tunable)
    counted = Counted(host)
    try:
        with synced() as waited:
            made.own_groups(names)
        counted.mark()
        made.hold(wanted)
    finally:
        counted.mark()
        made.release()
        counted.mark()
        host.remove(made.journal.path)
    return Cycle(counted.parts(0) | {"fsync": sum(waited)}, counted.parts(1))


@contextmanager
def synced() -> Iterator[list[float]]:
    """The seconds of each fsync(2) meanwhile."""
    real, spent = os.fsync, []

    def timed(descriptor: Any) -> None:  # noqa: ANN401 (what os.fsync takes)
        began = time.perf_counter()
        real(descriptor)
        spent.append(time.perf_counter() - began)

    os.fsync = timed  # type: ignore[assignment]
    try:
        yield spent
    finally:
        os.fsync = real


def local(
    limits: Limits, host: Host, study: Study, wanted: list[Setting], rounds: int
) -> dict[str, list[float]]:
    """Milliseconds of each cycle: ``all``, and what tuned does too (``held``)."""
    seen = [cycle(host, study, wanted, number).seconds for number in range(rounds + 2)]
    seen = seen[2:]  # the first ones read programs and files from the disk
    each = {part: [1000 * s[part] for s in seen] for part in seen[0]}
    limits.at_most(f"{len(wanted)} settings, all (ms)", median_of(each["all"]), 50.0, form=".2f")
    for name, part in (
        ("  group read and put in the journal", "own"),
        ("    of it fsync", "fsync"),
        ("  apply and read back", "apply"),
        ("  restore and read back", "restore"),
    ):
        limits.tell(name, median_of(each[part]), form=".2f")
    limits.tell("  the slowest of them", max(each["all"]), form=".2f")
    held = [a + b for a, b in zip(each["apply"], each["restore"], strict=True)]
    return {"all": each["all"], "held": held}


def far(limits: Limits, study: Study, device: str, folder: Path, rounds: int) -> None:
    """The same over SSH, to a network namespace near by, and behind a link of DELAY seconds each
    way: what the link adds shows how often it is crossed, whoever counts."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    labs = importlib.import_module("lab")
    if missing := labs.why_not():
        limits.unmeasured("over SSH", missing)
        return
    (folder / "lab").mkdir()
    lab = labs.Lab(folder / "lab")
    count = max(5, rounds // 4)
    try:
        box = lab.box()
        near, late = (_over(study, device, (lab, box), delay, count) for delay in (0.0, DELAY))
    finally:
        lab.close()
    most = {part: max(each.rounds[part] for each in late) for part in late[0].rounds}
    here, there = (
        # The least: what else the machine does only adds.
        {p: min(each.seconds[p] for each in seen) for p in most}
        for seen in (near, late)
    )
    crossed = {part: (there[part] - here[part]) / (2 * DELAY) for part in most}
    limits.at_most(f"{COUNT} settings over SSH: round trips to apply", most["apply"], 3, form=".0f")
    limits.at_most("  to restore", most["restore"], 3, form=".0f")
    limits.at_most("  in all, with reading the group and the journal", most["all"], 6, form=".0f")
    limits.at_most(
        f"  what {2000 * DELAY:g} ms a trip add, in trips", crossed["all"], 6.5, form=".2f"
    )
    for part in PARTS:
        limits.tell(f"    of it {part}", crossed[part], form=".2f")
    limits.tell("  time without that link (ms)", 1000 * here["all"], form=".1f")
    limits.tell("  time with it (ms)", 1000 * there["all"], form=".1f")


def _over(study: Study, device: str, far_side: Any, delay: float, count: int) -> list[Cycle]:  # noqa: ANN401
    """Cycles on a box of a lab, through a relay."""
    lab, box = far_side
    with relay(box.address, 22, delay) as port:
        config = lab.folder / f"through-{port}"
        config.write_text(
            f"Host far\nPort {port}\nHostKeyAlias {box.address}\nHostName 127.0.0.1\n"
            + lab.config.read_text().partition("HostName")[2].partition("\n")[2]
        )
        with SSHHost(f"-F {config} far", name="far") as host:
            wanted = fifty(host, device)
            return [cycle(host, study, wanted, number) for number in range(count + 1)][1:]


def four(device: str) -> dict[str, tuple[str, str, str]]:
    """What freezes a queue: tunable -> file, former value, another one that this loop takes."""
    found = {}
    for name in FREEZING:
        knob = tunable(name)
        path = knob.probe(device).path
        now = str(knob.observe(Path(path).read_bytes()))
        other = {
            "queue.scheduler": "kyber",
            "queue.max_sectors_kb": str(int(now) // 2) if now.isdigit() else "",
            "queue.rotational": "0" if now == "1" else "1",
        }
        found[name] = (path, now, other.get(name, "3000"))
    return found


def freezing(limits: Limits, host: Host, study: Study, device: str, pairs: int) -> None:
    """iotrial's time for writes that freeze the queue over that of the writes alone."""
    table = four(device)
    wanted = [Setting(device, name, value) for name, (_, _, value) in table.items()]
    order = random.Random(1)
    ours, bare = [], []
    _bare(table)  # wbt_lat_usec is set by hand from now on, in both
    for number in range(pairs):
        for each in order.sample(("ours", "bare"), 2):
            if each == "bare":
                bare.append(_bare(table))
            else:
                ours.append(cycle(host, study, wanted, 10_000 + number).seconds["all"])
    ratios = median_of([a / b for a, b in zip(ours, bare, strict=True)])
    limits.at_most(f"freezing writes, ours / bare, of {pairs} pairs", ratios, 1.2)
    limits.tell("  ours (ms)", median_of([1000 * each for each in ours]), form=".1f")
    limits.tell("  bare (ms)", median_of([1000 * each for each in bare]), form=".1f")


def _bare(table: dict[str, tuple[str, str, str]]) -> float:
    """Seconds of the writes that set these values, and of those that give the former back."""
    writes = [(path, value) for path, _, value in table.values()]
    writes += [(path, former) for path, former, _ in table.values()]
    began = time.perf_counter()
    for path, value in writes:
        descriptor = os.open(path, os.O_WRONLY)
        os.write(descriptor, value.encode())
        os.close(descriptor)
    return time.perf_counter() - began


def tuned(
    limits: Limits, wanted: list[Setting], ours: dict[str, list[float]], folder: Path
) -> None:
    """A tuned profile with the same settings, switched on and off; ``ours`` are the milliseconds
    of each of our cycles, which do both."""
    paths = {tunable(s.tunable).probe(s.device).path: s for s in wanted}
    former = {path: " ".join(Path(path).read_text().split()) for path in paths}
    table = folder / "settings.json"
    table.write_text(json.dumps({p: [former[p], s.value] for p, s in paths.items()}))
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    script = str(Path(__file__).with_name("_tuned.py"))
    try:
        done = subprocess.run(
            (*apart, sys.executable, script, str(table)), capture_output=True, text=True,
            timeout=900, check=False,
        )  # fmt: skip
    finally:
        left = [p for p in paths if " ".join(Path(p).read_text().split()) != former[p]]
        for path in left:
            Path(path).write_text(former[path])
    if done.returncode or left:
        why = done.stderr.strip().splitlines()[-1:] or [f"tuned left {', '.join(left)}"]
        limits.unmeasured("tuned", why[0])
        return
    beside_tuned(limits, ours, json.loads(done.stdout))


def beside_tuned(
    limits: Limits, ours: dict[str, list[float]], took: dict[str, list[float]]
) -> None:
    """``took`` are tuned's seconds of each switch, on and off in turn."""
    for how, name, against in (
        ("tuned-adm", "`tuned-adm profile`, on and off", (("all", "  / ours", ADM),)),
        (
            "d-bus",
            "its D-Bus call alone, on and off",
            (("all", "  / ours", BUS), ("held", "  / our applying and restoring", BUS_HELD)),
        ),
    ):
        switches = [1000 * each for each in took[how]]
        cycles = [on + off for on, off in zip(switches[::2], switches[1::2], strict=True)]
        middle, (low, high) = median_of(cycles)
        limits.tell(f"{name} (ms)", (middle, (low, high)), form=".1f")
        for part, words, least in against:
            own, (fast, slow) = median_of(ours[part])
            found = middle / own, (low / slow, high / fast)
            limits.at_least(words, found, least, form=".2f")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=20)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir="/var/tmp"))
    os.environ["IOTRIAL_STATE"] = str(folder / "state")
    study = parse_study(STUDY, "settings", str)
    host = LocalHost(purpose="settings")
    limits = Limits(52)
    print(machine())
    try:
        with loop(folder) as device:
            wanted = fifty(host, device)
            ours = local(limits, host, study, wanted, asked.rounds)
            freezing(limits, host, study, device, asked.pairs)
            tuned(limits, wanted, ours, folder)
            far(limits, study, device, folder, asked.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return limits.status()


if __name__ == "__main__":
    run_main(main)
