"""Jobs at the same time, or in turn: what they gave, and what they raised."""

import threading

import pytest

from iotrial.hosts.at_once import at_once


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
