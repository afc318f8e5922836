"""How a study says that ssh(1) reaches a machine, as words for ssh: pure.

What they may say is where a machine is and who logs in how.  What is executed on this machine is
for its user's own ssh_config(5) to say.
"""

from __future__ import annotations

import getopt
import re
import shlex
from collections.abc import Sequence

from iotrial.errors import UsageError

_GETOPT = "1246ab:c:e:fgi:kl:m:no:p:qstvxAB:CD:E:F:GI:J:KL:MNO:PQ:R:S:TVw:W:XYy"
"""ssh's own options (ssh.c of OpenSSH 9.2)."""
_LOGIN_ONLY = frozenset("46abBcCFiIJklmopvxyP")
"""Those that say how to reach a host.  The others make ssh do something else than we ask, or lend
that host the keys or the screen of whoever runs iotrial."""
HARMLESS = frozenset(
    """
    addressfamily batchmode bindaddress bindinterface certificatefile checkhostip ciphers
    compression connectionattempts connecttimeout forwardagent globalknownhostsfile
    gssapiauthentication hashknownhosts hostkeyalgorithms hostkeyalias hostname identitiesonly
    identityfile ipqos kexalgorithms loglevel macs nohostauthenticationforlocalhost
    passwordauthentication port preferredauthentications proxyjump pubkeyacceptedalgorithms
    pubkeyacceptedkeytypes pubkeyauthentication rekeylimit requiredrsasize serveralivecountmax
    serveraliveinterval stricthostkeychecking tcpkeepalive updatehostkeys user
    userknownhostsfile verifyhostkeydns visualhostkey
    """.split()  # noqa: SIM905 (a list of forty lines otherwise)
)
"""Options of ssh_config(5) that execute and load nothing.  Not ProxyCommand, LocalCommand,
KnownHostsCommand, PKCS11Provider, SecurityKeyProvider, Include, Match, XAuthLocation …"""
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NAMES = frozenset(("user", "hostname", "proxyjump"))
_ALIAS = re.compile(r"[A-Za-z0-9._:-]+")
_STRICT = "stricthostkeychecking"
_FILE = re.compile(r"(?!-)[\w./+@,:=-]+")
"""A name of a configuration.  With a jump host ssh(1) hands it to a shell, unquoted and with its
``%`` replaced (ssh.c and readconf.c, OpenSSH 9.2): a blank would make two words of it."""
_SPOILT = re.compile(r"""[\s\x00-\x1f\x7f-\x9f'`"$\\;&<>|(){}]""")
"""What ssh(1) since 9.6 refuses in a name as well (ssh.c valid_hostname): a ProxyCommand of the
user's own would hand it to a shell."""


def destination(where: str) -> list[str]:
    """``where``, as a study says it, as words for ssh: options, then the host.

    >>> destination("box7 -p 2222")
    ['-p', '2222', '--', 'box7']

    Raises UsageError for what is not one host.
    """
    options, host = login(where)
    # ssh(1) adds what it learns to a file of known hosts, unless it is strict; the first -o counts.
    strict = ["-o", "StrictHostKeyChecking=yes"] if names_known_hosts(options) else []
    return [*strict, *(word for pair in options for word in pair if word), "--", host]


def login(where: str) -> tuple[list[tuple[str, str]], str]:
    """``where`` as (option, value) pairs, the value '' of a switch, and the host.

    >>> login("box7 -p 2222")
    ([('-p', '2222')], 'box7')

    Raises UsageError for what is not one host.
    """
    try:
        words = shlex.split(where)
        first, rest = getopt.getopt(words, _GETOPT)
        more, left = getopt.getopt(rest[1:], _GETOPT)
    except (ValueError, getopt.GetoptError) as error:
        raise UsageError(f"ssh = {where!r}: {error}", advice=_HOW) from error
    odd = [option for option, _ in first + more if option[1] not in _LOGIN_ONLY]
    if odd or left or not rest:
        what = f"{(odd + left)[0]} is not a connection option" if odd + left else "no host"
        raise UsageError(f"ssh = {where!r}: {what}", advice=_HOW)
    if why := _acts(first + more, rest[0]):
        raise UsageError(f"ssh = {where!r}: {why}", advice=_HOW)
    return first + more, rest[0]


def _acts(options: Sequence[tuple[str, str]], host: str) -> str:
    """Why these words would have ssh(1) do something here, or mean no machine; or ''.

    What is executed on this machine is for its user's own ssh_config(5) to say, never for a study,
    an inventory or a results folder."""
    for option, value in options:
        if _ODD.search(value):
            return f"{option} {value!r} holds a control character"
        name, named = _parts(option, value)
        if option == "-I" or (option == "-o" and name not in HARMLESS):
            return f"{option} {value} may have ssh execute a program or load a library here"
        if name == "forwardagent" and named.strip('"').lower() != "no":
            return f"{option} {value} would lend that machine your keys"
        if option in ("-F", "-J", "-l", "-o") and (why := why_not_named(name, named)):
            return f"{option} {value!r} {why}"
    if names_known_hosts(options) and is_loose(options):
        return "ssh would write to the known hosts file: StrictHostKeyChecking must be yes"
    return "" if _is_name(host) else f"{host!r} does not name a host"


def _parts(option: str, value: str) -> tuple[str, str]:
    """The keyword of ssh_config(5) that an option is, in small letters, and its value; of a
    configuration, which no keyword names, the option."""
    if option != "-o":
        return {"-F": "-F", "-J": "proxyjump", "-l": "user"}.get(option, ""), value
    text = value.strip().strip('"')
    name = re.split(r"[\s=]", text, maxsplit=1)[0].lower()
    return name, re.split(r"\s*[\s=]\s*", text, maxsplit=1)[-1]


def why_not_named(keyword: str, value: str) -> str:
    """Why ``value`` cannot be the machine or user that a keyword (in small letters) names."""
    if keyword == "-F":
        return (
            ""
            if _FILE.fullmatch(value)
            else "contains characters that ssh may pass to a shell: rename it"
        )
    if keyword == "hostkeyalias":
        # Written into a file of known hosts as it is, whoever reads that file afterwards.
        return "" if _ALIAS.fullmatch(value) else "is not a host name"
    return "does not name a host or user" if keyword in _NAMES and not _is_name(value) else ""


def is_known_hosts(keyword: str, value: str) -> bool:
    """Whether a line of ssh_config(5) names a file of known hosts, which ssh(1) may write to."""
    if keyword not in ("userknownhostsfile", "globalknownhostsfile"):
        return False
    return value.strip('"') not in ("none", "/dev/null")


def names_known_hosts(options: Sequence[tuple[str, str]]) -> bool:
    """Whether one of the options does."""
    return any(is_known_hosts(*_parts(*pair)) for pair in options)


def is_loose(options: Sequence[tuple[str, str]]) -> bool:
    """Whether one of the options has ssh(1) take host keys that it does not know."""
    said = [value for name, value in (_parts(*p) for p in options) if name == _STRICT]
    return any(value.strip('"').lower() != "yes" for value in said)


def _is_name(word: str) -> bool:
    return bool(word) and not word.startswith("-") and not _SPOILT.search(word)


_HOW = 'Write it as for ssh(1): a name of ssh_config, or "user@host", or "-p 2222 user@host".'


def unreachable(where: str) -> tuple[str, str] | None:
    """Why ``where`` is no way to reach a machine, and what to write instead; None: it is one."""
    try:
        login(where)
    except UsageError as error:
        return error.message, error.advice
    return None
