"""Kernel parameters for real: what studies of 2007 and 2013 called tuned, held and given back.

The whole machine's parameters are changed for moments and put back by iotrial itself; each test
looks for itself that they are.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from iotrial.hosts.fake.proc import START, Sysctls
from stalls import stalled

pytestmark = [pytest.mark.root, pytest.mark.alone]

STUDY_OF_2007 = {
    "net.ipv4.ipfrag_low_thresh": "262144",
    "net.ipv4.ipfrag_high_thresh": "393216",
    "net.ipv4.tcp_rmem": "4096 87380 16777216",
    "net.ipv4.tcp_wmem": "4096 65536 16777216",
    "net.core.rmem_max": "16777216",
    "net.core.wmem_max": "16777216",
    "net.core.rmem_default": "262144",
    "net.core.wmem_default": "262144",
    "net.ipv4.ip_local_port_range": "1024 65000",
    "fs.file-max": "327679",
    "fs.aio-max-nr": "3145728",
    "sunrpc.tcp_slot_table_entries": "128",
    "vm.page-cluster": "40",
    "vm.lower_zone_protection": "1024",
    "vm.min_free_kbytes": "200000",
    "vm.swappiness": "0",
    "vm.dirty_background_ratio": "10",
    "vm.dirty_expire_centiseecs": "1000",
    "vm.dirty_ratio": "20",
    "vm.dirty_writeback_centiseecs": "100",
    "vm.vfs_cache_pressure": "40",
}
"""All tuned parameters of a study of I/O schedulers of 2007, as it printed them."""
FOR_A_PARALLEL_FILE_SYSTEM = {
    "vm.min_free_kbytes": "16384",
    "kernel.shmmax": "2147483648",
    "kernel.sem": "250 32000 100 128",
    "net.ipv4.tcp_moderate_rcvbuf": "0",
}
FOR_10GB = {
    "net.core.rmem_max": "16777216",
    "net.core.wmem_max": "16777216",
    "net.ipv4.tcp_wmem": "4096 65536 16777216",
    "net.ipv4.tcp_rmem": "4096 87380 16777216",
    "net.core.netdev_max_backlog": "30000",
}
"""Both groups of a study of a parallel file system's clients of 2013, each switched as one."""
NEAREST = {
    "vm.dirty_expire_centiseecs": "Did you mean dirty_expire_centisecs",
    "vm.dirty_writeback_centiseecs": "Did you mean dirty_writeback_centisecs",
    "vm.lower_zone_protection": "The nearest on this host is lowmem_reserve_ratio",
}
"""Two were misspelt then; lowmem_reserve_ratio came for the third one (Linux 2.6.12)."""
PAIRS = ("vm/dirty_bytes", "vm/dirty_background_bytes")

STUDY = """
question = "Does the tuning of 2007 matter?"
[targets.disk]
loop = {{ size = "16MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, runtime = "1s" }}
{factors}
[design]
blocks = 2
settle = "0s"
"""


def path(key: str) -> Path:
    return Path("/proc/sys", key.replace(".", "/"))


def now() -> dict[str, str]:
    """What every parameter of both studies, and what they move, reads."""
    pairs = (pair.replace("/", ".") for pair in PAIRS)
    keys = {*STUDY_OF_2007, *FOR_A_PARALLEL_FILE_SYSTEM, *FOR_10GB, *pairs}
    return {key: path(key).read_text() for key in sorted(keys) if path(key).exists()}


def factor(name: str, group: Mapping[str, str]) -> str:
    """A factor that switches a group as one, against the parameters as they are."""
    lines = "".join(f'"sysctl.{key}" = {json.dumps(value)}\n' for key, value in group.items())
    return (
        f'[factors.{name}]\nbaseline = "stock"\n[factors.{name}.levels.stock]\n'
        f"[factors.{name}.levels.tuned]\n{lines}"
    )


