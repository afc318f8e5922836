"""Knobs of subsystems that few test machines have, held and given back on a real kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.errors import SettingRefused
from iotrial.execute.settings.tuning import apply, observe
from iotrial.model.tunable import Setting
from iotrial.store import open_results
from iotrial.tunables import tunable
from nodes import Node, hold

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]

CONFIGURED = """\
defaults {
	user_friendly_names yes
	find_multipaths yes
	no_path_retry 3
}
blacklist {
	devnode "^(vd|nvme|nullb)"
}
"""


@pytest.mark.parametrize(
    ("name", "disk", "value"),
    [
        ("scsi.queue_depth", "a", "16"),
        ("scsi.timeout", "a", "45"),
        ("nvme.io_timeout", "nvme", "20000"),
        ("queue.scheduler", "a", "bfq"),
        ("queue.scheduler", "virtio", "kyber"),
        ("queue.scheduler", "nvme", "bfq"),
    ],
)
def test_a_knob_of_a_disk_is_held_and_given_back(
    node: Node, name: str, disk: str, value: str
) -> None:
    hold(node.host, name, node.disk(disk), value)


@pytest.fixture
def mirror(node: Node) -> Iterator[str]:
    """A RAID1 of the disks a and b."""
    members = [f"/dev/{node.disk(each)}" for each in ("a", "b")]
    options = ["--run", "--level=1", "--raid-devices=2", "--metadata=1.2", "--bitmap=internal"]
    options += ["--assume-clean"]  # while it resyncs its bitmap cannot be changed: EBUSY
    node.do("mdadm", "--create", "/dev/md0", *options, *members)
    yield "md0"
    node.do("mdadm", "--stop", "/dev/md0")
    node.do("mdadm", "--zero-superblock", *members)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("md.sync_speed_max", "5000"),
        ("md.safe_mode_delay", "0.500"),
        ("md.bitmap", "none"),
        ("queue.read_ahead_kb", "256"),
    ],
)
def test_a_knob_of_an_array_is_held_and_given_back(
    node: Node, mirror: str, name: str, value: str
) -> None:
    hold(node.host, name, mirror, value)


@pytest.fixture(scope="module")
def paths(node: Node) -> Iterator[str]:
    """The multipath map of the disk with two paths."""
    node.host.save("/etc/multipath.conf", CONFIGURED.encode(), private=False)
    node.do("systemctl", "start", "multipathd")
    node.do("sh", "-c", "until [ -e /dev/mapper/mpatha ]; do sleep 0.5; done", within=60)
    yield "mpatha"
    node.do("multipath", "-f", "mpatha")
    node.do("systemctl", "stop", "multipathd", "multipathd.socket")
    node.host.remove("/etc/multipath.conf")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("multipath.path_selector", "round-robin 0"),
        ("multipath.no_path_retry", "12"),
        ("multipath.queue_if_no_path", "0"),
    ],
)
def test_a_knob_of_multipath_is_held_and_given_back(
    node: Node, paths: str, name: str, value: str
) -> None:
    assert node.do("multipath", "-ll", paths).count("active ready running") == 2
    hold(node.host, name, paths, value)


@pytest.fixture
def volume(node: Node) -> Iterator[str]:
    """A RAID1 volume on disks that the array does not have."""
    members = [f"/dev/{node.disk(each)}" for each in ("virtio", "nvme")]
    node.do("vgcreate", "-q", "families", *members)
    node.do("lvcreate", "-q", "--type", "raid1", "-m", "1", "-L", "32M", "-n", "one", "families")
    yield "families/one"
    node.do("vgremove", "-q", "-f", "families")
    node.do("pvremove", "-q", *members)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lvm.read_ahead", "512"),
        ("lvm.max_recovery_rate", "4096"),
        ("lvm.min_recovery_rate", "128"),
    ],
)
def test_a_knob_of_a_logical_volume_is_held_and_given_back(
    node: Node, volume: str, name: str, value: str
) -> None:
    hold(node.host, name, volume, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("module.dm_mod.dm_mq_queue_depth", "512"),
        ("module.nvme_core.io_timeout", "45"),
        ("module.scsi_mod.scsi_logging_level", "7"),
    ],
)
def test_a_parameter_of_a_module_is_held_and_given_back(node: Node, name: str, value: str) -> None:
    hold(node.host, name, "", value)


KEY_FILE = "/root/families.key"
FLAGS = ("no_read_workqueue", "no_write_workqueue", "same_cpu_crypt", "submit_from_crypt_cpus")


@pytest.fixture(scope="module", params=["plain", "luks2", "luks2-hex"])
def mapping(node: Node, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """An encrypted disk with a file system on it, mounted, and how its key is held: in the table
    (plain), or by the keyring, which has lost it, so that crypttab has to tell (luks2)."""
    disk = f"/dev/{node.disk('b')}"
    node.do("sh", "-c", f"head -c 64 /dev/urandom >{KEY_FILE} && chmod 600 {KEY_FILE}")
    kind, _, how = request.param.partition("-")
    if kind == "plain":
        options = ("--cipher", "aes-xts-plain64", "--key-size", "512", "--key-file", KEY_FILE)
        node.do("cryptsetup", "open", "--type", "plain", *options, disk, "families")
    else:
        cheap = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", KEY_FILE)
        node.do("cryptsetup", "luksFormat", "-q", "--type", "luks2", *cheap, disk)
        keyring = ("--disable-keyring",) if how else ()
        node.do("cryptsetup", "open", *keyring, "--key-file", KEY_FILE, disk, "families")
    node.do("sh", "-c", "mkfs.ext4 -q /dev/mapper/families && mount /dev/mapper/families /mnt")
    node.do("sh", "-c", "echo kept >/mnt/file && sync")
    yield "families", request.param
    node.do("sh", "-c", '[ "$(cat /mnt/file)" = kept ] && umount /mnt && rm -f /etc/crypttab')
    node.do("cryptsetup", "close", "families")
    node.do("wipefs", "-aq", disk)
    node.do("rm", "-f", KEY_FILE)


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_of_a_mounted_dm_crypt_device_is_held_and_given_back(
    node: Node, mapping: tuple[str, str], flag: str
) -> None:
    name, held = mapping
    if held == "luks2":
        with pytest.raises(SettingRefused, match="lost the key"):
            apply(node.host, [Setting(name, f"crypt.{flag}", "1")])
        line = f"families /dev/{node.disk('b')} {KEY_FILE} luks\\n"
        node.do("sh", "-c", f"printf '{line}' >/etc/crypttab")
    whole = "dmsetup table --showkeys families | sed 's/ [0-9]* [a-z_ ]*$//' | sha256sum"
    before = node.do("sh", "-c", whole)
    hold(node.host, f"crypt.{flag}", name, "1")
    assert node.do("sh", "-c", whole) == before, "the same key, cipher and place"
    node.do("sh", "-c", "echo kept >/mnt/file && sync && echo 3 >/proc/sys/vm/drop_caches")
    assert node.do("cat", "/mnt/file") == "kept\n"
    node.do("rm", "-f", "/etc/crypttab")


def test_interrupts_that_the_kernel_spreads_itself_are_refused(node: Node) -> None:
    """NVMe's: the admin queue's may be moved, those of its I/O queues not (EIO)."""
    function = node.do("readlink", "-f", f"/sys/block/{node.disk('nvme')}/device/device").strip()
    irqs = sorted(node.host.list(f"{function}/msi_irqs"), key=int)
    assert len(irqs) >= 2
    refused = []
    for irq in irqs:
        now = node.do("cat", f"/proc/irq/{irq}/smp_affinity_list").strip()
        other = "0" if now != "0" else "1"
        try:
            hold(node.host, "irq.affinity", irq, other)
        except SettingRefused as caught:
            refused.append((irq, "managed by the kernel" in caught.message))
    assert refused == [(irq, True) for irq in irqs[1:]]


# iocost: as fast as the model says, whatever the disk could do, so that shares are known.
STEADY = "rpct=0.00 rlat=0 wpct=0.00 wlat=0 min=100.00 max=100.00"
SLOW = "rbps=4194304 rseqiops=400 rrandiops=400 wbps=4194304 wseqiops=400 wrandiops=400"
BOTH = """
[hosts]
node = {{ ssh = "{way}" }}
[targets.disk]
device = "{serial}"
host = "node"
[workloads.database]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 16, runtime = "10s" }}
beside = "backup"
[workloads.backup]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 16, runtime = "10s" }}
[factors.share.levels]
even = {{ {cost} }}
database = {{ {cost}, "cgroup.v2.weight" = 1000 }}
backup = {{ {cost}, "cgroup.v2.beside.weight" = 1000 }}
[design]
kind = "full"
blocks = 2
settle = "0s"
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cgroup.v2.cost.model", SLOW),
        ("cgroup.v2.cost.qos", "auto"),
        ("cgroup.v2.cost.qos", STEADY),
    ],
)
def test_iocost_of_a_disk_is_held_and_given_back(node: Node, name: str, value: str) -> None:
    number = node.do("cat", f"/sys/block/{node.disk('a')}/dev").strip()
    hold(node.host, name, number, value)


