"""Where servers listen: what a study may say, which ports are taken, and whose they are."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.errors import RefusedError, StudyError
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.load import LoadWatch
from iotrial.execute.load.served import ToolClient, through
from iotrial.hosts.local import LocalHost
from iotrial.look import ports
from iotrial.look.ports import COUNT, FIRST, ListeningSocket
from iotrial.model.listen import ListenAddress, parse
from iotrial.model.tool import Load
from iotrial.plan.load import parse_study
from iotrial.tools.fio import TOOL

STUDY = """
[hosts.box]
ssh = "root@box"
listen = "{listen}"
[targets.disk]
loop = {{ size = "1GiB" }}
[workloads.reads]
start = "{start}"
tool = "fio"
options = {{ rw = "randread", runtime = "1s" }}
"""
HEAD = "sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode\n"
REST = "00000000:00000000 00:00000000 00000000     0        0"
LISTENS = f"{HEAD}   0: 0100007F:496F 00000000:0000 0A {REST} 10183542 1\n"
CONNECTED = f"   1: 0100007F:0016 0100007F:8235 01 {REST} 10183543 1\n"
SIX = f"{HEAD}   0: 00000000000000000000000001000000:496F {'0' * 32}:0000 0A {REST} 10182482 1\n"


def study(listen: str, start: str = "server") -> ListenAddress | None:
    text = STUDY.format(listen=listen, start=start)
    return parse_study(text, "study.toml", lambda _name: "").place.listen


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.0.0.7", ListenAddress("10.0.0.7")),
        ("10.0.0.7:8765", ListenAddress("10.0.0.7", 8765)),
        ("fd00::7", ListenAddress("fd00::7")),
        ("[fd00::7]", ListenAddress("fd00::7")),
        ("[FD00:0::7]:8765", ListenAddress("fd00::7", 8765)),
    ],
)
def test_an_address_is_said_with_or_without_a_port(text: str, place: ListenAddress) -> None:
    assert study(text) == place
    assert parse(str(place)) == place


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.0.0.0", "remove listen"),  # noqa: S104 (is refused)
        ("0.0.0.0:8765", "remove listen"),
        ("::", "remove listen"),
        ("[::]:8765", "remove listen"),
        ("::ffff:0.0.0.0", "write 0.0.0.0"),
        ("fe80::1", "remove listen"),
        ("fe80::1%eth0", "remove listen"),
        ("224.0.0.1", "a multicast address"),
        ("127.0.0.1", "is reachable from box only"),
        ("[::1]:8765", "is reachable from box only"),
        ("box7", "is not an IPv4 or IPv6 address"),
        ("", "is not an IPv4 or IPv6 address"),
        ("10.0.0.7:", "is not an IPv4 or IPv6 address"),
        ("10.0.0.7,1", "is not an IPv4 or IPv6 address"),
        ("10.0.0.7:0", "0 is not a port"),
        ("10.0.0.7:65536", "65536 is not a port"),
    ],
)
def test_an_address_that_is_none_or_too_wide_is_refused_at_its_key(text: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(text)
    assert "hosts.box.listen" in str(caught.value)
    assert said in f"{caught.value} {caught.value.advice}"


def test_an_address_that_nothing_would_listen_at_is_refused() -> None:
    with pytest.raises(StudyError, match="no server to listen"):
        study("10.0.0.7", "plain")


@pytest.mark.parametrize(
    ("place", "spelled", "called"),
    [
        (ListenAddress("10.0.0.7", 20001), "ip:10.0.0.7,20001", "10.0.0.7"),
        (ListenAddress("fd00::7", 20001), "ip6:fd00::7,20001", "fd00::7"),
    ],
)
def test_both_ends_of_fio_are_told_the_address(
    place: ListenAddress, spelled: str, called: str
) -> None:
    assert TOOL.serving(place) == (("fio", f"--server={spelled}"), "")
    client, name = TOOL.client(Load(("fio", "--name=a", "--rw=read")), place)
    assert f"--client={spelled}" in client.argv
    assert name == called
    assert TOOL.own_name(f"x_lat.1.log.{called}", name) == "x_lat.1.log"


def test_the_table_of_the_kernel_tells_who_listens() -> None:
    assert ports.rows(LISTENS + CONNECTED, "little") == [
        ListeningSocket("127.0.0.1", 18799, 10183542)
    ]
    assert ports.rows(SIX, "little") == [ListeningSocket("::1", 18799, 10182482)]
    other = LISTENS.replace("0100007F:", "7F000001:")
    assert ports.rows(other, "big") == [ListeningSocket("127.0.0.1", 18799, 10183542)]


def test_a_port_that_is_held_at_any_address_is_taken() -> None:
    there = [ListeningSocket("0.0.0.0", 8765, 1)]  # noqa: S104 (what another does)
    assert "port 8765 on 0.0.0.0" in ports.taken([ListenAddress("10.0.0.7", 8765)], there)
    assert ports.taken([ListenAddress("10.0.0.7", 8766)], there) == ""


def test_several_loads_take_the_ports_from_the_named_one_on() -> None:
    found = ports.chosen(ListenAddress("10.0.0.7", 8765), 3, [], "a")
    assert [each.port for each in found] == [8765, 8766, 8767]
    with pytest.raises(RefusedError, match="more than are available"):
        ports.chosen(ListenAddress("10.0.0.7", 65535), 2, [], "a")


def test_a_chosen_port_is_free_and_stays_the_same_while_it_is() -> None:
    listen = ListenAddress("10.0.0.7")
    first, second = ports.chosen(listen, 2, [], "run")
    assert ports.chosen(listen, 2, [], "run") == [first, second]
    assert FIRST <= first.port < FIRST + COUNT
    assert ports.chosen(listen, 1, [ListeningSocket("::", first.port, 1)], "run") == [second]
    full = [ListeningSocket("::", port, 1) for port in range(FIRST, FIRST + COUNT)]
    with pytest.raises(RefusedError, match="more than are available"):
        ports.chosen(listen, 1, full, "run")


def another(place: ListenAddress) -> socket.socket:
    """A socket that listens there, and lets others share the port."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((place.address, place.port))
    made.listen()
    return made


