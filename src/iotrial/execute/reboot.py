"""The next boot: a unit that undoes what ``iotrial keep`` had begun when the machine went down."""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.errors import FileRefused, HostError
from iotrial.execute.guard import script
from iotrial.execute.journal import SUFFIX
from iotrial.hosts.places import lock_path
from iotrial.model.host import Host

UNIT = "/etc/systemd/system/iotrial-keep.service"
_SYSTEMD = "/run/systemd/system"
_MISSING = 127


def at_next_boot(host: Host, place: str) -> tuple[str, ...]:
    """Have the next boot undo what was begun and not finished."""
    try:
        host.list(_SYSTEMD)
    except FileRefused:
        risk = "a power cut in the middle would leave it half made until `iotrial keep NAME undo`"
        return (f"{host.name} is not run by systemd: {risk}",)
    host.save(f"{place}/guard.sh", script().encode(), private=False)
    host.save(f"{place}/boot.sh", boot_script(place, lock_path(host)).encode(), private=False)
    host.save(UNIT, _unit(place).encode(), private=False)
    tell(host, ("systemctl", "daemon-reload"))
    tell(host, ("systemctl", "enable", UNIT.rpartition("/")[2]))
    return ()


def boot_script(place: str, lock: str) -> str:
    """POSIX sh.  Needs ``guard.sh`` beside the journals."""
    return (
        "# Undoes what `iotrial keep` had begun and not finished when the machine went down.\n"
        f'mkdir -p -m 700 -- "{lock.rpartition("/")[0]}"\n'  # /run is empty now
        f'for each in "{place}"/*{SUFFIX}; do\n'
        '    [ -f "$each" ] || continue\n'
        f'    sh "{place}/guard.sh" "$each" "{lock}" 0 </dev/null\n'
        "done\n"
    )


def _unit(place: str) -> str:
    return (
        "# Of `iotrial keep`: does nothing unless a change was interrupted.\n"
        "[Unit]\nDescription=Undo what iotrial keep had begun and not finished\n"
        f"ConditionPathExistsGlob={place}/*{SUFFIX}\n"
        f"RequiresMountsFor={place} /etc\nDefaultDependencies=no\n"
        "After=local-fs.target\nBefore=basic.target\n\n"
        f"[Service]\nType=oneshot\nExecStart=/bin/sh {place}/boot.sh\n\n"
        "[Install]\nWantedBy=basic.target\n"
    )


def tell(host: Host, command: Sequence[str]) -> None:
    """Have a program read its files again; one that is not there has nothing to read."""
    done = host.run(command)
    if done.exit not in (0, _MISSING):
        raise HostError(
            f"{host.name}: `{' '.join(command)}` fails: {done.complaint}",
            advice="Mend that; nothing is kept until it works.",
        )
