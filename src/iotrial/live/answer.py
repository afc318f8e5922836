"""From the bytes of a request to what is answered.  Pure.

Read-only: GET and HEAD, of four things.  No cross-origin headers, on purpose.

Sources: RFC 9112 (messages), RFC 9110 (status codes), CSP Level 3 (hashes of inline code).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from iotrial.live import address

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
class Request:
    """``last`` is the id of the last event that the reader has seen ('' at first), ``accept`` the
    types that it says it takes."""

    method: str
    path: str
    token: str
    last: str
    host: str
    accept: str


class Refused(Exception):
    """A request that is answered by its ``status`` alone."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True)
class Gate:
    """Who may ask: with this ``token``, by one of these ``names``."""

    token: str
    names: frozenset[str]

    def check(self, request: Request) -> None:
        """Raises Refused: without the token nobody learns even which paths there are."""
        if not address.is_ours(request.host, self.names):
            raise Refused(HTTPStatus.FORBIDDEN, "not a name of this server")
        if not address.may_ask(self.token, request.token):
            raise Refused(HTTPStatus.FORBIDDEN, "wrong or missing token")
        if request.method not in ("GET", "HEAD"):
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "read-only")


def session() -> str:
    """Tells the events of one run from those of another that is served at the same place."""
    return secrets.token_hex(4)


def parse(head: bytes) -> Request:
    """A request's head, without the blank line.  Raises Refused for what is none."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004
        raise Refused(HTTPStatus.BAD_REQUEST, "not HTTP/1")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or name != name.strip() or (key == "host" and key in headers):
            raise Refused(HTTPStatus.BAD_REQUEST, "not a header")
        headers[key] = value.strip()
    if not headers.get("host"):
        raise Refused(HTTPStatus.BAD_REQUEST, "no Host")
    try:
        place = urlsplit(words[1])
        asked = parse_qs(place.query, max_num_fields=8)
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST, "not an address") from None
    return Request(
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


def refusal(why: Refused) -> bytes:
    body = f"{why.status.value} {why.status.phrase}: {why.words}\n".encode()
    return head(why.status, "text/plain" + CHARSET, length=len(body)) + body


def whole(request: Request, kind: str, body: bytes, policy: str = NOTHING) -> bytes:
    """A document; of HEAD only its head."""
    start = head(HTTPStatus.OK, kind, length=len(body), policy=policy)
    return start if request.method == "HEAD" else start + body
