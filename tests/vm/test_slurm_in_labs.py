"""JASMIN's study (`iotrial init panasas`) and Violin's (`iotrial init violin`) under Slurm, from
the file that a user adapts to the report: on virtual machines that run slurmd, with what boxes of
one kernel do not have of their own: NFS with its mount options, multipath, sysctls of a kernel.

iotrial is on a neighbour of the nodes (tests/neighbour.py), as on a login node: nothing leads from
there to a node but their network, and it has no key of theirs.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from iotrial.judgement import judge
from iotrial.store import open_results
from lab_cluster import LabCluster
from nodes import Several, VirtualLab, up, why_not

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(10800),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

CLIENTS = (2, 3)
"""The nodes that run slurmd; node 1 is their storage."""
SLURM = "--partition=p --nodes=2 --exclusive"
KILLS = 3
LOOK = """
sysctl kernel.shmmax kernel.sem net.ipv4.tcp_moderate_rcvbuf net.ipv4.tcp_rmem net.ipv4.tcp_wmem
sysctl net.core.rmem_max net.core.wmem_max net.core.netdev_max_backlog
grep ' nfs4 ' /proc/mounts || :
for each in scheduler rotational add_random rq_affinity nr_requests; do
    grep -sH . /sys/block/sd*/queue/$each /sys/block/dm-*/queue/$each || :
done
grep -sH . /sys/block/sd*/device/queue_depth || :
if systemctl --quiet is-active multipathd; then
    cat /etc/multipath.conf
    multipathd show config local
    multipathd show maps raw format "%n %Q %F"
fi
find /var/lib/iotrial/journal.d -name '*.journal' -exec cat {} + 2>/dev/null || :
find /sys/fs/cgroup -path '*slurm*' -name 'step_*'
for each in /proc/[0-9]*/comm; do
    grep -sxE 'fio|dd' "$each" || :
done
grep -sla 'iotrial-guar[d]' /proc/[0-9]*/cmdline || :
"""
"""What a run changes, owes or executes on a node.  Not how many paths are up: on a busy machine an
emulated target is late, and iSCSI gives a path up for a while."""


def adapted(words: Mapping[str, str], text: str) -> str:
    """A text with a user's own words in the place of these."""
    for old, new in words.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@dataclass
