from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from iotrial.errors import SettingRefused
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.model.tunable import Setting
from iotrial.tunables import lvm, tunable
from iotrial.tunables.lvm import TUNABLES

READ_AHEAD = tunable("lvm.read_ahead")


def test_every_row_says_that_it_outlives_a_reboot() -> None:
    assert all("for good" in row.lasts and row.moot and row.risk for row in TUNABLES)


def test_the_commands_name_the_volume_as_one_word() -> None:
    (act,) = READ_AHEAD.acts("vg/lv", "256")
    assert act.argv == ("lvchange", "--readahead", "256", "vg/lv")
    assert READ_AHEAD.probe("vg/lv").argv[-1] == "vg/lv"
    (act,) = tunable("lvm.max_recovery_rate").acts("vg/lv", "100")
    assert act.argv == ("lvchange", "--maxrecoveryrate", "100k", "vg/lv")


@pytest.mark.parametrize(
    ("raw", "value"),
    [(b"  auto\n", "auto"), (b"  256\n", "256"), (b"  \n", None), (b"", None)],
)
def test_a_blank_is_a_volume_without_such_a_value(raw: bytes, value: str | None) -> None:
    assert READ_AHEAD.observe(raw) == value


def test_a_plain_volume_has_no_recovery_rate_and_no_cache() -> None:
    host = FakeHost()
    for row in TUNABLES[1:]:
        assert observe(host, row, "vg/plain") is None, row.name
    assert observe(host, tunable("lvm.cache_mode"), "vg/cached") == "writethrough"
    assert observe(host, READ_AHEAD, "vg/none") is None


@pytest.mark.parametrize(
    ("shown", "value"),
    [("  raid1          \n", "0\n"), ("  raid1  128  \n", "128\n"), ("  linear  \n", "")],
)
def test_a_raid_whose_rate_is_blank_has_the_rate_0(tmp_path: Path, shown: str, value: str) -> None:
    """As lvs of 2.03.16 prints it."""
    lvs = tmp_path / "lvs"
    lvs.write_text(f"#!/bin/sh\nprintf '%s' '{shown}'\n")
    lvs.chmod(0o755)
    argv = tunable("lvm.max_recovery_rate").probe("vg/lv").argv
    path = f"{tmp_path}:{os.environ['PATH']}"
    said = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=True)
    assert said.stdout == value


@pytest.mark.parametrize(("value", "why"), [("none", "ask for 0"), ("9", "pages"), ("-8", "below")])
def test_a_read_ahead_that_would_read_back_as_another_is_refused(value: str, why: str) -> None:
    domain = READ_AHEAD.domain(b"auto\n")
    assert why in domain.refusal(value)
    assert not any(domain.refusal(taken) for taken in ("auto", "0", "8", "8192"))


@pytest.mark.parametrize("value", ["auto", "0", "8192"])
def test_a_read_ahead_is_set_and_given_back(value: str) -> None:
    host = FakeHost()
    owed = snapshot(host, ["lvm.read_ahead"], "vg/mirror").owed
    apply(host, [Setting("vg/mirror", "lvm.read_ahead", value)])
    assert observe(host, READ_AHEAD, "vg/mirror") == value
    assert put_back(host, owed) == ()
    assert observe(host, READ_AHEAD, "vg/mirror") == "256"


def test_a_volume_that_is_not_there_is_refused_in_its_own_words() -> None:
    with pytest.raises(SettingRefused, match="Failed to find logical volume"):
        apply(FakeHost(), [Setting("vg/none", "lvm.read_ahead", "8")])


def test_the_study_that_the_family_shows_for_stripes_is_toml() -> None:
    text = (lvm.__doc__ or "").partition("::\n")[2].partition("\nLeft out")[0]
    target = tomllib.loads(text)["targets"]["four"]
    assert target["create"][0][:2] == ["lvcreate", "--yes"]
    assert target["remove"][0][-1] == "vg/four"
