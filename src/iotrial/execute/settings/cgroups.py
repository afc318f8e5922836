"""The control group of the load: made when a limit is varied, joined by every load, removed.

It is owed before it is made (``folder`` in the journal: rmdir).  A restore ends the load first, so
that the group is empty when it goes; its limits go with it.  Sources: the kernel's
Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iotrial.errors import FileRefused, HostError, RefusedError
from iotrial.execute.settings.journal import Journal, MadeDebt, SettingsDebt
from iotrial.execute.settings.tuning import apply, snapshot
from iotrial.model.host import Host
from iotrial.model.tunable import Setting
from iotrial.tunables.cgroup import V1, V1_ROOT, V2, V2_ROOT

_LIMITS = {V1: "cgroup.v1.", V2: "cgroup.v2."}
_CONTROLLER = "cgroup.v2.controller"
_JOIN = 'echo "$$" >"$1/cgroup.procs" && shift && exec "$@"'
"""The shell enters the group and becomes the load, with the pid and the mark it was given."""


def join(argv: Sequence[str], folder: str) -> tuple[str, ...]:
    """The command that does ``argv`` in the group ``folder`` ('': in no group of ours).

    >>> join(["fio", "job"], "/sys/fs/cgroup/blkio/iotrial")[3:]
    ('iotrial-join', '/sys/fs/cgroup/blkio/iotrial', 'fio', 'job')
    """
    if not folder:
        return tuple(argv)
    return ("sh", "-c", _JOIN, "iotrial-join", folder, *argv)


def wanted(names: Iterable[str]) -> str:
    """The group that these tunables limit; '' where they limit none.

    Raises RefusedError where they are of both versions: no kernel has both.
    """
    folders = [each for each, prefix in _LIMITS.items() if any(n.startswith(prefix) for n in names)]
    if len(folders) > 1:
        raise RefusedError(
            "limits of cgroup v1 and of cgroup v2 in one study: a kernel has one of them",
            advice="Take cgroup.v1.… or cgroup.v2.…: `iotrial doctor` says which it has.",
        )
    return folders[0] if folders else ""


def own(host: Host, journal: Journal, names: Iterable[str]) -> str:
    """Make the group that these tunables limit, owed first; gives back its folder, or ''.

    Raises RefusedError where this kernel has no such controller, or where a group of that name
    is there already.  Its limits are owed by whoever sets them, as for any tunable.
    """
    folder = wanted(tuple(names))
    if not folder:
        return ""
    _check(host, folder)
    if folder == V2:
        _turn_on(host, journal)
    journal.owe_made(MadeDebt("folder", {"folder": folder}))
    made = host.run(["mkdir", folder])
    if made.exit != 0:
        raise HostError(
            f"{host.name}: the control group {folder} cannot be made: {made.complaint}",
            advice="Is /sys/fs/cgroup writable here (no container), and are you root?",
        )
    return folder


def _check(host: Host, folder: str) -> None:
    here = kinds(host)
    if folder not in here:
        other = " or ".join(f"{_LIMITS[each]}…" for each in here)
        raise RefusedError(
            f"{host.name}: there is no {_nouns(folder)} here",
            advice=f"Take {other}, which this kernel has." if other else "Leave the limits out.",
        )
    if host.run(["stat", "-c", "%F", folder]).exit == 0:
        raise RefusedError(
            f"{host.name}: the control group {folder} is there already, and not owed by any run",
            advice=f"See who is in {folder}/cgroup.procs; `rmdir {folder}` removes an empty one.",
        )


def _nouns(folder: str) -> str:
    if folder == V1:
        return f"blkio controller of cgroup v1 below {V1_ROOT}"
    return f"io controller of cgroup v2 below {V2_ROOT}"


def kinds(host: Host) -> tuple[str, ...]:
    """The groups that could be made on this host."""
    v1 = _text(host, f"{V1_ROOT}/blkio.throttle.read_iops_device")
    v2 = _text(host, f"{V2_ROOT}/cgroup.controllers") or ""
    return tuple(each for each, yes in ((V1, v1 is not None), (V2, "io" in v2.split())) if yes)


def _text(host: Host, path: str) -> str | None:
    try:
        return host.read(path).decode("ascii", "replace")
    except FileRefused:
        return None


def _turn_on(host: Host, journal: Journal) -> None:
    """Let groups below the root have the controller, for the whole run and not by trial: it is
    owed, but no part of the group of tunables that every treatment starts from."""
    group = snapshot(host, [_CONTROLLER], "")
    journal.owe_settings(SettingsDebt("", None, group.owed))
    apply(host, [Setting("", _CONTROLLER, "on")])
