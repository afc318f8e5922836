"""The server: one asyncio loop, one document, many readers.

A document is encoded once, however many read it.  Nobody is waited for: what a reader does not
take stays in its own buffer, and a reader whose buffer grows too large is dropped.

Source: HTML Living Standard, 9.2 (server-sent events: ``id``, ``event``, ``retry``,
``Last-Event-ID``).
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, cast

from iotrial.live import answer
from iotrial.live.answer import CHARSET, Gate, Refused, Request
from iotrial.live.metrics import PLAIN, content_type, openmetrics
from iotrial.live.page import page
from iotrial.live.picture import POINT, Picture

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


class Server:
    """Serves ``picture`` on ``listening`` to those whom ``gate`` lets in.

    ``clock`` gives seconds since the epoch.  Everything happens in the loop's own thread.
    """

    def __init__(
        self, picture: Picture, listening: socket.socket, gate: Gate, clock: Callable[[], float]
    ) -> None:
        self.picture, self.gate, self.clock = picture, gate, clock
        self._listening = listening
        self._server: asyncio.Server | None = None
        self.readers: set[_Reader] = set()
        self.open: set[_Reader] = set()
        """All connections; ``readers`` are those that read the stream."""
        self.unknown: dict[_Reader, None] = {}
        """Those that have not shown the token, the oldest first."""
        self._session = answer.session()
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

    def answer(self, request: Request) -> bytes:
        """The whole answer to a request that is not for the stream.  Raises Refused."""
        match request.path:
            case "/" | "/index.html":
                found = page()
                return answer.whole(request, "text/html" + CHARSET, found.body, found.policy)
            case "/metrics":
                kind = content_type(request.accept)
                text = openmetrics(
                    self.picture.document(self.clock()),
                    self.picture.counters,
                    plain=kind == PLAIN,
                ).encode("utf-8", "replace")
                return answer.whole(request, kind, text)
            case "/state.json":
                document = self.picture.document(self.clock())
                body = json.dumps(document).encode("ascii")
                return answer.whole(request, "application/json", body)
        raise Refused(HTTPStatus.NOT_FOUND, "nothing is here")


class _Reader(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: Server) -> None:
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
                self._answer(answer.parse(self._head.partition(b"\r\n\r\n")[0]))
            elif len(self._head) > answer.MOST_HEAD:
                self._refuse(Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too long"))
        except Refused as why:
            self._refuse(why)
        except Exception:  # noqa: BLE001 (a fault of ours is one reader's, not the run's)
            self._refuse(Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of iotrial"))

    def _answer(self, request: Request) -> None:
        self._server.gate.check(request)
        self._server.unknown.pop(self, None)
        if len(self._server.open) - len(self._server.unknown) > MOST_READERS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many readers")
        if request.path != "/stream":
            self._close_after(self._server.answer(request))
            return
        start = answer.head(HTTPStatus.OK, "text/event-stream")
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

    def _refuse(self, why: Refused) -> None:
        self._close_after(answer.refusal(why))

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
