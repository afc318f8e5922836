"""What of a virtual lab can be told without one: archives, recipes, command lines, processes."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import HostError, RefusedError, UsageError
from iotrial.hosts.local import LocalHost
from iotrial.plan.inventory import from_ssh_config
from iotrial.plan.schema import InventoryTable
from iotrial_vmlab import qemu
from iotrial_vmlab.image import ImageEntry, LabImage, archive, dependencies, in_order, need, opened
from iotrial_vmlab.lab import (
    MEMORY,
    Lab,
    LabDisk,
    LabRequest,
    checked_name,
    identity,
    load,
    places,
    planned,
    save,
)
from iotrial_vmlab.labs import kind_of, kinds
from iotrial_vmlab.power import SSHKeys, client_config, meant, seed
from iotrial_vmlab.qemu import command
from iotrial_vmlab.recipe import lines_of, options_of, recipe, sources, suite_of

DISKS = kind_of("disks")
KEYS = SSHKeys("ssh-ed25519 AAAAclient me\n", "-----PRIVATE-----\n", "ssh-ed25519 AAAAhost lab\n")


def lab(folder: Path, *, name: str = "disks", nodes: int = 1) -> Lab:
    wish = LabRequest("disks", name, nodes)
    return planned(wish, DISKS, folder=folder / name, image=folder / "image")


# --- archives and modules ----------------------------------------------------------------------


def unpacked(data: bytes, folder: Path) -> Path:
    folder.mkdir()
    busybox = shutil.which("busybox")
    if not busybox:
        pytest.skip("needs busybox, whose cpio unpacks")
    subprocess.run([busybox, "cpio", "-idm"], input=data, cwd=folder, check=True, timeout=30)
    return folder


def test_an_archive_is_unpacked_by_cpio_as_it_was_meant(tmp_path: Path) -> None:
    data = archive(
        {
            "etc/a/b": ImageEntry(b"text\n", 0o600),
            "init": ImageEntry(b"#!/bin/sh\n", 0o755),
            "etc/link": ImageEntry(b"a/b", link=True),
            "empty": ImageEntry(b""),
        }
    )
    root = unpacked(data, tmp_path / "root")
    assert (root / "etc/a/b").read_bytes() == b"text\n"
    assert (root / "etc/a/b").stat().st_mode & 0o7777 == 0o600
    assert (root / "init").stat().st_mode & 0o7777 == 0o755
    assert str((root / "etc/link").readlink()) == "a/b"
    assert (root / "empty").read_bytes() == b""
    assert sorted(each.name for each in root.iterdir()) == ["empty", "etc", "init"]


def test_a_module_comes_after_all_that_it_needs() -> None:
    needs = dependencies(
        "fs/ext4/ext4.ko: fs/jbd2/jbd2.ko lib/crc16.ko\n"
        "fs/jbd2/jbd2.ko:\nlib/crc16.ko:\n"
        "block/kyber-iosched.ko.xz:\n"
    )
    assert in_order(["ext4", "kyber_iosched", "built_in"], needs) == (
        "lib/crc16.ko",
        "fs/jbd2/jbd2.ko",
        "fs/ext4/ext4.ko",
        "block/kyber-iosched.ko.xz",
    )


# --- where packages come from ------------------------------------------------------------------

TARGETS = """http://one.example/debian/|bookworm|main
http://one.example/debian/|bookworm|contrib
http://one.example/debian/|bookworm-updates|main
http://two.example/security/|bookworm-security|main
https://vendor.example/linux|bookworm-tools|main
https://vendor.example/linux|bookworm|stable
http://one.example/debian/|trixie|main
"""


def test_only_the_distribution_itself_is_asked_for_packages() -> None:
    lines = lines_of(TARGETS, "bookworm")
    assert [line.split("] ")[1] for line in lines] == [
        "http://one.example/debian/ bookworm main",
        "http://one.example/debian/ bookworm-updates main",
        "http://two.example/security/ bookworm-security main",
    ]


def test_of_apts_options_those_that_reach_servers_are_taken() -> None:
    dump = (
        'Acquire "";\nAcquire::http "";\nAcquire::http::Proxy "http://proxy.example:3128";\n'
        'Acquire::Check-Date "false";\nAcquire::Languages:: "none";\nAPT::Update::Post-Invoke "";\n'
    )
    assert options_of(dump) == (
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::Check-Date "false";',
    )


def test_another_distribution_is_told_so() -> None:
    assert suite_of('ID="debian"\nVERSION_CODENAME=trixie\n') == "trixie"
    assert suite_of("ID=ubuntu\nVERSION_CODENAME=noble\n") == ""


@pytest.mark.skipif(not shutil.which("apt-get"), reason="needs apt: its configuration is read")
def test_this_machines_own_configuration_is_read() -> None:
    if not suite_of(Path("/etc/os-release").read_text("utf-8")):
        pytest.skip("needs Debian")
    found = sources(LocalHost())
    assert any(line.endswith(f" {found.suite} main") for line in found.lines)


# --- recipe, places, names ---------------------------------------------------------------------


def test_an_image_is_named_by_all_that_it_is_made_of() -> None:
    first = recipe("bookworm")
    assert first.name == recipe("bookworm").name
    assert first.name.startswith("bookworm-stable-")
    others = (
        recipe("trixie"),
        recipe("bookworm", "backports"),
        replace(first, kernel="another"),
        replace(first, packages=first.packages[:-1]),
        replace(first, texts=first.texts[:-1]),
    )
    assert len({first.name, *(each.name for each in others)}) == 6
    assert others[1].packages[0] == "linux-image-amd64/bookworm-backports"


def test_everything_lies_in_the_cache_and_what_root_built_is_for_everybody() -> None:
    assert str(places(0, {}).images[0]) == "/var/cache/iotrial/vmlab/images"
    mine = places(1000, {"HOME": "/home/me"})
    assert str(mine.labs) == "/home/me/.cache/iotrial/vmlab/labs"
    assert [str(each) for each in mine.images] == [
        "/home/me/.cache/iotrial/vmlab/images",
        "/var/cache/iotrial/vmlab/images",
    ]
    assert str(places(1000, {"XDG_CACHE_HOME": "/x"}).locks) == "/x/iotrial/vmlab/locks"
    assert str(places(0, {"IOTRIAL_CACHE": "/y"}).labs) == "/y/vmlab/labs"


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "1a", "all", "a" * 40, "a b"])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        checked_name(name)


@pytest.mark.parametrize("nodes", [0, -1, 9])
def test_a_number_of_nodes_that_cannot_be_is_refused(tmp_path: Path, nodes: int) -> None:
    with pytest.raises(UsageError, match="from 1 to 8"):
        lab(tmp_path, nodes=nodes)


@pytest.mark.parametrize("name", ["cluster", "san", "nas", "fabrics"])
def test_a_lab_of_several_nodes_is_not_made_of_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"a lab {name} has from 2 to 8"):
        planned(LabRequest(name, "x", 1), kind_of(name), folder=tmp_path, image=tmp_path)


def test_what_differs_from_a_lab_that_is_there_is_named(tmp_path: Path) -> None:
    there = lab(tmp_path, nodes=2)
    assert LabRequest("disks", "disks").problem(there) == ""
    assert LabRequest("disks", "disks", 2).problem(there) == ""
    assert LabRequest("disks", "disks", 3).problem(there) == "its number of nodes is 2, not 3"
    newer = LabRequest("disks", "disks", kernel="backports").problem(there)
    assert newer == f"its kernel is {there.kernel}, not backports"
    assert "its kind is disks" in LabRequest("san", "disks").problem(there)


def test_a_lab_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    there = lab(tmp_path, nodes=2)
    there.folder.mkdir()
    save(there)
    assert load(there.folder) == there
    (there.folder / "lab.json").write_text('{"name": 1')
    with pytest.raises(HostError, match="vmlab down disks"):
        load(there.folder)


def test_a_node_is_meant_by_its_name_and_all_by_the_labs(tmp_path: Path) -> None:
    where = places(0, {"IOTRIAL_CACHE": str(tmp_path)})
    for name in ("disks", "disks-b"):
        there = lab(where.labs, name=name, nodes=2)
        there.folder.mkdir(parents=True)
        save(there)
    assert [node.name for node in meant(where, "disks")[1]] == ["disks-1", "disks-2"]
    assert [node.name for node in meant(where, "disks-2")[1]] == ["disks-2"]
    assert [node.name for node in meant(where, "disks-b-1")[1]] == ["disks-b-1"]
    for wrong in ("disks-3", "nothing"):
        with pytest.raises(UsageError, match="Up are: disks, disks-b"):
            meant(where, wrong)


def test_an_image_that_is_not_whole_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    with pytest.raises(HostError, match="not whole"):
        opened(folder)
    (folder / "base.ext4").write_bytes(b"12345")
    (folder / "kernel").write_bytes(b"1")
    (folder / "image.json").write_text(json.dumps({"release": "6.1", "size": 5}))
    assert opened(folder) == LabImage(folder, "6.1")
    (folder / "base.ext4").write_bytes(b"1234")
    with pytest.raises(HostError, match="rm -r"):
        opened(folder)


def test_every_program_that_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sh", "ssh"):
        (tmp_path / name).symlink_to(shutil.which(name) or "/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RefusedError) as refused:
        need(LocalHost(), "qemu-system-x86_64", "ssh", "qemu-img")
    assert "qemu-system-x86_64, qemu-img" in refused.value.message
    assert refused.value.advice.endswith(" qemu-system-x86 qemu-utils")


# --- nodes -------------------------------------------------------------------------------------


def test_a_command_line_bounds_the_memory_and_names_its_own_files(tmp_path: Path) -> None:
    there = lab(tmp_path, nodes=2)
    node = replace(there.nodes[0], port=2201)
    image = LabImage(tmp_path / "image", "6.1")
    words = command(there, node, kind=DISKS, image=image, accelerator="tcg")
    assert words[words.index("-m") + 1] == str(MEMORY)
    assert "tcg,thread=multi,tb-size=128" in words
    assert words[words.index("-pidfile") + 1] == str(there.pid_file(node))
    assert any("hostfwd=tcp:127.0.0.1:2201-" in word for word in words)
    assert any(f"mcast={there.group}," in word for word in words)
    two = [word for word in words if word.startswith("scsi-hd") and "TWO-" in word]
    assert len(two) == 2
    assert len({word.split("serial=")[1] for word in two}) == 1
    assert "kvm" in command(there, node, kind=DISKS, image=image, accelerator="kvm")
    assert words[words.index("-smp") + 1] == "1"
    alone = command(lab(tmp_path, nodes=1), node, kind=DISKS, image=image, accelerator="tcg")
    assert alone[alone.index("-smp") + 1] == "2"


def test_a_disk_is_the_same_at_every_boot_and_another_in_every_lab(tmp_path: Path) -> None:
    one, other = lab(tmp_path, nodes=2), lab(tmp_path, name="other")
    mine, shared = LabDisk("a", "scsi"), LabDisk("a", "scsi", shared=True)
    assert identity(one, one.nodes[0], mine) == identity(one, one.nodes[0], mine)
    assert identity(one, one.nodes[0], mine) != identity(one, one.nodes[1], mine)
    assert identity(one, one.nodes[0], mine) != identity(other, other.nodes[0], mine)
    assert identity(one, one.nodes[0], shared) == identity(one, one.nodes[1], shared)
    assert len(identity(one, one.nodes[0], LabDisk("a-very-long-name", "virtio"))[0]) <= 20


def test_two_labs_do_not_hear_each_other(tmp_path: Path) -> None:
    assert len({lab(tmp_path).group for _ in range(50)}) == 50


def test_a_node_finds_its_name_its_keys_and_its_network(tmp_path: Path) -> None:
    there = lab(tmp_path, nodes=2)
    data = gzip.decompress(seed(there, there.nodes[1], DISKS, KEYS))
    root = unpacked(data, tmp_path / "root") / "seed"
    assert (root / "etc/hostname").read_text() == "disks-2\n"
    assert "10.77.0.1 disks-1" in (root / "etc/hosts").read_text()
    assert "52:54:00:77:00:02 10.77.0.2/24" in (root / "etc/iotrial-net").read_text()
    assert (root / "root/.ssh/authorized_keys").read_text() == KEYS.client
    assert (root / "etc/ssh/ssh_host_ed25519_key").stat().st_mode & 0o7777 == 0o600
    assert "options scsi_debug" in (root / "etc/modprobe.d/iotrial-lab.conf").read_text()


def test_the_ssh_configuration_is_one_that_an_inventory_can_name(tmp_path: Path) -> None:
    there = lab(tmp_path, nodes=2)
    table = InventoryTable(ssh_config=str(there.ssh_config), hosts="disks-*")
    text = client_config(there).encode()
    found = from_ssh_config(text, str(there.ssh_config), table, lambda _file, _word: [])
    assert [each.name for each in found] == ["disks-1", "disks-2"]
    assert [each.ssh for each in found] == [there.way(node) for node in there.nodes]


def test_every_kind_of_lab_says_what_it_is() -> None:
    assert "disks" in kinds()
    for name, kind in kinds().items():
        assert kind.name == name
        assert kind.summary
        assert len({disk.name for disk in kind.disks}) == len(kind.disks)
    with pytest.raises(UsageError, match="disks"):
        kind_of("disk")


# --- whose process -----------------------------------------------------------------------------


def sleeper(*words: str) -> subprocess.Popen[bytes]:
    """A process with these words on its command line, and already itself."""
    code = "import sys, time; print(flush=True); time.sleep(300)"
    argv = [sys.executable, "-c", code, *words]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def ours_and_another(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], ...]]:
    """One that names a pid file of the lab, and one that only names the same folder."""
    mine = sleeper("-pidfile", str(tmp_path / "lab/n1/pid"))
    other = sleeper("-file", str(tmp_path / "lab/n1/pid"))
    yield mine, other
    for process in (mine, other):
        process.kill()
        process.communicate()


def test_only_what_names_the_labs_pid_file_is_killed(
    tmp_path: Path, ours_and_another: tuple[subprocess.Popen[bytes], ...]
) -> None:
    """However stale the file is: here its number is that of the other."""
    mine, other = ours_and_another
    (tmp_path / "lab/n1").mkdir(parents=True)
    (tmp_path / "lab/n1/pid").write_text(str(other.pid))
    assert qemu.processes(tmp_path / "lab") == {tmp_path / "lab/n1/pid": [mine.pid]}
    assert qemu.processes(tmp_path / "la") == {}
    ended: list[int] = []
    reaper = threading.Thread(target=mine.wait)
    reaper.start()
    ended.extend(qemu.end_processes(tmp_path / "lab"))
    reaper.join(10)
    assert ended == [mine.pid]
    assert mine.returncode == -signal.SIGKILL
    assert other.poll() is None
    assert qemu.end_processes(tmp_path / "lab") == ()


# --- QEMU's protocol ---------------------------------------------------------------------------


def speaking(folder: Path, *lines: str) -> threading.Thread:
    """A far end that says these lines, one after each it is told."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "qmp.sock"))
    server.listen()

    def serve() -> None:
        with server, server.accept()[0] as link, link.makefile("rb") as told:
            for line in lines:
                link.sendall(f"{line}\n".encode())
                told.readline()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_an_answer_is_found_among_events(tmp_path: Path) -> None:
    greeting, done = '{"QMP": {}}', '{"return": {}}'
    answer = '{"event": "STOP"}\n{"return": {"status": "paused"}}'
    thread = speaking(tmp_path, greeting, done, answer)
    assert qemu.ask(tmp_path, "query-status") == {"status": "paused"}
    thread.join(10)


def test_a_refusal_and_silence_are_errors_that_say_so(tmp_path: Path) -> None:
    refusal = '{"error": {"class": "DeviceNotFound", "desc": "no card"}}'
    thread = speaking(tmp_path, '{"QMP": {}}', '{"return": {}}', refusal)
    with pytest.raises(HostError, match="no card"):
        qemu.ask(tmp_path, "set_link", name="x", up=False)
    thread.join(10)
    (tmp_path / "qmp.sock").unlink()
    with pytest.raises(HostError, match="vmlab list"):
        qemu.ask(tmp_path, "cont")
