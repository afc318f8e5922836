"""A maintenance reservation of Slurm's for a run: nodes that no other job gets meanwhile.

It is made by an administrator, and owed like whatever iotrial makes: in the journal of the machine
that iotrial runs on before it exists, watched by a guard there, and deleted on every way out.

Source: scontrol(1) of Slurm 22.05, reservations.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from iotrial.errors import UsageError
from iotrial.execute.session import pay_all
from iotrial.execute.settings.guard import guarded, lease_of, locked
from iotrial.execute.settings.journal import ResourceUndo, journal_path, numbered, open_journal
from iotrial.execute.settings.restore import RestoreReport, boot_id, settle
from iotrial.hosts.places import journal_folder, lock_path
from iotrial.model.host import Host

_GONE = "scontrol show reservation {0} >/dev/null 2>&1 || exit 0"
_DELETE = f"""
for each in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    {_GONE}
    said=$(scontrol delete ReservationName={{0}} 2>&1) && exit
    sleep 1
done
echo "$said" >&2
exit 1
"""
"""Slurm deletes no reservation that a job is still in: one that ends is waited for."""
_OURS = ("reservationname", "users", "starttime", "flags")


@contextmanager
def reserved(host: Host, words: Sequence[str]) -> Iterator[str]:
    """The name of a reservation, made by these words of ``scontrol create reservation``, on the
    machine that iotrial runs on.  The context has its lock.

    Raises UsageError for what Slurm refuses, LockedError, OwedError where it could not be deleted.
    """
    for word in words:
        name, mark, _ = word.partition("=")
        if not mark or name.lower() in _OURS:
            raise UsageError(
                f"--reserve {word}: iotrial chooses name, users, start and flags itself",
                advice='For example --reserve "Nodes=n[1-4] Duration=2:00:00"',
            )
    token = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"
    name = f"iotrial-{token}"
    folder = journal_folder(host)
    header = {
        "boot_id": boot_id(host),
        "token": token,
        "study": f"reservation {name}",
        "at": round(time.time(), 3),
    }
    with locked(host):
        settle(host, lambda _: None)
        guard = guarded(host, journal_path(folder, token), lock_path(host), lease_of(host, 0.0))
        with guard:
            journal = open_journal(host, folder, header)
            try:
                deleting = ("sh", "-c", _DELETE.format(name))
                plan = {"name": f"reservation {name}", **numbered(deleting)}
                journal.owe_made(ResourceUndo("command", plan))
                _make(host, name, words)
                yield name
            finally:
                pay_all(journal, RestoreReport())


def _make(host: Host, name: str, words: Sequence[str]) -> None:
    user = host.run(["id", "-un"]).text.strip()
    chosen = [f"ReservationName={name}", f"Users={user}", "StartTime=now"]
    made = host.run(
        ["scontrol", "create", "reservation", *chosen, "Flags=MAINT,IGNORE_JOBS", *words]
    )
    if made.exit:
        raise UsageError(
            f"scontrol create reservation: {made.complaint}",
            advice="An operator or administrator of Slurm may make one; sinfo shows the nodes.",
        )
