"""The suite nfs before a pretended server and client: honest ones, and such that lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iotrial_suites.case import CaseFailed, CaseNotRun
from iotrial_suites.suites import nfs
from iotrial_suites.suites.nfs import networks, options_of, requests_of
from iotrial_suites.suites.vocabulary import result
from scripted import FIO, Says, rehearse

MOST = 65536


class Pair:
    """A server and a client.  ``bend`` may change what a command says."""

    def __init__(self, bend: Callable[[str, str], str] | None = None) -> None:
        self.bend = bend or (lambda _words, said: said)
        self.mounted: dict[str, str] = {}
        self.running = True
        self.writes = 0

    def server(self, argv: tuple[str, ...], _stdin: str) -> Says:
        words = " ".join(argv)
        if argv[0] == "systemctl":
            self.running = argv[1] == "start"
        return self.says(
            words,
            {
                "/proc/fs/nfsd/threads": "8" if self.running else "0",
                "max_block_size": str(MOST),
                "ip -o": "2: eth1    inet 10.0.0.1/24 scope global eth1\n",
                "sha256sum": "beef -\n",
            },
        )

    def client(self, argv: tuple[str, ...], _stdin: str) -> Says:
        words = " ".join(argv)
        self.writes += 100 if self.running else 0
        asked = self.asked
        size = min(int(asked.get("rsize", MOST)), MOST)
        pieces = 2**20 // size
        several = asked.get("nconnect", "1")
        inforce = f"vers={asked.get('vers')},rsize={size},wsize={size},nconnect={several}"
        count = pieces if "rsize" in asked else self.writes
        return self.says(
            words,
            {
                "ip -o": "2: eth1    inet 10.0.0.2/24 scope global eth1\n",
                "/proc/mounts": f"h:/x /mnt nfs {inforce} 0 0\n",
                "mountstats": f"device h:/x mounted on /mnt with fstype nfs\n"
                f"\t        READ: {pieces} 0\n\t       WRITE: {count} 0\n",
                "iotrial-fill": "beef -\n",
                "iotrial-sum": "beef -\n",
                "ss -Htn": "one\n" * int(several),
                "iotrial-load": FIO,
            },
        )

    @property
    def asked(self) -> dict[str, str]:
        """The options of the next case's mount, in turn."""
        return self.mounted

    def says(self, words: str, answers: dict[str, str]) -> Says:
        said = next((text for part, text in answers.items() if part in words), "")
        return Says(self.bend(words, said))


def played(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case ``options``, with mounts that the pair knows of."""
    real = nfs.mounted

    def mounted(there: object, words: str) -> object:
        pair.mounted = dict(word.partition("=")[::2] for word in words.split(","))
        return real(there, words)  # type: ignore[arg-type]

    monkeypatch.setattr(nfs, "mounted", mounted)
    rehearse(nfs.options_case, (pair.server, pair.client))


def test_an_honest_pair_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    played(Pair(), monkeypatch)


@pytest.mark.parametrize(
    ("part", "old", "new", "told"),
    [
        ("/proc/mounts", "vers=3", "vers=4.2", "vers=4.2"),
        ("/proc/mounts", "rsize=8192", "rsize=65536", "rsize=65536 instead of 8192"),
        ("/proc/mounts", "wsize=65536", "wsize=4096", "wsize=4096 instead of 65536"),
        ("ss -Htn", "one\none\none\none\n", "one\n", "1 connections instead of 4"),
        ("mountstats", "WRITE: 128", "WRITE: 16", "16 requests to WRITE a MiB"),
        ("mountstats", "READ: 128", "READ: 256", "256 requests to READ a MiB"),
        ("iotrial-sum", "beef", "dead", "the client reads other bytes"),
        ("sha256sum /srv", "beef", "dead", "the server has other bytes"),
    ],
)
def test_options_that_are_not_in_force_are_found_out(
    monkeypatch: pytest.MonkeyPatch, part: str, old: str, new: str, told: str
) -> None:
    bent = Pair(lambda words, said: said.replace(old, new) if part in words else said)
    with pytest.raises(CaseFailed, match=told):
        played(bent, monkeypatch)


def test_client_and_server_without_a_network_in_common_is_a_reason_not_to_run() -> None:
    pair = Pair(lambda words, said: said.replace("10.0.0.1", "10.9.0.1") if "ip" in words else said)
    with pytest.raises(CaseNotRun, match="n0 and n1 are in no network together"):
        rehearse(nfs.options_case, (pair.server, pair.client))


def test_a_host_without_a_server_is_a_reason_not_to_run() -> None:
    pair = Pair()
    pair.running = False
    with pytest.raises(CaseNotRun, match="no NFS server runs on n0"):
        rehearse(nfs.options_case, (pair.server, pair.client))


def test_a_client_that_waits_for_its_server_passes() -> None:
    pair = Pair()
    rehearse(nfs.server_restart_case, (pair.server, pair.client))
    assert pair.running


@pytest.mark.parametrize(
    ("part", "old", "new", "told"),
    [
        ("threads", "0", "8", "was stopped, and has 8 threads"),
        ("iotrial-load", '"total_ios": 9}', '"total_ios": 0}', "compared nothing of 9 writes"),
        ("iotrial-load", '"error": 0', '"error": 84', "errno 84"),
        ("iotrial-load", "jobs", "?", "fio says no result"),
        ("iotrial-sum", "beef", "dead", "a file has changed"),
        ("sha256sum /srv", "beef", "dead", "the server has other bytes"),
    ],
)
def test_a_restart_that_hurts_is_found_out(part: str, old: str, new: str, told: str) -> None:
    bent = Pair(lambda words, said: said.replace(old, new) if part in words else said)
    with pytest.raises(CaseFailed, match=told):
        rehearse(nfs.server_restart_case, (bent.server, bent.client))


def test_a_client_that_writes_to_a_server_that_stopped_is_found_out() -> None:
    pair = Pair()

    def writes_on(argv: tuple[str, ...], stdin: str) -> Says:
        pair.writes += 100
        return pair.client(argv, stdin)

    with pytest.raises(CaseFailed, match="writes on, to a server that stopped"):
        rehearse(nfs.server_restart_case, (pair.server, writes_on))


def test_addresses_mounts_and_counts_are_read_as_they_are_printed() -> None:
    text = "1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet 10.77.0.2/24 brd x\n"
    assert networks(text) == {"10.77.0.0/24": "10.77.0.2"}
    twice = "h:/x /mnt nfs vers=3 0 0\nh:/y /mnt nfs4 rw,vers=4.2 0 0\n"
    assert options_of(twice, "/mnt") == {"rw": "", "vers": "4.2"}
    assert options_of(twice, "/other") == {}
    stats = (
        "device h:/x mounted on /mnt with fstype nfs4 statvers=1.1\n\tper-op statistics\n"
        "\t        READ: 1 1 0 0 0\n\t       WRITE: 128 130 0 1 1\n\n"
        "device h:/y mounted on /other with fstype nfs statvers=1.1\n\t       WRITE: 5 5 0 1 1\n"
    )
    assert requests_of(stats, "/mnt") == {"READ": 1, "WRITE": 128}
    assert requests_of(stats, "/none") == {}
    newer = stats.replace("READ: 1 1", "READ: 0 0\n\t   READ_PLUS: 128 128")
    assert requests_of(newer, "/mnt") == {"READ": 128, "WRITE": 128}


def test_what_is_no_result_of_fio_is_told_as_none() -> None:
    assert result("") is None
    assert result("fio: {") is None
    assert result('{"jobs": []}') is None
