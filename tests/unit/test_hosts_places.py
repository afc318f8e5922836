from __future__ import annotations

import pytest

from iotrial.hosts.fake import FakeHost
from iotrial.hosts.places import (
    StateFolders,
    holder,
    journal_folder,
    lock_path,
    places,
    state_places,
)

CASES = {
    "root": (0, {"HOME": "/root"}, "/run/iotrial/lock", "/var/lib/iotrial/journal.d"),
    "a user": (
        7,
        {"HOME": "/home/ada", "XDG_RUNTIME_DIR": "/run/user/7"},
        "/run/user/7/iotrial/lock",
        "/home/ada/.local/state/iotrial/journal.d",
    ),
    "a user who moved the state": (
        7,
        {"HOME": "/home/ada", "XDG_STATE_HOME": "/data"},
        "/tmp/iotrial-7/lock",
        "/data/iotrial/journal.d",
    ),
    "nobody's home": (7, {}, "/tmp/iotrial-7/lock", "/var/tmp/iotrial-7/journal.d"),
    "moved as a whole": (0, {"IOTRIAL_STATE": "/x"}, "/x/lock", "/x/journal.d"),
}


@pytest.mark.parametrize(("uid", "environment", "lock", "journal"), CASES.values(), ids=CASES)
def test_lock_and_journal_have_their_places(
    uid: int, environment: dict[str, str], lock: str, journal: str
) -> None:
    found = places(uid, environment)
    assert (found.lock, found.journal) == (lock, journal)


def test_a_host_is_asked_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IOTRIAL_STATE", raising=False)
    host = FakeHost()
    assert state_places(host) == StateFolders(
        "/run/iotrial/lock", "/var/lib/iotrial/journal.d", "/var/lib/iotrial/files"
    )
    monkeypatch.setenv("IOTRIAL_STATE", "/s")
    assert (lock_path(host), journal_folder(host)) == ("/s/lock", "/s/journal.d")


def test_a_dead_holders_number_in_the_lock_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IOTRIAL_STATE", raising=False)
    host = FakeHost()
    assert holder(host) == ""
    host.machine.put(lock_path(host), b"99999 scheduler\n")
    assert holder(host) == ""
