"""Every enumeration of deaths is counted, and the sum is said at the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from deaths import DEATHS, SHARE, Tally


@pytest.fixture(autouse=True)
def count(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test's sum goes with its report, from whichever process ran it."""
    DEATHS.clear()
    SHARE[:] = [1 if request.config.getoption("--all") else 7]
    yield
    total = sum(DEATHS, Tally())
    request.node.user_properties += [("deaths", total.crashes), ("dying restores", total.again)]


@pytest.fixture
def times(count: None) -> Callable[[int], int]:
    """How many deaths there are at least, of so many with ``--all``."""
    return lambda most: -(-most // SHARE[0])
