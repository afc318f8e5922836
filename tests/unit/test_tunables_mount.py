"""Mount options as data: what is read out of findmnt's words, and what is said to mount(8)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iotrial.errors import UsageError
from iotrial.tunables import group, tunable
from iotrial.tunables.mount import AGAIN, LOOK, SET, TUNABLES, row, unescaped
from iotrial.tunables.nfs import BDI

NFS4 = (
    "rw,noatime,vers=4.2,rsize=65536,wsize=1048576,namlen=255,acregmin=10,soft,noac,proto=tcp,"
    "nconnect=8,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.2,local_lock=none,addr=10.0.0.1"
)
"""As fs/nfs/super.c nfs_show_mount_options() writes it (6.1)."""
EXT4 = "rw,nosuid,relatime,nobarrier,discard,commit=30,data=writeback"
XFS = "rw,inode64,logbufs=8,logbsize=32k,noquota"


@pytest.mark.parametrize(
    ("shown", "values"),
    [
        (
            NFS4,
            {
                "atime": "noatime", "rsize": "65536", "wsize": "1048576", "nconnect": "8",
                "vers": "4.2", "hard": "soft", "noac": "noac", "nocto": "cto", "acregmin": "10",
                "acregmax": "unset", "actimeo": "10", "sync": "async", "timeo": "600",
                "lookupcache": "unset", "proto": "tcp", "retrans": "2", "local_lock": "none",
            },
        ),
        (
            EXT4,
            {
                "atime": "relatime", "barrier": "nobarrier", "discard": "on", "commit": "30",
                "data": "writeback", "delalloc": "delalloc", "lazytime": "unset", "nosuch": "unset",
            },
        ),
        (
            XFS,
            {
                "atime": "strictatime", "logbufs": "8", "logbsize": "32k", "inode64": "inode64",
                "largeio": "nolargeio", "allocsize": "unset", "noquota": "on",
            },
        ),
    ],
    ids=["nfs", "ext4", "xfs"],
)  # fmt: skip
def test_values_are_what_the_kernel_shows(shown: str, values: dict[str, str]) -> None:
    for name, value in values.items():
        assert tunable(f"mount.{name}").observe(f"{shown}\n".encode()) == value, name


def test_every_row_brings_what_is_mounted_into_its_group_and_after_it() -> None:
    for each in TUNABLES:
        if each.name != "mount.mounted":
            assert [r.name for r in group([each.name])][-2:] == [
                "mount.mounted",
                "nfs.read_ahead_kb",
            ]
    assert group(["mount.anything"])[-2].name == "mount.mounted"


@pytest.mark.parametrize("value", ["1,suid", "1 2", "a\nb", "$(id)", "", "65536,exec"])
def test_a_value_cannot_bring_a_second_option(value: str) -> None:
    for name in ("rsize", "data", "anything"):
        knob = tunable(f"mount.{name}")
        assert knob.domain(b"").refusal(value)
        with pytest.raises(UsageError):
            knob.acts("/mnt", value)


@pytest.mark.parametrize("name", ["ro", "remount", "suid", "noexec", "addr", "password", "users"])
def test_some_options_are_no_settings(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        row(f"mount.{name}")


def test_a_name_that_is_no_option_is_none() -> None:
    wrong = ("mount.", "mount.A", "mount.a,b", "queue.x", "mount.-o", "mount.a-", "mount.a--b")
    assert [row(name) for name in wrong] == [None] * len(wrong)


def test_a_name_may_have_hyphens_as_those_of_panfs() -> None:
    made = row("mount.max-async-writepages-per-rpc")
    assert made is not None
    assert made.name == "mount.max-async-writepages-per-rpc"


def test_a_default_that_is_not_shown_is_called_unset() -> None:
    assert dict(tunable("mount.commit").domain(b"").aliases) == {"5": "unset"}
    assert tunable("mount.actimeo").domain(b"").refusal("x")
    assert not tunable("mount.actimeo").domain(b"").refusal("unset")


def words(name: str, value: str) -> tuple[str, ...]:
    return tunable(f"mount.{name}").acts("/mnt/a b", value)[0].argv[4:]


def test_what_the_script_is_told() -> None:
    assert words("commit", "7") == ("/mnt/a b", "commit", "commit=7", "commit=7", "commit=7")
    assert words("commit", "unset") == ("/mnt/a b", "commit", "", "commit=5", "")
    assert words("rsize", "65536") == ("/mnt/a b", "rsize", "rsize=65536", "", "rsize=65536")
    assert words("atime", "strictatime")[2:] == ("strictatime", "strictatime", "")
    assert words("hard", "soft") == ("/mnt/a b", "hard,soft,softerr", "soft", "", "soft")


def test_what_is_mounted_goes_back_word_for_word() -> None:
    value = r"srv:/my\x20data nfs4 shared rw,noatime,context=a\x20b"
    argv = tunable("mount.mounted").undo("/mnt", value)[0].argv
    assert argv[4:] == ("/mnt", "srv:/my data", "nfs4", "shared", "rw,noatime,context=a b")
    assert unescaped(r"a\x5cb") == "a\\b"


@pytest.mark.parametrize("script", [LOOK, SET, AGAIN, BDI], ids=["look", "set", "again", "bdi"])
def test_a_script_is_posix_shell_and_its_arguments_never_part_of_it(script: str) -> None:
    done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "eval" not in script


def seen(folder: Path, columns: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """LOOK with a findmnt that says this."""
    lines = "".join(f"*' {name} '*) printf '%s\\n' '{said}';; " for name, said in columns.items())
    stub = folder / "findmnt"
    stub.write_text(f'#!/bin/sh\ncase " $* " in {lines}*) exit 1;; esac\n')
    stub.chmod(0o755)
    return subprocess.run(
        ["sh", "-c", LOOK, "iotrial-mounted", "/mnt"],
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_of_nfs_what_was_negotiated_is_left_out(tmp_path: Path) -> None:
    columns = {"SOURCE": "srv:/x", "FSTYPE": "nfs4", "PROPAGATION": "shared", "OPTIONS": NFS4}
    said = seen(tmp_path, columns).stdout
    assert said.startswith("srv:/x nfs4 shared rw,noatime,vers=4.2,rsize=65536,wsize=1048576,acreg")
    assert said.endswith("sec=sys,local_lock=none\n")
    assert "addr" not in said
    assert tunable("mount.mounted").probe("/mnt").value(said.encode()) == said.strip()


@pytest.mark.parametrize(
    ("kind", "source", "options"),
    [
        ("tmpfs", "tmpfs", "rw"),
        ("overlay", "overlay", "rw,lowerdir=/a"),
        ("ceph", "host:/", "rw,secret=<hidden>"),
        ("nfs4", "srv:/x", "rw,cert_serial=<redacted>"),
        ("ext4", "/dev/sda1[/folder]", "rw"),
    ],
)
def test_what_is_shown_and_does_not_suffice_is_not_undone_by_mounting(
    tmp_path: Path, kind: str, source: str, options: str
) -> None:
    columns = {"SOURCE": source, "FSTYPE": kind, "PROPAGATION": "private", "OPTIONS": options}
    done = seen(tmp_path, columns)
    assert done.returncode == 1
    assert "cannot be mounted again" in done.stderr


def test_the_read_ahead_of_nfs_is_that_of_its_own_backing_device() -> None:
    knob = tunable("nfs.read_ahead_kb")
    assert knob.observe(b"15360\n") == "15360"
    assert knob.acts("/mnt", "128")[0].argv[3:] == ("iotrial-bdi", "/mnt", "128")
