"""``iotrial tune`` on a real loop device: a setting that throttles it is found among a dozen knobs,
proved, tried and taken back."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_killed_at_any_moment import iotrial

pytestmark = [
    pytest.mark.alone,
    pytest.mark.root,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed"),
]
SMALL = 4
"""KiB of a request: what throttles the disk.  Reads are of 1 MiB."""
MORE = (
    "queue.nr_requests=32,64", "queue.read_ahead_kb=32,512", "queue.iostats=0",
    "queue.add_random=1",
)  # fmt: skip
"""Knobs that are named, so that there are twelve at least whatever this machine has."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    backing = tmp_path / "disk"
    with backing.open("wb") as stream:
        stream.truncate(256 << 20)
    found = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=on", str(backing)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    former = setting(found).read_text()
    try:
        setting(found).write_text(str(SMALL))
        yield found
    finally:  # a loop device keeps its settings for who gets it next
        setting(found).write_text(former)
        subprocess.run(["losetup", "--detach", found], check=True)


def setting(disk: str) -> Path:
    return Path("/sys/block", Path(disk).name, "queue/max_sectors_kb")


def done(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        iotrial(*words), capture_output=True, text=True, timeout=1100, check=False
    )


def test_a_throttle_is_found_among_twelve_proved_tried_and_taken_back(
    disk: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    knobs = [word for each in MORE for word in ("--knobs", each)]
    ran = done("tune", disk, "--load", "read", "--for", "4m", *knobs, "--out", str(out), "--json")
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    choices = {each["factor"]: each for each in answer["choices"]}
    assert len(choices) >= 12
    assert setting(disk).read_text().strip() == str(SMALL), "everything is restored"
    found = choices["max_sectors_kb"]
    assert found["current"] == str(SMALL)
    assert int(found["new"]) > SMALL
    (proof,) = [each for each in answer["findings"] if each["stage"] == 3]
    assert proof["verdict"] == "better"
    # The proof ends as soon as its interval decides, which says little of where that begins.
    assert proof["ratio"] > 1.2, "by fio alone it is several times as fast"
    assert answer["recommendation"].startswith("Change ")
    expected = {each["factor"]: each for each in answer["search"]["expected"]}
    assert expected["max_sectors_kb"]["recommended"]
    tried = done("keep", str(out), "try", "--for", "60s", "--name", "tuned")
    assert tried.returncode == 0, tried.stderr
    try:
        assert setting(disk).read_text().strip() == found["new"]
    finally:
        back = done("keep", "tuned", "undo")
    assert back.returncode == 0, back.stderr
    assert setting(disk).read_text().strip() == str(SMALL)
