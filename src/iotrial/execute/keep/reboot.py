"""The next boot: two units that undo what ``iotrial keep`` had begun when the machine went down.

The *early* one is before everything that reads the files that are kept (the ``readers`` of each
format): systemd-modules-load, systemd-sysctl, systemd-tmpfiles-setup, udev, multipathd.  So nothing
of a half-made change is put in force.  It waits for no mount: one of ``/var`` waits for its disk,
which waits for udev, which would wait for us.  Where the folder is not there yet, or a device or
program is not, the other one does it.

The *late* one is after all of these, and after udev's queue is empty: what they set from files that
were still there is given back, and nothing sets it again.  Both are before basic.target, so before
every ordinary service.  Whichever comes second finds no journal when all is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.errors import FileRefused, HostError
from iotrial.execute.settings.guard import script
from iotrial.execute.settings.journal import SUFFIX
from iotrial.hosts.places import lock_path
from iotrial.keep.native import formats
from iotrial.model.host import Host

UNIT = "/etc/systemd/system/iotrial-keep.service"
EARLY = "/etc/systemd/system/iotrial-keep-early.service"
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
    for path, text in units(place).items():
        host.save(path, text.encode(), private=False)
    tell(host, ("systemctl", "daemon-reload"))
    tell(host, ("systemctl", "enable", *(path.rpartition("/")[2] for path in units(place))))
    return ()


def boot_script(place: str, lock: str) -> str:
    """POSIX sh, with the word ``late`` after udev has begun.  Needs ``guard.sh`` beside the
    journals."""
    return (
        "# Undoes what `iotrial keep` had begun and not finished when the machine went down.\n"
        '[ "${1-}" != late ] || ! command -v udevadm >/dev/null || udevadm settle --timeout=60\n'
        f'mkdir -p -m 700 -- "{lock.rpartition("/")[0]}"\n'  # /run is empty now
        f'for each in "{place}"/*{SUFFIX}; do\n'
        '    [ -f "$each" ] || continue\n'
        f'    sh "{place}/guard.sh" "$each" "{lock}" 0 </dev/null\n'
        "done\n"
    )


def units(place: str) -> dict[str, str]:
    """The units by their paths."""
    readers = " ".join(dict.fromkeys(each for form in formats().values() for each in form.readers))
    early = (
        f"After=systemd-remount-fs.service\nBefore={readers} sysinit.target shutdown.target\n",
        "TimeoutStartSec=60\n",
        "sysinit.target",
    )
    late = (
        (
            f"RequiresMountsFor={place} /etc\nAfter=local-fs.target {readers}"
            f" {EARLY.rpartition('/')[2]}\nBefore=basic.target shutdown.target\n"
        ),
        "",
        "basic.target",
    )
    return {EARLY: _unit(place, early, ""), UNIT: _unit(place, late, " late")}


def _unit(place: str, order: tuple[str, str, str], word: str) -> str:
    when, limit, target = order
    return (
        "# Of `iotrial keep`: does nothing unless a change was interrupted.\n"
        "[Unit]\nDescription=Undo what iotrial keep had begun and not finished\n"
        f"ConditionPathExistsGlob={place}/*{SUFFIX}\nDefaultDependencies=no\n"
        f"Conflicts=shutdown.target\n{when}\n"
        f"[Service]\nType=oneshot\n{limit}ExecStart=/bin/sh {place}/boot.sh{word}\n\n"
        f"[Install]\nWantedBy={target}\n"
    )


def tell(host: Host, command: Sequence[str]) -> None:
    """Have a program read its files again; one that is not there has nothing to read."""
    done = host.run(command)
    if done.exit not in (0, _MISSING):
        raise HostError(
            f"{host.name}: `{' '.join(command)}` fails: {done.complaint}",
            advice="Mend that; nothing is kept until it works.",
        )
