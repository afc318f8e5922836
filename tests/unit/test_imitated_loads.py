"""What the pretended machine imitates of load tools: the real parsers read all of it, the same
numbers each time, and the load is seen on the disk that it is aimed at."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from iotrial.hosts.fake import FakeHost
from iotrial.model.tool import ParsedOutput, Tool, ToolTarget, inside
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.bonnie import TOOL as BONNIE
from iotrial.tools.dd import TOOL as DD
from iotrial.tools.iozone import TOOL as IOZONE
from iotrial.tools.iperf3 import TOOL as IPERF3
from iotrial.tools.listing import TOOL as LISTING

FACTS = {"cpus": 4.0, "memory": 2.0**33}
FOLDER = ToolTarget("/mnt/fake-ext4", "directory", 0)
DISK = ToolTarget("/dev/fake0", "device", 2**30)

Options = dict[str, OptionValue]
LOADS: list[tuple[Tool, Options, ToolTarget, set[str]]] = [
    (BONNIE, {"size": "1G", "files": 64}, FOLDER, {"write.bw", "seek.rate", "create.seq.rate"}),
    (BONNIE, {"size": "1G", "files": 0, "fast": True}, FOLDER, {"rewrite.bw", "read.bw"}),
    (BONNIE, {"size": 0, "files": 64}, FOLDER, {"create.random.rate", "delete.seq.rate"}),
    (
        IOZONE,
        {"threads": 4, "size": "64MiB", "record": "8k", "operations": "read,random"},
        FOLDER,
        {"write.bw", "rewrite.bw", "read.bw", "reread.bw", "random_read.bw", "random_write.bw"},
    ),
    (IOZONE, {"threads": 1, "size": "64MiB", "direct": True}, FOLDER, {"random_write.bw"}),
    (DD, {"rw": "write", "size": "256MiB"}, FOLDER, {"write.bw", "write.seconds"}),
    (DD, {"rw": "read", "bs": "64KiB"}, DISK, {"read.bw", "read.iops"}),
    (DD, {"rw": "both", "size": "128MiB"}, DISK, {"read.bw", "write.bw"}),
    (LISTING, {"what": "ls", "entries": 10000}, FOLDER, {"list.rate", "create.rate"}),
    (LISTING, {"what": "stat", "cache": "warm", "passes": 2}, FOLDER, {"stat.rate"}),
    (IPERF3, {"server": "box", "time": 2}, FOLDER, {"write.bw"}),
    (IPERF3, {"server": "box", "time": 2, "reverse": True}, FOLDER, {"read.bw"}),
]


def executed(
    tool: Tool, options: Options, aimed: ToolTarget, folder: Path, seed: int = 1
) -> ParsedOutput:
    """The load on a pretended machine, as its own parser reads it."""
    host = FakeHost(seed=seed)
    for name in ("iotrial-bonnie", "iotrial-listing"):
        host.run(["mkdir", "-p", inside(f"{FOLDER.path}/{name}")])
    load = tool.command(Workload("w", tool.name, tuple(options.items())), aimed, FACTS)
    folder.mkdir()
    for name, content in load.files:
        (folder / name).write_bytes(content)
    (folder / "command").write_text(shlex.join(load.argv) + "\n")
    process = host.start(load.argv, folder=folder, environment={})
    assert process.wait(1e6) == 0, (folder / "stderr").read_text()
    return tool.parse(folder)


def ids() -> list[str]:
    return [f"{tool.name}-{at}" for at, (tool, *_) in enumerate(LOADS)]


@pytest.mark.parametrize(("tool", "options", "aimed", "wanted"), LOADS, ids=ids())
def test_the_parser_of_a_tool_reads_what_its_imitation_says(
    tool: Tool, options: Options, aimed: ToolTarget, wanted: set[str], tmp_path: Path
) -> None:
    parsed = executed(tool, options, aimed, tmp_path / "a")
    measured = {each.metric: each.value for each in parsed.measurements if each.job == "all"}
    assert wanted <= set(measured)
    assert all(measured[name] > 0 for name in wanted)
    assert not [doubt for doubt in parsed.doubts if doubt.invalid]
    assert parsed == executed(tool, options, aimed, tmp_path / "b")
    assert parsed != executed(tool, options, aimed, tmp_path / "c", seed=2)


@pytest.mark.parametrize("tool", [BONNIE, DD, IOZONE, IPERF3, LISTING], ids=lambda each: each.name)
def test_each_is_there_and_of_a_version_that_will_do(tool: Tool) -> None:
    answer = FakeHost().run([tool.program, "--version"])
    assert answer.exit == 0
    assert tool.version_problem(answer.text.strip()) == ""


def test_a_load_is_counted_by_the_disk_below_its_target(tmp_path: Path) -> None:
    host = FakeHost()
    disk = host.machine.blocks["fake0"]
    before = [*disk.moved]
    argv = DD.command(Workload("w", "dd", (("rw", "read"), ("bs", "64KiB"))), DISK, FACTS).argv
    host.start(argv, folder=tmp_path, environment={}).wait(1e6)
    moved = [now - then for now, then in zip(disk.moved, before, strict=True)]
    assert moved[1] * 512 == pytest.approx(2**30, rel=0.01)
    assert moved[3] == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("bonnie++", "-d", "/gone", "-s", "16"), "Can't chdir to /gone"),
        (("dd", "if=/dev/gone", "of=/dev/null"), "failed to open '/dev/gone'"),
        (("dd", "if=/dev/zero", "of=/gone/file", "count=1"), "failed to open '/gone/file'"),
        (("iozone", "-s", "64k", "-r", "4k", "-i", "0", "-f", "/tmp/x"), "throughput mode"),
        (("iozone", "-t", "1", "-s", "4k", "-r", "4k", "-i", "0", "-F", "/gone/x"), "/gone/x"),
        (("iperf3", "--udp", "--client", "box"), "one stream of TCP"),
        (("sh", "listing.sh", "/gone", "10", "ls", "warm", "1"), "/gone"),
    ],
)
def test_what_cannot_be_done_fails_as_the_tool_does(
    argv: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    assert FakeHost().start(argv, folder=tmp_path, environment={}).wait(1e6) == 1
    assert said in (tmp_path / "stderr").read_text()


def test_arrays_and_volumes_that_a_study_makes_appear_and_go() -> None:
    host = FakeHost()
    halves = "printf 'size=%s' 1 | sfdisk -q $0"
    assert host.run(["mdadm", "--create", "/dev/md120", "--level=1", "/dev/a", "/dev/b"]).exit == 0
    assert host.run(["sh", "-c", "mdadm --wait /dev/md120; true"]).exit == 0
    assert host.run(["sh", "-c", halves, "/dev/md120"]).exit == 0
    assert host.machine.kind("/dev/md120p2") == "block special file"
    assert host.run(["mdadm", "--create", "/dev/md120", "--level=1"]).exit == 1
    assert host.run(["mdadm", "--stop", "/dev/md120"]).exit == 0
    assert not host.machine.kind("/dev/md120p2")
    host.run(["lvcreate", "--yes", "--name", "data", "iotrial"])
    assert host.machine.kind("/dev/iotrial/data") == "block special file"
    assert host.run(["lvremove", "--yes", "iotrial/data"]).exit == 0
    assert host.run(["lvremove", "--yes", "iotrial/data"]).exit == 5
    assert host.run(["sh", "-c", "whatever"]).exit == 127
