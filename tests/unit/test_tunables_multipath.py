"""The scripts are run by the real sh and sed; multipathd and dmsetup are files that print what was
recorded (tests/data/multipath)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from iotrial.errors import SettingLost, SettingRefused, UsageError
from iotrial.execute.settings.tuning import apply, put_back, snapshot, snapshots
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.paths import Multipath
from iotrial.model.tunable import Setting, Tunable
from iotrial.tunables import tunable
from iotrial.tunables.multipath import TUNABLES, file

DATA = Path(__file__).resolve().parents[1] / "data" / "multipath"
TABLES = (DATA / "dmsetup-table.txt").read_text().splitlines()
KEYS = [row for row in TUNABLES if row.scope == "host"]


def say(folder: Path, argv: Sequence[str], **programs: str) -> subprocess.CompletedProcess[str]:
    """Run ``argv`` where these programs are shell scripts with this content."""
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**os.environ, "PATH": path},
    )


def look(folder: Path, key: str, *, there: bool, script: str) -> str:
    probe = tunable(f"multipath.{key}").probe("")
    mine = folder / "mine.conf"
    if there:
        mine.touch()
    argv = [str(mine) if word == file(key) else word for word in probe.argv]
    done = say(folder, argv, multipathd=script)
    return probe.value(done.stdout.encode()) or "" if done.returncode == 0 else "failed"


def test_every_row_says_whether_a_daemon_held_it() -> None:
    tried = {"multipath.path_selector", "multipath.no_path_retry"}
    for row in TUNABLES:
        held = "a running 0.9.4 held it" if row.name in tried else "not tried on a running daemon"
        assert ("held and restored" if row.scope == "map" else held) in row.source
        assert row.risk


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("path_selector", "round-robin 0"),
        ("no_path_retry", "12"),
        ("fast_io_fail_tmo", "off"),  # not the 7 of the `protocol` in there
        ("dev_loss_tmo", "infinity"),
        ("polling_interval", "7"),  # from `defaults`, and not max_polling_interval
        ("rr_min_io_rq", "8"),
        ("prio", "pending"),  # only `defaults` and `devices` have it
    ],
)
def test_the_daemon_is_asked_and_its_own_section_counts(
    tmp_path: Path, key: str, value: str
) -> None:
    script = f"cat {DATA / 'merged-0.9.4.txt'}"
    assert look(tmp_path, key, there=True, script=script) == value
    (tmp_path / "without").mkdir()
    assert look(tmp_path / "without", key, there=False, script=script) == "unset"


def test_a_daemon_that_does_not_answer_is_no_value(tmp_path: Path) -> None:
    assert look(tmp_path, "prio", there=True, script="echo fail; exit 1") == "failed"


@pytest.mark.parametrize(("table", "value"), [*zip(TABLES, "1110", strict=True)])
def test_queueing_is_what_the_kernels_table_says(tmp_path: Path, table: str, value: str) -> None:
    argv = tunable("multipath.queue_if_no_path").probe("mpatha").argv
    script = f'[ "$*" = "table mpatha" ] && echo "{table}"'
    assert say(tmp_path, argv, dmsetup=script).stdout.strip() == value


@pytest.mark.parametrize("said", ["exit 1", "echo 0 8 linear 8:0 0"])
def test_what_is_no_map_has_no_queueing(tmp_path: Path, said: str) -> None:
    argv = tunable("multipath.queue_if_no_path").probe("mpatha").argv
    assert say(tmp_path, argv, dmsetup=said).returncode != 0


def test_a_reconfigure_is_waited_for(tmp_path: Path) -> None:
    reconfigure = tunable("multipath.prio").acts("", "const")[1].argv
    script = """\
    here=$(dirname "$0")
    case $* in
        reconfigure) echo ok; echo x > "$here/asked" ;;
        'show daemon') echo x >> "$here/asked"
            [ $(wc -l < "$here/asked") -gt 3 ] && echo pid 1 idle || echo pid 1 configure ;;
    esac"""
    assert say(tmp_path, reconfigure, multipathd=script).returncode == 0
    assert len((tmp_path / "asked").read_text().splitlines()) == 5
    assert say(tmp_path, reconfigure, multipathd="exit 1").returncode != 0


def test_what_is_written_is_as_the_recorded_daemon_took_it() -> None:
    saved, _ = tunable("multipath.path_selector").acts("", "round-robin 0")
    assert saved.path == "/etc/multipath/conf.d/iotrial-path_selector.conf"
    body = saved.data.partition("\n")[2]
    assert body == 'overrides {\n\tpath_selector "round-robin 0"\n}\n'
    assert body.splitlines()[1] in (DATA / "merged-0.9.4.txt").read_text().splitlines()
    saved, _ = tunable("multipath.polling_interval").acts("", "7")
    assert re.search(r"^defaults \{$", saved.data, re.MULTILINE)


@pytest.mark.parametrize("value", ['x"\n}\nblacklist {', "a\nb", '"'])
def test_a_value_that_would_end_its_line_is_refused(value: str) -> None:
    row = tunable("multipath.prio")
    assert "multipath.conf" in row.domain(b"unset").refusal(value)
    with pytest.raises(UsageError):
        row.acts("", value)


@pytest.mark.parametrize("row", KEYS, ids=lambda row: row.name)
def test_unset_is_always_a_level_and_is_what_is_in_force_without_our_file(row: Tunable) -> None:
    assert row.domain(b"unset\n").refusal("unset") == ""
    assert snapshot(FakeHost(), [row.name], "").values == (Setting("", row.name, "unset"),)


def test_what_an_administrator_overrides_is_not_taken_for_ours_and_comes_back() -> None:
    host = FakeHost()
    part = host.machine.parts["multipath"]
    assert isinstance(part, Multipath)
    part.configure({"no_path_retry": "queue"})
    groups = snapshots(
        host, {"": ["multipath.no_path_retry"], "mpatha": ["multipath.queue_if_no_path"]}
    )
    apply(host, [Setting("", "multipath.no_path_retry", "fail")])
    assert part.settings()["mpatha"] == "0"
    assert put_back(host, [owed for group in groups for owed in group.owed]) == ()
    assert part.merged["overrides"] == {"no_path_retry": "queue"}
    assert part.settings()["mpatha"] == "1"
    assert not [name for name in host.machine.files if "multipath" in name]


def test_a_file_later_in_the_alphabet_that_wins_is_found_by_reading_back() -> None:
    host = FakeHost()
    text = b'overrides {\n\tprio "rdac"\n}\n'
    host.machine.put("/etc/multipath/conf.d/vendor.conf", text)
    with pytest.raises(SettingLost, match="rdac"):
        apply(host, [Setting("", "multipath.prio", "alua")])


def test_queueing_that_is_not_configured_is_not_believed() -> None:
    with pytest.raises(SettingLost):
        apply(FakeHost(), [Setting("mpatha", "multipath.queue_if_no_path", "1")])
    with pytest.raises((SettingLost, SettingRefused)):
        apply(FakeHost(), [Setting("mpathz", "multipath.queue_if_no_path", "1")])


def test_what_lies_on_another_layer_is_owed_under_its_own_name() -> None:
    names = {"": ["multipath.dev_loss_tmo"], "rport-3:0-0": ["scsi.dev_loss_tmo"]}
    host_wide, port = snapshots(FakeHost(), names)
    assert [each.tunable for each in host_wide.values] == ["multipath.dev_loss_tmo"]
    assert [each.value for each in port.values] == ["60", "5"]
