"""Flags of dm-crypt: the very scripts, with programs in the place of dmsetup and cryptsetup that
note what they are told.  ``tests/vm/test_families_in_a_node.py`` has the real ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from iotrial.errors import SettingRefused
from iotrial.execute.settings.journal import SettingsUndo, open_journal
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.crypt import TUNABLES

KEY = "5ec2e7" * 10 + "5ec2"
KEYRING = ":64:logon:cryptsetup:11112222-3333-4444-5555-666677778888-d0"
FLAG = "no_read_workqueue"

DMSETUP = """\
#!/bin/sh
echo "dmsetup $*" >>"$HERE/argv"
case $1 in
    table)
        [ -e "$HERE/table" ] || { echo "Device $2 not found" >&2; exit 1; }
        cat "$HERE/table" ;;
    info) cat "$HERE/attributes" ;;
    load)
        read -r line
        case $line in *' :'*) echo "device-mapper: reload ioctl: $line" >&2; exit 1 ;; esac
        echo "$line" >"$HERE/inactive" ;;
    resume) mv "$HERE/inactive" "$HERE/table" ;;
esac
"""
CRYPTSETUP = """\
#!/bin/sh
echo "cryptsetup $*" >>"$HERE/argv"
[ -e "$HERE/key" ]
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name, text in (("dmsetup", DMSETUP), ("cryptsetup", CRYPTSETUP)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "attributes").write_text("L--w\n")
    return tmp_path


def table(here: Path, key: str = KEY, options: str = "") -> None:
    (here / "table").write_text(f"0 2048 crypt aes-xts-plain64 {key} 0 8:16 4096{options}\n")


def ran(here: Path, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A script on this machine, whose /etc/crypttab is the test's."""
    words = [word.replace("/etc/crypttab", str(here / "crypttab")) for word in argv]
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "HERE": str(here)}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def put(here: Path, value: str, flag: str = FLAG) -> subprocess.CompletedProcess[str]:
    (act,) = tunable(f"crypt.{flag}").acts("secret", value)
    return ran(here, act.argv)


def seen(here: Path, flag: str = FLAG) -> subprocess.CompletedProcess[str]:
    return ran(here, tunable(f"crypt.{flag}").probe("secret").argv)


def asked(here: Path) -> list[str]:
    return (here / "argv").read_text().splitlines()


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ("", "0"),
        (" 1 no_read_workqueue", "1"),
        (" 2 no_read_workqueue allow_discards", "1"),
        (" 1 no_write_workqueue", "0"),
        (" 1 no_read_workqueue_x", "0"),
    ],
)
def test_a_flag_is_read_from_a_table_that_hides_the_key(
    here: Path, options: str, value: str
) -> None:
    table(here, options=options)
    assert seen(here).stdout == f"{value}\n"
    assert asked(here) == ["dmsetup table secret"]


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("", "1", " 1 no_read_workqueue"),
        (" 1 no_read_workqueue", "0", ""),
        (" 1 no_read_workqueue", "1", " 1 no_read_workqueue"),
        (" 2 allow_discards sector_size:4096", "1", None),
        (" 3 allow_discards no_read_workqueue sector_size:4096", "0", None),
    ],
)
def test_the_rest_of_the_table_stays_as_it_is(
    here: Path, before: str, value: str, after: str | None
) -> None:
    table(here, options=before)
    done = put(here, value)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    head, found = (here / "table").read_text()[:-1].split(" 4096", 1)
    assert head == f"0 2048 crypt aes-xts-plain64 {KEY} 0 8:16"
    if after is None:
        flag = f" {FLAG}" if value == "1" else ""
        after = f" {2 + (value == '1')} allow_discards sector_size:4096{flag}"
    assert found == after
    assert seen(here).stdout == f"{value}\n"


