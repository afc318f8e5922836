"""Kernel parameters for real: what a study of 2007 called tuned, held and given back.

The whole machine's parameters are changed for moments and put back by iotrial itself; each test
looks for itself that they are.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.hosts.fake.sysctl import START, Sysctls

pytestmark = pytest.mark.root

TUNED = {
    "net.ipv4.ipfrag_low_thresh": "262144",
    "net.ipv4.ipfrag_high_thresh": "393216",
    "net.ipv4.tcp_rmem": "4096 87380 16777216",
    "net.ipv4.tcp_wmem": "4096 65536 16777216",
    "net.core.rmem_max": "16777216",
    "net.core.wmem_max": "16777216",
    "net.core.rmem_default": "262144",
    "net.core.wmem_default": "262144",
    "net.ipv4.ip_local_port_range": "1024 65000",
    "fs.aio-max-nr": "3145728",
    "vm.swappiness": "0",
    "vm.dirty_background_ratio": "10",
    "vm.dirty_ratio": "20",
    "vm.vfs_cache_pressure": "40",
}
"""What still exists of the tuned parameters of a study of 2007, in its values."""
PAIRS = ("vm/dirty_bytes", "vm/dirty_background_bytes")

STUDY = """
question = "Does the tuning of 2007 matter?"
[targets.disk]
loop = {{ size = "16MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, runtime = "1s" }}
[factors.kernel]
levels = {{ stock = {{}}, tuned = {{ {tuned} }} }}
baseline = "stock"
[design]
blocks = 2
settle = "0s"
"""


def there(key: str) -> bool:
    return path(key).exists()


def path(key: str) -> Path:
    return Path("/proc/sys", key.replace(".", "/"))


def now() -> dict[str, str]:
    keys = [*TUNED, *(pair.replace("/", ".") for pair in PAIRS)]
    return {key: path(key).read_text() for key in keys if there(key)}


def run(
    tmp_path: Path, tuned: dict[str, str], verb: str = "run"
) -> subprocess.CompletedProcess[str]:
    study = tmp_path / "study.toml"
    group = ", ".join(f'"sysctl.{key}" = "{value}"' for key, value in tuned.items())
    study.write_text(STUDY.format(folder=tmp_path, tuned=group))
    out = ["--out", str(tmp_path / "results")] if verb == "run" else []
    return subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", verb, str(study), *out, "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_group_of_parameters_is_in_force_under_its_level_only(
    tmp_path: Path, state: Path
) -> None:
    before = now()
    tuned = {key: value for key, value in TUNED.items() if there(key)}
    assert len(tuned) > 8
    done = run(tmp_path, tuned)
    assert now() == before
    assert done.returncode == 0, done.stderr
    for line in (tmp_path / "results" / "measurements.jsonl").read_text().splitlines():
        row = json.loads(line)
        held = {name: value for _, name, value in json.loads(row["before"])}
        if row["trial"]["treatment"]["kernel"] == "tuned":
            assert {key: held[f"sysctl.{key}"] for key in tuned} == tuned
        else:
            assert {key: held[f"sysctl.{key}"] for key in tuned} == {
                key: " ".join(before[key].split()) for key in tuned
            }


def test_names_that_do_not_exist_are_reported_with_the_nearest(tmp_path: Path, state: Path) -> None:
    before = now()
    for verb in ("plan", "run"):
        done = run(
            tmp_path,
            {"vm.dirty_expire_centiseecs": "1000", "vm.lower_zone_protection": "1024"},
            verb,
        )
        assert done.returncode == 2, done.stderr
        assert "Did you mean dirty_expire_centisecs" in done.stderr
        assert "vm.lower_zone_protection" in done.stderr
    assert now() == before
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "key", ["kernel.core_pattern", "kernel.modules_disabled", "vm.drop_caches"]
)
def test_what_is_no_setting_to_try_is_refused(key: str, tmp_path: Path, state: Path) -> None:
    done = run(tmp_path, {key: "1"}, "plan")
    assert done.returncode == 2, done.stderr
    assert key in done.stderr


@pytest.fixture
def parameters() -> Iterator[list[str]]:
    """Keys that may be written at random, put back afterwards in an order that works."""
    names = [
        "vm/dirty_ratio",
        "vm/dirty_bytes",
        "vm/dirty_background_ratio",
        "vm/dirty_background_bytes",
        "net/ipv4/ipfrag_low_thresh",
        "net/ipv4/ipfrag_high_thresh",
    ]
    former = {name: Path("/proc/sys", name).read_text() for name in names}
    yield names
    for _ in range(3):
        for name, value in former.items():
            if Path("/proc/sys", name).read_text() != value:
                try:
                    Path("/proc/sys", name).write_text(value)
                except OSError:
                    continue
    assert {name: Path("/proc/sys", name).read_text() for name in names} == former


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_fake_answers_random_writes_as_the_kernel_does(
    seed: int, parameters: list[str]
) -> None:
    chance = random.Random(seed)
    fake = Sysctls()
    fake.values |= {name: Path("/proc/sys", name).read_text().strip() for name in parameters}
    for step in range(200):
        name = chance.choice(parameters)
        value = str(chance.choice([0, 1, 5, 20, 100, 101, 8191, 8192, 300_000, 9_000_000, 10**8]))
        answers = []
        for write in (_kernel, fake.write):
            try:
                write(name, value)
                answers.append(0)
            except OSError as error:
                answers.append(error.errno or -1)
        assert answers[0] == answers[1], (step, name, value)
        real = {each: Path("/proc/sys", each).read_text().strip() for each in parameters}
        assert real == {each: fake.values[each] for each in parameters}, (step, name, value)


def _kernel(name: str, value: str) -> None:
    descriptor = os.open(f"/proc/sys/{name}", os.O_WRONLY)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def test_the_fake_begins_with_keys_that_exist_here() -> None:
    missing = [name for name in START if not Path("/proc/sys", name).exists()]
    assert missing == []
