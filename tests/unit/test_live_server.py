"""The page's server: who is let in, what is said to whom, and that nothing of it ends a run."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import factories
from iotrial.errors import UsageError
from iotrial.live import address, file, server
from iotrial.live.live import LiveStatus
from iotrial.live.server import MOST_READERS, LiveServer, page
from iotrial.model.event import CountersSampled, Message, TrialBegan, TrialEnded, TrialsPlanned
from iotrial.model.results import TelemetrySample

RESULTS = factories.results()
RECORDS = RESULTS.records


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveStatus]:
    """A run that is at work, and its page on a free port."""
    with LiveStatus(RESULTS.study, address.parse(address.FREE)) as found:
        found(TrialsPlanned(63, 63, tmp_path))
        found(TrialBegan(RECORDS[0].trial, 3.0))
        work(found, 0, 1)
        yield found


def work(live: LiveStatus, *seconds: int) -> None:
    """Samples of a device that reads 1,000 a second."""
    for t in seconds:
        disk = {"reads": 1000 * t, "sectors_read": 8000 * t, "read_ms": 500 * t, "io_ms": 900 * t}
        live(
            CountersSampled(TelemetrySample("local", "disk", "sda", {"t": float(t), "disk": disk}))
        )


def token(live: LiveStatus) -> str:
    assert live.place
    return parse_qs(urlsplit(live.place.url).query)["token"][0]


def ask(
    live: LiveStatus, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    assert live.place
    connection = http.client.HTTPConnection("127.0.0.1", live.place.port, timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        found = connection.getresponse()
        return found.status, dict(found.getheaders()), found.read()
    finally:
        connection.close()


class Stream:
    """A plain reader of the stream."""

    def __init__(self, live: LiveStatus, last: str = "") -> None:
        assert live.place
        self._connection = http.client.HTTPConnection("127.0.0.1", live.place.port, timeout=10)
        headers = {"Last-Event-ID": last} if last else {}
        self._connection.request("GET", f"/stream?token={token(live)}", headers=headers)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        assert self._answer.getheader("Content-Type") == "text/event-stream"

    def event(self) -> dict[str, str]:
        """The next event's fields; {} at the end."""
        fields: dict[str, str] = {}
        while line := self._answer.readline():
            if line == b"\n":
                return fields
            name, _, text = line.decode().rstrip("\n").partition(": ")
            fields[name] = text
        return {}

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


def test_the_page_asks_nothing_of_anybody_else(live: LiveStatus) -> None:
    status, headers, body = ask(live, f"/?token={token(live)}")
    assert status == 200
    assert headers["Content-Security-Policy"] == page().policy
    assert "unsafe" not in page().policy
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in body


@pytest.mark.parametrize("path", ["/", "/stream", "/metrics", "/state.json", "/nothing"])
@pytest.mark.parametrize("given", ["", "?token=", "?token=wrong", "?token=%ff", "?token=a&token="])
def test_without_the_token_nobody_learns_what_is_there(
    live: LiveStatus, path: str, given: str
) -> None:
    status, _, body = ask(live, path + given)
    assert status == 403
    assert body == b"403 Forbidden: wrong or missing token\n"


def test_a_page_that_made_its_name_lead_here_is_refused(live: LiveStatus) -> None:
    """DNS rebinding: the browser asks us, and says whom it means."""
    path = f"/state.json?token={token(live)}"
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil"):
        assert ask(live, path, {"Host": host})[0] == 403
    for host in ("localhost:9999", "127.0.0.1", "[::1]:80", "10.0.0.7:80", socket.gethostname()):
        assert ask(live, path, {"Host": host})[0] == 200


def test_it_is_read_only(live: LiveStatus) -> None:
    path = f"/?token={token(live)}"
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        status, headers, _ = ask(live, path, method=method)
        assert status == 405
        assert headers["Allow"] == "GET, HEAD"
    assert ask(live, path, method="HEAD")[::2] == (200, b"")
    assert ask(live, f"/nothing?token={token(live)}")[0] == 404


def test_the_token_may_come_as_prometheus_sends_it(live: LiveStatus) -> None:
    assert ask(live, "/metrics", {"Authorization": f"Bearer {token(live)}"})[0] == 200
    assert ask(live, "/metrics", {"Authorization": "Bearer x"})[0] == 403


