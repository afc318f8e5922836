"""Family ``command``: settings that a command reads and another one writes, such as those of a
parallel file system or of an adapter's firmware.

No table can list them; a study defines its own, and uses it as ``command.NAME``::

    [knobs.rpcs]
    read = ["lctl", "get_param", "-n", "osc.work-OST0000-osc.max_rpcs_in_flight"]
    write = ["lctl", "set_param", "osc.work-OST0000-osc.max_rpcs_in_flight={value}"]

    [factors.rpcs]
    tunable = "command.rpcs"
    levels = [8, 32]

It is treated like any other: what ``read`` prints is kept before the first change, compared with
the level before and after each load, and written back with ``write`` at the end, by the guard after
a kill, and after a reboot.  So ``write`` must take what ``read`` prints: one value on one line.
Several, or none, could not be written back, and are refused before anything is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable, literal
from iotrial.tunables.file import UNMARKED

FAMILY = "command"
TITLE = "settings that a study reads and writes by commands"
TUNABLES: tuple[Tunable, ...] = ()


def rows(
    name: str, *, read: Sequence[str], write: Sequence[str], field: str = ""
) -> tuple[Tunable]:
    """The one row of a ``[knobs.NAME]`` with ``write``, in whose words ``{value}`` is the level."""

    def put(_device: str, value: str) -> tuple[Change, ...]:
        argv = tuple(word.replace("{value}", value) for word in write)
        return (Change("run", argv=(*UNMARKED, *argv)),)

    row = Tunable(
        name=f"{FAMILY}.{name}",
        path="",
        summary=f"what `{' '.join(read)}` says, set by `{' '.join(write)}`",
        layer="command",
        lasts="as the command says; it is written back after a reboot too",
        durable=True,
        rank=60,
        scope="host",
        read=tuple(literal(word) for word in read),
        pick="field" if field else "text",
        key=literal(field),
        domain=(lambda _printed: Domain()) if field else _one_value,
        how=put,
        source="the study",
    )
    return (row,)


def _one_value(printed: bytes) -> Domain:
    lines = len(printed.strip().splitlines())
    if lines == 1:
        return Domain()
    why = f"`read` prints {lines or 'no'} lines, and only one value can be written back"
    return Domain(rule=lambda _value: why)
