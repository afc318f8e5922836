"""An entry of a profile, and what may be kept at all: the one look at every text of a profile,
wherever it comes from; and the conflict with who else sets the same, which the wing of lint finds.

A profile is made of a results folder, or of a file; both may be somebody else's, and what is
written is read later by programs that run as root.  So a text is printable, on one line, and of
the form that its place has; a setting is one of the catalogue's, and never one whose commands or
files a study defines.  Each format then refuses what only it cannot hold (``takes``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import normpath
from typing import Literal

from iotrial.errors import UsageError
from iotrial.hosts.login import login
from iotrial.model.tunable import Tunable
from iotrial.tunables import tunable
from iotrial.tunables.boot import FAMILY, KERNEL, UNSET

_LONGEST = 1024
_OF_STUDY = ("file.", "command.")
_FORMS = {
    "ids": re.compile(r"[a-z][a-z0-9_]*"),
    "wwid": re.compile(r"[!-~]+(?: +[!-~]+)*"),
    "md_uuid": re.compile(r"[0-9A-Fa-f:-]+"),
    "address": re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}"),
    "port_name": re.compile(r"(?:0x)?[0-9A-Fa-f]+"),
    "options": re.compile(r"[A-Za-z0-9_.:/+=@,\[\]-]+"),
}
"""Of kinds of identity that have a form; of all others any printable text."""
_NOT_SHOWN = re.compile(r"(?i)x-|helper=|comment=|loop|bind$|rbind$|move$|remount$")
"""Mount options that /proc/mounts never shows: they would be acts, or commands to systemd."""
_BOOTED = re.compile(r"[A-Za-z0-9_.,:=+@/-]+")
"""Values on the command line that need no quotes: neither in sh, which reads GRUB's files, nor in
the menus of boot loaders."""
_PARAMETER = re.compile(r"\w[\w-]*(?:\.\w[\w-]*)*", re.ASCII)
_WHAT_RUNS = re.compile(
    r"(?i)(?:boot_image|initrd|(?:rd)?init|(?:nfs|net)?root|root(?:flags|fstype)|resume)$"
    r"|(?:single|emergency|rescue|s|[0-9])$|(?:iotrial|systemd|rd|sysctl)\."
)
"""Parameters that say which programs run, or from which disk: no tuning, and a folder of results
may be a stranger's."""
DEFAULT_KERNEL = (
    "configure the default kernel in the boot loader: GRUB_DEFAULT in /etc/default/grub and"
    " update-grub (Debian), grubby --set-default /boot/vmlinuz-{0} (RHEL, SUSE), or bootctl"
    " set-default with its entry in bootctl list (systemd-boot)"
)
_SWITCHES = {"-4", "-6", "-C", "-a", "-k", "-q", "-v", "-x"}
_WITH_A_WORD = {"-p", "-l", "-J", "-b", "-B", "-c", "-m"}
_REACHED_BY = re.compile(r"\[?[A-Za-z0-9_][A-Za-z0-9_.@:%\]-]*")


@dataclass(frozen=True, slots=True)
class KeptSetting:
    """One setting to be kept.  ``device`` is the kernel's name at the time ('': the host's),
    ``ids`` are (kind, value) pairs that the device is known by after a boot; ``former`` is what it
    was ('': not known); ``because`` says why in words; ``host`` is one of a profile's hosts ('':
    the profile names none)."""

    tunable: str
    value: str
    device: str = ""
    ids: tuple[tuple[str, str], ...] = ()
    former: str = ""
    because: str = ""
    host: str = ""

    def __str__(self) -> str:
        parts = ":".join(part for part in (self.host, self.device) if part)
        return f"{self.tunable}={self.value}{f' on {parts}' if parts else ''}"


def of_study(entry: KeptSetting) -> bool:
    """Whether only files and commands that the study defines could make it so."""
    return entry.tunable.startswith(_OF_STUDY)


def problem(entry: KeptSetting) -> tuple[str, str] | None:
    """(key, why) of what keeps a setting from being kept; None where nothing does."""
    if of_study(entry):
        return "tunable", f"{entry.tunable} consists of files and commands defined by a study"
    try:
        knob = tunable(entry.tunable)
    except UsageError as error:
        return "tunable", f"{error.message}. {error.advice}"
    if why := _misplaced(entry, knob):
        return "on", why
    if knob.boot and (unkept := _unkept_of_boot(entry)):
        return unkept
    found = ((key, f"{key} {why}") for key, text in _texts(entry) if (why := _wrong(key, text)))
    return next(found, None) or _refused(entry)