@pytest.fixture
def held() -> Iterator[ListenAddress]:
    """A port that this process listens at."""
    with another(ListenAddress("127.0.0.1")) as made:
        yield ListenAddress("127.0.0.1", made.getsockname()[1])


def mark() -> str:
    """Something that stands in the environment of this process."""
    return Path("/proc/self/environ").read_bytes().split(b"\0")[0].decode()


def test_a_port_is_ours_where_a_marked_process_alone_listens(held: ListenAddress) -> None:
    host = LocalHost()
    there = ports.listening(host)
    assert ports.ours(host, held, there, mark())
    assert not ports.ours(host, held, there, "IOTRIAL_LOAD=another")
    assert not ports.ours(host, held, [], mark())


def test_a_port_that_two_share_is_not_ours(held: ListenAddress) -> None:
    host = LocalHost()
    with another(held):
        assert not ports.ours(host, held, ports.listening(host), mark())


def said_of(folder: Path, held: ListenAddress) -> str:
    """What a load that is to be served at a port that somebody holds leaves as its reason."""
    client = ToolClient(TOOL, folder, Load(("true",)), held.address, "", held)
    watch = LoadWatch(10.0, lambda _elapsed: None, Interruption())
    words = ("sh", "-c", "echo it was started; sleep 60")
    ended = through([client])(LocalHost(), words, folder=folder, token="t0", watch=watch)  # noqa: S106 (no secret)
    assert ended.exit != 0
    return (folder / "stderr").read_text()


def test_no_server_is_started_beside_one_that_holds_its_port(
    tmp_path: Path, held: ListenAddress
) -> None:
    assert f"port {held.port} on" in said_of(tmp_path, held)
    assert not (tmp_path / "server.stdout").exists()


def test_a_port_that_was_taken_in_between_is_no_server_of_ours(
    tmp_path: Path, held: ListenAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "taken", lambda _places, _there: "")
    assert "another process listens at" in said_of(tmp_path, held)
    assert (tmp_path / "server.stdout").read_text() == "it was started\n"
