"""What does a write to one knob change besides?  Measured, not believed.

Method: on a device that nobody uses, put every other knob into a *pose* away from its default,
write the knob, and see what else reads differently.  One pose low and one high, because some
couplings only ever raise (committing queue limits raises ``read_ahead_kb``) and others only
reset.  Knobs that exist only under one scheduler are measured by doing this under each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from iotrial.errors import FileRefused
from iotrial.execute.session import open_session
from iotrial.execute.settings.guard import locked
from iotrial.execute.settings.restore import RestoreReport, restore
from iotrial.hosts.places import journal_folder
from iotrial.hosts.steps import reads
from iotrial.model.host import Host
from iotrial.model.step import Ensure, Read, StepResult
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.target import Target
from iotrial.model.tunable import Domain, Tunable
from iotrial.tunables import families, tunable

_LOW, _HIGH = 1, 9
"""What a knob without choices is posed at, in multiples of its least value or of 8: small enough
to be taken by every kernel seen, unlike every default."""

_SCHEDULER = "queue.scheduler"
_LOOP_SIZE = 16 * 2**20

Values = dict[str, str]


def measure_moves(host: Host, device: str, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Knob → the names of the knobs of its family that changed when it was written.

    Writes to everything under the device's ``queue/``: only ever give it a device that was made
    for this and holds nothing.  All that can be read is put back at the end; what no file shows
    (bfq no longer managing ``wbt_lat_usec``) is not.  Knobs absent under the scheduler in force
    move nothing.  Raises UsageError for an unknown name, FileRefused for a write that is refused
    on the way back.
    """
    rows = families()["queue"]
    knobs = sorted({tunable(name) for name in names}, key=lambda knob: (knob.rank, knob.name))
    moved: dict[str, set[str]] = {knob.name: set() for knob in knobs}
    with _put_back(host, device, rows):
        # As it is comes first: once posed, wbt_lat_usec never follows the scheduler again.
        for pose in ({}, _posed(host, device, rows, _low), _posed(host, device, rows, _high)):
            pose |= {_SCHEDULER: _read(host, device, rows)[_SCHEDULER]}
            for knob in knobs:
                moved[knob.name] |= _moved_by(host, device, knob, pose)
    return {name: tuple(sorted(found)) for name, found in moved.items()}


def measure_on_a_loop(host: Host) -> dict[str, tuple[str, ...]]:
    """:func:`measure_moves` for every queue knob under every scheduler, on a loop device made for
    it and removed again.  Raises as a run does: locked, not root, no loop devices, no room.
    """
    target = Target("loop", "loop", size=_LOOP_SIZE)
    study = Study("What moves?", "knobs", (target,), (), (), Design(), DecisionRule(()))
    names = [row.name for row in families()["queue"]]
    moved: dict[str, set[str]] = {name: set() for name in names}
    with locked(host):
        restore(host, journal_folder(host))
        with open_session(host, study, results=Path(), payment=RestoreReport()) as session:
            device = session.aims["loop"].device
            knob = tunable(_SCHEDULER)
            for scheduler in knob.domain(host.read(knob.file(device))).choices:
                host.write(knob.file(device), scheduler.encode())
                for name, found in measure_moves(host, device, names).items():
                    moved[name].update(found)
    return {name: tuple(sorted(found)) for name, found in moved.items()}


def _moved_by(host: Host, device: str, knob: Tunable, pose: Values) -> set[str]:
    """What changes when each level of the knob is written, always from the same pose: a round trip
    for each."""
    rows = families()["queue"]
    posed, looks = _holds(device, rows, pose), [Read(row.probe(device)) for row in rows]
    moved: set[str] = set()
    for value in _levels(host, device, knob):
        # The level is written also where it is in force: no knob reads as a blank.
        written = Ensure(knob.probe(device), " ", knob.acts(device, value))
        answers = host.batch([*posed, *looks, written, *looks])
        before = _seen(rows, device, answers[len(posed) :][: len(looks)])
        after = _seen(rows, device, answers[-len(looks) :])
        moved |= {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
    host.batch(posed)
    return moved - {knob.name}


def _read(host: Host, device: str, rows: Sequence[Tunable]) -> Values:
    answers = host.batch([Read(row.probe(device)) for row in rows])
    return _seen(rows, device, answers)


def _seen(rows: Sequence[Tunable], device: str, answers: Sequence[StepResult]) -> Values:
    """The values of those that are there."""
    pairs = zip(rows, answers, strict=True)
    return {
        row.name: reads(row.probe(device), answer) or ""
        for row, answer in pairs
        if not answer.errno
    }


def _domain(host: Host, device: str, row: Tunable) -> Domain | None:
    try:
        return row.domain(host.read(row.file(device)))
    except FileRefused:
        return None


def _levels(host: Host, device: str, row: Tunable) -> tuple[str, ...]:
    """Values to write, the one in force among them: writing that again may move things too."""
    domain = _domain(host, device, row)
    if domain is None:
        return ()
    now = row.observe(host.read(row.file(device))) or ""
    return tuple(dict.fromkeys([*(domain.choices or (_low(domain), _high(domain))), now]))


def _low(domain: Domain) -> str:
    return domain.choices[0] if domain.choices else str(max(domain.low or 0, _LOW))


def _high(domain: Domain) -> str:
    return domain.choices[-1] if domain.choices else str(8 * max(domain.low or 0, _HIGH))


def _posed(
    host: Host, device: str, rows: Iterable[Tunable], pose: Callable[[Domain], str]
) -> Values:
    """The scheduler stays: posing it would take its own knobs away."""
    domains = {row.name: _domain(host, device, row) for row in rows if row.name != _SCHEDULER}
    return {name: pose(domain) for name, domain in domains.items() if domain is not None}


def _holds(device: str, rows: Sequence[Tunable], values: Mapping[str, str]) -> list[Ensure]:
    """Write what differs, in rank order; a refused value is left as it is."""
    return [
        Ensure(row.probe(device), values[row.name], row.acts(device, values[row.name]))
        for row in rows
        if row.name in values
    ]


@contextmanager
def _put_back(host: Host, device: str, rows: tuple[Tunable, ...]) -> Iterator[None]:
    start = _read(host, device, rows)
    try:
        yield
    finally:
        host.batch(_holds(device, rows, start))
