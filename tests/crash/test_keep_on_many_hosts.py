"""``iotrial keep … apply`` on two hosts, ended at every operation: on each host all of it or none;
on all hosts or on none but where the end comes between the last renames.

The hosts are pretended machines; what comes after an end is what each host's guard does by itself.
"""

from __future__ import annotations

import errno
import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pytest
from test_keep_is_all_or_nothing import FORMER, PROFILE, SYSCTL, prepared, seen

from deaths import HOWS
from iotrial.errors import HostUnreachable, Interrupted, RefusedError
from iotrial.execute.keep.keeping import undo
from iotrial.execute.keep.kept import find, kept
from iotrial.execute.keep.many_hosts import (
    HostOutcomes,
    HostProfile,
    apply,
    confirm,
    undone,
    verified,
)
from iotrial.hosts.fake import CrashHow, FakeHost, HostCrashed
from iotrial.keep.native import export
from iotrial.keep.profile import Profile

H = TypeVar("H", bound=FakeHost)
NAMES = ("box1", "box2")
SMALL = PROFILE.only([PROFILE.entries[0], PROFILE.entries[3]])
SHARES = {name: HostProfile(SMALL, export(SMALL).files) for name in NAMES}


class Linked(FakeHost):
    """A host whose link is lost, and not its controller, at the operation that is said."""

    def alive(self) -> Any:  # noqa: ANN401 (the machine)
        try:
            return super().alive()
        except HostCrashed:
            raise HostUnreachable(f"{self.name}: it no longer responds") from None

    def change(self, *words: Any, **more: Any) -> Any:  # noqa: ANN401 (as it is there)
        try:
            return super().change(*words, **more)
        except HostCrashed:
            raise HostUnreachable(f"{self.name}: it no longer responds") from None


class Controlled(FakeHost):
    """One of several hosts of a controller that dies at an operation counted over all of them."""

    others: Sequence[Controlled] = ()
    one_by_one = threading.Lock()
    dies_at = 0

    def change(self, *words: Any, **more: Any) -> Any:  # noqa: ANN401 (as it is there)
        with self.one_by_one:
            if sum(each.operations for each in self.others) + 1 == self.dies_at:
                self.crash_after = self.operations + 1
            try:
                return super().change(*words, **more)
            except HostCrashed:
                for each in self.others:
                    each._dead = True
                raise


def two(kind: type[H]) -> dict[str, H]:
    """box1 and box2, each with somebody's own file where one of ours will be."""
    hosts = {}
    for seed, name in enumerate(NAMES, start=1):
        host = kind(seed=seed)
        host.name = name
        host.machine.put(SYSCTL, FORMER, mode=0o640)
        hosts[name] = host
    return hosts


def before() -> object:
    return seen(prepared())


def after() -> object:
    hosts = two(FakeHost)
    assert apply(hosts, SHARES).error is None
    return seen(hosts["box1"])


def states(came: HostOutcomes) -> list[str]:
    return [each.state for each in came.outcomes]


def test_it_is_kept_on_both_differs_where_it_differs_and_goes_back_on_both() -> None:
    hosts = two(FakeHost)
    came = apply(hosts, SHARES)
    assert (states(came), came.error) == (["kept", "kept"], None)
    assert seen(hosts["box1"]) == seen(hosts["box2"]) != before()
    hosts["box2"].meddle("/proc/sys/vm/swappiness", b"50")
    found, errors = verified(hosts, "crash")
    assert errors == {}
    assert [len(found[name][1]) for name in NAMES] == [0, 1]
    assert found["box2"][1][0].found == "50"
    again = apply(hosts, SHARES)
    assert states(again) == ["as-before", "as-before"]
    assert isinstance(again.error, RefusedError)
    assert "is kept already" in again.error.message
    paid, errors = undone(hosts, "crash")
    assert (set(paid), errors) == (set(NAMES), {})
    assert [seen(hosts[name]) for name in NAMES] == [before(), before()]


def test_where_one_host_cannot_take_it_no_host_has_it() -> None:
    hosts = two(FakeHost)
    hosts["box2"].refuse["/etc/udev/*"] = errno.EROFS
    came = apply(hosts, SHARES)
    assert states(came) == ["as-before", "as-before"]
    assert came.outcomes[0].why == "failed on another host"
    assert "is not written" in came.outcomes[1].why
    assert isinstance(came.error, RefusedError)
    assert [seen(hosts[name]) for name in NAMES] == [before(), before()]
    assert kept(hosts["box1"]) == kept(hosts["box2"]) == ()


