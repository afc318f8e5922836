"""The server: one asyncio loop, one document, many readers.

A document is encoded once, however many read it.  Nobody is waited for: what a reader does not
take stays in its own buffer, and a reader whose buffer grows too large is dropped.

Source: HTML Living Standard, 9.2 (server-sent events: ``id``, ``event``, ``retry``,
``Last-Event-ID``).

From the bytes of a request to what is answered.  Pure.

Read-only: GET and HEAD, of four things.  No cross-origin headers, on purpose.

Sources: RFC 9112 (messages), RFC 9110 (status codes), CSP Level 3 (hashes of inline code).

The page: one file, its code and style inside, allowed by their hashes and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from iotrial.live import address
from iotrial.live.metrics import PLAIN, content_type, openmetrics
from iotrial.live.picture import POINT, LiveDocument

MOST_HEAD = 8192
"""Bytes of a request's head."""
CHARSET = "; charset=utf-8"
_SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """``last`` is the id of the last event that the reader has seen ('' at first), ``accept`` the
    types that it says it takes."""

    method: str
    path: str
    token: str
    last: str
    host: str
    accept: str


class RequestRefused(Exception):
    """A request that is answered by its ``status`` alone."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Who may ask: with this ``token``, by one of these ``names``."""

    token: str
    names: frozenset[str]

    def check(self, request: PageRequest) -> None:
        """Raises Refused: without the token nobody learns even which paths there are."""
        if not address.is_ours(request.host, self.names):
            raise RequestRefused(HTTPStatus.FORBIDDEN, "not a name of this server")
        if not address.may_ask(self.token, request.token):
            raise RequestRefused(HTTPStatus.FORBIDDEN, "wrong or missing token")
        if request.method not in ("GET", "HEAD"):
            raise RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, "read-only")


def session() -> str:
    """Tells the events of one run from those of another that is served at the same place."""
    return secrets.token_hex(4)


def parse(head: bytes) -> PageRequest:
    """A request's head, without the blank line.  Raises Refused for what is none."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "not HTTP/1")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or name != name.strip() or (key == "host" and key in headers):
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "not a header")
        headers[key] = value.strip()
    if not headers.get("host"):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "no Host")
    try:
        place = urlsplit(words[1])
        asked = parse_qs(place.query, max_num_fields=8)
    except ValueError:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "not an address") from None
    return PageRequest(
        words[0], place.path, _token(asked, headers), headers.get("last-event-id", ""),
        headers["host"], headers.get("accept", ""),
    )  # fmt: skip


def _token(asked: Mapping[str, list[str]], headers: Mapping[str, str]) -> str:
    """Of the address, or of ``Authorization: Bearer``, as Prometheus sends it."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    return asked.get("token", [""])[0]


