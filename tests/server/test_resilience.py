"""What goes wrong around a server: full queues, slow answers, clients that leave, a model process that is killed."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Outcome
from headway.config.errors import Problem
from headway.server.limits import Limits
from headway.server.security import Access, Gate
from server.conftest import PATIENCE, TOKEN, Served, serving, wait_until
from trained import Trained

BEARER = {"Authorization": f"Bearer {TOKEN}"}
ENDLESS = {"prompt": "b", "max_tokens": 4096, "temperature": 0, "stream": True}


@pytest.fixture(scope="module")
def narrow(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """It writes one text at a time, one more may wait, and none may take long."""
    words = ["--batch", "1", "--queue", "1", "--timeout", "3"]
    run = str(trained["endless"].run.folder)
    with serving(tmp_path_factory.mktemp("narrow"), run, *words, HEADWAY_TOKEN=TOKEN) as server:
        yield server


def start_stream(server: Served) -> socket.socket:
    """A connection by which a long text has begun to come."""
    body = json.dumps(ENDLESS)
    connection = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{header_of(BEARER)}"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    assert b" 200 " in connection.recv(100)
    return connection


def header_of(headers: dict[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def is_idle(server: Served) -> bool:
    return server.metric("headway_writing", BEARER) == 0 and server.metric("headway_open_requests", BEARER) == 0


def test_every_route_needs_the_token(narrow: Served) -> None:
    for path in ("/openapi.json", "/v1/models", "/v1/models/endless", "/metrics", "/nothing"):
        for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"}):
            answer = narrow.request("GET", path, None, wrong)
            assert (answer.status, answer.headers.get("www-authenticate")) == (401, "Bearer"), path
            assert TOKEN.encode() not in answer.body
        assert narrow.request("GET", path, None, BEARER).status in (200, 404)
    assert narrow.post("/v1/completions", {"prompt": "a"}).status == 401
    assert narrow.get("/").status == narrow.get("/health").status == 200
    assert TOKEN not in narrow.greeting + narrow.log.read_text()


def test_who_leaves_costs_nothing_any_more(narrow: Served) -> None:
    connection = start_stream(narrow)
    assert narrow.metric("headway_open_requests", BEARER) == 1
    connection.close()
    wait_until(lambda: is_idle(narrow), 2)  # before its deadline


def test_a_full_queue_says_when_to_come_again(narrow: Served) -> None:
    first, second = start_stream(narrow), None
    try:
        body = json.dumps({**ENDLESS, "stream": False})
        second = socket.create_connection(("127.0.0.1", narrow.port), PATIENCE)
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{header_of(BEARER)}"
        )
        second.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_until(lambda: narrow.metric("headway_open_requests", BEARER) == 2, 3)
        answer = narrow.post("/v1/completions", {"prompt": "a"}, BEARER)
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    finally:
        first.close()
        if second is not None:
            second.close()  # which is not answered yet
    wait_until(lambda: is_idle(narrow), 3)


def test_an_answer_that_takes_too_long_is_given_up(narrow: Served) -> None:
    wait_until(lambda: is_idle(narrow))
    answer = narrow.post("/v1/completions", {**ENDLESS, "stream": False}, BEARER)
    assert (answer.status, answer.headers["retry-after"], answer.json["error"]["code"]) == (503, "1", "too_late")
    wait_until(lambda: is_idle(narrow), 2)


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    gate = Gate(None, Access(), Limits(body_seconds=0.05), lambda refused: None)
    scope = {"type": "http", "method": "POST", "path": "/classify", "headers": [(b"host", b"localhost")]}
    asyncio.run(gate(scope, receive, send))
    assert sent[0]["status"] == 408


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="child processes are found in /proc")
def test_the_model_process_comes_back_after_a_kill(narrow: Served) -> None:
    """Even without the spare one, which would be there too soon to see anything."""
    wait_until(lambda: is_idle(narrow))
    open_stream = start_stream(narrow)
    for pid in reversed(narrow.children):
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    seen = set()
    while (answer := narrow.post("/v1/completions", {"prompt": "a", "max_tokens": 2}, BEARER)).status != 200:
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert time.monotonic() - killed < 20  # 5 on a machine of its own: see docs/guides/serving.md
        seen.add(narrow.get("/health").status)
        time.sleep(0.1)
    assert 503 in seen
    rest = b"".join(iter(lambda: open_stream.recv(1 << 16), b""))
    assert b'"code": "unavailable"' in rest  # the stream says why it ends
    assert b"[DONE]" not in rest
    assert narrow.get("/health").status == 200
    assert narrow.metric("headway_restarts_total", BEARER) == 1


def test_a_signal_lets_open_answers_end(narrow: Served) -> None:
    """And then no new ones begin."""
    wait_until(lambda: is_idle(narrow))
    connection = start_stream(narrow)
    model = narrow.model_pid
    code, printed = narrow.stop(signal.SIGTERM)
    rest = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert b'"finish_reason": "length"' in rest or b'"too_late"' in rest
    assert (code, printed) == (0, "stopped\n")
    assert "Traceback" not in narrow.log.read_text()
    assert not Path(f"/proc/{model}").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{letters}", "{letters}"], "both called letters"),
        (["{letters}/nothing"], "nothing"),
        (["{letters}", "--token", "short"], "at least 16 characters"),
        (["{letters}", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    headway: Callable[..., Outcome], trained: Trained, words: list[str], message: str
) -> None:
    letters = trained["letters"].run.folder
    outcome = headway("serve", *(word.format(letters=letters) for word in words), "--port", "0")
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_others_need_a_token() -> None:
    assert Access.make("127.0.0.1", None, []).token is None
    made = [Access.make(host, None, []).token or "" for host in ("0.0.0.0", "::", "192.0.2.1", "myhost")]
    assert all(len(token) >= 32 for token in made)
    assert len(set(made)) == len(made)
    assert Access.make("0.0.0.0", TOKEN, []).token == TOKEN
    with pytest.raises(Problem, match="at least 16"):
        Access.make("127.0.0.1", "ä" * 20, [])


def test_a_server_for_others_is_called_by_its_own_names() -> None:
    access = Access.make("0.0.0.0", None, ["models.example"])
    assert all(
        map(access.knows, ["models.example", "MODELS.example:9000", "192.0.2.7:80", "[2001:db8::1]:80", "localhost"])
    )
    assert not any(map(access.knows, ["evil.example", "models.example.evil.example", "", "models.example:x"]))
    assert not Access.make("127.0.0.1", None, []).knows("192.0.2.7")