def test_whoever_asks_to_stop_at_any_step_gets_everything_back() -> None:
    asked = itertools.count()
    hosts = two(FakeHost)
    apply(hosts, SHARES, stop=lambda: next(asked))
    steps = next(asked)
    assert steps > 6
    for last in range(steps):
        count = itertools.count()

        def stop() -> None:
            if next(count) >= last:  # noqa: B023 (called in this turn)
                raise Interrupted("stopped")

        hosts = two(FakeHost)
        came = apply(hosts, SHARES, stop=stop)
        assert isinstance(came.error, Interrupted), last
        assert states(came) == ["as-before", "as-before"]
        assert [seen(hosts[name]) for name in NAMES] == [before(), before()], last


@pytest.mark.parametrize("how", HOWS)
def test_a_link_lost_at_any_operation_leaves_no_host_changed_but_in_the_last_rename(
    how: CrashHow,
) -> None:
    was, new = before(), after()
    whole = two(FakeHost)
    apply(whole, SHARES)
    log = whole["box2"].log
    rename = next(at for at, what in enumerate(log, start=1) if what.endswith(".kept"))
    for at in range(1, rename + 1):
        hosts = two(Linked)
        hosts["box2"].crash_after, hosts["box2"].crash_how = at, how
        came = apply(hosts, SHARES)
        assert isinstance(came.error, HostUnreachable)
        assert states(came)[0] == "as-before", (at, log[at - 1])
        assert seen(hosts["box1"]) == was, (at, log[at - 1])
        assert find(hosts["box1"], "crash") is None
        lost = hosts["box2"]
        lost.reconnect()
        if (there := find(lost, "crash")) and there.pending:
            undo(lost, "crash")
        expected = new if at == rename and how == "after" else was
        assert seen(lost) == expected, (at, log[at - 1])
        assert states(came)[1] == ("in-doubt" if at == rename else "lost")


def test_a_controller_that_dies_leaves_all_or_nothing_on_each_host() -> None:
    was, new = before(), after()
    whole = two(FakeHost)
    apply(whole, SHARES)
    operations = sum(each.operations for each in whole.values())
    mixed = []
    for at, how in itertools.product(range(1, operations + 1), HOWS):
        hosts = two(Controlled)
        for each in hosts.values():
            each.others, each.dies_at, each.crash_how = tuple(hosts.values()), at, how
        with pytest.raises(HostCrashed):
            apply(hosts, SHARES)
        for host in hosts.values():
            host.reconnect()
            host.dies_at = 0
            if (there := find(host, "crash")) and there.pending:
                undo(host, "crash")
        stays = [find(hosts[name], "crash") is not None for name in NAMES]
        assert [seen(hosts[name]) for name in NAMES] == [new if s else was for s in stays], at
        if any(stays):
            assert all(any("write" in what for what in h.log) for h in hosts.values())
        mixed += [at] if len(set(stays)) > 1 else []
    assert len(set(mixed)) <= 3, "only between the first rename and the last"


def pending(hosts: Mapping[str, FakeHost]) -> None:
    """As a try leaves it: in force, and waiting."""
    assert apply(hosts, SHARES).error is None
    for host in hosts.values():
        files = host.machine.files
        for path in [path for path in files if path.endswith("crash.kept")]:
            files[path.removesuffix(".kept") + ".journal"] = files.pop(path)


def test_it_is_confirmed_on_all_hosts_or_on_none() -> None:
    hosts = two(FakeHost)
    pending(hosts)
    assert states(confirm(hosts, "crash")) == ["kept", "kept"]
    again = confirm(hosts, "crash")
    assert isinstance(again.error, RefusedError)
    assert "kept already" in again.error.message

    hosts = two(FakeHost)
    pending(hosts)
    undo(hosts["box2"], "crash")
    came = confirm(hosts, "crash")
    assert "box2: crash is not in a trial period" in str(came.error)
    there = find(hosts["box1"], "crash")
    assert there is not None
    assert there.pending, "its own clock undoes it"


def test_a_host_that_is_lost_while_it_is_confirmed_keeps_no_other_from_going_back() -> None:
    was = before()
    for how in HOWS:
        hosts = two(Linked)
        pending(hosts)
        hosts["box2"].crash_after = hosts["box2"].operations + 1
        hosts["box2"].crash_how = how
        came = confirm(hosts, "crash")
        assert states(came) == ["as-before", "in-doubt"]
        assert "verify" in str(came.error)
        assert seen(hosts["box1"]) == was


def test_two_names_of_one_kernel_cannot_both_keep_what_belongs_to_it() -> None:
    hosts = two(FakeHost)
    hosts["box2"].machine.boot_id = hosts["box1"].machine.boot_id
    with pytest.raises(RefusedError, match="box1 and box2 share one kernel"):
        apply(hosts, SHARES)
    own = Profile("crash", (PROFILE.entries[0],))
    shares = {"box1": HostProfile(own, ()), "box2": HostProfile(SMALL.only([SMALL.entries[1]]), ())}
    assert apply(hosts, shares).error is None