@pytest.mark.parametrize(
    ("accept", "kind"),
    [("*/*", "text/plain; version=0.0.4"), ("application/openmetrics-text", "application/open")],
)
def test_metrics_come_in_the_form_that_is_asked_for(
    live: LiveStatus, accept: str, kind: str
) -> None:
    status, headers, body = ask(live, f"/metrics?token={token(live)}", {"Accept": accept})
    assert status == 200
    assert headers["Content-Type"].startswith(kind)
    assert body.endswith(b"# EOF\n") == kind.startswith("application")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x00\xff\xfe\r\n\r\n",
        b"x" * (server.MOST_HEAD + 1),
    ],
)
def test_what_is_no_request_is_refused_and_the_server_lives_on(
    live: LiveStatus, head: bytes
) -> None:
    assert live.place
    with socket.create_connection(("127.0.0.1", live.place.port), timeout=10) as connection:
        connection.sendall(head)
        said = connection.makefile("rb").readline()
    assert said.split()[1] in (b"400", b"431", b"403")
    assert ask(live, f"/?token={token(live)}")[0] == 200


def test_a_stream_begins_with_the_past_and_goes_on(live: LiveStatus) -> None:
    stream = Stream(live)
    first = stream.event()
    assert first["event"] == "all"
    assert json.loads(first["data"])["point"][0] == "at"
    work(live, 2)
    new = json.loads(stream.event()["data"])
    while not new["points"]:
        new = json.loads(stream.event()["data"])
    assert new["now"]["total"]["read.iops"] == 1000.0
    assert new["now"]["total"]["read.lat"] == 0.0005
    stream.close()


def test_a_reader_that_comes_back_is_told_what_it_missed_and_a_stranger_everything(
    live: LiveStatus,
) -> None:
    stream = Stream(live)
    seen = stream.event()
    while not json.loads(seen["data"])["points"]:
        seen = stream.event()
    stream.close()
    back = Stream(live, seen["id"])
    event = back.event()
    assert event["event"] == "now"
    assert json.loads(event["data"])["points"] == []
    back.close()
    for other in ("0badf00d-1", "nonsense", seen["id"] + "000"):
        stranger = Stream(live, other)
        assert stranger.event()["event"] == "all"
        stranger.close()


def test_many_read_at_the_same_time(live: LiveStatus) -> None:
    streams = [Stream(live) for _ in range(20)]
    work(live, 2)
    for stream in streams:
        assert stream.event()["event"] == "all"
        assert stream.event()["event"] == "now"
        stream.close()


