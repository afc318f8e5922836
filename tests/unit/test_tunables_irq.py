from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import SettingRefused, UsageError
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.kernel import MANAGED, take_list
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.irq import listed

AFFINITY = tunable("irq.affinity")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0", ""),
        ("0-3,8", ""),
        ("0,1", "is read back as '0-1'"),
        ("3,1", "is read back as '1,3'"),
        ("0-1,1-2", "is read back as '0-2'"),
        ("00", "is read back as '0'"),
        ("3-1", "is not a list of CPUs"),
        ("", "is not a list of CPUs"),
        ("f", "is not a list of CPUs"),
        ("0-", "is not a list of CPUs"),
        ("0-99999999999", "is not a list of CPUs"),
        ("0\n", "is not a list of CPUs"),
    ],
)
def test_a_list_of_cpus_is_written_as_it_is_read_back(value: str, why: str) -> None:
    said = AFFINITY.domain(b"0-3\n").refusal(value)
    assert (why in said) if why else said == ""


@given(st.sets(st.integers(0, 300), min_size=1))
def test_the_spelling_of_the_kernel_is_kept(numbers: set[int]) -> None:
    spelt = listed(",".join(map(str, numbers)))
    assert listed(spelt) == spelt == take_list(spelt, cpus=301)


@pytest.mark.parametrize("code", [errno.EIO, errno.EPERM])
def test_an_interrupt_that_the_kernel_spreads_is_refused_with_the_reason(code: int) -> None:
    """EIO before Linux 6.12."""
    host = FakeHost(refuse={f"/proc/irq/{MANAGED}/*": code})
    with pytest.raises(SettingRefused, match="managed by the kernel") as caught:
        apply(host, [Setting(MANAGED, "irq.affinity", "0")])
    assert "its driver spreads them itself" in caught.value.message
    assert "root" not in caught.value.advice


def test_an_affinity_is_given_back() -> None:
    host = FakeHost()
    before = host.settings()
    group = snapshot(host, ["irq.affinity"], "42")
    apply(host, [Setting("42", "irq.affinity", "0,2-3")])
    assert observe(host, AFFINITY, "42") == "0,2-3"
    assert put_back(host, group.owed) == ()
    assert host.settings() == before


def test_a_managed_interrupt_that_is_only_held_as_it_is_is_not_written() -> None:
    host = FakeHost()
    apply(host, [Setting(MANAGED, "irq.affinity", "2")])
    assert host.operations == 0


@pytest.mark.parametrize("name", ["", "eth0", "../1", "-1", "1/2", "1 2"])
def test_what_is_no_number_is_no_interrupt(name: str) -> None:
    with pytest.raises(UsageError, match="no irq is named"):
        AFFINITY.probe(name)


def test_a_cpu_that_is_not_there_is_named_as_the_reason() -> None:
    with pytest.raises(SettingRefused, match="there are not so many CPUs"):
        apply(FakeHost(), [Setting("40", "irq.affinity", "99")])


def test_the_row_warns_of_irqbalance() -> None:
    assert "irqbalance" in AFFINITY.risk
    assert AFFINITY.moot
    assert AFFINITY.layer == "interrupts"
