"""Family ``file``: settings that live in a configuration file, such as those of a client or a
daemon: the file is written, a command makes it count, another says what is in force.

No table can list them; a study defines its own, and uses it as ``file.NAME``::

    [knobs.rsize]
    file = "/etc/client.conf"
    content = "rsize {value}\\n"
    reload = ["systemctl", "reload", "client"]
    read = ["client", "show", "rsize"]

    [factors.rsize]
    tunable = "file.rsize"
    levels = [65536, 131072]

Each is two tunables: the file itself, which is restored byte for byte (owner and mode kept; one
that was not there is removed again), and the value that ``read`` prints, which is what a trial is
about.  The file is restored first, then ``reload`` is run until ``read`` says what it said.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.model.step import ABSENT, Change
from iotrial.model.tunable import Tunable, literal

FAMILY = "file"
TITLE = "configuration files that a study names: written, reloaded, read back"
TUNABLES: tuple[Tunable, ...] = ()
UNMARKED = ("env", "-u", "IOTRIAL_LOAD", "-u", "IOTRIAL_AGENT")
"""A daemon that ``reload`` starts again is nobody's load: without these marks a restore, which
ends every process that has them, leaves it alone."""
_LASTS = "until another process writes the file again; a reboot keeps it"


def rows(  # noqa: PLR0913 (the keys of a table)
    name: str,
    *,
    file: str,
    content: str,
    reload: Sequence[str],
    read: Sequence[str],
    field: str = "",
) -> tuple[Tunable, Tunable]:
    """The two rows of one ``[knobs.NAME]``.  ``{value}`` in ``content`` and in the words of
    ``reload`` is the level."""

    def keep(_device: str, value: str) -> tuple[Change, ...]:
        if value == ABSENT:
            return (Change("remove", path=file),)
        return (Change("save", path=file, data=value),)

    def load(value: str) -> tuple[Change, ...]:
        argv = tuple(word.replace("{value}", value) for word in reload)
        return (Change("run", argv=(*UNMARKED, *argv)),) if argv else ()

    def put(_device: str, value: str) -> tuple[Change, ...]:
        return (Change("save", path=file, data=content.replace("{value}", value)), *load(value))

    def again(_device: str, value: str) -> tuple[Change, ...]:
        return load(value)

    written = Tunable(
        name=f"file.{name}.content",
        path=file,
        summary=f"the content of {file}",
        layer="file",
        lasts=_LASTS,
        durable=True,
        rank=40,
        scope="host",
        pick="whole",
        absent=ABSENT,
        how=keep,
        risk="A file with a NUL in it is not a text, and cannot be held.",
        source="the study",
    )
    in_force = Tunable(
        name=f"file.{name}",
        path="",
        summary=f"what `{' '.join(read)}` says, set through {file}",
        layer="file",
        lasts=_LASTS,
        durable=True,
        rank=60,
        moves=(written.name,),
        scope="host",
        read=tuple(literal(word) for word in read),
        pick="field" if field else "text",
        key=literal(field),
        how=put,
        back=again,
        source="the study",
    )
    return written, in_force


def problem(file: str) -> str:
    """Why a path cannot be the file of a knob, or ''.

    >>> problem("/sys/block/sda/queue/scheduler")
    '/sys/block/sda/queue/scheduler is a control file of the kernel, not a configuration file'
    """
    if not file.startswith("/") or file.endswith("/"):
        return f"{file!r} is not the absolute path of a file"
    if file.startswith(("/proc/", "/sys/", "/dev/")):
        return f"{file} is a control file of the kernel, not a configuration file"
    return ""
