"""Lives of iotrial on a pretended machine that end owing something, or with something kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from imitation import Client
from iotrial.execute.interruption import Interruption
from iotrial.execute.keep.keeping import apply
from iotrial.execute.runner import execute_study
from iotrial.hosts.fake import HostCrashed
from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import export
from iotrial.keep.profile import Profile
from iotrial.look.identity import identify
from iotrial.plan.load import parse_study
from replayed import Noting

OUT = Path("/var/tmp/iotrial-owes")
"""Where results are, as the journals say; nobody's home."""
DISK = 'device = "FAKE0000"'
TARGETS = {
    "loop": 'loop = { size = "16MiB" }',
    "loop-filesystem": 'loop = { size = "96MiB" }\nfilesystem = "ext4"',
    "disk-filesystem": 'device = "FAKE0000"\ndestroy = "FAKE0000"\nfilesystem = "ext4"',
    "mount": 'directory = "/mnt/new/deep"\nmount = { source = "srv:/other", type = "nfs" }',
    "file": 'file = "/var/tmp/sub/f"\nsize = "4MiB"',
    "directory": 'directory = "/var/tmp/sub"',
    "commands": 'directory = "/mnt/made"\ncreate = [["mkdir", "/mnt/made"]]\n'
    'remove = ["rmdir", "/mnt/made"]',
}
SETTINGS: dict[str, dict[str, str | int]] = {
    "queue": {"queue.scheduler": "bfq", "queue.read_ahead_kb": 64, "queue.nr_requests": 32},
    "sysctl": {"sysctl.vm.dirty_bytes": 1048576, "sysctl.vm.swappiness": 7},
    "cpu": {"cpu.governor": "performance", "cpu.dma_latency": 0},
    "mm": {"mm.thp": "never", "mm.ksm": 0},
    "module": {"module.fake_hba.debug": 1, "module.fake_hba.lun_queue_depth": 128},
    "cgroup": {"cgroup.v2.read_iops": "200"},
    "file": {"file.rsize": "65536"},
}
STUDY = """
question = "What is owed?"
[targets.t]
{target}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", size = "1m", runtime = "1s" }}
{chores}
{knobs}
[factors.guide]
baseline = "stock"
[factors.guide.levels]
stock = {{}}
tuned = {{ {settings} }}
[design]
kind = "full"
blocks = 3
settle = "0s"
"""
KNOB = """
[knobs.rsize]
file = "/etc/fakeclient.conf"
content = "rsize {value}\\n"
reload = ["fakeclient", "reload"]
read = ["fakeclient", "show"]
field = "rsize:"
"""
CHORES = """
prepare = [{ fill = "41%" }, { command = ["truncate", "-s", "1", "/var/tmp/left"] }]
cleanup = [{ command = ["rm", "-f", "/var/tmp/left"] }]
"""
FORMER = {
    "/sys/block/fake0/queue/scheduler": "kyber",
    "/sys/block/fake0/queue/nr_requests": "72",
    "/proc/sys/vm/swappiness": "33",
    "/var/tmp/sub/thesis": "years of work",
}


def machine() -> Noting:
    host = Noting(parts=[Client])
    for path, text in FORMER.items():
        host.administered(path, text)
    return host


def text_of(target: str, settings: str, chores: str = "") -> str:
    wanted = ", ".join(f'"{name}" = {value!r}' for name, value in SETTINGS[settings].items())
    knobs = KNOB if settings == "file" else ""
    return STUDY.format(target=target, settings=wanted, chores=chores, knobs=knobs)


def owing(text: str) -> Noting:
    """A run that died when the first load under the tuned settings had begun."""
    whole = machine()
    lived(whole, text)
    host = whole
    for at in whole.loads:
        host = machine()
        host.crash_after, host.crash_how = at, "after"
        lived(host, text)
        host.reconnect()
        now = host.settings()
        if any(now[path] != value for path, value in whole.settings().items()):
            break
    return host


def lived(host: Noting, text: str) -> None:
    study = parse_study(text, "owed.toml", str)
    try:
        execute_study(study, host, OUT, interruption=Interruption())
    except HostCrashed:
        pass
    finally:
        shutil.rmtree(OUT)


PROFILE = Profile(
    "winner",
    (
        KeptSetting(
            "sysctl.vm.swappiness", "7", former="60", because="reads are 9 % faster (6 … 12)"
        ),
        KeptSetting("sysctl.vm.dirty_bytes", "1048576"),
        KeptSetting("mm.thp", "never"),
        KeptSetting("queue.scheduler", "bfq", "fake0", identify(Noting(), "/dev/fake0").ids),
        KeptSetting("queue.nr_requests", "64", "fake0", identify(Noting(), "/dev/fake0").ids),
        KeptSetting("module.loop.max_loop", "16"),
    ),
    question="Which settings?",
)


def kept(left: int) -> Noting:
    """A profile that is kept; or what is there of it with so many changes left to be made: with
    those that commit it, two, it is as one that is being tried."""
    files = export(PROFILE).files
    whole = machine()
    apply(whole, PROFILE, files)
    host = machine()
    host.crash_after, host.crash_how = whole.operations - left, "after"
    try:
        apply(host, PROFILE, files)
    except HostCrashed:
        host.reconnect()
    return host


def recordings() -> Iterable[tuple[str, Callable[[Path], None]]]:
    """Name, and what writes the life of that name."""

    def writing(make: Callable[[], Noting], kind: str) -> Callable[[Path], None]:
        return lambda path: make().lived().write(path.with_name(f"{path.name}.{kind}.jsonl"))

    for name, target in TARGETS.items():
        text = text_of(target, "sysctl")
        yield name, writing(lambda text=text: owing(text), "owes")  # type: ignore[misc]
    for name in SETTINGS:
        text = text_of(DISK, name)
        yield f"{name}-settings", writing(lambda text=text: owing(text), "owes")  # type: ignore[misc]
    text = text_of(TARGETS["file"], "sysctl", CHORES)
    yield "chores", writing(lambda: owing(text), "owes")
    for name, left in (("kept", 0), ("tried", 2), ("begun", 8)):
        yield name, writing(lambda left=left: kept(left), "kept")  # type: ignore[misc]
