"""udev rules that write settings: a writer that comes whenever a device is added or changed.

A rule is applied again at every *change* event, and udev itself makes one when a program that had
the whole disk open for writing closes it (``OPTIONS+="watch"``, udev(7)): so a load on a disk can
be what brings a rule's value back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from iotrial.execute import look
from iotrial.model.host import Host

FOLDERS = (
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
)
"""As udev(7) reads them: of files with the same name, the one in the first folder counts."""

_WRITES = re.compile(
    r"""(?:ATTR\{(?P<file>(?:queue|device|bdi|md|parameters)/[^}]+|read_ahead_kb|mtu|tx_queue_len)\}
    |SYSCTL\{(?P<key>[^}]+)\})\s*[+:]?=(?!=)""",
    re.VERBOSE,
)
"""An assignment; ``==`` and ``!=`` only ask."""


def rules(host: Host) -> tuple[str, ...]:
    """Each rule that writes a setting: ``/etc/udev/rules.d/60-disk.rules:3 (queue/scheduler)``.

    Several round trips: one for each folder, one for all files.
    """
    files: dict[str, str] = {}
    for folder in FOLDERS:
        for name in look.names(host, folder):
            if name.endswith(".rules"):
                files.setdefault(name, f"{folder}/{name}")
    said = look.contents(host, [files[name] for name in sorted(files)])
    return tuple(
        f"{path}:{number} ({', '.join(what)})"
        for path, data in said.items()
        for number, what in written(data.decode("utf-8", "replace"))
    )


def written(text: str) -> Iterable[tuple[int, list[str]]]:
    """(line, what is assigned there) of a rules file.  Pure.

    A backslash at the end of a line joins it with the next one, also in a comment (udev(7)).

    >>> list(written('# ATTR{queue/scheduler}="x"\\nATTR{queue/rotational}=="1", \\\\\\n'
    ...              '  ATTR{queue/scheduler}="bfq"'))
    [(2, ['queue/scheduler'])]
    """
    whole, began = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        began = began if whole else number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        rule, whole = (whole + line).strip(), ""
        found = [match["file"] or match["key"] for match in _WRITES.finditer(rule)]
        if found and not rule.startswith("#"):
            yield began, list(dict.fromkeys(found))
