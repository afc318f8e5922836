"""Jobs at the same time, or in turn: what they gave, and what they raised."""

import _thread
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from iotrial.errors import HostUnreachable, LockedError, OwedError
from iotrial.hosts.at_once import Pool, at_once, unreached
from iotrial.model.study import StudyHost


@pytest.mark.parametrize("in_turn", [False, True])
def test_what_jobs_give_and_raise_is_told_by_name(*, in_turn: bool) -> None:
    wrong = ValueError("no")

    def fails() -> str:
        raise wrong

    found, errors = at_once({"a": lambda: "one", "b": fails, "c": lambda: "three"}, in_turn=in_turn)
    assert found == {"a": "one", "c": "three"}
    assert errors == {"b": wrong}


@pytest.mark.parametrize("in_turn", [False, True])
def test_what_is_no_mere_error_is_raised(*, in_turn: bool) -> None:
    def dies() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        at_once({"a": dies, "b": lambda: None}, in_turn=in_turn)


def test_jobs_wait_for_each_other() -> None:
    met = threading.Barrier(3)
    found, errors = at_once({name: lambda: met.wait(10) for name in "abc"})
    assert sorted(found.values()) == [0, 1, 2]
    assert not errors


def test_in_turn_nothing_leaves_the_thread_that_asks() -> None:
    found, _ = at_once(dict.fromkeys("abc", threading.get_ident), in_turn=True)
    assert [*found] == [*"abc"]
    assert set(found.values()) == {threading.get_ident()}


class Doors:
    """Opens hosts, and knows which are; ``wrong`` is raised by one, by its name, when it is opened
    (``a``) or closed (``a_``)."""

    def __init__(self, **wrong: Exception) -> None:
        self.wrong = wrong
        self.open: list[str] = []

    @contextmanager
    def enter(self, place: StudyHost) -> Iterator[str]:
        if place.name in self.wrong:
            raise self.wrong[place.name]
        self.open.append(place.name)
        try:
            yield place.name.upper()
        finally:
            self.open.remove(place.name)
            if f"{place.name}_" in self.wrong:
                raise self.wrong[f"{place.name}_"]


PLACES = tuple(map(StudyHost, "abc"))


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_pool_has_what_can_be_opened_and_closes_it(*, in_turn: bool) -> None:
    doors = Doors(b=HostUnreachable("b: cannot connect"))
    with Pool(PLACES, doors.enter, in_turn=in_turn) as pool:
        pool.open()
        assert (pool.opened, [*pool.lost]) == ({"a": "A", "c": "C"}, ["b"])
        del doors.wrong["b"]
        assert pool.renew("b") == "B"
        assert ([*pool.opened], doors.open.count("b")) == (["a", "b", "c"], 1)
        assert pool.close(["a"]) == {}
        assert ([*pool.opened], sorted(doors.open)) == (["b", "c"], ["b", "c"])
    assert doors.open == []


def test_whatever_closing_one_raises_the_others_are_closed() -> None:
    lost, owed = HostUnreachable("c: the connection is lost"), OwedError("b: 1 thing")
    doors = Doors(c_=lost)
    with Pool(PLACES, doors.enter) as pool:
        pool.open()
    assert doors.open == []
    doors = Doors(b_=owed, c_=lost)
    with pytest.raises(OwedError, match="b: 1 thing"), Pool(PLACES, doors.enter) as pool:
        pool.open()
    assert doors.open == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is not ignored, as it is in what nohup or a script began in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_hosts_are_opened_closes_those_that_were() -> None:
    doors, slow = Doors(), threading.Event()

    @contextmanager
    def enter(place: StudyHost) -> Iterator[str]:
        if place.name == "a":
            _thread.interrupt_main()
            slow.set()
        else:
            slow.wait(10)
            time.sleep(0.2)  # it is open only after whoever asked has been interrupted
        with doors.enter(place) as opened:
            yield opened

    with pytest.raises(KeyboardInterrupt), Pool(PLACES, enter) as pool:
        pool.open()
    assert doors.open == []


def test_each_host_that_cannot_be_opened_is_named_and_the_gravest_decides() -> None:
    errors = {"a": HostUnreachable("a: cannot connect"), "b": HostUnreachable("b: cut")}
    said = unreached(errors)
    assert isinstance(said, HostUnreachable)
    assert said.message == "a: cannot connect; b: cut"
    locked = LockedError("c: another iotrial is at work here")
    assert unreached({**errors, "c": locked}) is locked
    assert unreached({}) is None
    with pytest.raises(KeyError):
        unreached({"a": KeyError("a mistake of ours")})