class Site:
    """A lab whose clients are Slurm's nodes, and the folder in which iotrial is used."""

    lab: Several
    cluster: LabCluster
    folder: Path
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def nodes(self) -> str:
        return f'"{self.lab.name}-[{CLIENTS[0]}-{CLIENTS[-1]}]"'

    def iotrial(self, *words: object) -> subprocess.Popen[bytes]:
        command = [*self.cluster.inside, sys.executable, "-m", "iotrial.cli.main"]
        with (self.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [*command, *map(str, words)],
                env={**self.cluster.environment, "IOTRIAL_STATE": str(self.folder / "state")},
                cwd=self.folder,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.runs.append(process)
        return process

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text("utf-8", "replace")

    def run(self, study: Path, out: Path) -> subprocess.Popen[bytes]:
        return self.iotrial("run", study, "--out", out, "--slurm", SLURM)

    def seen(self) -> list[str]:
        return [self.lab.do(number, LOOK) for number in CLIENTS]

    def steps(self) -> list[int]:
        """How many steps the slurmd of each node has begun."""
        script = "grep -c 'launch task StepId=' /run/slurm/d-*.log || :"
        return [int(self.lab.do(number, script)) for number in CLIENTS]

    def until(self, true: Callable[[], bool], within: float) -> None:
        deadline = time.monotonic() + within
        while not true():
            assert time.monotonic() < deadline, (self.said, self.cluster.jobs, self.cluster.logs)
            time.sleep(0.5)

    def clean(self, before: list[str], within: float = 300.0) -> None:
        """Wait until there is no job, and the nodes are as they were."""
        self.until(lambda: not self.cluster.jobs, within)
        deadline = time.monotonic() + within
        while (now := self.seen()) != before and time.monotonic() < deadline:
            time.sleep(1)
        assert now == before
        assert not list((self.folder / "state").rglob("*.journal"))

    def close(self) -> None:
        for process in self.runs:
            process.kill()
            process.wait()


# -- the studies -----------------------------------------------------------------------------------

FLOW = """# A virtual machine has no flow control to switch: take this factor out there.
[factors.flow]
on = "eth0"
baseline = "on"
[factors.flow.levels]
on = { "net.pause_rx" = "on", "net.pause_tx" = "on" }
off = { "net.pause_rx" = "off", "net.pause_tx" = "off" }

"""
FINER_READS = """[[stage]]
vary = ["rsize", "flow"]
range = { step = 32768 }
workloads = ["read"]
fix = { size = "10GiB" }
then = "narrow"

[[stage]]
vary = ["rsize"]
workloads = ["read"]
fix = { size = "100GiB" }
then = "knee"

"""
WRITES = """[[stage]]
vary = ["wsize", "flow"]
workloads = ["write"]
then = "narrow"

"""
SIZES = "range = { from = 131072, to = 1048576, step = 131072 }"


def panasas(site: Site) -> Mapping[str, str]:
    """For an export of 512 MiB: files of one size, and so one stage each for reads and for writes;
    two levels of each option, which is no knee; one block.  The sysctls are in two stages, and the
    lab has one server: mounts of one version of NFS share their connections, and `nconnect` would
    be that of both.
    """
    server = f"{site.lab.name}-1:/srv/export"
    return {
        FLOW: "",
        FINER_READS: "",
        WRITES: "",
        "[targets.server]": (
            f'[inventory]\nslurm = "$SLURM_JOB_NODELIST"\n\n[targets.server]\nhosts = {site.nodes}'
        ),
        "[targets.production]": f"[targets.production]\nhosts = {site.nodes}",
        "SERVER:/EXPORT": f"{server}/one",
        'PRODUCTION:/EXPORT", type = "nfs", options = "vers=4.2"': (
            f'{server}/production", type = "nfs", options = "vers=4.1"'
        ),
        '"10GiB"': '"8MiB"',
        '"1GiB"': '"8MiB"',
        "entries = 20000, passes = 3": "entries = 50, passes = 1",
        SIZES: 'levels = ["unset", 16384]',
        '["unset", 2, 4, 8]': '["unset", 2]',
        '["unset", 30, 600]': '["unset", 30]',
        'then = "knee"': 'then = "best"',
        'vary = ["rsize", "maker", "fastnet", "flow"]': 'vary = ["rsize", "maker"]',
        'vary = ["wsize", "flow"]': 'vary = ["wsize"]',
        'vary = ["sync"]': 'vary = ["sync", "fastnet"]',
        "blocks = 8": "blocks = 1",
        "blocks = 6": "blocks = 1",
        'settle = "1s"': 'settle = "0s"',
    }


def exported(lab: Several) -> None:
    lab.do(1, "mkdir /srv/export/one /srv/export/production")
    for number in CLIENTS:
        lab.do(number, "mkdir /mnt/iotrial /mnt/production")


SEQUENTIAL = """[workloads.seqread]
tool = "fio"
jobfile = "violin.fio"
options = { rw = "read", bs = "8k" }
prepare = [{ precondition = "1x" }]

"""
SMALL = """[workloads.randread4k]
tool = "fio"
jobfile = "violin.fio"
options = { rw = "randread", bs = "4k" }
prepare = [{ precondition = "1x" }]

"""


def violin(site: Site) -> Mapping[str, str]:
    """For the lab's map of two paths, which both nodes have: three of the loads, fewer jobs, and
    one block."""
    uuid = "dmsetup info -c --noheadings -o uuid mpatha"
    (wwid,) = {site.lab.do(number, uuid).strip().removeprefix("mpath-") for number in CLIENTS}
    return {
        "[targets.lun]": (
            f'[inventory]\nslurm = "$SLURM_JOB_NODELIST"\n\n[targets.lun]\nhosts = {site.nodes}'
        ),
        SEQUENTIAL: "",
        SMALL: "",
        "WWID": wwid,
        '{ precondition = "1x" }': '{ precondition = "0.1x" }',
        "levels = [10, 20]\nbaseline = 20": "levels = [1, 2]\nbaseline = 2",
        '"scsi.queue_depth" = 128': '"scsi.queue_depth" = 64',  # iSCSI here takes 127
        "blocks = 6": "blocks = 1",
        'settle = "5s"': 'settle = "0s"',
    }


def without(study: str, *tables: str) -> str:
    """A study without these tables and their own."""
    for name in map(re.escape, tables):
        study = re.sub(rf"(?ms)^\[{name}[].].*?(?=^\[(?!{name}[].]))", "", study)
    return study


def reads_of_two_sizes(study: str) -> str:
    """The first stage of the study of NFS."""
    left = re.sub(r"(?ms)(\[\[stage\]\].*?)\[\[stage\]\].*(?=\[design\])", r"\1", study)
    left = re.sub(r"(?m)^primary = .*", 'primary = "read.bw"', left)
    factors = ("wsize", "fastnet", "streams", "sync", "attributes")
    loads = ("write", "list")
    tables = (*(f"workloads.{each}" for each in loads), *(f"factors.{each}" for each in factors))
    return without(left, "targets.production", *tables)


def one_mix(study: str) -> str:
    """One load of the study of multipath, that writes most."""
    loads = ("randread", "mix30w70r")
    left = re.sub(r"(?m)^primary = .*", 'primary = "write.iops"', study)
    return without(left, *(f"workloads.{each}" for each in loads))


@dataclass(frozen=True)
class Published:
    """``words`` are a user's in the place of the template's, and ``jobfile`` those in the place of
    its job file's; ``short`` is what of it is killed; ``ready`` prepares the lab."""

    name: str
    words: Callable[[Site], Mapping[str, str]]
    short: Callable[[str], str]
    jobfile: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[Several], None] = lambda _: None

    def written(self, site: Site, folder: Path) -> Path:
        folder.mkdir()
        study = folder / "study.toml"
        assert site.iotrial("init", self.name, "--full", study).wait(100) == 0, site.said
        study.write_text(adapted(self.words(site), study.read_text()))
        for path in folder.glob("*.fio"):
            path.write_text(adapted(self.jobfile, path.read_text()))
        return study


