"""What a case needs, and what of it is missing: every reason, not only the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iotrial.errors import HostError
from iotrial.look.facts import version
from iotrial.look.machine import distribution
from iotrial.look.reading import status, text
from iotrial.model.host import Host
from iotrial.model.target import Target
from iotrial_suites.case import MIB, Case, Needs
from iotrial_suites.result import Machine, numbers

LOOK = """\
for word; do
    case $word in
        c:*) command -v -- "${word#?:}" >/dev/null 2>&1 ;;
        p:*) [ -e "${word#?:}" ] ;;
        m:*)
            plain=${word#?:}
            [ -d "/sys/module/$plain" ] || modprobe -n -q -- "$plain" 2>/dev/null ||
                case " $(tr '\\t\\n' '  ' </proc/filesystems) " in *" $plain "*) ;; *) false ;; esac
            ;;
    esac || printf '%s\\n' "$word"
done
"""
"""Arguments: c:COMMAND, p:PATH, m:MODULE.  Prints those that are missing."""

LOOP_CONTROL = "/dev/loop-control"
_OWN_WAY = {"lvm": "version", "multipath": "-h"}
"""What is asked for a version, in place of ``--version``."""


@dataclass(frozen=True, slots=True)
class Party:
    """The hosts that take part, each with the devices that were handed over for it, and how large
    those are in bytes (by path); the names of those that may be ``lost``."""

    hosts: Sequence[Host]
    machines: Sequence[Machine]
    given: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)
    sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()

    def devices(self, host: str, needs: Needs) -> tuple[Target, ...]:
        """Those that are large enough for a case."""
        return tuple(
            target
            for target in self.given.get(host, ())
            if self.sizes.get((host, target.path), 0) >= needs.size
        )


def machine_of(host: Host, tools: Sequence[str]) -> Machine:
    """Kernel, distribution and versions of tools."""
    kernel = host.run(["uname", "-r"]).text.strip()
    release = distribution(text(host, "/etc/os-release"))
    return Machine(host.name, kernel, release, {name: version_of(host, name) for name in tools})


def version_of(host: Host, tool: str) -> str:
    """What a tool calls itself; some have their own way of saying it."""
    words = "-V" if tool.startswith("mkfs.") else _OWN_WAY.get(tool)
    if words:
        try:
            said = host.run([tool, words], timeout=10.0)
        except HostError:
            return ""
        lines = (said.stdout + said.stderr).decode("utf-8", "replace").strip().splitlines()
        return lines[0].strip() if lines and said.exit != 127 else ""  # noqa: PLR2004
    return version(host, tool)


def missing(case: Case, party: Party) -> tuple[str, ...]:
    """Every reason why a case cannot be done; none: it can."""
    needs = case.needs
    found: list[str] = []
    if len(party.hosts) < needs.hosts:
        there = "is one" if len(party.hosts) == 1 else f"are {len(party.hosts)}"
        found.append(f"needs {needs.hosts} hosts, and there {there} (--on)")
    elif needs.loses and (name := party.hosts[1].name) not in party.lost:
        found.append(f"crashes {name}, or takes a link of it down: allow it by --lose {name}")
    several = len(party.hosts) > 1
    for host, machine in list(zip(party.hosts, party.machines, strict=True))[: needs.hosts]:
        reasons = _on(host, machine, needs, party)
        found += [f"{host.name}: {reason}" if several else reason for reason in reasons]
    return tuple(found)


def _on(host: Host, machine: Machine, needs: Needs, party: Party) -> list[str]:
    found = []
    if needs.root and host.unprivileged:
        found.append(f"needs root: {host.unprivileged}")
    if needs.kernel and numbers(machine.kernel) < needs.kernel:
        wanted = ".".join(map(str, needs.kernel))
        found.append(f"needs Linux {wanted}, and this is {machine.kernel}")
    asked = [
        *(f"c:{each}" for each in needs.commands),
        *(f"m:{each}" for each in needs.modules),
        *(f"p:{each}" for each in needs.paths),
    ]
    lacking = host.run(["sh", "-c", LOOK, "iotrial-needs", *asked]).text.splitlines()
    found += [_WORDS[each[0]].format(each[2:]) for each in asked if each in lacking]
    return found + _devices(host, needs, party)


_WORDS = {
    "c": "the command {} is not installed",
    "m": "the module {} is neither in this kernel nor to be loaded",
    "p": "there is no {}",
}


def _devices(host: Host, needs: Needs, party: Party) -> list[str]:
    if not needs.devices:
        return []
    there = party.devices(host.name, needs)
    if len(there) >= needs.devices:
        return []
    if needs.disks or needs.shared:
        kind = f"{'shared ' if needs.shared else ''}disk{'s' if needs.devices > 1 else ''}"
        wanted = f"{needs.devices} {kind} of at least {needs.size // MIB} MiB"
        given = "1 was" if len(there) == 1 else f"{len(there) or 'none'} were"
        return [f"needs {wanted}, and {given} given (--devices)"]
    if status(host, LOOP_CONTROL) is None:  # where it is, opening it loads what is a module
        return [f"there is no {LOOP_CONTROL} (modprobe loop), and too few disks were given"]
    return []


def room(needs: Needs) -> int:
    """Bytes of a scratch device."""
    return max(needs.size, MIB)
