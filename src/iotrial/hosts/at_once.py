"""Jobs done at the same time, a thread each, and what came of them.

Pretended hosts make nobody wait: a thread for each would only compete for the interpreter.  They
are worked on one after another, without threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(
    jobs: Mapping[str, Callable[[], T]], *, in_turn: bool = False
) -> tuple[dict[str, T], dict[str, Exception]]:
    """Do all jobs at the same time, or ``in_turn``; gives back what they gave, and what they
    raised, by name."""
    found: dict[str, T] = {}
    errors: dict[str, Exception] = {}
    if in_turn or len(jobs) <= 1:
        for name, job in jobs.items():
            try:
                found[name] = job()
            except Exception as raised:  # noqa: BLE001 (given back, and raised by whoever asked)
                errors[name] = raised
        return found, errors
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        futures = {name: pool.submit(job) for name, job in jobs.items()}
    for name, future in futures.items():
        error = future.exception()
        if error is None:
            found[name] = future.result()
        elif isinstance(error, Exception):
            errors[name] = error
        else:
            raise error
    return found, errors
