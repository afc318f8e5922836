from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iotrial.errors import SettingRefused, UsageError
from iotrial.execute.settings.tuning import apply, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.disk import FakeBlockDevice, FakeQueue
from iotrial.hosts.fake.parts.stacks import ARRAY as FOLDER
from iotrial.hosts.fake.parts.stacks import Md
from iotrial.model.tunable import Setting, Tunable
from iotrial.tunables import tunable
from iotrial.tunables.md import TUNABLES

ARRAY = "md127"
BITMAP = tunable("md.bitmap")


def machine() -> tuple[FakeHost, Md]:
    host = FakeHost()
    host.machine.blocks[ARRAY] = FakeBlockDevice(
        ARRAY, (9, 127), 2**30, FakeQueue(schedulers=("none",))
    )
    host.machine.relink()
    part = host.machine.parts["md"]
    assert isinstance(part, Md)
    return host, part


def seen(host: FakeHost, name: str) -> str:
    return host.read(f"{FOLDER}/{name}").decode().strip()


def test_every_row_says_whether_it_was_measured_and_when_it_cannot_matter() -> None:
    assert all("measured" in row.source and row.moot for row in TUNABLES)


@pytest.mark.parametrize("row", TUNABLES, ids=lambda row: row.name)
def test_every_value_of_the_pretended_array_is_inside_its_domain(row: Tunable) -> None:
    host, _ = machine()
    (former, *_) = snapshot(host, [row.name], ARRAY).values
    assert former.tunable == row.name
    assert row.domain(former.value.encode()).refusal(former.value) == ""


@pytest.mark.parametrize(
    ("raw", "value"), [("1000 (system)", "system"), ("5000 (local)", "5000"), ("7", "7")]
)
def test_a_speed_that_is_the_machines_is_called_so(tmp_path: Path, raw: str, value: str) -> None:
    """By the real sed, and by the pretended one."""
    (tmp_path / "speed").write_text(f"{raw}\n")
    probe = tunable("md.sync_speed_min").probe(ARRAY)
    argv = [*probe.argv[:-1], str(tmp_path / "speed")]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=10)
    assert probe.value(done.stdout) == value
    host = FakeHost()
    host.machine.put("/tmp/speed", f"{raw}\n".encode())
    assert host.run([*probe.argv[:-1], "/tmp/speed"]).stdout == done.stdout


@pytest.mark.parametrize(
    ("files", "value"),
    [
        (("+8", "internal", "67108864"), "internal 67108864"),
        (("-16", "internal", "4194304"), "internal 4194304"),
        (("+8", "clustered", "4194304"), "clustered 4194304"),
        (("none", "internal", "67108864"), "none"),
        (("file", "internal", "4096"), "file internal 4096"),
    ],
)
def test_a_bitmap_is_told_with_the_size_of_its_chunks(
    tmp_path: Path, files: tuple[str, ...], value: str
) -> None:
    argv = list(BITMAP.probe(ARRAY).argv)
    host = FakeHost()
    for at, text in zip((-3, -2, -1), files, strict=True):
        argv[at] = str(tmp_path / str(at))
        Path(argv[at]).write_text(f"{text}\n")
        host.machine.put(argv[at], f"{text}\n".encode())
    done = subprocess.run(argv, capture_output=True, check=True, timeout=10)
    assert BITMAP.probe(ARRAY).value(done.stdout) == value
    assert host.run(argv).stdout == done.stdout


def test_a_clustered_bitmap_is_no_factor_because_it_cannot_be_made_again() -> None:
    host, part = machine()
    part.cluster()
    (former, *_) = snapshot(host, ["md.bitmap"], ARRAY).values
    domain = BITMAP.domain(former.value.encode())
    assert domain.refusal(former.value) == ""
    assert "is not one of clustered" in domain.refusal("none")
    assert BITMAP.acts(ARRAY, former.value) == ()


@pytest.mark.parametrize("value", ["internal", "internal 0", "internal 1000", "on", "/bitmap"])
def test_a_bitmap_without_the_size_of_its_chunks_is_refused(value: str) -> None:
    assert "internal 67108864" in BITMAP.domain(b"none\n").refusal(value)
    with pytest.raises(UsageError):
        BITMAP.acts(ARRAY, value)


def test_a_bitmap_goes_and_comes_back_with_what_it_had() -> None:
    host, _ = machine()
    host.meddle(f"{FOLDER}/bitmap/time_base", b"30")
    owed = snapshot(host, ["md.bitmap"], ARRAY).owed
    assert [each.setting.tunable for each in owed] == [
        "md.bitmap",
        "md.consistency_policy",
        "md.time_base",
    ]
    apply(host, [Setting(ARRAY, "md.bitmap", "none")])
    assert seen(host, "consistency_policy") == "resync"
    apply(host, [Setting(ARRAY, "md.bitmap", "internal 1048576")])
    assert seen(host, "bitmap/time_base") == "5"
    assert put_back(host, owed) == ()
    assert seen(host, "bitmap/chunksize") == "33554432"
    assert seen(host, "bitmap/time_base") == "30"


def test_a_resync_refuses_a_change_of_the_bitmap() -> None:
    host, part = machine()
    part.resyncing = True
    with pytest.raises(SettingRefused, match="busy"):
        apply(host, [Setting(ARRAY, "md.bitmap", "none")])


def test_a_policy_can_be_exchanged_only_without_a_bitmap() -> None:
    policy = tunable("md.consistency_policy")
    assert policy.domain(b"bitmap\n").refusal("ppl")
    assert policy.domain(b"resync\n").refusal("ppl") == ""
    assert policy.acts(ARRAY, "bitmap") == ()


@pytest.mark.parametrize(("cache", "threshold"), [("9000", "8000"), ("17", "17")])
def test_cache_and_threshold_are_set_in_the_order_their_values_need(
    cache: str, threshold: str
) -> None:
    host, _ = machine()
    host.meddle(f"{FOLDER}/preread_bypass_threshold", b"200")
    names = ("md.stripe_cache_size", "md.preread_bypass_threshold")
    owed = snapshot(host, names, ARRAY).owed
    apply(host, [Setting(ARRAY, names[1], threshold), Setting(ARRAY, names[0], cache)])
    assert put_back(host, owed) == ()
    assert seen(host, "preread_bypass_threshold") == "200"
