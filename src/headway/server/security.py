"""Who may ask the server what: the one place for these rules.

- the Host must be a name of this server, so that no other web page can reach it under a name of its own (DNS rebinding)
- an Origin, which browsers send for scripts, must be the server's own, and there are no CORS headers at all
- with a token, every route but the page itself and ``/health`` needs ``Authorization: Bearer TOKEN``; there are no
  cookies, and so nothing that a browser would send by itself
- a body has a bounded size, and a bounded time to arrive
- a page may load what the server itself serves, and nothing else

All is read off the raw request: nothing is decided by a URL that a library has put together.
"""

import asyncio
import hmac
import ipaddress
import json
import re
import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headway.config.errors import Problem
from headway.server.limits import Limits

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = frozenset({"/", "/page.js", "/page.css", "/health"})  # files without data, and whether there is a model
SHORTEST_TOKEN = 16
HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[0-9a-z._-]+))(?::[0-9]*)?")
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
]


class Refused(Exception):
    """A request that is not answered as asked: an HTTP status, and one line that says why."""

    def __init__(self, status: int, message: str, code: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.code, self.headers = status, message, code, headers or {}

    @property
    def content(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


@dataclass(frozen=True)
class Access:
    host: str = "127.0.0.1"
    token: str | None = None
    names: frozenset[str] = field(default_factory=frozenset)  # that the server may be called by besides

    @classmethod
    def make(cls, host: str, token: str | None, names: Iterable[str]) -> "Access":
        """An address that others can reach needs a token; it is made if there is none."""
        if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
            raise Problem(
                f"a token has at least {SHORTEST_TOKEN} characters, letters and digits: leave it out to get one"
            )
        if token is None and not is_loopback(host):
            token = secrets.token_urlsafe(32)
        return cls(host, token, frozenset(name.lower() for name in names))

    def knows(self, host: str) -> bool:
        """Whether a Host header is a name of this server; any port, since it may be behind another one."""
        match = HOST.fullmatch(host.lower())
        if match is None:
            return False
        name = match["address"] or match["name"]
        if name in LOOPBACK or name == self.host.lower() or name in self.names:
            return True
        if is_loopback(self.host):
            return False
        return is_address(name) or name == socket.gethostname().lower()

    def admits(self, authorization: str) -> bool:
        if self.token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    return host in LOOPBACK or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Gate:
    """The ASGI application behind which all others are."""

    def __init__(self, app: Any, access: Access, limits: Limits, note: Callable[[Refused], None]):
        self.app, self.access, self.limits, self.note = app, access, limits, note

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        try:
            self.check(scope)
            whole = await self.body(scope, receive)
        except Refused as refused:
            self.note(refused)
            return await refuse(refused, scope, send)
        return await self.app(scope, once(whole, receive), with_headers(send))

    def check(self, scope: Any) -> None:
        hosts, origins = values(scope, b"host"), values(scope, b"origin")
        if len(hosts) != 1 or not self.access.knows(hosts[0]):
            raise Refused(403, "this server is not called by this name: see --allow-host", "bad_host")
        if any(origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}") for origin in origins):
            raise Refused(403, "pages of another origin may not ask this server", "bad_origin")
        authorization = values(scope, b"authorization")
        if scope["path"] not in OPEN and not self.access.admits(authorization[0] if len(authorization) == 1 else ""):
            message = "this server needs its token, as Authorization: Bearer TOKEN"
            raise Refused(401, message, "bad_token", {"WWW-Authenticate": "Bearer"})

    async def body(self, scope: Any, receive: Any) -> bytes:
        too_large = Refused(413, f"a request may have {self.limits.body:,} bytes", "too_large", {"Connection": "close"})
        lengths = values(scope, b"content-length")
        if lengths and (not lengths[0].isdigit() or len(lengths[0]) > 18 or int(lengths[0]) > self.limits.body):
            raise too_large
        pieces, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while (message := await receive())["type"] == "http.request":
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > self.limits.body:
                        raise too_large
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            message = f"the request took more than {self.limits.body_seconds:g} seconds to arrive"
            raise Refused(408, message, "too_slow", {"Connection": "close"}) from None
        return b"".join(pieces)


def values(scope: Any, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def once(body: bytes, receive: Any) -> Any:
    """The body that has been read; after it, what comes."""
    given = False

    async def again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def with_headers(send: Any) -> Any:
    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *HEADERS]}
        await send(message)

    return sent


async def refuse(refused: Refused, scope: Any, send: Any) -> None:
    content = json.dumps(refused.content).encode()
    own = [(name.lower().encode(), value.encode()) for name, value in refused.headers.items()]
    sizes = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": refused.status, "headers": [*sizes, *own, *HEADERS]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})
