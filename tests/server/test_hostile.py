"""Requests that no honest client sends: each gets one clear line, and tells nothing of the server."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any, NamedTuple

import pytest

from server.conftest import Served

JSON = {"Content-Type": "application/json"}
GOOD: dict[str, dict[str, Any]] = {  # by path: the least that is answered
    "/v1/completions": {"model": "letters", "prompt": "a", "max_tokens": 1},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    "/v1/embeddings": {"model": "letters", "input": "a"},
    "/classify": {"texts": "01"},
    "/explain": {"text": "01"},
    "/translate": {"texts": "de one"},
    "/fill": {"text": "the [MASK] ."},
    "/reward": {"prompts": "a", "answers": ["b"]},
}
TEXTS = {"/v1/completions": "prompt", "/v1/embeddings": "input", "/explain": "text", "/fill": "text"}
BAD_BODIES = [
    *[b"", b"{", b"[]", b"null", b"1", b'"a"', b"{}", b"\xff\xfe", b"{'a': 1}", b'{"a": NaN}', b'{"a": 1}x', b"\x00"],
    *[
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
        b"--boundary",
        b"prompt=a",
        b"\xef\xbb\xbf{}",
    ],
]
BAD_VALUES: list[Any] = [
    *[None, True, -1, 1e400, {}, {"a": 1}, [], [[]], [None], [1], [{}], "\ud800", ["\udfff"], "x" * 70_000],
    *[["x"] * 300, ["x" * 70_000], [["x"]]],
]
BAD_OPTIONS: dict[str, list[Any]] = {
    "temperature": [-1, "hot", 101, True, [], 1e400, -1e400, 1e-9],
    "top_p": [0, -0.1, 1.1, "1"],
    "top_k": [0, -1, 1.5, 1 << 40],
    "min_p": [0, 2, []],
    "repetition_penalty": [0, -1, 1e9],
    "max_tokens": [0, -1, 5_000, 1 << 70, "all", 1.5],
    "n": [0, 33, 1 << 64, "2"],
    "seed": [-1, 1 << 63, 1e300, "1"],
    "stop": ["", [""] * 2, ["x"] * 17, [1], "x" * 101, {"a": 1}],
    "stream": ["yes", 1, []],
    "stream_options": [1, {"include": True}, {"include_usage": "x"}],
    "logprobs": [-1, 21, "all"],
    "frequency_penalty": [1, -1],
    "model": ["../letters", "/etc/passwd", "letters\x00", 1, [], "x" * 300, "", "ＬＥＴＴＥＲＳ"],
    "trust": ["os:system"],
    "__class__": ["x"],
}
PATHS = [
    *[
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/about.json",
        "//etc/passwd",
        "/page/../app.py",
        "/page.js/..",
    ],
    *["/v1/models/..", "/v1/models/%2e%2e%2fletters", "/v1/models/letters%00", "/static/x", "/runs", "/v1", "/docs"],
    *[
        "/index.html",
        "/.git/config",
        "/v1/models/" + "x" * 5_000,
        "/?file=/etc/passwd",
        "/openapi.json/",
        "/v1/models/☃",
    ],
]
HOSTS = [
    *[
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost:80@evil.example",
    ],
    *["", "localhost:x", "[::1", "127.0.0.2", "0.0.0.0", "localhost/..", "localhost, evil.example", "2130706433"],
]
ORIGINS = [
    *[
        "http://evil.example",
        "null",
        "https://localhost.evil.example",
        "file://",
        "http://localhost:1",
        "http://127.0.0.1",
    ],
    *["http://[::1]:{port}", "chrome-extension://x", "HTTP://127.0.0.1:{port}.evil.example"],
]
METHODS = ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND"]
TYPES = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonp"]


class Attack(NamedTuple):
    name: str
    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = JSON


def attacks(port: int) -> Iterator[Attack]:
    for path, body in product(("/v1/completions", "/v1/embeddings", "/classify", "/fill", "/reward"), BAD_BODIES):
        yield Attack(f"body {body[:20]!r}", "POST", path, body)
    for (path, field), value in product(TEXTS.items(), BAD_VALUES):
        if (path, value) not in (("/v1/completions", None),):
            yield Attack(f"{field} {value!r:.20}", "POST", path, encoded({**GOOD[path], field: value}))
    for name, values in BAD_OPTIONS.items():
        for value in values:
            yield Attack(
                f"{name}={value!r:.20}", "POST", "/v1/completions", encoded({**GOOD["/v1/completions"], name: value})
            )
    for path in PATHS:
        yield Attack(path[:40], "GET", path.encode().decode("latin-1"))
    for host, path in product(HOSTS, ("/", "/v1/models")):
        yield Attack(f"host {host}", "GET", path, headers={"Host": host})
    for origin, path in product(ORIGINS, ("/classify", "/v1/completions")):
        headers = {**JSON, "Origin": origin.format(port=port)}
        yield Attack(f"origin {origin}", "POST", path, encoded(GOOD[path]), headers)
    for method, path in product(METHODS, ("/classify", "/v1/completions")):
        yield Attack(method, method, path)
    for kind, path in product(TYPES, ("/classify", "/v1/embeddings")):
        yield Attack(f"type {kind}", "POST", path, encoded(GOOD[path]), {"Content-Type": kind})
    for size in ("-1", "x", "9" * 30, str(1 << 21), "1e3", "+5"):
        yield Attack(f"length {size}", "POST", "/classify", b"{}", {**JSON, "Content-Length": size})
    yield Attack("a body over the bound", "POST", "/classify", b" " * ((1 << 20) + 1))


def encoded(content: Any) -> bytes:
    return json.dumps(content).encode()


def raw(attack: Attack, port: int) -> bytes:
    """Not through a library, which would not send most of these."""
    headers = {"Host": f"127.0.0.1:{port}", "Content-Length": str(len(attack.body)), **attack.headers}
    lines = [f"{attack.method} {attack.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + attack.body


def answer_to(data: bytes, port: int) -> bytes:
    """All that comes until the server closes the connection, or has no more to say."""
    pieces = []
    with socket.create_connection(("127.0.0.1", port), 30) as connection, suppress(OSError):
        with suppress(OSError):  # refused before all was sent
            connection.sendall(data)
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
            connection.settimeout(0.5)
    return b"".join(pieces)


def test_hostile_requests_get_one_clear_line(served: Served) -> None:
    wrong, count = [], 0
    for attack in attacks(served.port):
        count += 1
        answer = answer_to(raw(attack, served.port), served.port)
        status = int(answer[9:12] or 0)
        if not 400 <= status < 500 and not harmless(attack, status):
            wrong.append((attack.name, attack.path[:30], answer[:40]))
        if (
            re.search(rb"Traceback|\.py\b|/work|/tmp|/home|site-packages|0x[0-9a-f]{6}", answer)
            and attack.path != "/?file=/etc/passwd"
        ):
            wrong.append((attack.name, "tells too much", answer[-300:]))
    assert count >= 300
    assert not wrong, wrong[:9]
    for path, content in GOOD.items():  # it still answers
        assert served.post(path, content).status == 200, path
    assert served.metric("headway_restarts_total") == 0


def harmless(attack: Attack, status: int) -> bool:
    """Asked for what is there, with something that does not matter."""
    page = attack.path in ("/?file=/etc/passwd", "//etc/passwd", "/openapi.json/") and status in (200, 307)
    nothing = attack.name in ("temperature=1e-09",) and status == 400
    return page or nothing


RAW = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET /\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01",
    b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /classify HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
]


@pytest.mark.parametrize("data", RAW, ids=range(len(RAW)))
def test_what_is_not_http_is_refused(served: Served, data: bytes) -> None:
    answer = answer_to(data, served.port)
    assert answer == b"" or 400 <= int(answer[9:12]) < 500, answer[:200]
    assert served.get("/health").status == 200


def test_a_page_of_this_server_may_ask(served: Served) -> None:
    """As a browser's fetch does it."""
    for host in (f"127.0.0.1:{served.port}", f"localhost:{served.port}"):
        answer = served.post("/classify", GOOD["/classify"], {"Host": host, "Origin": f"http://{host}"})
        assert answer.status == 200
        assert not any(name.startswith("access-control") for name in answer.headers)
