"""A load that only reads cannot write, whatever it tries: the kernel refuses it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotrial.execute.load.load import TOKEN, end_loads
from iotrial.execute.load.sealed import Sandbox, SandboxSupport, means, sealing
from iotrial.hosts.local import LocalHost

pytestmark = pytest.mark.root

HOST = LocalHost()
OFFERED = means(HOST)
LANDLOCK_ALONE = SandboxSupport(landlock=OFFERED.landlock)
MEANS = {"mounts": SandboxSupport(mounts=True), "landlock": LANDLOCK_ALONE, "both": OFFERED}
CONTENT = b"precious\n" * 1000

WAYS = {
    "open to write": 'echo x 1<>"$1"',
    "open to cut": ': >"$1"',
    "append": 'echo x >>"$1"',
    "truncate": 'truncate -s 1 "$1"',
    "extend": 'truncate -s +4096 "$1"',
    "remove": 'rm -f "$1"',
    "rename over": 'echo x >"$2/new" && mv -f "$2/new" "$1"',
    "rename away": 'mv "$1" "$1.away"',
    "dd": 'dd if=/dev/zero of="$1" bs=4k count=1 conv=notrunc',
    "direct": 'dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct conv=notrunc',
    "through a link": 'ln -s "$1" "$2/link" && echo x >"$2/link"',
    "through /proc": 'echo x >"/proc/self/root$1"',
    "by a child": 'sh -c \'echo x >"$1"\' x "$1"',
    "by a daemon": 'setsid sh -c \'echo x >"$1"\' x "$1"',
    "punch a hole": 'fallocate --punch-hole --length 4096 "$1"',
    "fio writes": 'fio --name=x --filename="$1" --rw=write --size=4k --bs=4k --output=/dev/null',
    "fio extends": 'fio --name=x --filename="$1" --rw=read --size=1m --bs=4k --output=/dev/null',
    "fio removes": 'fio --name=x --filename="$1" --rw=read --size=8k --bs=4k --unlink=1 '
    "--output=/dev/null",
}


def run(argv: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, cwd=folder, capture_output=True, timeout=200, check=False)


@pytest.mark.skipif(not OFFERED.landlock, reason="this kernel has no Landlock, or perl is missing")
@pytest.mark.parametrize("how", MEANS)
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_file_that_is_sealed_stays_as_it_was(tmp_path: Path, how: str, kind: str) -> None:
    place, work = tmp_path / 'with blanks\' and "quotes"', tmp_path / "work"
    place.mkdir()
    work.mkdir()
    path = place / "precious"
    seal = Sandbox((str(path if kind == "file" else place),))
    for way, script in WAYS.items():
        path.write_bytes(CONTENT)
        own = work / way.replace("/", "")
        own.mkdir()
        argv = ("sh", "-c", script, "x", str(path), str(own))
        run(sealing(argv, [seal], MEANS[how]), own)
        assert path.exists(), way
        assert path.read_bytes() == CONTENT, way
    assert run(sealing(("cat", str(path)), [seal], MEANS[how]), work).stdout == CONTENT


@pytest.mark.parametrize("how", MEANS)
def test_the_tools_own_folder_in_a_directory_stays_writable(tmp_path: Path, how: str) -> None:
    own = tmp_path / "d" / "iotrial-fio" / "data"
    own.mkdir(parents=True)
    (tmp_path / "d" / "theirs").write_bytes(CONTENT)
    seal = Sandbox((str(tmp_path / "d"),), (str(own),))
    script = 'echo x >"$1/new" && rm "$1/new" && echo y >"$1/new"; echo z >"$1/../../theirs"'
    done = run(sealing(("sh", "-c", script, "x", str(own)), [seal], MEANS[how]), tmp_path)
    assert done.returncode != 0
    assert (own / "new").read_bytes() == b"y\n"
    assert (tmp_path / "d" / "theirs").read_bytes() == CONTENT


def test_a_device_is_not_sealed_by_a_mount_but_by_landlock(
    loop_device: str, tmp_path: Path
) -> None:
    node, backing = f"/dev/{loop_device}", tmp_path / "loop.img"
    write = ("sh", "-c", f"head -c 4096 /dev/urandom | dd of={node} conv=notrunc,fsync")
    before = backing.read_bytes()
    done = run(sealing(write, [Sandbox((node,))], SandboxSupport(mounts=True)), tmp_path)
    assert done.returncode == 0
    os.sync()
    assert backing.read_bytes() != before, "a read-only mount of the node would do after all"
    written = backing.read_bytes()
    sealed = Sandbox(disks=True)
    opened = ("sh", "-c", f": <>{node}")
    assert run(sealing(opened, [sealed], OFFERED), tmp_path).returncode != 0
    assert run(sealing(write, [sealed], OFFERED), tmp_path).returncode != 0
    reads = (
        "sh",
        "-c",
        f"dd if={node} of=/dev/null bs=1M count=1 && echo x >/dev/shm/$$ && rm /dev/shm/$$",
    )
    assert run(sealing(reads, [sealed], OFFERED), tmp_path).returncode == 0
    assert backing.read_bytes() == written


OTHER_DISK = {
    "by its path": 'dd if="$2" of=/dev/$1 conv=notrunc',
    "from its folder": 'cd /dev && dd if="$2" of=$1 conv=notrunc',
    "in pieces": 'dd if="$2" of=/de""v/$1 conv=notrunc',
    "by a variable": 'D=dev; dd if="$2" of=/$D/$1 conv=notrunc',
    "through /proc": 'dd if="$2" of=/proc/self/root/dev/$1 conv=notrunc',
    "by a new node": 'mknod node b $3 && dd if="$2" of=node conv=notrunc',
    "by a node in its directory": 'dd if="$2" of="$4/node" conv=notrunc',
    "by a link": 'ln -s /dev/$1 link && dd if="$2" of=link conv=notrunc',
    "by a child": 'setsid sh -c \'dd if="$2" of="/dev/$1" conv=notrunc\' x "$1" "$2"',
}


@pytest.mark.parametrize("kind", ["directory", "device"])
@pytest.mark.skipif(not OFFERED.landlock, reason="this kernel has no Landlock, or perl is missing")
def test_no_load_writes_another_disk_however_it_is_spelt(
    tmp_path: Path, loop_device: str, kind: str
) -> None:
    """The target is a directory, or another device, which stays writable."""
    backing, place = tmp_path / "loop.img", tmp_path / "place"
    place.mkdir()
    (tmp_path / "own").mkdir()
    numbers = Path(f"/sys/block/{loop_device}/dev").read_text().strip().split(":")
    os.mknod(place / "node", 0o600 | stat.S_IFBLK, os.makedev(*map(int, numbers)))
    seal = Sandbox(disks=True, nodeless=(str(place),))
    source = tmp_path / "source"
    source.write_bytes(b"x" * 4096)
    for way, script in OTHER_DISK.items():
        words = (loop_device, str(source), " ".join(numbers), str(place))
        argv = ("sh", "-c", script, "x", *words)
        done = run(sealing(argv, [seal], OFFERED), tmp_path / "own")
        os.sync()
        assert done.returncode != 0, way
        assert backing.read_bytes().count(b"x") == 0, way
    inside = ("sh", "-c", 'mkdir "$1/a" "$1/b" && echo y >"$1/a/f" && mv "$1/a/f" "$1/b/f"', "x")
    assert run(sealing((*inside, str(place)), [seal], OFFERED), tmp_path / "own").returncode == 0
    assert (place / "b" / "f").read_text() == "y\n"
    if kind == "device":
        own = Sandbox(free=(f"/dev/{loop_device}",), disks=True)
        argv = ("sh", "-c", OTHER_DISK["by its path"], "x", loop_device, str(source))
        assert run(sealing(argv, [own], OFFERED), tmp_path / "own").returncode == 0
        os.sync()
        assert backing.read_bytes().count(b"x") == 4096


@pytest.mark.skipif(not OFFERED.landlock, reason="this kernel has no Landlock, or perl is missing")
def test_a_node_elsewhere_is_read_and_not_written(tmp_path: Path, loop_device: str) -> None:
    numbers = Path(f"/sys/block/{loop_device}/dev").read_text().strip().split(":")
    node, backing = tmp_path / "node", tmp_path / "loop.img"
    os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(*map(int, numbers)))
    (tmp_path / "own").mkdir()
    seal = Sandbox(disks=True, nodes=(str(node),))
    script = 'dd if="$1" of=/dev/null bs=4k count=1 && echo read; printf x 1<>"$1" && echo written'
    done = run(sealing(("sh", "-c", script, "x", str(node)), [seal], OFFERED), tmp_path / "own")
    os.sync()
    assert done.stdout == b"read\n"
    assert backing.read_bytes().count(b"x") == 0


def test_it_stays_one_process_and_leaves_no_mount(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(CONTENT)
    before = Path("/proc/self/mountinfo").read_text()
    argv = sealing(("sleep", "600"), [Sandbox((str(path),), disks=True)], OFFERED)
    process = HOST.start(argv, folder=tmp_path, environment={TOKEN: "sealed-test"})
    until = time.monotonic() + 200
    while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
        assert time.monotonic() < until
        time.sleep(0.01)
    assert str(path) in Path(f"/proc/{process.pid}/mountinfo").read_text()
    assert Path("/proc/self/mountinfo").read_text() == before
    assert end_loads(HOST, "sealed-test") == [f"ended process {process.pid} of the load"]
    assert process.wait(200) == -9
    path.unlink()  # EBUSY where anything were mounted on it


STUDY = """
question = "q"
[targets.data]
file = "{path}"
size = "4KiB"
[workloads.reads]
tool = "command"
argv = ["sh", "-c", "echo x >'{path}'; truncate -s 0 '{path}'; rm '{path}'; echo 1 {{x}}"]
options = {{ reads_only = true, seconds = "1s" }}
metrics = {{ score = {{ pattern = "(1)", better = "higher" }} }}
[factors.x]
option = "x"
workload = "reads"
levels = ["a", "b"]
[design]
blocks = 1
settle = "0s"
[decide]
primary = "score"
"""


def test_a_command_that_promises_to_read_only_is_held_to_it(tmp_path: Path, state: Path) -> None:
    path, study = tmp_path / "precious", tmp_path / "own.toml"
    path.write_bytes(CONTENT)
    study.write_text(STUDY.format(path=path))
    argv = (sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", "results")
    done = run(argv, tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert path.read_bytes() == CONTENT
    said = [each.read_text() for each in tmp_path.glob("results/trials/*/stderr")]
    assert len(said) == 2
    assert all(text.count("Read-only file system") == 2 and "busy" in text for text in said)
    assert str(path) not in Path("/proc/self/mountinfo").read_text()
    assert not list(state.glob("journal.d/*"))
