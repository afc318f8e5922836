"""Every enumeration of deaths is counted, and the sum is said at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deaths import DEATHS, SHARE, Tally


@pytest.fixture(autouse=True)
def count(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test's sum goes with its report, from whichever process ran it."""
    DEATHS.clear()
    SHARE[:] = [1 if request.config.getoption("--all") else 3]  # as ``times``
    yield
    total = sum(DEATHS, Tally())
    request.node.user_properties += [("deaths", total.crashes), ("dying restores", total.again)]