def head(
    status: HTTPStatus, kind: str, *, length: int | None = None, policy: str = NOTHING
) -> bytes:
    """An answer's head; without a ``length`` it goes on until the connection ends."""
    fields = {
        "Date": formatdate(usegmt=True),
        "Content-Type": kind,
        "Content-Security-Policy": policy,
        **_SAFE,
        **({"Allow": "GET, HEAD"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}),
        **({} if length is None else {"Content-Length": str(length)}),
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def refusal(why: RequestRefused) -> bytes:
    body = f"{why.status.value} {why.status.phrase}: {why.words}\n".encode()
    return head(why.status, "text/plain" + CHARSET, length=len(body)) + body


def whole(request: PageRequest, kind: str, body: bytes, policy: str = NOTHING) -> bytes:
    """A document; of HEAD only its head."""
    start = head(HTTPStatus.OK, kind, length=len(body), policy=policy)
    return start if request.method == "HEAD" else start + body


_PARTS = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LivePage:
    body: bytes
    policy: str


@cache
def page() -> LivePage:
    """The page and its Content-Security-Policy."""
    text = (files("iotrial.live") / "page.html").read_text("utf-8")
    found = {kind: _hash(content) for kind, content in _PARTS.findall(text)}
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{found['script']}'",
            f"style-src '{found['style']}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
    return LivePage(text.encode(), policy)


def _hash(content: str) -> str:
    """As CSP takes it: of the element's text, byte for byte."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


MOST_READERS = 256
MOST_WAITING = 256 * 1024
"""Bytes that may wait for a reader beyond what it was first sent."""
MOST_UNKNOWN = 64
"""Connections that have not shown the token yet.  One more, and the oldest of them is dropped: who
has the token says so at once, and gets in however many others there are."""
PATIENCE = 10.0
"""Seconds in which an answer must be taken."""
HASTE = 3.0
"""Seconds in which a request must have come."""
WAITING = 1024
"""Connections that the kernel keeps until they are looked at."""
RETRY = 2000
"""Milliseconds after which a page that lost the stream asks again."""
KEPT = 64 * 1024
"""Bytes that the kernel keeps for one reader."""


class LiveServer:
    """Serves ``picture`` on ``listening`` to those whom ``gate`` lets in.

    ``clock`` gives seconds since the epoch.  Everything happens in the loop's own thread.
    """

    def __init__(
        self,
        picture: LiveDocument,
        listening: socket.socket,
        gate: AccessControl,
        clock: Callable[[], float],
    ) -> None:
        self.picture, self.gate, self.clock = picture, gate, clock
        self._listening = listening
        self._server: asyncio.Server | None = None
        self.readers: set[_Reader] = set()
        self.open: set[_Reader] = set()
        """All connections; ``readers`` are those that read the stream."""
        self.unknown: dict[_Reader, None] = {}
        """Those that have not shown the token, the oldest first."""
        self._session = session()
        self._told = 0

    async def begin(self) -> None:
        loop = asyncio.get_running_loop()
        # The terminal is the run's: what goes wrong with a reader is not said there.
        loop.set_exception_handler(lambda _loop, _context: None)
        self._server = await loop.create_server(
            lambda: _Reader(self), sock=self._listening, backlog=WAITING
        )

    def tell(self, document: Mapping[str, Any]) -> None:
        """The document of now, to all who read the stream."""
        new = self._points(self._told)
        self._told = self.picture.pointed
        if self.readers:
            event = self._event("now", {"now": document, "points": new})
            for reader in tuple(self.readers):
                reader.send(event)

    async def end(self) -> None:
        """Let everybody take what was told last, then close."""
        if self._server is not None:
            self._server.close()
        for reader in tuple(self.open):
            reader.finish()
        for _ in range(10):
            if not self.open:
                return
            await asyncio.sleep(0.05)
        for reader in tuple(self.open):
            reader.drop()

    def first(self, last: str) -> bytes:
        """What a reader is told first: all of the past, or what it has missed since ``last``."""
        now = self.picture.document(self.clock())
        session, _, number = last.partition("-")
        if session == self._session and number.isdigit() and self._has(int(number)):
            return self._event("now", {"now": now, "points": self._points(int(number))})
        past = {
            "point": POINT, "points": list(self.picture.points), "sparks": self.picture.sparks(),
        }  # fmt: skip
        return f"retry: {RETRY}\n".encode() + self._event("all", {"now": now, **past})

    def _has(self, number: int) -> bool:
        return 0 <= self.picture.pointed - number <= len(self.picture.points)

    def _points(self, since: int) -> list[list[float | None]]:
        count = min(self.picture.pointed - since, len(self.picture.points))
        return list(self.picture.points)[-count:] if count > 0 else []

    def _event(self, kind: str, data: Mapping[str, Any]) -> bytes:
        text = json.dumps(data, separators=(",", ":"))
        mark = f"{self._session}-{self.picture.pointed}"
        return f"id: {mark}\nevent: {kind}\ndata: {text}\n\n".encode("ascii")

    def answer(self, request: PageRequest) -> bytes:
        """The whole answer to a request that is not for the stream.  Raises Refused."""
        match request.path:
            case "/" | "/index.html":
                found = page()
                return whole(request, "text/html" + CHARSET, found.body, found.policy)
            case "/metrics":
                kind = content_type(request.accept)
                text = openmetrics(
                    self.picture.document(self.clock()),
                    self.picture.counters,
                    plain=kind == PLAIN,
                ).encode("utf-8", "replace")
                return whole(request, kind, text)
            case "/state.json":
                document = self.picture.document(self.clock())
                body = json.dumps(document).encode("ascii")
                return whole(request, "application/json", body)
        raise RequestRefused(HTTPStatus.NOT_FOUND, "not found")


class _Reader(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: LiveServer) -> None:
        self._server = server
        self._head = b""
        self._answered = False
        self._most = MOST_WAITING
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.open.add(self)
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KEPT)
        self._wait(HASTE)
        unknown = self._server.unknown
        unknown[self] = None
        if len(unknown) > MOST_UNKNOWN:
            next(iter(unknown)).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._timer is not None:
            self._timer.cancel()
        self._server.open.discard(self)
        self._server.unknown.pop(self, None)
        self._server.readers.discard(self)

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return  # whatever more it says
        self._head += data
        try:
            if b"\r\n\r\n" in self._head:
                self._answer(parse(self._head.partition(b"\r\n\r\n")[0]))
            elif len(self._head) > MOST_HEAD:
                self._refuse(RequestRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too long"))
        except RequestRefused as why:
            self._refuse(why)
        except Exception:  # noqa: BLE001 (a fault of ours is one reader's, not the run's)
            self._refuse(
                RequestRefused(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error of iotrial")
            )

    def _answer(self, request: PageRequest) -> None:
        self._server.gate.check(request)
        self._server.unknown.pop(self, None)
        if len(self._server.open) - len(self._server.unknown) > MOST_READERS:
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "too many readers")
        if request.path != "/stream":
            self._close_after(self._server.answer(request))
            return
        start = head(HTTPStatus.OK, "text/event-stream")
        if request.method == "HEAD":
            self._close_after(start)
            return
        self._answered = True
        self._end_wait()
        first = start + self._server.first(request.last)
        self._most = MOST_WAITING + len(first)
        self._transport.write(first)
        self._server.readers.add(self)

    def send(self, event: bytes) -> None:
        """Nobody is waited for: who does not read is dropped."""
        if self._transport.get_write_buffer_size() > self._most:
            self.drop()
        else:
            self._transport.write(event)

    def finish(self) -> None:
        """Close when what was sent is taken."""
        self._transport.close()

    def drop(self) -> None:
        self._server.unknown.pop(self, None)
        self._transport.abort()

    def _refuse(self, why: RequestRefused) -> None:
        self._close_after(refusal(why))

    def _close_after(self, whole: bytes) -> None:
        self._answered = True
        self._wait(PATIENCE)
        self._transport.write(whole)
        self._transport.close()

    def _wait(self, seconds: float) -> None:
        self._end_wait()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self.drop)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
