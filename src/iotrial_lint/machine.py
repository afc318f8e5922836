"""A running host, as lint looks at it: its files, what is in force, its kernel.  Only reads.

Folders are listed one by one; all that is in them is read in one round trip, and so is all that
is in force.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from iotrial.errors import FileRefused
from iotrial.model.host import Reader
from iotrial.model.step import Probe, Read, StepResult
from iotrial.tunables.sysctl import path as sysctl_path
from iotrial_lint.known import version
from iotrial_lint.parsers import kind_of, parsed
from iotrial_lint.parsers.kernel import included_profiles
from iotrial_lint.rule import NEWEST, ConfigFile, HostDisk, Kind, LintContext, Version, whole

_FOLDERS: Mapping[str, tuple[str, ...]] = {
    name: tuple(f"{root}/{name}" for root in roots)
    for name, roots in {
        "sysctl.d": ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"),
        "udev/rules.d": ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"),
        "modprobe.d": ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"),
        "multipath/conf.d": ("/etc",),
    }.items()
}
"""Of files with one name, the one in the first folder hides the others (sysctl.d(5), udev(7),
modprobe.d(5))."""

_SINGLE = ("/etc/sysctl.conf", "/etc/multipath.conf", "/etc/fstab", "/proc/cmdline")
_LINKED = "99-sysctl.conf"  # Debian's name for /etc/sysctl.conf among the others
_PROFILES = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
_DEEP = 8  # profiles that include profiles
_QUEUE = ("scheduler", "nr_requests", "read_ahead_kb", "rotational")
_MODULES = 64  # asked of modinfo at most


def scene_of(
    host: Reader, sheets: Sequence[ConfigFile], *, kernel: Version = NEWEST
) -> LintContext:
    """What is known of ``host`` for judging files: its kernel, parameters, modules and memory.

    With a ``kernel`` given the files are meant for another machine: nothing is asked of this one.
    """
    if kernel != NEWEST:
        return LintContext(kernel=kernel, sheets=tuple(sheets))
    said = _read(host, ("/proc/sys/kernel/osrelease", "/proc/meminfo", "/proc/self/mounts"))
    release, memory, mounts = said.values()
    there, absent = _there(host, sheets)
    return LintContext(
        kernel=version(release) or NEWEST,
        there=there,
        absent=absent,
        modules=_modules(host, sheets),
        memory=_memory(memory),
        memory_mounts=_in_memory(mounts),
        multipath=_multipath(host, sheets),
        sheets=tuple(sheets),
    )


def host_scene(host: Reader, *, kernel: Version = NEWEST) -> LintContext:
    """All of a running host: its files, in the order they are read, and what is in force."""
    sheets, unread = sheets_of(host)
    scene = scene_of(host, sheets, kernel=kernel)
    return replace(scene, disks=_disks(host), unread=unread)


def sheets_of(host: Reader) -> tuple[tuple[ConfigFile, ...], tuple[str, ...]]:
    """The files, and the names of those that we may not read."""
    paths = [path for name in _FOLDERS for path in _listed(host, _FOLDERS[name])]
    active = "/etc/tuned/active_profile"
    wanted = (*paths, *_SINGLE, active)
    answers = dict(zip(wanted, _asked(host, wanted), strict=True))
    said = {path: answer.raw.decode("utf-8", "replace") for path, answer in answers.items()}
    unread = tuple(path for path, answer in answers.items() if answer.errno in _FORBIDDEN)
    profiles = said.pop(active).split()
    order = [path for path in said if path not in _SINGLE]
    sysctls = [path for path in order if "/sysctl.d/" in path]
    others = [path for path in order if "/sysctl.d/" not in path]
    found = []
    for path in (*sysctls, *_SINGLE, *others):
        kind = kind_of(path)
        if kind and said[path].strip():
            found.append(_sheet(kind, path, said[path]))
    return (*found, *_tuned(host, profiles)), unread


def _sheet(kind: Kind, path: str, text: str) -> ConfigFile:
    return parsed(kind, text.encode("utf-8", "surrogateescape"), path)


def _listed(host: Reader, folders: Iterable[str]) -> list[str]:
    """Files of folders that are read as one, by name."""
    found: dict[str, str] = {}
    for folder in folders:
        for name in _names(host, folder):
            if name.endswith((".conf", ".rules")) and name != _LINKED:
                found.setdefault(name, f"{folder}/{name}")
    return [found[name] for name in sorted(found)]


def _tuned(host: Reader, profiles: Iterable[str]) -> tuple[ConfigFile, ...]:
    """The active profiles and those that they include, the included first."""
    found: dict[str, ConfigFile] = {}
    wanted = list(profiles)
    for _ in range(_DEEP):
        fresh = [name for name in wanted if name not in found and "/" not in name]
        if not fresh:
            break
        places = {name: [f"{at}/{name}/tuned.conf" for at in _PROFILES] for name in fresh}
        said = _read(host, [path for paths in places.values() for path in paths])
        wanted = []
        for name, paths in places.items():
            path = next((path for path in paths if said[path]), "")
            if path:
                found[name] = _sheet("tuned", path, said[path])
                wanted.extend(included_profiles(found[name]))
    return tuple(reversed(found.values()))


def _there(host: Reader, sheets: Iterable[ConfigFile]) -> tuple[dict[str, str], frozenset[str]]:
    """Kernel parameters that files name: those this host has, with their values, and the others."""
    names = {each.name for sheet in sheets for each in sheet.of("sysctl")}
    plain = sorted(name for name in names if re.fullmatch(r"[\w./-]+", name) and ".." not in name)
    answers = _asked(host, map(sysctl_path, plain))
    there = {
        name: answer.raw.decode("utf-8", "replace")
        for name, answer in zip(plain, answers, strict=True)
        if answer.errno not in _ABSENT
    }
    return there, frozenset(plain) - there.keys()


_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
"""No such parameter.  One that may not be read is there."""
_FORBIDDEN = (errno.EACCES, errno.EPERM)


def _modules(host: Reader, sheets: Iterable[ConfigFile]) -> dict[str, frozenset[str]]:
    """Parameters of the modules that files give some to, as modinfo says."""
    named = {each.name.partition(".")[0] for sheet in sheets for each in sheet.of("module")}
    found: dict[str, frozenset[str]] = {}
    for module in sorted(name for name in named if re.fullmatch(r"\w+", name))[:_MODULES]:
        done = host.run(["modinfo", "-F", "parm", module])
        names = frozenset(line.partition(":")[0] for line in done.text.splitlines())
        if done.exit == 0 and names:
            found[module] = names
    return found


def _disks(host: Reader) -> tuple[HostDisk, ...]:
    names = [name for name in _names(host, "/sys/block") if not name.startswith(("loop", "ram"))]
    files = (*(f"queue/{name}" for name in _QUEUE), "device/queue_depth", "dm/uuid")
    said = _read(host, [f"/sys/block/{name}/{file}" for name in names for file in files])
    stacked = [name for name in names if name.startswith(("dm-", "md"))]
    slaves = {name: tuple(_names(host, f"/sys/block/{name}/slaves")) for name in stacked}
    found = []
    for name in names:
        at = f"/sys/block/{name}"
        queue = {each: said[f"{at}/queue/{each}"].strip() for each in _QUEUE}
        depth = said[f"{at}/device/queue_depth"].strip()
        uuid = said[f"{at}/dm/uuid"].strip()
        found.append(HostDisk(name, queue, whole(depth) or 0, slaves.get(name, ()), uuid))
    return tuple(found)


def _multipath(host: Reader, sheets: Iterable[ConfigFile]) -> Version:
    """The release of multipath-tools, where a file is for it; () where it is not installed."""
    if all(each.kind != "multipath" for each in sheets):
        return ()
    done = host.run(["multipath", "-h"])
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    found = re.search(r"multipath-tools v([\d.]+)", said)
    return version(found[1]) if found else ()


def _read(host: Reader, paths: Iterable[str]) -> dict[str, str]:
    """Contents, in one round trip; '' of what cannot be read."""
    wanted = list(dict.fromkeys(paths))
    answers = zip(wanted, _asked(host, wanted), strict=True)
    return {path: answer.raw.decode("utf-8", "replace") for path, answer in answers}


def _asked(host: Reader, paths: Iterable[str]) -> tuple[StepResult, ...]:
    return host.batch([Read(Probe(path)) for path in paths])


def _names(host: Reader, folder: str) -> list[str]:
    try:
        return host.list(folder)
    except FileRefused:
        return []


def _memory(meminfo: str) -> int:
    found = re.search(r"^MemTotal:\s+(\d{1,15}) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _in_memory(mounts: str) -> tuple[str, ...]:
    """Mount points of tmpfs and ramfs."""
    fields = (line.split(" ") for line in mounts.splitlines())
    return tuple(row[1] for row in fields if len(row) > 2 and row[2] in ("tmpfs", "ramfs"))  # noqa: PLR2004