def test_the_key_is_in_no_argument_no_output_and_no_journal(here: Path) -> None:
    table(here)
    done = put(here, "1")
    told = [done.stdout, done.stderr, *asked(here)]
    (here / "dmsetup").write_text(DMSETUP.replace("*' :'*", "*"))  # the kernel refuses, with words
    table(here)
    failed = put(here, "1")
    assert failed.returncode == 1
    assert failed.stderr == "secret: the kernel does not take no_read_workqueue: Invalid argument\n"
    told += [failed.stdout, failed.stderr, *asked(here)]
    assert not [line for line in told if KEY[:8] in line]
    assert [path for path in here.iterdir() if KEY in path.read_text()] == [here / "table"]
    host = FakeHost()
    books = open_journal(host, "/var/lib/iotrial/journal.d", {"boot_id": "b", "token": "t"})
    group = snapshot(host, [row.name for row in TUNABLES], "fakecrypt")
    books.owe_all([SettingsUndo("fakecrypt", None, group.owed)])
    journal = host.read(books.path).decode()
    assert journal.count("iotrial-crypt|fakecrypt|") >= 4
    assert "showkeys" in journal, "what is owed is a command that asks for it then"


def test_a_device_that_is_read_only_stays_so(here: Path) -> None:
    table(here)
    (here / "attributes").write_text("L--r\n")
    assert put(here, "1").returncode == 0
    assert "dmsetup load --readonly secret" in asked(here)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 2048 linear 8:16 0\n",
        "0 8 crypt a b 0 8:16 0\n8 8 crypt a b 0 8:16 8\n",
        None,
    ],
)
def test_what_is_no_crypt_device_is_not_loaded(here: Path, text: str | None) -> None:
    if text is not None:
        (here / "table").write_text(text)
    assert put(here, "1").returncode != 0
    assert not [line for line in asked(here) if line.startswith(("dmsetup load", "dmsetup resume"))]
    if text is None or "crypt" not in text:
        assert seen(here).returncode != 0


# Where the table only names a key that the keyring has lost.


@pytest.mark.parametrize(
    ("crypttab", "how"),
    [
        ("", "--token-only"),
        ("other /dev/x /etc/key luks\n", "--token-only"),
        ("# c\n\nsecret UUID=1 /etc/key luks,discard\n", "--key-file=/etc/key"),
        ("secret UUID=1 none luks\n", "--token-only"),
        ("secret UUID=1\n", "--token-only"),
    ],
)
def test_the_key_comes_from_crypttab_or_from_a_token(here: Path, crypttab: str, how: str) -> None:
    table(here, KEYRING, " 3 allow_discards same_cpu_crypt sector_size:4096")
    (here / "crypttab").write_text(crypttab)
    (here / "key").touch()
    done = put(here, "1")
    assert (done.returncode, done.stderr) == (0, "")
    flags = "--allow-discards --perf-same_cpu_crypt --perf-no_read_workqueue"
    assert asked(here)[-1] == f"cryptsetup refresh secret {flags} {how}"


def test_where_nobody_has_the_key_it_is_refused_and_nothing_is_changed(here: Path) -> None:
    table(here, KEYRING)
    before = (here / "table").read_text()
    done = put(here, "1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "secret: Required key not available"
    assert (here / "table").read_text() == before
    with pytest.raises(SettingRefused, match="neither a key file in /etc/crypttab nor a token"):
        apply(FakeHost(), [Setting("nokey", f"crypt.{FLAG}", "1")])


def test_flags_are_held_and_given_back() -> None:
    host, names = FakeHost(), [row.name for row in TUNABLES]
    before = host.settings()
    group = snapshot(host, names, "fakecrypt")
    assert [owed.setting.value for owed in group.owed] == [
        str(int(owed.setting.tunable == "crypt.same_cpu_crypt")) for owed in group.owed
    ]
    apply(host, [Setting("fakecrypt", name, "1") for name in names])
    assert {observe(host, row, "fakecrypt") for row in TUNABLES} == {"1"}
    assert put_back(host, group.owed) == ()
    assert host.settings() == before


@pytest.mark.parametrize("value", ["2", "on", "", "-1"])
def test_a_flag_is_on_or_off(value: str) -> None:
    assert tunable(f"crypt.{FLAG}").domain(b"0\n").refusal(value)