def test_a_reader_that_does_not_read_is_dropped_and_the_others_are_not(
    live: LiveStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotrial.live.server.MOST_WAITING", 20_000)
    assert live.place
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.settimeout(20)
    stuck.connect(("127.0.0.1", live.place.port))
    stuck.sendall(f"GET /stream?token={token(live)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    reader = Stream(live)
    assert live._server
    deadline = time.monotonic() + 30
    while len(live._server.readers) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    live(Message("x" * 400_000))
    while len(live._server.readers) > 1:
        assert time.monotonic() < deadline, "it was not dropped"
        reader.event()
    assert reader.event()["event"] == "now"
    stuck.close()
    reader.close()


def test_more_readers_than_it_can_serve_are_told_so(
    live: LiveStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotrial.live.server.MOST_READERS", 1)
    stream = Stream(live)
    assert ask(live, f"/?token={token(live)}")[0] == 503
    stream.close()
    assert MOST_READERS > 50


def test_readers_are_told_the_end_and_then_nothing_more(tmp_path: Path) -> None:
    with LiveStatus(RESULTS.study, address.parse(address.FREE)) as live:
        live(TrialsPlanned(63, 63, tmp_path))
        stream = Stream(live)
        stream.event()
        live.ends(5)
    last: dict[str, str] = {}
    while event := stream.event():
        last = event
    stream.close()
    told = json.loads(last["data"])["now"]
    assert (told["state"], told["exit"]) == ("over", 5)
    assert (file.read(tmp_path) or {})["state"] == "over"


def test_a_run_that_was_stopped_says_why(tmp_path: Path) -> None:
    def stopped() -> None:
        with LiveStatus(RESULTS.study, None) as live:
            live(TrialsPlanned(1, 1, tmp_path))
            raise UsageError("the disk is gone")

    with pytest.raises(UsageError):
        stopped()
    told = file.read(tmp_path) or {}
    assert (told["exit"], told["why"]) == (2, "the disk is gone")


def test_a_port_that_is_taken_is_an_error_before_the_run_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(UsageError) as refused,
            LiveStatus(RESULTS.study, address.parse(f":{port}")),
        ):
            pass
    assert "in use" in refused.value.message
    assert "--live 127.0.0.1:0" in refused.value.advice


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("8080", "127.0.0.1:8080"),
        (":8080", "127.0.0.1:8080"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:80", "[::1]:80"),
        ("box7.example:8080", "box7.example:8080"),
    ],
)
def test_an_address_is_what_people_write(text: str, shown: str) -> None:
    assert address.parse(text).shown == shown


@pytest.mark.parametrize("text", ["", "box7", "1:2:3", "127.0.0.1:70000", "127.0.0.1:", "a b:1"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="not ADDR:PORT"):
        address.parse(text)


def test_a_name_that_leads_nowhere_is_told_and_not_raised_as_anything_else() -> None:
    with pytest.raises(UsageError, match=r"cannot be served on 203\.0\.113\.7:8080"):
        address.listen(address.parse("203.0.113.7:8080"))


def test_tokens_are_long_and_never_the_same() -> None:
    assert len({address.new_token() for _ in range(50)}) == 50
    assert len(address.new_token()) >= 22


def test_the_token_never_reaches_the_results_folder(live: LiveStatus, tmp_path: Path) -> None:
    wait_for_document(tmp_path)
    assert token(live) not in (tmp_path / file.NAME).read_text()


def wait_for_document(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not (folder / file.NAME).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_fault_of_the_picture_or_of_the_server_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(LiveServer, "tell", broken)
    with LiveStatus(RESULTS.study, address.parse(address.FREE)) as live:
        live(TrialsPlanned(63, 63, tmp_path))
        live(CountersSampled(TelemetrySample("a", "b", "c", {"nonsense": True})))
        live(Message("still there"))
    assert (file.read(tmp_path) or {})["words"] == ["still there"]


def test_names_that_are_no_unicode_are_served_too(live: LiveStatus) -> None:
    live(Message("caf\udce9"))
    work(live, 2)
    for path in ("/state.json", "/metrics"):
        assert ask(live, f"{path}?token={token(live)}")[0] == 200


def test_a_fault_in_an_answer_is_one_readers(
    live: LiveStatus, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("iotrial.live.server.openmetrics", lambda *_: 1 / 0)
    assert ask(live, f"/metrics?token={token(live)}")[0] == 500
    assert ask(live, f"/?token={token(live)}")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_folder_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    with LiveStatus(RESULTS.study, address.parse(address.FREE)) as live:
        live(TrialsPlanned(63, 63, tmp_path / "is not there"))
        live(TrialEnded(RECORDS[0]))
        assert ask(live, f"/state.json?token={token(live)}")[0] == 200


def test_a_disk_that_is_full_ends_nothing() -> None:
    written = file.LiveFile()
    written._handle = os.open("/dev/full", os.O_WRONLY)
    assert not written.write(Path("/nowhere"), {"a": 1})
    written.close()


def test_the_file_is_one_document_at_any_moment_and_torn_ones_are_read_again(
    tmp_path: Path,
) -> None:
    assert file.read(tmp_path) is None
    written = file.LiveFile()
    for size in (10, 9000, 20):
        assert written.write(tmp_path, {"text": "x" * size})
        found = file.read(tmp_path) or {}
        assert (found["text"], found["seq"]) == ("x" * size, found["end"])
    written.close()
    whole = (tmp_path / file.NAME).read_bytes()
    assert len(whole) % file.PAGE == 0
    (tmp_path / file.NAME).write_bytes(whole.replace(b'"seq":3', b'"seq":4'))
    with pytest.raises(file.FormatError, match=r"live\.json"):
        file.read(tmp_path)


def test_who_has_the_token_is_served_however_many_others_are_there(live: LiveStatus) -> None:
    assert live.place
    idle: list[socket.socket] = []
    try:
        asked = (b"", b"GET ", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 4000)
        for number in range(1000):
            each = socket.create_connection(("127.0.0.1", live.place.port), timeout=10)
            each.sendall(asked[number % 3])
            idle.append(each)
            if number % 250 == 0:
                assert ask(live, f"/state.json?token={token(live)}")[0] == 200
        for path in ("/", "/state.json", "/metrics"):
            assert ask(live, f"{path}?token={token(live)}")[0] == 200
        stream = Stream(live)
        assert stream.event()["event"] == "all"
        place = ("127.0.0.1", live.place.port)
        idle += [socket.create_connection(place, timeout=10) for _ in range(200)]
        work(live, 2, 3)
        assert stream.event()["event"] == "now"  # who reads already is not dropped for others
        stream.close()
    finally:
        for each in idle:
            each.close()


def test_who_never_asks_is_let_go(live: LiveStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    assert live.place
    monkeypatch.setattr("iotrial.live.server.HASTE", 0.2)
    with socket.create_connection(("127.0.0.1", live.place.port), timeout=10) as slow:
        slow.sendall(b"GET /")
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(1) == b""
