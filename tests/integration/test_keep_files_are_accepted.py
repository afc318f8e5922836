"""Every native file that ``keep`` writes is read by the program it is for, without a complaint;
and each of these programs does complain of a file that is wrong.

Programs that are not installed are taken from their packages, without installing them.  multipath
and tuned want their daemons, and are asked in a virtual machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrial.keep.entry import KeptSetting
from iotrial.keep.fleet import exports
from iotrial.keep.native import export
from iotrial.keep.profile import Profile
from iotrial.model.study import StudyHost
from packages import unpacked

pytestmark = pytest.mark.root

DISK = (("wwid", "naa.600508b1001c"),)
NIC = (("address", "52:54:00:00:00:01"),)
PROFILE = Profile(
    "accepted",
    (
        KeptSetting("queue.scheduler", "bfq", "sda", DISK, "none", 'reads: "+12 %" (+9 … +15)'),
        KeptSetting("queue.nr_requests", "64", "sda", DISK),
        KeptSetting("scsi.queue_depth", "32", "sdb", (("model", "SAN [A]*"), ("vendor", "X|Y"))),
        KeptSetting("nvme.iopolicy", "round-robin", "nvme0n1", (("wwid", "eui.01"),)),
        KeptSetting("rps.cpus", "3", "eth0/queues/rx-0", NIC),
        KeptSetting("sysctl.vm.swappiness", "10"),
        KeptSetting("sysctl.net.ipv4.tcp_rmem", "4096 87380 16777216"),
        KeptSetting("mm.thp", "madvise"),
        KeptSetting("module.lpfc.lpfc_hba_queue_depth", "64"),
        KeptSetting("module.scsi_mod.scsi_logging_level", "0"),
        *(
            KeptSetting(f"net.{name}", value, "eth0", NIC)
            for name, value in {
                "ring_rx": "4096",
                "ring_tx": "4096",
                "mtu": "9000",
                "txqueuelen": "2000",
                "pause_rx": "on",
                "pause_tx": "off",
                "pause_autoneg": "off",
                "gro": "on",
                "gso": "on",
                "tso": "off",
                "lro": "off",
                "rx_usecs": "20",
                "rx_frames": "32",
                "adaptive_rx": "off",
                "ntuple": "on",
                "rx_checksum": "on",
            }.items()
        ),
        KeptSetting("mount.rsize", "65536", "/mnt/a b", (("options", "rw,vers=4.2"),)),
        KeptSetting("irq.affinity", "0", "33", (("of", "nvme0q1"),)),
    ),
    "Which is best?",
)


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    """A folder with every file at its place below it, and what a fleet gets in ``fleet``."""
    for each in export(PROFILE).files:
        path = tmp_path / each.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(each.text)
    shares = {StudyHost("local"): (PROFILE, export(PROFILE).files)}
    for place, text, program in exports("accepted", shares):
        path = tmp_path / "fleet" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if program else 0o644)
    return tmp_path


def said(*argv: str | Path, executable: Path | None = None, level: str = "info") -> tuple[int, str]:
    done = subprocess.run(
        list(map(str, argv)),
        executable=executable,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_LOG_LEVEL": level},
    )
    return done.returncode, done.stdout + done.stderr


def apart(folder: str, files: list[Path], *argv: str | Path) -> tuple[int, str]:
    """What a command says that finds ``files`` in ``folder`` below an empty /run."""
    script = 'mount -t tmpfs run /run && mkdir -p "$1" && cp -- "$2" "$1" && shift 2 && exec "$@"'
    (file,) = files
    return said("unshare", "-m", "sh", "-c", script, "-", folder, file, *argv, level="debug")


def spoilt(path: Path, change: Callable[[str], str]) -> Path:
    text = change(path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    return path


def test_sysctl_takes_the_parameters(placed: Path) -> None:
    (file,) = placed.glob("etc/sysctl.d/*.conf")
    code, words = said("sysctl", "--dry-run", "--load", file)
    assert code == 0, words
    assert words.splitlines() == [
        "vm.swappiness = 10",
        "net.ipv4.tcp_rmem = 4096 87380 16777216",
    ]
    spoilt(file, lambda text: f"{text}nonsense\n")
    assert "invalid syntax" in said("sysctl", "--dry-run", "--load", file)[1]


def test_udev_reads_the_rules(placed: Path) -> None:
    udevadm = unpacked("udev") / "bin" / "udevadm"
    (file,) = placed.glob("etc/udev/rules.d/*.rules")

    def complaints() -> list[str]:
        _, words = apart("/run/udev/rules.d", [file], udevadm, "test", "/sys/class/mem/null")
        lines = [line for line in words.splitlines() if file.name in line]
        assert any("Reading rules file" in line for line in lines), words
        return [line for line in lines if "Reading rules file" not in line]

    assert complaints() == []
    spoilt(file, lambda text: text.replace('ATTR{queue/scheduler}="bfq"', "ATTR{}=bfq"))
    assert complaints()


def test_modprobe_knows_the_options(placed: Path) -> None:
    kmod = unpacked("kmod") / "bin" / "kmod"
    _, words = said("modprobe", "-C", placed / "etc/modprobe.d", "--showconfig", executable=kmod)
    lines = words.splitlines()
    assert "options lpfc lpfc_hba_queue_depth=64" in lines
    assert "options scsi_mod scsi_logging_level=0" in lines
    assert not [line for line in lines if "ignoring" in line or "error" in line.lower()]


def test_tmpfiles_reads_its_lines(placed: Path) -> None:
    if not shutil.which("systemd-tmpfiles"):
        pytest.skip("systemd-tmpfiles is not installed")
    (file,) = placed.glob("etc/tmpfiles.d/*.conf")
    root = placed / "root"
    target = root / "sys/kernel/mm/transparent_hugepage/enabled"
    target.parent.mkdir(parents=True)
    target.write_text("x")
    code, words = said("systemd-tmpfiles", "--create", f"--root={root}", file)
    assert (code, words) == (0, "")
    assert target.read_text() == "madvise"
    spoilt(file, lambda text: text.replace("\nw /", "\nnonsense /"))
    assert said("systemd-tmpfiles", "--create", f"--root={root}", file)[0] != 0


def test_udev_reads_the_link_file(placed: Path) -> None:
    udevadm = unpacked("udev") / "bin" / "udevadm"
    (file,) = placed.glob("etc/systemd/network/*.link")

    def complaints() -> list[str]:
        argv = (udevadm, "test-builtin", "net_setup_link", "/sys/class/net/lo")
        _, words = apart("/run/systemd/network", [file], *argv)
        lines = [line for line in words.splitlines() if file.name in line]
        assert lines, words
        return [line for line in lines if f"{file.name}:" in line]

    assert complaints() == []
    spoilt(file, lambda text: text.replace("RxBufferSize=4096", "RxBufferSize=much\nNo=1"))
    assert complaints()


def test_systemd_reads_the_units(placed: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    (service,) = placed.glob("etc/systemd/system/*.service")
    code, words = said("systemd-analyze", "verify", service)
    assert code == 0, words
    assert service.name not in words, words
    spoilt(service, lambda text: text.replace("Type=oneshot", "Type=never"))
    assert service.name in said("systemd-analyze", "verify", service)[1]


def test_a_mount_unit_of_fstab_takes_the_drop_in(placed: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    (drop,) = placed.glob("etc/systemd/system/*.mount.d/*.conf")
    unit = drop.parent.parent / drop.parent.name.removesuffix(".d")
    unit.write_text("[Mount]\nWhat=server:/x\nWhere=/mnt/a b\nType=nfs\nOptions=rw,vers=4.2\n")
    code, words = said("systemd-analyze", "verify", unit)
    assert code == 0, words
    assert drop.name not in words, words
    spoilt(drop, lambda text: text.replace("Options=", "Optoins="))
    assert drop.name in said("systemd-analyze", "verify", unit)[1]


def test_an_fstab_with_the_options_of_the_note_is_one(placed: Path) -> None:
    (note,) = [
        note
        for each in export(PROFILE).files
        for note in each.notes
        if "fourth field" in note
    ]  # fmt: skip
    table = placed / "fstab"
    table.write_text(f"tmpfs {placed} tmpfs {note.rpartition(': ')[2]} 0 0\n")
    code, words = said("findmnt", "--verify", "--tab-file", table)
    assert code == 0, words


def test_a_shell_finds_nothing_wrong_with_the_scripts(placed: Path) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    scripts = [*placed.glob("fleet/*.sh"), *placed.glob("etc/iotrial/*")]
    assert len(scripts) == 4
    assert said("shellcheck", "-s", "sh", *scripts) == (0, "")


def test_ansible_takes_the_role(placed: Path) -> None:
    playbook = Path(sys.executable).parent / "ansible-playbook"
    if not playbook.exists():
        pytest.skip("ansible-core is not among the installed development tools")
    place = ("--inventory", "localhost,", "--connection", "local")
    variables = f"ansible_become=false ansible_python_interpreter={sys.executable}"
    play = placed / "fleet" / "ansible" / "site.yml"
    command = (playbook, *place, "--check", "--extra-vars", variables, play)
    code, words = said(*command)
    assert code == 0, words
    assert "failed=0" in words
    assert not list(Path("/etc/sysctl.d").glob("*iotrial-accepted*")), "it was only checked"


def test_ansible_takes_the_inventory_of_several_hosts(tmp_path: Path) -> None:
    playbook = Path(sys.executable).parent / "ansible-playbook"
    if not playbook.exists():
        pytest.skip("ansible-core is not among the installed development tools")
    swap, disk = (
        KeptSetting("sysctl.vm.swappiness", "10"),
        KeptSetting("queue.scheduler", "bfq", "sda", DISK),
    )
    shares = {}
    for place, entries in {
        StudyHost("box-1", "-p 2222 -o User=me root@192.0.2.1"): (swap,),
        StudyHost("box-2", "root@192.0.2.2"): (swap, disk),
        StudyHost("here"): (swap,),
    }.items():
        mine = Profile("many-{{ x }}", entries)
        shares[place] = (mine, export(mine).files)
    for path, text, _ in exports("many", shares):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    place = tmp_path / "ansible"
    variables = (
        f"ansible_connection=local ansible_become=false ansible_python_interpreter={sys.executable}"
    )
    inventory = ("--inventory", place / "inventory.yml", "--extra-vars", variables)
    code, words = said(playbook, *inventory, "--check", place / "site.yml")
    assert code == 0, words
    ends = {line.split()[0]: line for line in words.splitlines() if "failed=" in line}
    assert set(ends) == {"box-1", "box-2", "here"}
    assert all("failed=0" in line and "unreachable=0" in line for line in ends.values())
    assert "WARNING" not in words, words
    code, words = said(
        playbook.with_name("ansible-inventory"), "--inventory", inventory[1], "--host", "box-1"
    )
    assert code == 0, words
    assert '"ansible_port": "2222"' in words
    assert '"ansible_host": "192.0.2.1"' in words


def test_the_scripts_put_files_in_place_and_give_back_what_was_there(placed: Path) -> None:
    """In a mount namespace of their own, where /etc and /var are copies."""
    script = """
        set -eu
        mount -t tmpfs etc /etc && mount -t tmpfs var /var
        mkdir -p /etc/sysctl.d && printf 'mine\\n' >/etc/sysctl.d/99-iotrial-accepted.conf
        chmod 600 /etc/sysctl.d/99-iotrial-accepted.conf
        find /etc -type f | sort >/tmp/before.$$
        PATH=/usr/bin:/bin
        "$1/apply.sh"
        find /etc -type f | sort
        "$1/undo.sh"
        find /etc -type f | sort | cmp - /tmp/before.$$
        rm /tmp/before.$$
        stat -c %a /etc/sysctl.d/99-iotrial-accepted.conf
        cat /etc/sysctl.d/99-iotrial-accepted.conf
    """
    # Only files: the commands that would act on this machine are not on the PATH of the script.
    tools = placed / "bin"
    tools.mkdir()
    for name in (
        "dirname",
        "id",
        "mkdir",
        "cp",
        "chmod",
        "mv",
        "rm",
        "cat",
        "stat",
        "find",
        "sort",
        "cmp",
        "mount",
        "sh",
    ):
        (tools / name).symlink_to(shutil.which(name) or name)
    text = script.replace("PATH=/usr/bin:/bin", f"PATH={tools}")
    code, words = said("unshare", "-m", "sh", "-c", text, "-", placed / "fleet")
    assert code == 0, words
    assert "/etc/udev/rules.d/99-iotrial-accepted.rules" in words
    assert words.endswith("600\nmine\n")