def test_two_loads_share_a_disk_as_their_weights_say(node: Node, tmp_path: Path) -> None:
    serial = node.do("cat", f"/sys/block/{node.disk('virtio')}/serial").strip()
    cost = f'"cgroup.v2.cost.model" = "{SLOW}", "cgroup.v2.cost.qos" = "{STEADY}"'
    text = BOTH.format(way=node.way, serial=serial, cost=cost)
    (tmp_path / "study.toml").write_text(text)
    done = subprocess.run(
        node.lab.command("run", "study.toml", "--out", "results"),
        cwd=tmp_path,
        env={**node.lab.environment, "IOTRIAL_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shares: dict[str, list[float]] = {}
    for record in open_results(tmp_path / "results").valid:
        own, other = record.value("read.iops"), record.value("read.iops[backup]")
        assert own
        assert other
        shares.setdefault(dict(record.trial.treatment)["share"], []).append(own / (own + other))
    assert shares.keys() == {"even", "database", "backup"}
    assert all(0.35 < each < 0.65 for each in shares["even"]), shares
    assert min(shares["database"]) > 0.75, shares
    assert max(shares["backup"]) < 0.25, shares
    assert node.there(["/sys/fs/cgroup/iotrial", "/sys/fs/cgroup/iotrial-beside"]) == []
    number = node.do("cat", f"/sys/block/{node.disk('virtio')}/dev").strip()
    assert observe(node.host, tunable("cgroup.v2.cost.qos"), number) == "off"
    assert observe(node.host, tunable("cgroup.v2.cost.model"), number) == "auto"
