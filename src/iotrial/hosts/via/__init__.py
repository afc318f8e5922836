"""Ways to reach a host, one file each: a module here with a ``HOST`` is a plugin.

A host is named as ``NAME://TO``, or in the words of ssh(1), or not at all: this machine.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace

from iotrial.errors import RefusedError, UsageError
from iotrial.model.host import Access, Connector, Host
from iotrial.model.study import StudyHost
from iotrial.plugins import one, plugins

_VIA = re.compile(r"([a-z0-9][a-z0-9_+-]*)://(.*)", re.DOTALL)
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SAID_OTHERWISE = {
    "local": "Remove it for this host.",
    "ssh": 'Write ssh = "user@host".',
    "fake": "Use --pretend for a simulated host.",
}


def is_via(word: str) -> bool:
    """Whether a word names a host by a connector; ssh(1) itself knows ``ssh://``."""
    found = _VIA.fullmatch(word)
    return found is not None and found[1] != "ssh"


def connector(name: str) -> Connector:
    """The connector of this name.  Raises UsageError with the nearest one, and where two plugins
    have the name."""
    if found := one("hosts", name):
        value: Connector = found.value
        return value
    known = [each.name for each in plugins("hosts") if each.name not in _SAID_OTHERWISE]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]!r}?  " if near else ""
    raise UsageError(
        f"no plugin reaches hosts by {name}://",
        advice=f"{advice}There are: {', '.join(known) or 'none'} (iotrial plugins --all).",
    )


def problem_of(via: str) -> tuple[str, str] | None:
    """What is wrong with ``NAME://TO``, and what to do; None: nothing."""
    found = _VIA.fullmatch(via)
    if found is None or _ODD.search(via):
        return f"{via!r} does not name a host", 'For example via = "nsenter://1234": NAME://TO.'
    name, to = found.groups()
    if name in _SAID_OTHERWISE:
        return f"{name} is not for via", _SAID_OTHERWISE[name]
    try:
        said = connector(name).check(to)
    except UsageError as error:
        return error.message, error.advice
    return (said, "`iotrial plugins` says where that plugin comes from.") if said else None


def need_chosen(vias: Iterable[str], whose: str, advice: str) -> None:
    """Raise RefusedError where one of these ways is a command, which whoever wrote ``whose`` would
    have executed on this machine."""
    for via in vias:
        name, mark, to = via.partition("://")
        if mark and connector(name).executes:
            raise RefusedError(f"{whose} would execute a command on this host: {to}", advice=advice)


def reached(place: StudyHost, access: Access) -> AbstractContextManager[Host]:
    """The host at a place, by its connector.  Raises UsageError, HostUnreachable."""
    if not place.via:
        return connector("ssh" if place.ssh else "local").connect(replace(access, to=place.ssh))
    if wrong := problem_of(place.via):
        raise UsageError(wrong[0], advice=wrong[1])
    name, _, to = place.via.partition("://")
    return connector(name).connect(replace(access, to=to))
