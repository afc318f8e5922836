"""Every error iotrial raises on purpose, as one tree.

::

    IotrialError                     exit code
    ├── UsageError                        2   a wrong argument
    │   └── StudyError                    2   a wrong study file: file, line, key
    ├── ExtraMissing                      2   needs a package that is not installed
    ├── FormatError                       2   bytes that are not what they claim to be
    ├── RefusedError                      3   refused for safety: reason and evidence
    │   ├── TargetRefused                 3   in use, not armed, not what it claims, no room
    │   └── SettingRefused                3   unreadable, out of domain, cannot be undone
    ├── OwedError                         4   values still owed to a host, each named
    ├── TrialError                        5   a trial could not be done
    │   ├── ToolMissing                   5   the load tool is not there or too old
    │   └── SettingLost                   5   what was read back is not what was written
    ├── HostError                         6   a host did not do what every host can
    │   ├── HostUnreachable               6
    │   └── FileRefused                   6   an open, read or write said errno
    ├── LockedError                      75   another iotrial is at work on this host
    └── Interrupted                     130   SIGINT or SIGTERM, and everything restored

A message says what, where, why, and what to do next.  Parts are attributes, so that a caller
never parses a message.  ``exit_code`` is the design's exit code for an error of that kind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache

_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""What others said, as it may be shown: a control character cannot act on a terminal.

    >>> print(printable("\x1b[2J"))
    \x1b[2J
    """
    return _ODD.sub(lambda found: ascii(found[0])[1:-1], text)


class IotrialError(Exception):
    """Base of the tree.  ``message`` says what and where; ``advice`` says what to do next."""

    exit_code = 2

    def __init__(self, message: str, *, advice: str = "") -> None:
        self.message = printable(message)
        self.advice = printable(advice)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class UsageError(IotrialError):
    exit_code = 2


class StudyError(UsageError):
    """A study file that cannot be meant: ``file``, ``line`` (1-based, 0 unknown), ``key``.
    ``refused`` are the settings that a host did not accept when they were tried."""

    refused: tuple[SettingRefused | SettingLost, ...] = ()

    def __init__(
        self, message: str, *, file: str = "", line: int = 0, key: str = "", advice: str = ""
    ) -> None:
        place = f"{file}:{line}" if line else file
        head = ": ".join(part for part in (place, key) if part)
        super().__init__(f"{head}: {message}" if head else message, advice=advice)
        self.file = file
        self.line = line
        self.key = key
        self.what = message


class ExtraMissing(IotrialError):
    """What was asked for needs ``package``, which is not installed."""

    exit_code = 2

    def __init__(self, message: str, *, package: str, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.package = package


class FormatError(IotrialError):
    exit_code = 2


class RefusedError(IotrialError):
    exit_code = 3


class TargetRefused(RefusedError):
    """``target`` is the name in the study; ``evidence`` are the facts that were seen."""

    def __init__(
        self, message: str, *, target: str = "", evidence: Sequence[str] = (), advice: str = ""
    ) -> None:
        named = "target" if target == "target" else f"target {target}"
        text = f"{named}: {message}" if target else message
        super().__init__("\n  ".join([text, *evidence]), advice=advice)
        self.target = target
        self.evidence = tuple(evidence)


class SettingRefused(RefusedError):
    """``tunable`` on ``device`` cannot be set to ``value`` here; ``everywhere``: nor anything
    else."""

    def __init__(  # noqa: PLR0913 (parts of one message, all by name)
        self,
        message: str,
        *,
        tunable: str = "",
        device: str = "",
        value: str = "",
        advice: str = "",
        everywhere: bool = False,
    ) -> None:
        super().__init__(message, advice=advice)
        self.tunable = tunable
        self.device = device
        self.value = value
        self.everywhere = everywhere


class OwedError(IotrialError):
    """``owed`` names each debt that could not be paid, one line each."""

    exit_code = 4

    def __init__(self, message: str, *, owed: Sequence[str] = (), advice: str = "") -> None:
        super().__init__("\n  ".join([message, *owed]), advice=advice)
        self.owed = tuple(owed)


class TrialError(IotrialError):
    exit_code = 5


class ToolMissing(TrialError):
    pass


class SettingLost(TrialError):
    """``tunable`` was written as ``value``, accepted, and something else was read back."""

    def __init__(
        self, message: str, *, tunable: str = "", value: str = "", advice: str = ""
    ) -> None:
        super().__init__(message, advice=advice)
        self.tunable = tunable
        self.value = value


class HostError(IotrialError):
    exit_code = 6


class HostUnreachable(HostError):
    pass


class FileRefused(HostError):
    """``path`` on ``host`` answered ``errno`` to ``act`` (read, write, list, remove)."""

    def __init__(self, host: str, act: str, path: str, errno: int) -> None:
        super().__init__(self.words(host, act, path, errno))
        self.host = host
        self.act = act
        self.path = path
        self.errno = errno

    @staticmethod
    def words(host: str, act: str, path: str, errno: int) -> str:
        """What the message says, for whoever has many refusals to tell and none to raise."""
        return f"{host}: {act} {path}: {_why(errno)}"


_why = lru_cache(os.strerror)


class LockedError(IotrialError):
    exit_code = 75


class Interrupted(IotrialError):
    exit_code = 130
