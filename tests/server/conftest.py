"""Servers as users start them: processes of their own, on free ports of this machine."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import headway as hw
from trained import Trained

TOKEN = "a-token-of-32-characters-for-tests"
PATIENCE = 60  # seconds, on a machine that does much else


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A running ``headway serve``."""

    def __init__(self, folder: Path, *words: str, **environment: str):
        self.log = folder / "log.jsonl"
        command = [sys.executable, "-m", "headway", "serve", *words, "--port", "0"]
        own = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=own)
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline()
        assert " at http://" in self.greeting, self.log.read_text()
        self.address = self.greeting.partition(" at ")[2].split()[0]
        self.port = int(self.address.rpartition(":")[2])

    @property
    def children(self) -> list[int]:
        """The model process, and the spare one."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    @property
    def model_pid(self) -> int:
        return self.children[0]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def request(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = self.connect()
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, None, headers)

    def post(self, path: str, content: Any, headers: Mapping[str, str] | None = None) -> Answer:
        own = {"Content-Type": "application/json", **(headers or {})}
        return self.request("POST", path, json.dumps(content), own)

    def metric(self, name: str, headers: Mapping[str, str] | None = None) -> float:
        text = self.request("GET", "/metrics", None, headers).body.decode()
        return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code, and what it prints at the end."""
        assert self.process.stdout is not None
        self.process.send_signal(number)
        rest = self.process.stdout.read()
        return self.process.wait(PATIENCE), rest


def wait_until(condition: Any, seconds: float = PATIENCE) -> float:
    """How long it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds
        time.sleep(0.02)
    return time.monotonic() - started


def models_of(trained: Trained) -> dict[str, hw.Model]:
    """One for each kind of route."""
    own = [trained[name] for name in ("letters", "parity", "numbers", "masked", "critic", "chat")]
    return {model.run.folder.name: model for model in own}


@contextmanager
def serving(folder: Path, *words: str, **environment: str) -> Iterator[Served]:
    server = Served(folder, *words, **environment)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="session")
def models(trained: Trained) -> dict[str, hw.Model]:
    return models_of(trained)


@pytest.fixture(scope="session")
def served(models: dict[str, hw.Model], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All kinds of runs."""
    runs = [str(model.run.folder) for model in models.values()]
    with serving(tmp_path_factory.mktemp("served"), *runs) as server:
        yield server
