"""Which mount a path is on, told from tables of mounts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.look.mounts import mount_of, parse_fstab, parse_mountinfo, parse_swaps, under, unescape

# Linux 6.1, Debian 12, /proc/self/mountinfo, shortened.
TABLE = r"""22 27 0:21 / /proc rw,nosuid shared:12 - proc proc rw
23 27 0:22 / /sys rw,nosuid shared:2 - sysfs sysfs rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
31 23 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs rw,mode=755
40 27 0:45 /@home /home rw,relatime shared:20 - btrfs /dev/sdb1 rw,subvol=/@home
41 27 0:50 / /mnt/nas rw,relatime shared:21 - nfs4 srv:/export rw,vers=4.2
42 27 8:1 / /mnt/with\040blank rw - xfs /dev/sda1 rw
50 27 8:17 / /a/b rw - ext4 /dev/sdb1 rw
51 27 8:33 / /a rw - xfs /dev/sdc1 rw
52 51 8:49 / /a/c rw - ext4 /dev/sdd1 rw
53 52 8:65 / /a/c rw - ext4 /dev/sde1 ro
"""
MOUNTS = parse_mountinfo(TABLE)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/", "/dev/vda"),
        ("/mnt", "/dev/vda"),
        ("/mnt/nas", "srv:/export"),
        ("/mnt/nas/deep/er", "srv:/export"),
        ("/mnt/nasty", "/dev/vda"),
        ("/mnt/with blank/x", "/dev/sda1"),
        ("/home/me", "/dev/sdb1"),
        ("/sys/fs/cgroup/x", "tmpfs"),
        ("/a/x", "/dev/sdc1"),
        ("/a/b/x", "/dev/sdc1"),
        ("/a/c/x", "/dev/sde1"),
    ],
)
def test_a_path_is_on_the_mount_that_the_kernel_would_enter(path: str, source: str) -> None:
    """/a/b is hidden by the later mount on /a; /a/c has two mounts, the upper one counts."""
    found = mount_of(path, MOUNTS)
    assert found is not None
    assert found.source == source


def test_read_only_is_said_by_the_mount_or_by_the_filesystem() -> None:
    assert {mount.point for mount in MOUNTS if mount.read_only} == {"/sys/fs/cgroup", "/a/c"}


def test_a_network_filesystem_has_no_block_device() -> None:
    nas = next(mount for mount in MOUNTS if mount.fstype == "nfs4")
    assert not nas.on_block_device
    assert nas.describe() == "nfs4 from srv:/export (0:50) on /mnt/nas"


def test_without_a_root_nothing_is_found() -> None:
    assert mount_of("/x", ()) is None
    assert mount_of("/x", parse_mountinfo("41 27 0:50 / /mnt rw - nfs4 srv:/x rw")) is None


def test_a_root_on_top_of_the_first_root_is_entered() -> None:
    table = "1 1 0:2 / / rw - rootfs rootfs rw\n20 1 8:1 / / rw - ext4 /dev/sda1 rw"
    found = mount_of("/etc", parse_mountinfo(table))
    assert found is not None
    assert found.source == "/dev/sda1"


@given(st.data())
def test_a_mutilated_table_never_breaks_the_reader(data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(TABLE)))
    for mount in parse_mountinfo(TABLE[:cut] + "\n"):
        assert mount.ident


@given(st.text(alphabet="/ab", min_size=1), st.text(alphabet="/ab", min_size=1))
def test_under_is_by_whole_names(path: str, folder: str) -> None:
    if under(path, folder) and path != folder:
        assert path.startswith(folder.rstrip("/") + "/")
    assert under(f"{folder}/x", folder)


def test_escapes_are_octal() -> None:
    assert unescape(r"/a\040b\134c") == "/a b\\c"


def test_swaps_are_parsed_in_bytes() -> None:
    text = (
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        "/dev/dm-1                               partition\t8388604\t512\t-2\n"
        "/swap\\040file                            file\t\t1024\t\t0\t\t-3\n"
    )
    swaps = parse_swaps(text)
    assert [swap.path for swap in swaps] == ["/dev/dm-1", "/swap file"]
    assert (swaps[0].size, swaps[0].used) == (8388604 * 1024, 512 * 1024)


def test_fstab_promises_mount_points_only() -> None:
    text = (
        "# /etc/fstab\nUUID=1 / ext4 defaults 0 1\nUUID=2 none swap sw 0 0\n"
        "srv:/x /mnt/nas/ nfs4 noauto 0 0\n/dev/sdc1 /mnt/with\\040blank xfs defaults\n\nbroken\n"
    )
    assert parse_fstab(text) == ("/mnt/nas", "/mnt/with blank")
