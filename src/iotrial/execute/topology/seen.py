"""Seen: what was read of a host so far, and what somebody would still like to know.

Whoever builds a tree asks as if everything were known; what is not known yet answers with
nothing and is noted.  Then all that was noted is read in one round trip and the tree is built
again, until nobody asks for anything new.  So each level of the machine costs one round trip,
however wide it is, and the code that follows the levels reads like code that just reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from iotrial.model.host import Host
from iotrial.model.step import Answer, Look, Probe

_MOST = 12
"""Round trips after which the tree is taken as it is: a machine is not that deep."""

Built = TypeVar("Built")


class Seen:
    """The answers so far.  Everything is text; '' is what is not there, is refused, or is not
    known yet."""

    def __init__(self) -> None:
        self._known: dict[Probe, str] = {}
        self._wanted: dict[Probe, None] = {}

    def text(self, path: str) -> str:
        """The content of a small file without its surrounding blanks."""
        return self._answer(Probe(path=path))

    def output(self, *argv: str) -> str:
        """What a command prints; nothing when it fails."""
        return self._answer(Probe(argv=argv))

    def said(self, *argv: str) -> tuple[str, ...]:
        """Its lines."""
        return tuple(self.output(*argv).splitlines())

    def names(self, folder: str) -> tuple[str, ...]:
        """Sorted names in a folder."""
        return self.said("ls", folder)

    def links(self, folder: str) -> dict[str, str]:
        """Where the links in a folder of /sys/class lead, as paths below /sys/devices.

        POSIX says how ls -l shows a link, so this also works where find has no -printf.
        """
        return _links(self.output("ls", "-l", folder))

    def _answer(self, probe: Probe) -> str:
        if probe not in self._known:
            self._wanted[probe] = None
        return self._known.get(probe, "")

    def learn(self, host: Host) -> bool:
        """Read all that was asked for in vain; False when there was nothing."""
        wanted = list(self._wanted)
        self._wanted.clear()
        if not wanted:
            return False
        answers = host.batch([Look(probe) for probe in wanted])
        for probe, answer in zip(wanted, answers, strict=True):
            if _went_meanwhile(probe, answer):
                continue  # not known, so that it is asked for again
            text = answer.raw.decode("utf-8", "surrogateescape") if answer.errno == 0 else ""
            self._known[probe] = text.replace("\0", "").strip()
        return True


def _went_meanwhile(probe: Probe, answer: Answer) -> bool:
    """Whether ls failed only because one of the links went while it looked at them."""
    listing = probe.argv[:2] == ("ls", "-l")
    return bool(listing and answer.errno and f"{probe.argv[2]}/" in answer.complaint)


@lru_cache(maxsize=16)
def _links(listed: str) -> dict[str, str]:
    """Asked again for every device, so parsed once: a machine may have thousands."""
    found = {}
    for line in listed.splitlines():
        head, arrow, goal = line.partition(" -> ")
        _, devices, below = goal.partition("/devices/")
        if arrow and devices:
            found[head.split()[-1]] = f"/sys/devices/{below}"
    return found


def build(host: Host, how: Callable[[Seen], Built]) -> Built:
    """What ``how`` builds once it has seen all it asks for."""
    seen = Seen()
    built = how(seen)
    for _ in range(_MOST):
        if not seen.learn(host):
            break
        built = how(seen)
    return built
