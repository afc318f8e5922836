"""A run on nodes of Slurm's that is lost at random moments: nobody calls ``restore``."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from test_slurm import Site, cluster, lab, site

from lab import why_not
from moments import wait_until

__all__ = ["cluster", "lab", "site"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

KILLS, SOME = 20, 3
LATEST = 8.0
"""Seconds after the start; a run of the study below takes about as long."""


def often(times: Callable[[int], int]) -> int:
    """With ``--all`` all of them; a run and its end take some five seconds."""
    return KILLS if times(KILLS) == KILLS else SOME


def test_a_controller_that_is_killed_leaves_no_job_and_nothing_changed(
    site: Site, times: Callable[[int], int]
) -> None:
    before, moments, struck, many = site.seen(), random.Random(1), 0, often(times)
    for number in range(many):
        process = site.run()
        wait_until(number, many, moments.uniform(0.3, LATEST), site.owed)
        process.kill()
        process.wait()
        struck += bool(site.owed())
        site.clean(before)
    assert struck, "no kill fell into a session"


def test_a_job_that_is_cancelled_leaves_nothing_changed(
    site: Site, times: Callable[[int], int]
) -> None:
    before, moments, struck, many = site.seen(), random.Random(2), 0, often(times)
    for number in range(many):
        process = site.run(runtime="0.5s")
        site.until(lambda: any("RUNNING" in each for each in site.cluster.jobs))
        wait_until(number, many, moments.uniform(0.0, LATEST), site.owed)
        struck += bool(site.owed())
        site.cluster.do("scancel", "--user=root")
        assert process.wait(200) in (0, 4, 6), site.said
        site.clean(before)
    assert struck, "no job was cancelled within a session"


def test_a_node_whose_slurmd_is_killed_leaves_nothing_changed(
    site: Site, times: Callable[[int], int]
) -> None:
    """The steps of its job live on without it; the job is ended while it is gone."""
    before, moments, struck, many = site.seen(), random.Random(3), 0, often(times)
    for number in range(many):
        process = site.run(runtime="0.5s")
        site.until(lambda: any("RUNNING" in each for each in site.cluster.jobs))
        wait_until(number, many, moments.uniform(0.0, LATEST), site.owed)
        struck += bool(site.owed())
        os.kill(site.cluster.daemon("n1"), signal.SIGKILL)
        process.send_signal(signal.SIGTERM)
        # One that has its nodes, and has not begun, ends as any program does.
        assert process.wait(300) in (0, 4, 5, 6, 130, -signal.SIGTERM), site.said
        site.cluster.serve("n1")
        site.clean(before)
        site.cluster.free()
    assert struck, "no slurmd was killed within a session"


def test_a_reservation_is_made_for_a_run_and_deleted_after_it(
    site: Site, state: Path, times: Callable[[int], int]
) -> None:
    before, moments, found, many = site.seen(), random.Random(4), 0, often(times)
    reserve = ("--reserve", "Nodes=n[1-2] Duration=20")
    process = site.run(*reserve)
    site.until(lambda: "iotrial-" in site.reservations)
    assert process.wait(200) == 0, site.said
    assert "reservation iotrial-" in site.said
    assert "iotrial-" not in site.reservations
    for number in range(many):
        process = site.run(*reserve)
        moment = moments.uniform(0.3, LATEST)
        wait_until(number, many, moment, lambda: "iotrial-" in site.reservations)
        found += "iotrial-" in site.reservations
        process.kill()
        process.wait()
        site.clean(before)
        site.until(lambda: "iotrial-" not in site.reservations)
        site.until(lambda: not list((state / "journal.d").glob("*.journal")))
    assert found, "no kill fell into a reservation"
