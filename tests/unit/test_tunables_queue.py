from __future__ import annotations

import pytest

from iotrial.hosts.fake.disk import IOSCHED, FakeQueue
from iotrial.tunables import tunable
from iotrial.tunables.queue import TUNABLES

SCHEDULER = tunable("queue.scheduler")

RAW = {
    "a 6.18 kernel": (b"[none] mq-deadline kyber bfq \n", "none", 4),
    "another in force": (b"none [mq-deadline] kyber bfq \n", "mq-deadline", 4),
    "a kernel with one": (b"[none] mq-deadline\n", "none", 2),
    "a device without a choice": (b"none\n", "none", 1),
}


@pytest.mark.parametrize(("raw", "in_force", "count"), RAW.values(), ids=RAW)
def test_the_scheduler_in_force_is_the_one_in_brackets(
    raw: bytes, in_force: str, count: int
) -> None:
    assert SCHEDULER.observe(raw) == in_force
    assert len(SCHEDULER.domain(raw).choices) == count


def test_a_scheduler_the_kernel_lacks_is_refused_by_name() -> None:
    domain = SCHEDULER.domain(b"[none] mq-deadline kyber bfq \n")
    assert domain.refusal("bfq") == ""
    assert "is not one of none, mq-deadline, kyber, bfq" in domain.refusal("cfq")
    assert "the name of 'deadline' on this host is 'mq-deadline'" in domain.refusal("deadline")
    assert "the name of 'noop' on this host is 'none'" in domain.refusal("noop")


def test_an_alias_needs_what_it_stands_for() -> None:
    assert "not one of" in SCHEDULER.domain(b"[none] bfq \n").refusal("deadline")


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("queue.nr_requests", "4", "3"),
        ("queue.nr_requests", "2048", "10241"),
        ("queue.nomerges", "2", "3"),
        ("queue.rq_affinity", "0", "7"),
        ("queue.rotational", "1", "2"),
        ("queue.max_sectors_kb", "4", "0"),
        ("queue.read_ahead_kb", "0", "-1"),
        ("queue.wbt_lat_usec", "0", "-1"),
        ("queue.iosched.slice_idle", "4294", "4295"),
        ("queue.iosched.read_expire", "500", "soon"),
    ],
)
def test_a_domain_ends_where_the_kernel_keeps_another_value(
    name: str, taken: str, refused: str
) -> None:
    domain = tunable(name).domain(b"1\n")
    assert domain.refusal(taken) == ""
    assert domain.refusal(refused)


@pytest.mark.parametrize("scheduler", [name for name in IOSCHED if name != "none"])
def test_every_file_of_every_scheduler_has_a_row(scheduler: str) -> None:
    names = {row.name for row in TUNABLES}
    assert {f"queue.iosched.{name}" for name in IOSCHED[scheduler]} <= names


@pytest.mark.parametrize("scheduler", IOSCHED)
def test_every_default_is_inside_its_domain(scheduler: str) -> None:
    files = FakeQueue(scheduler=scheduler).files()
    for row in TUNABLES:
        raw = files.get(row.path.partition("/queue/")[2])
        if raw is not None:
            assert row.domain(raw.encode()).refusal(row.observe(raw.encode())) == "", row.name
