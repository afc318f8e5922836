"""Sysctl files: ``/etc/sysctl.conf``, ``sysctl.d/*.conf``.

``KEY = VALUE``, one a line; a line that begins with ``#`` or ``;`` is a comment, and nothing else
is; ``-`` before a key says that its failure does not matter (sysctl.d(5), sysctl.conf(5)).
"""

from __future__ import annotations

from pathlib import PurePosixPath

from iotrial_lint.sheet import Complaint, Entry, Setting, Sheet, lines

KIND = "sysctl"
TITLE = "kernel parameters (`sysctl.conf`, `sysctl.d/*.conf`)"


def knows(path: PurePosixPath) -> bool:
    in_folder = path.parent.name == "sysctl.d" and path.suffix == ".conf"
    return in_folder or path.name == "sysctl.conf" or path.name.endswith(".sysctl.conf")


def parse(text: str, file: str = "") -> Sheet:
    entries: list[Entry] = []
    complaints: list[Complaint] = []
    for number, line in lines(text):
        plain = line.strip()
        if not plain or plain[0] in "#;":
            continue
        key, equals, value = plain.partition("=")
        key = key.strip()
        sign = "-=" if key.startswith("-") else "="
        key = key.removeprefix("-").strip()
        if not equals:
            if sign == "=":  # "-KEY" alone takes a key out of the patterns before it
                complaints.append(Complaint(number, f"{plain[:60]!r} is no KEY = VALUE"))
        elif not key or any(blank in key for blank in " \t\0"):
            complaints.append(Complaint(number, f"{key[:60]!r} is no name of a kernel parameter"))
        else:
            entries.append(Entry(number, key, value.strip(), sign=sign))
    settings = tuple(setting(entry, entry.key, entry.value) for entry in entries)
    return Sheet("sysctl", file, tuple(entries), settings, tuple(complaints))


def setting(entry: Entry, key: str, value: str, how: str = "") -> Setting:
    """A kernel parameter, its name with dots."""
    return Setting(entry, "sysctl", dotted(key), " ".join(value.split()), how=how)


def dotted(key: str) -> str:
    """A key as dots separate it; a dot within a name is a slash then, as in sysctl(8).

    >>> dotted("net/ipv4/conf/eth0.100/rp_filter")
    'net.ipv4.conf.eth0/100.rp_filter'
    """
    slash, dot = key.find("/"), key.find(".")
    if slash >= 0 and (dot < 0 or slash < dot):
        return key.translate(str.maketrans("./", "/."))
    return key