SHORT_LOADS = {"ramp_time=120s\n": "", "runtime=1800s": "runtime=2s", "iodepth=20": "iodepth=4"}
PUBLISHED = {
    "nas": Published("panasas", panasas, reads_of_two_sizes, ready=exported),
    "san": Published("violin", violin, one_mix, SHORT_LOADS),
}
"""By the lab that has what they vary."""


@pytest.fixture(scope="module", params=PUBLISHED)
def site(
    request: pytest.FixtureRequest,
    virtual_lab: VirtualLab,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """One lab at a time."""
    folder = tmp_path_factory.mktemp(request.param)
    with up(virtual_lab, request.param, 1 + len(CLIENTS)) as lab:
        PUBLISHED[request.param].ready(lab)
        cluster = LabCluster(folder / "slurm", lab, *CLIENTS)
        made = Site(lab, cluster, folder)
        try:
            yield made
        finally:
            made.close()
            cluster.close()


def published(site: Site) -> Published:
    return PUBLISHED[site.lab.name.rstrip("0123456789")]


# -- the tests -------------------------------------------------------------------------------------


def test_a_published_study_runs_to_its_report(site: Site, tmp_path: Path) -> None:
    study = published(site).written(site, tmp_path / "study")
    before, steps = site.seen(), site.steps()
    assert site.run(study, tmp_path / "results").wait(9000) == 0, site.said
    site.clean(before)
    assert all(now > then for now, then in zip(site.steps(), steps, strict=True))
    results = open_results(tmp_path / "results")
    assert len(results.facts) == len(CLIENTS)
    judged = judge(results)
    assert not judged.counts.missing, judged.counts
    cells = {(each.stage, each.workload, each.treatment) for each in results.planned}
    measured = {(r.trial.stage, r.trial.workload, r.trial.treatment) for r in results.valid}
    assert measured == cells, judged.counts  # where the machine is busy, some are repeated
    page = tmp_path / "report.html"
    assert site.iotrial("report", results.folder, "--out", page).wait(600) == 0, site.said
    assert all(f"{site.lab.name}-{number}" in page.read_text() for number in CLIENTS)


def loaded(results: Path) -> bool:
    """Whether a trial is under way."""
    return any(results.glob("trials/*.partial"))


def test_a_controller_that_is_killed_leaves_nodes_as_they_were(site: Site, tmp_path: Path) -> None:
    """At a random moment after its job has begun, and in every second case during a load."""
    study = published(site).written(site, tmp_path / "study")
    study.write_text(published(site).short(study.read_text()))
    before, moments = site.seen(), random.Random(25)
    for number in range(KILLS):
        out = tmp_path / f"results-{number}"
        run = site.run(study, out)
        site.until(lambda: any("RUNNING" in each for each in site.cluster.jobs), 300)
        if number % 2:
            site.until(lambda: loaded(out) or run.poll() is not None, 3000)  # noqa: B023
        time.sleep(moments.uniform(0.0, 20.0 if number % 2 else 60.0))
        assert run.poll() is None, site.said
        assert site.seen() != before
        run.kill()
        run.wait()
        site.clean(before)
