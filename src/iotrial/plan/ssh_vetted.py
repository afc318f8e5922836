"""What a configuration of ssh(1) may say that a study or an inventory names: pure.

Such a file comes with the study, and may be a stranger's.  So it may hold only what says where a
machine is and who logs in how; what executes a program, loads a library or writes a file here is
for the user's own ~/.ssh/config to say.

Source: ssh_config(5) and readconf.c of OpenSSH 10.2 (``Keyword=value``, quotes, comments).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.errors import StudyError
from iotrial.hosts.login import HARMLESS, is_known_hosts, why_not_named
from iotrial.plan.host_entry import refuse, text_of

_LINE = re.compile(r"([A-Za-z0-9]+)(?:[ \t]*=[ \t]*|[ \t]+)([^\x00-\x08\x0a-\x1f\x7f-\x9f]+)")
"""Narrower than readconf.c, which takes a quoted keyword, or one behind a ``=``, as well."""
_AUTHENTICATION = frozenset(
    (
        "challengeresponseauthentication",
        "gssapiauthentication",
        "hostbasedauthentication",
        "kbdinteractiveauthentication",
        "passwordauthentication",
        "pubkeyauthentication",
    )
)
_ONLY = {
    "checkhostip": ("no",),  # yes: ssh adds addresses to a file of known hosts, also where strict
    "controlmaster": ("no",),
    "controlpath": ("none",),
    "controlpersist": ("no", "0"),
    "forwardagent": ("no",),
    "identityagent": ("none", "SSH_AUTH_SOCK"),
    "permitlocalcommand": ("no",),
    "updatehostkeys": ("no",),
    **dict.fromkeys(_AUTHENTICATION, ("yes", "no")),
}
"""Keywords of which these values alone are harmless."""
_ALL = 0
"""The part that is about every host: before any Host line, or below ``Host *``."""
_ADVICE = "Put it into ~/.ssh/config, which iotrial uses by itself, and leave it out here."
_STRICT = "Say StrictHostKeyChecking yes in the same part, or UserKnownHostsFile /dev/null."


def vetted(raw: bytes, file: str) -> bool:
    """Whether the configuration names a file of known hosts.  Raises StudyError for what it may
    not say, with its line and keyword."""
    named: list[tuple[int, int]] = []
    strict: set[int] = set()
    loose, part = 0, 0
    for number, keyword, value in _lines(raw, file):
        if keyword == "host":
            part = _ALL if value == "*" else number
        elif is_known_hosts(keyword, value):
            named.append((part, number))
        elif keyword == "stricthostkeychecking":
            if value.strip('"').lower() == "yes":
                strict.add(part)
            else:
                loose = loose or number
    for part, number in named:
        # The first value that ssh finds counts: one looser line anywhere may be it.
        if loose or not strict & {part, _ALL}:
            raise _unsure(file, number)
    return bool(named)


def _lines(raw: bytes, file: str) -> Iterator[tuple[int, str, str]]:
    """Number, keyword in small letters and value of each line.  Raises StudyError."""
    for number, text in enumerate(text_of(raw, file).split("\n"), start=1):
        line = text.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise refuse(file, number, f"not plain ssh_config: {line[:60]!r}", _ADVICE)
        keyword, value = match[1].lower(), match[2].strip()
        if why := _acts(keyword, value):
            raise refuse(file, number, f"{match[1]} {why}", _ADVICE)
        yield number, keyword, value


def _unsure(file: str, number: int) -> StudyError:
    what = "a file of known hosts that ssh may write to: StrictHostKeyChecking is not yes for it"
    return refuse(file, number, what, _STRICT)


def _acts(keyword: str, value: str) -> str:
    """Why a line may not stand there, or ''."""
    word = value.strip('"')
    if keyword == "host":
        return ""
    if keyword in _ONLY:
        allowed = _ONLY[keyword]
        return "" if word in allowed else f"may be {' or '.join(allowed)} here, not {word[:60]!r}"
    if keyword not in HARMLESS:
        return "is not taken from such a file: it may have ssh execute, load or write something"
    return why_not_named(keyword, word)
