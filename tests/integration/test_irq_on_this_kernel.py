"""The affinity of an interrupt for real: of one that has never come, and is put back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.errors import SettingRefused
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake.parts.kernel import take_list
from iotrial.hosts.local import LocalHost
from iotrial.look.offer import Domains
from iotrial.look.refusals import obstacle
from iotrial.look.topology import topology
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.irq import RULES, listed, spread

pytestmark = [pytest.mark.root, pytest.mark.alone]

IRQS = Path("/proc/irq")
AFFINITY = tunable("irq.affinity")


def numbers() -> list[str]:
    return sorted(path.parent.name for path in IRQS.glob("[0-9]*/smp_affinity_list"))


def counts() -> dict[str, int]:
    """Interrupt → how often it came."""
    found = {}
    for line in Path("/proc/interrupts").read_text().splitlines():
        number, _, rest = line.partition(":")
        if number.strip().isdigit():
            words = rest.split()
            cpus = [word for word in words[: os.cpu_count()] if word.isdigit()]
            found[number.strip()] = sum(map(int, cpus))
    return found


@pytest.fixture
def idle() -> Iterator[str]:
    """An interrupt that has never come and can be moved; its affinity is checked afterwards."""
    came = counts()
    for number in numbers():
        path = IRQS / number / "smp_affinity_list"
        before = path.read_text()
        if came.get(number, 1) or listed(before.strip()) != "0-1":
            continue
        try:
            path.write_text(before)
        except OSError:
            continue
        yield number
        assert path.read_text() == before
        return
    pytest.skip("no interrupt here has never come and may go to the CPUs 0 and 1")


def test_the_affinity_of_an_idle_interrupt_is_held_and_given_back(idle: str) -> None:
    host = LocalHost()
    group = snapshot(host, ["irq.affinity"], idle)
    for value in ("0", "1", "0-1"):
        assert Domains(host).domain("irq.affinity", idle).refusal(value) == ""
        apply(host, [Setting(idle, "irq.affinity", value)])
        assert observe(host, AFFINITY, idle) == value
        assert put_back(host, group.owed) == ()


@pytest.mark.parametrize(
    "text", ["0", "1", "0,1", "1,0", "0-1", "00", "4096", "x", "1-0", "0-", "-1"]
)
def test_the_fake_takes_the_same_lists_as_the_kernel(idle: str, text: str) -> None:
    path = IRQS / idle / "smp_affinity_list"
    before = path.read_text()
    answers = []
    try:
        try:
            path.write_text(text)
            answers.append(path.read_text().strip())
        except OSError as error:
            answers.append(f"error {error.errno}")
    finally:
        path.write_text(before)
    try:
        answers.append(take_list(text, cpus=os.cpu_count() or 1))
    except OSError as error:
        answers.append(f"error {error.errno}")
    assert answers[0] == answers[1]


def test_every_affinity_here_is_spelt_as_we_spell_it() -> None:
    assert numbers()
    for number in numbers():
        value = observe(LocalHost(), AFFINITY, number)
        assert value == listed(value or ""), number


def test_an_interrupt_that_is_not_there_has_no_affinity() -> None:
    assert observe(LocalHost(), AFFINITY, "99999") is None


def test_every_rule_gives_each_interrupt_of_a_disk_here_a_cpu_that_is_online() -> None:
    """Nothing is written."""
    host, found = LocalHost(), 0
    for disk in host.list("/sys/block"):
        aim = PreparedTarget(Target(disk, "device", f"/dev/{disk}"), f"/dev/{disk}", disk, None)
        below = topology(host, aim)
        cpus, irqs = below.names("cpu"), below.names("irq")
        assert len(cpus) == len(os.sched_getaffinity(0)) or len(cpus) == os.cpu_count()
        for rule in RULES if irqs else ():
            if rule == "remote" and not any("numa" in dict(n.about) for n in below.nodes):
                with pytest.raises(SettingRefused):
                    spread(rule, irqs, below)
                continue
            given = spread(rule, irqs, below)
            assert set(given) == set(irqs)
            assert {f"cpu{cpu}" for cpu in given.values()} <= set(cpus)
            found += 1
    if not found:
        pytest.skip("no disk here has an interrupt of its own")


def test_files_of_interrupts_that_cannot_move_say_so_since_6_12() -> None:
    """Those that can be moved take what they have; the others have no permission to write."""
    modes = {number: (IRQS / number / "smp_affinity_list").stat().st_mode for number in numbers()}
    release = tuple(int(word) for word in re.findall("[0-9]+", os.uname().release)[:2])
    if release < (6, 12):
        pytest.skip("before 6.12 every file may be written")
    for number, mode in modes.items():
        said = obstacle(AFFINITY, number, {f"{IRQS}/{number}/smp_affinity_list": mode & 0o777})
        assert bool(said) is not bool(mode & 0o222)
        assert not said or "managed by the kernel" in said
    assert any(mode & 0o222 for mode in modes.values())
