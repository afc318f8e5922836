"""What a host makes of a study's levels: first available, names across kernels, not here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imitation import KERNELS
from iotrial.errors import FileRefused
from iotrial.hosts.fake import FakeHost
from iotrial.look.offer import offer, settled, wants
from iotrial.look.refusals import refusals
from iotrial.model.study import Study
from iotrial.model.target import Topology, TopologyNode
from iotrial.model.tunable import Domain
from iotrial.plan.available import with_available
from iotrial.plan.load import parse_study

DISK = {"disk": Topology.of_disk("fake0")}
TODAY = Domain(("none", "mq-deadline"), aliases=(("deadline", "mq-deadline"), ("noop", "none")))
BEFORE = Domain(("noop", "deadline", "cfq"), aliases=(("mq-deadline", "deadline"),))


def study(factors: str) -> Study:
    text = (
        '[targets.disk]\nloop = { size = "1GiB" }\n[workloads.read]\ntool = "fio"\n'
        f'options = {{ rw = "randread", runtime = "1s" }}\n{factors}'
    )
    return parse_study(text, "study.toml", lambda _name: "")


def levels(written: Study, factor: str) -> dict[str, dict[str, str]]:
    filled = with_available(written, offer(FakeHost(), written, DISK))
    return {level.label: dict(level.settings) for level in filled.factor(factor).levels}


def test_a_name_is_what_the_kernel_calls_it_on_old_and_new_kernels() -> None:
    assert settled("deadline", [TODAY]) == "mq-deadline"
    assert settled("mq-deadline", [BEFORE]) == "deadline"
    assert settled("none", [TODAY, TODAY]) == "none"
    assert settled("cfq", [TODAY]) is None
    assert settled("deadline", [TODAY, BEFORE]) is None


def test_the_first_alternative_that_the_kernel_takes_counts() -> None:
    written = study(
        '[factors.scheduler]\ntunable = "queue.scheduler"\n'
        'levels = [["cfq", "bfq"], ["noop", "none"], "kyber"]\n'
    )
    assert levels(written, "scheduler") == {
        "cfq/bfq": {"queue.scheduler": "bfq"},
        "noop/none": {"queue.scheduler": "none"},
        "kyber": {"queue.scheduler": "kyber"},
    }


def test_alternatives_that_are_all_refused_stay_as_written_and_are_named() -> None:
    written = study(
        '[factors.scheduler]\ntunable = "queue.scheduler"\nlevels = [["cfq", "as"], "none"]\n'
    )
    filled = with_available(written, offer(FakeHost(), written, DISK))
    (said,) = refusals(FakeHost(), filled, DISK)
    assert "level cfq/as: queue.scheduler: 'cfq' is not one of none" in said


def test_a_key_of_a_group_that_does_not_exist_is_left_out_with_the_nearest_name() -> None:
    written = study(
        "[factors.kernel.levels]\nstock = {}\n"
        'tuned = { "sysctl.vm.dirty_ratoi" = 30, "sysctl.vm.swappiness" = 10 }\n'
    )
    assert levels(written, "kernel")["tuned"] == {"sysctl.vm.swappiness": "10"}
    (note,) = offer(FakeHost(), written, DISK).notes(written)
    assert "sysctl.vm.dirty_ratoi is not applicable here and skipped" in note
    assert "Did you mean dirty_ratio" in note
    assert not list(
        refusals(FakeHost(), with_available(written, offer(FakeHost(), written, DISK)), DISK)
    )


def test_a_level_that_has_nothing_here_is_refused_not_emptied() -> None:
    written = study(
        "[factors.kernel.levels]\nstock = {}\n"
        'tuned = { "sysctl.vm.no_such" = 1, "sysctl.vm.nor_such" = 2 }\n'
    )
    filled = with_available(written, offer(FakeHost(), written, DISK))
    assert len(list(refusals(FakeHost(), filled, DISK))) == 2


def test_a_setting_goes_to_every_disk_below_and_a_named_thing_only_to_itself() -> None:
    paths = Topology(
        (
            TopologyNode("device", "dm-0", (("disk", "fake0"), ("disk", "fake1"))),
            TopologyNode("disk", "fake0"),
            TopologyNode("disk", "fake1"),
        )
    )
    written = study(
        '[factors.scheduler]\ntunable = "queue.scheduler"\nlevels = ["none", "bfq"]\n'
        '[factors.ahead]\ntunable = "queue.read_ahead_kb"\nlevels = [64, 128]\n'
        '[factors.only]\ntunable = "queue.nomerges"\nlevels = [0, 1]\non = "fake1"\n'
        '[factors.kernel]\ntunable = "sysctl.vm.swappiness"\nlevels = [0, 1]\n'
    )
    found = {each.name: each.devices for each in wants(written, {"disk": paths})}
    assert found == {
        "queue.scheduler": ("fake0", "fake1"),
        "queue.read_ahead_kb": ("dm-0",),
        "queue.nomerges": ("fake1",),
        "sysctl.vm.swappiness": ("",),
    }


def test_everything_is_asked_in_one_batch() -> None:
    class Counting(FakeHost):
        batches = 0

        def batch(self, steps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            self.batches += 1
            return super().batch(steps)

    host = Counting()
    written = study(
        '[factors.scheduler]\ntunable = "queue.scheduler"\nlevels = "available"\n'
        '[factors.kernel.levels]\na = {}\nb = { "sysctl.vm.swappiness" = 1 }\n'
    )
    offer(host, written, DISK)
    assert host.batches == 1


# -- how deep a queue may be, with which scheduler -------------------------------------------------

DEPTHS = (
    '[factors.scheduler]\ntunable = "queue.scheduler"\nlevels = ["none", "mq-deadline"]\n'
    '[factors.requests]\ntunable = "queue.nr_requests"\nlevels = [64, 256, 4096]\n'
    '[factors.merges]\ntunable = "queue.nomerges"\nlevels = [0, 1]\n'
)


def cells_refused(written: Study, host: FakeHost, below: dict[str, Topology]) -> list[str]:
    filled = with_available(written, offer(host, written, below))
    return list(refusals(host, filled, below))


def test_a_depth_that_no_cell_can_have_is_named_with_limit_place_and_remedy() -> None:
    none256, none4096, deadline4096 = cells_refused(study(DEPTHS), FakeHost(), DISK)
    assert none256.startswith("cell scheduler=none requests=256: queue.nr_requests: 256 on ")
    assert "its 128 tags (" in none256
    assert "Use 128 or less, or a scheduler" in none256
    assert none4096.startswith("cell scheduler=none requests=4096: ")
    assert deadline4096.startswith("cell scheduler=mq-deadline requests=4096: ")
    assert deadline4096.endswith("Use 2048 or less.")


def test_cells_that_are_left_out_are_not_refused() -> None:
    out = '[[exclude]]\nscheduler = "none"\nrequests = [256, 4096]\n[[exclude]]\nrequests = 4096\n'
    assert cells_refused(study(DEPTHS + out), FakeHost(), DISK) == []


def test_where_a_cell_sets_no_scheduler_the_one_in_force_counts() -> None:
    depth = '[factors.requests]\ntunable = "queue.nr_requests"\nlevels = [64, 256]\n'
    disk = study_of_device(depth)
    (said,) = cells_refused(disk, FakeHost(), DISK)
    assert "256 on fake0 is above its 128 tags (/sys/block/fake0/mq/0/nr_tags)" in said
    host = FakeHost()
    host.write("/sys/block/fake0/queue/scheduler", b"kyber")
    assert cells_refused(disk, host, DISK) == []
    assert cells_refused(study(depth), host, DISK)  # another disk stands in for a loop device


def study_of_device(factors: str) -> Study:
    text = (
        '[targets.disk]\ndevice = "/dev/fake0"\n[workloads.read]\ntool = "fio"\n'
        f'options = {{ rw = "randread", runtime = "1s" }}\n{factors}'
    )
    return parse_study(text, "study.toml", lambda _name: "")


@given(
    kernel=st.sampled_from(["6.1", "6.12", "6.18"]),
    scheduler=st.sampled_from(["none", "noop", "mq-deadline", "kyber", "bfq"]),
    requests=st.sampled_from([4, 127, 128, 129, 2047, 2048, 2049]) | st.integers(4, 10240),
)
def test_a_plan_refuses_a_depth_exactly_where_the_kernel_does(
    kernel: str, scheduler: str, requests: int
) -> None:
    written = study_of_device(
        "[factors.queue.levels]\nstock = {}\n"
        f'deep = {{ "queue.scheduler" = "{scheduler}", "queue.nr_requests" = {requests} }}\n'
    )
    host = FakeHost(kernel=KERNELS[kernel])
    said = cells_refused(written, host, DISK)
    host.write("/sys/block/fake0/queue/scheduler", scheduler.replace("noop", "none").encode())
    try:
        host.write("/sys/block/fake0/queue/nr_requests", str(requests).encode())
    except FileRefused:
        assert len(said) == 1
    else:
        assert said == []


@pytest.mark.parametrize("requests", [128, 129])
def test_every_stage_is_looked_at(requests: int) -> None:
    written = study_of_device(
        f'[factors.requests]\ntunable = "queue.nr_requests"\nlevels = [64, {requests}]\n'
        "baseline = 64\n"
        '[factors.scheduler]\ntunable = "queue.scheduler"\nlevels = ["none", "kyber"]\n'
        'baseline = "none"\n'
        '[[stage]]\nvary = ["scheduler"]\nthen = "narrow"\n'
        '[[stage]]\nvary = ["requests", "scheduler"]\n'
    )
    said = cells_refused(written, FakeHost(), DISK)
    assert [each.split(":")[0] for each in said] == (
        ["cell requests=129 scheduler=none"] if requests > 128 else []
    )