def _unkept_of_boot(entry: KeptSetting) -> tuple[str, str] | None:
    """What keeps a kernel or a parameter of its command line from being kept."""
    name = entry.tunable.removeprefix(f"{FAMILY}.")
    if entry.tunable == KERNEL:
        how = DEFAULT_KERNEL.format(entry.value)
        return "tunable", f"iotrial does not keep which kernel is booted: {how}"
    if _WHAT_RUNS.match(name):
        why = f"{name} says what the host boots, which iotrial does not keep"
        return "tunable", f"{why}: configure it in the boot loader"
    if not _PARAMETER.fullmatch(name):
        return "tunable", f"{name!r} is not a name of a parameter of the command line"
    if entry.value == UNSET:
        return "value", f"{entry.tunable}: unset is the host's own: there is nothing to keep"
    if entry.value and not _BOOTED.fullmatch(entry.value):
        why = f"{entry.value[:80]!r} has a character that boot loaders read differently"
        return "value", f"{entry.tunable}: {why}: configure it in the boot loader"
    return None


def _misplaced(entry: KeptSetting, knob: Tunable) -> str:
    """Why it cannot be kept of that device, or ''."""
    if knob.scope == "host" and entry.device:
        return f"{entry.tunable} belongs to the host, not to {entry.device!r}"
    if knob.scope != "host" and not entry.device:
        return f"{entry.tunable} belongs to a {knob.scope}"
    if why := knob.device_problem(entry.device):
        return f"{entry.tunable}: {why}"
    if knob.scope == "mount" and normpath(entry.device) != entry.device:
        return f"{entry.device!r} is not the plain path of a mount point"
    return ""


def _texts(entry: KeptSetting) -> list[tuple[str, str]]:
    return [
        ("tunable", entry.tunable),
        ("on", entry.device),
        ("value", entry.value),
        *(("ids", kind) for kind, _ in entry.ids),
        *entry.ids,
    ]


def _wrong(key: str, text: str) -> str:
    """Printable: no control characters, none of Unicode's ends of a line, nothing that turns the
    direction of writing or has no width."""
    form = _FORMS.get(key)
    acts = key == "options" and any(_NOT_SHOWN.match(word) for word in text.split(","))
    wrong = (
        (not text.isprintable(), "holds a control character"),
        (len(text) > _LONGEST, f"is longer than {_LONGEST} characters"),
        (key != "on" and not text.strip(), "is empty"),
        (key == "value" and text != text.strip(), "starts or ends with a blank"),
        (form is not None and not form.fullmatch(text), "is malformed"),
        (acts, "contains a character that mount options cannot have"),
    )
    return next((f"{why}: {text[:80]!r}" for found, why in wrong if found), "")


def _refused(entry: KeptSetting) -> tuple[str, str] | None:
    """What the tunable itself cannot be told."""
    try:
        tunable(entry.tunable).acts(entry.device, entry.value)
    except UsageError as error:
        return "value", error.message
    except ValueError as error:
        return "value", f"{entry.tunable}: {error}"
    return None


def way_problem(ssh: str) -> str:
    """Why a way to a host that a results folder names is not gone, or ''.

    ssh(1) runs programs, reads files and hands over keys on this machine where its options say so;
    a folder may say how a host is called, and no more.
    """
    if not ssh:
        return ""
    try:
        options, host = login(ssh)
    except UsageError as error:
        return error.message
    for option, value in options:
        plain = option in _SWITCHES or (option in _WITH_A_WORD and _REACHED_BY.fullmatch(value))
        if not plain:
            return f"ssh = {ssh!r}: {option} {value}".rstrip() + " is not accepted from results"
    return "" if _REACHED_BY.fullmatch(host) else f"ssh = {ssh!r}: {host!r} is not a host name"


Wins = Literal["ours", "theirs", "perhaps"]


@dataclass(frozen=True, slots=True)
class SettingConflict:
    """Who else sets on a host what is kept there: ``what`` is kept and ``who`` (file:line, or a
    program) sets it too, to ``value`` ('': not known); ``wins`` says whose value counts after the
    next boot, ``advice`` what to do."""

    what: str
    who: str
    value: str
    wins: Wins
    advice: str
