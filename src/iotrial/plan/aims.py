"""What the words TARGET… of ``iotrial saturate`` mean: on which host, and by which name.  Pure.

``/dev/sdb`` is here; ``root@box1:/dev/sdb`` is there, and ``box[1-4]:/dev/sdb`` on four hosts.  As
of scp(1), what stands before the first colon is a host, but where the word begins with a slash or
a dot.  ``here:/dev/sdb`` says of a target that it is on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from iotrial.plan.hostlist import expanded

HERE = "here"
ALONE = "target"
"""The name of the only target."""
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Where:
    """One target: ``path`` on the ``host``, by the name it has in the study, that ssh(1) reaches
    by ``ssh`` ('': this machine); ``name`` is the target's in the study."""

    host: str
    ssh: str
    path: str
    name: str = ALONE


def places(words: Sequence[str]) -> tuple[Where, ...]:
    """Every target that ``words`` name, each once, in their order.

    Raises ValueError for a word that says no host or no target, and for one that is there twice.
    """
    found = [pair for word in words for pair in _pairs(word)]
    for pair in found:
        if found.count(pair) > 1:
            raise ValueError(f"{':'.join(filter(None, pair))} is there twice")
    hosts: dict[str, str] = {}
    for ssh, _ in found:
        if ssh not in hosts:
            hosts[ssh] = _unused(_short(ssh), hosts.values())
    names: list[str] = []
    for _, path in found:
        stem = _ODD.sub("-", PurePosixPath(path).name).strip("-.") or ALONE
        names.append(_unused(stem, names) if len(found) > 1 else ALONE)
    return tuple(
        Where(hosts[ssh], ssh, path, name) for (ssh, path), name in zip(found, names, strict=True)
    )


def _pairs(word: str) -> Iterator[tuple[str, str]]:
    """(ssh, path) of each host that a word names."""
    host, colon, path = "", "", word
    if not word.startswith(("/", ".")):
        host, colon, path = word.rpartition(":")
        if ":/" in word:
            host, colon, path = word.partition(":/")
            path = f"/{path}"
    if not path or (colon and not host.strip()):
        raise ValueError(f"{word!r} names no {'target' if host else 'host'}")
    if not colon:
        yield "", word
        return
    for each in expanded([host]):
        yield ("" if each == HERE else each), path


def _short(ssh: str) -> str:
    """A name for the host that ssh(1) reaches by these words: ``-p 2222 root@box7`` is box7."""
    if not ssh:
        return HERE
    return _ODD.sub("-", ssh.rsplit(maxsplit=1)[-1].rpartition("@")[2]).strip("-.") or "host"


def _unused(name: str, taken: Iterable[str]) -> str:
    known = set(taken)
    numbered = (f"{name}-{number}" for number in range(2, len(known) + 3))
    return next(each for each in (name, *numbered) if each not in known)