def run(tmp_path: Path, *factors: str, verb: str = "run") -> subprocess.CompletedProcess[str]:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(folder=tmp_path, factors="".join(factors)))
    out = ["--out", str(tmp_path / "results")] if verb == "run" else []
    return subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", verb, str(study), *out, "--json"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def trials(tmp_path: Path) -> Iterator[tuple[dict[str, str], dict[str, str], dict[str, str]]]:
    """Treatment, and what the parameters read before and after the load, of every trial."""
    for folder in sorted((tmp_path / "results" / "trials").iterdir()):
        planned = json.loads((folder / "trial.json").read_text())
        if stalled(planned):
            continue
        assert planned["state"] == "valid", planned
        before, after = (
            {
                tunable.removeprefix("sysctl."): value
                for _, tunable, value in json.loads((folder / f"{when}.json").read_text())
            }
            for when in ("before", "after")
        )
        yield planned["trial"]["treatment"], before, after


def values(group: Mapping[str, str], former: Mapping[str, str]) -> dict[str, str]:
    """The group's values where its keys exist here."""
    return {key: value for key, value in group.items() if key in former}


def plain(former: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: " ".join(former[key].split()) for key in keys}


def test_a_value_that_this_kernel_does_not_take_is_named_before_anything_is_written(
    tmp_path: Path, state: Path
) -> None:
    before = now()
    for verb in ("plan", "run"):
        done = run(tmp_path, factor("kernel", STUDY_OF_2007), verb=verb)
        assert done.returncode == 2, done.stderr
        assert "sysctl.vm.page-cluster: 40 is above 31" in done.stderr
    assert now() == before
    assert not (tmp_path / "results").exists()


def test_the_tuned_parameters_of_2007_are_in_force_under_their_level_only(
    tmp_path: Path, state: Path
) -> None:
    """All of them as printed, but for one value that 2.6 took and this kernel does not."""
    before = now()
    written = factor("kernel", STUDY_OF_2007).replace('= "40"\n', '= ["40", "5"]\n', 1)
    done = run(tmp_path, written)
    assert now() == before
    assert done.returncode == 0, done.stderr
    tuned = values(STUDY_OF_2007, before) | {"vm.page-cluster": "5"}
    assert len(tuned) >= 17
    seen = []
    for treatment, at_first, at_last in trials(tmp_path):
        wanted = tuned if treatment["kernel"] == "tuned" else plain(before, tuned)
        assert {key: at_first[key] for key in tuned} == wanted
        assert {key: at_last[key] for key in tuned} == wanted
        seen.append(treatment["kernel"])
    assert sorted(seen) == ["stock", "stock", "tuned", "tuned"]
    said = json.loads(run(tmp_path, written, verb="plan").stdout)["notes"]
    for key in set(STUDY_OF_2007) - set(tuned):
        (note,) = (note for note in said if f"sysctl.{key} " in note)
        assert "is not applicable here and skipped" in note
        assert NEAREST.get(key, "") in note
    assert not set(NEAREST) & set(before)


def test_both_groups_of_2013_are_switched_independently(tmp_path: Path, state: Path) -> None:
    before = now()
    groups = {"client": FOR_A_PARALLEL_FILE_SYSTEM, "nic": FOR_10GB}
    done = run(tmp_path, *(factor(name, group) for name, group in groups.items()))
    assert now() == before
    assert done.returncode == 0, done.stderr
    seen = []
    for treatment, at_first, at_last in trials(tmp_path):
        for name, group in groups.items():
            wanted = group if treatment[name] == "tuned" else plain(before, group)
            assert {key: at_first[key] for key in group} == wanted, treatment
            assert {key: at_last[key] for key in group} == wanted, treatment
        seen.append((treatment["client"], treatment["nic"]))
    levels = ("stock", "tuned")
    assert sorted(seen) == sorted(2 * [(one, other) for one in levels for other in levels])


def test_a_level_of_which_nothing_exists_is_refused(tmp_path: Path, state: Path) -> None:
    before = now()
    gone = {key: STUDY_OF_2007[key] for key in NEAREST}
    for verb in ("plan", "run"):
        done = run(tmp_path, factor("kernel", gone), verb=verb)
        assert done.returncode == 2, done.stderr
        for key, words in NEAREST.items():
            assert f"sysctl.{key}" in done.stderr
            assert words in done.stderr
    assert now() == before
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "key", ["kernel.core_pattern", "kernel.modules_disabled", "vm.drop_caches"]
)
def test_what_is_no_setting_to_try_is_refused(key: str, tmp_path: Path, state: Path) -> None:
    done = run(tmp_path, factor("kernel", {key: "1"}), verb="plan")
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
