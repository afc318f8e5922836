"""Memory settings for real: held, read back, given back; a compressed disk says why it is none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.errors import FileRefused, SettingRefused
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake.parts.kernel import Memory
from iotrial.hosts.local import LocalHost
from iotrial.model.tunable import Setting, Tunable
from iotrial.tunables import tunable
from iotrial.tunables.mm import TUNABLES

pytestmark = [pytest.mark.root, pytest.mark.alone]

HOST = [each for each in TUNABLES if each.scope == "host"]
ZRAM = Path("/sys/class/zram-control")
_MIB16 = str(16 * 2**20)


@pytest.mark.parametrize("row", HOST, ids=lambda row: row.name)
def test_every_choice_is_held_and_given_back(row: Tunable) -> None:
    host = LocalHost()
    if not Path(row.path).exists():
        pytest.skip(f"this kernel has no {row.path}")
    before = Path(row.path).read_text()
    group = snapshot(host, [row.name], "")
    choices = row.domain(before.encode()).choices
    assert len(choices) >= 2
    try:
        for choice in choices:
            apply(host, [Setting("", row.name, choice)])
            assert observe(host, row, "") == choice
    finally:
        assert put_back(host, group.owed) == ()
    assert Path(row.path).read_text() == before


@pytest.mark.parametrize("seed", [1, 2])
def test_the_fake_answers_random_writes_as_the_kernel_does(seed: int) -> None:
    host, fake, chance = LocalHost(), Memory(), random.Random(seed)
    files = [path for path in fake.controls() if Path(path).exists() and not path.endswith("run")]
    if not files:
        pytest.skip("this kernel has no transparent huge pages")

    def fake_write(path: str, data: bytes) -> None:
        take = fake.controls()[path].take
        assert take is not None
        take(data.decode())

    words = {path: tunable_of(path).observe(host.read(path)) or "" for path in files}
    for path, word in words.items():
        fake_write(path, word.encode())
    values = ["always", "madvise", "never", "defer", "defer+madvise", "0", "1", "2", "x", "-1"]
    try:
        for _ in range(80):
            path, value = chance.choice(files), chance.choice(values)
            answers = []
            for write in (host.write, fake_write):
                try:
                    write(path, value.encode())
                    answers.append(0)
                except (FileRefused, OSError) as error:
                    answers.append(error.errno or -1)
            assert answers[0] == answers[1], (path, value)
            for each in files:
                assert host.read(each).decode().strip() == fake.controls()[each].value, value
    finally:
        for path, word in words.items():
            host.write(path, word.encode())


def tunable_of(path: str) -> Tunable:
    return next(each for each in HOST if each.path == path)


@pytest.fixture
def zram() -> Iterator[str]:
    """The kernel name of a new compressed disk without a size."""
    if not (ZRAM / "hot_add").exists():
        pytest.skip(f"this kernel has no {ZRAM}/hot_add")
    name = f"zram{(ZRAM / 'hot_add').read_text().strip()}"
    try:
        yield name
    finally:
        (ZRAM / "hot_remove").write_text(name.removeprefix("zram"))


def test_a_compressed_disk_takes_its_settings_once_and_is_no_factor(zram: str) -> None:
    """The reason why both rows say `reload`: once there is a size, nothing can be undone."""
    host = LocalHost()
    algorithm, size = tunable("mm.zram_algorithm"), tunable("mm.zram_size")
    assert algorithm.reload
    assert size.reload
    raw = host.read(algorithm.file(zram))
    former = algorithm.observe(raw)
    other = next(each for each in algorithm.domain(raw).choices if each != former)
    apply(host, [Setting(zram, algorithm.name, other)])
    apply(host, [Setting(zram, size.name, _MIB16)])
    for name, value in ((algorithm.name, former or ""), (size.name, "0")):
        with pytest.raises(SettingRefused):
            apply(host, [Setting(zram, name, value)])
    assert observe(host, algorithm, zram) == other
    assert observe(host, size, zram) == _MIB16
