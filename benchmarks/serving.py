"""``headway serve`` under load, on this machine alone: tokens per second and the time to the first token with 1, 8 and
32 clients, beside the same prompts one after another; and requests per second of a classifier, beside a FastAPI handler
that calls ``predict`` on each request.

    python benchmarks/serving.py                     # a small GPT (6 layers, width 384), and a classifier
    python benchmarks/serving.py --only classify --rounds 1

The rounds of what is compared are interleaved, and medians are reported. Every text is compared with the one that
``Model.generate`` writes to its prompt alone.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import headway as hw
from headway.data.grammar import LABELS, review

NEW_TOKENS = (24, 40, 56)
PROMPT_WORDS = (2, 120)


class Answer(NamedTuple):
    number: int
    content: Any
    tokens: int
    first: float  # seconds until the first token


# --- what is served


def texts(count: int, sentences: int = 4) -> list[str]:
    numbers = np.random.default_rng(5)
    return [review(int(numbers.integers(2)), sentences, numbers) for _ in range(count)]


def language_model(folder: Path) -> hw.Model:
    if hw.is_run(folder / "gpt"):
        return hw.load(folder / "gpt")
    data = {"train": texts(400), "vocab_size": 2_000, "window": 256, "validation": 0.05, "cross_document": True}
    model = {"layers": 6, "width": 384, "heads": 6, "position": "rotary"}
    settings = {"train.batch_size": 4, "train.steps": 20, "train.warmup": 2, "train.evaluate_every": 1000}
    return hw.train("language", data=data, model=model, settings=settings, out=folder / "gpt", progress=False)


def classifier(folder: Path) -> hw.Model:
    if hw.is_run(folder / "classifier"):
        return hw.load(folder / "classifier")
    numbers = np.random.default_rng(6)
    labels = [place % 2 for place in range(400)]
    data = [review(label, 2, numbers) for label in labels], [LABELS[label] for label in labels]
    model = {"layers": 2, "width": 64, "heads": 2}
    return hw.train("classify", data=data, model=model, train={"steps": 40}, out=folder / "classifier", progress=False)


FASTAPI = """
import sys
import fastapi, uvicorn
import headway as hw

app, model = fastapi.FastAPI(), hw.load(sys.argv[1])

@app.post("/classify")
def classify(body: dict) -> dict:
    return {"predictions": [vars(model.predict(body["texts"]))]}

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""


@contextmanager
def serving(*command: str) -> Iterator[int]:
    """A server in a process of its own; gives its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, *(word.format(port=port) for word in command)], stdout=subprocess.DEVNULL
    )
    try:
        wait_for(port, server)
        yield port
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.poll() is not None:
                raise SystemExit("the server has ended") from None
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def headway_server(run: hw.Model, batch: int = 32) -> Any:
    return serving("-m", "headway", "serve", str(run.run.folder), "--port", "{port}", "--batch", str(batch), "--quiet")


# --- clients


class Client:
    """One connection that is kept open, by which requests go one after another."""

    def __init__(self, port: int):
        self.port = port

    async def __aenter__(self) -> "Client":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    async def send(self, path: str, content: Any) -> dict[bytes, bytes]:
        body = json.dumps(content).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, *lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        assert b" 200 " in status, status
        return {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}

    async def classify(self, number: int, text: str) -> Answer:
        headers = await self.send("/classify", {"texts": text})
        content = json.loads(await self.reader.readexactly(int(headers[b"content-length"])))
        return Answer(number, content["predictions"][0]["label"], 0, 0.0)

    async def complete(self, number: int, wanted: dict[str, Any]) -> Answer:
        """Streamed, as people read it."""
        started, first, text, tokens = time.monotonic(), 0.0, "", 0
        options = {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
        await self.send("/v1/completions", {**wanted, **options})
        while size := int(await self.reader.readline(), 16):
            chunk = (await self.reader.readexactly(size + 2))[:-2]
            for line in chunk.decode().split("\n\n"):
                if not line or line == "data: [DONE]":
                    continue
                first = first or time.monotonic() - started
                event = json.loads(line.removeprefix("data: "))
                text += "".join(choice["text"] for choice in event["choices"])
                tokens = event.get("usage", {}).get("completion_tokens", tokens)
        await self.reader.readline()
        return Answer(number, text, tokens, first)


async def ask(
    port: int, clients: int, requests: Sequence[Any], send: Callable[[Client, int, Any], Awaitable[Answer]]
) -> list[Answer]:
    """All requests, by so many clients at a time."""
    waiting = list(enumerate(requests))[::-1]
    answers: list[Answer] = []

    async def work() -> None:
        async with Client(port) as client:
            while waiting:
                answers.append(await send(client, *waiting.pop()))

    await asyncio.gather(*(work() for _ in range(clients)))
    return sorted(answers)


# --- measuring


def prompts(count: int) -> list[dict[str, Any]]:
    """Short and long ones; every fourth begins with the same instructions."""
    dice = random.Random(7)
    words = " ".join(texts(200)).split()
    shared = " ".join(words[:60])
    made = []
    for number in range(count):
        start, size = dice.randrange(len(words) - 200), dice.randint(*PROMPT_WORDS)
        own = " ".join(words[start : start + size])
        prompt = f"{shared} {own}" if number % 4 == 0 else own
        made.append({"prompt": prompt, "max_tokens": dice.choice(NEW_TOKENS)})
    return made


def one_by_one(model: hw.Model, wanted: Sequence[dict[str, Any]]) -> list[str]:
    return [model.generate(each["prompt"], max_new_tokens=each["max_tokens"], temperature=0) for each in wanted]


def measure_language(folder: Path, rounds: int, requests: int) -> None:
    model = language_model(folder)
    wanted = prompts(requests)
    alone = one_by_one(model, wanted)
    speeds: dict[str, list[float]] = {}
    firsts: dict[str, list[float]] = {}
    with headway_server(model) as port, headway_server(model, batch=1) as single:
        servers = {
            "1 client": (port, 1),
            "8 clients": (port, 8),
            "32 clients": (port, 32),
            "one at a time": (single, 32),
        }
        asyncio.run(ask(port, 8, wanted[:8], Client.complete))  # warm
        for _ in range(rounds):
            for name, (own_port, clients) in servers.items():
                started = time.monotonic()
                answers = asyncio.run(ask(own_port, clients, wanted, Client.complete))
                seconds = time.monotonic() - started
                differ = sum(answer.content != text for answer, text in zip(answers, alone, strict=True))
                if differ:
                    raise SystemExit(f"{name}: {differ} of {len(alone)} texts are not those without company")
                tokens = sum(answer.tokens for answer in answers)
                speeds.setdefault(name, []).append(tokens / seconds)
                firsts.setdefault(name, []).append(float(np.quantile([answer.first for answer in answers], 0.95)))
            started = time.monotonic()
            one_by_one(model, wanted)
            speeds.setdefault("Model.generate", []).append(tokens / (time.monotonic() - started))
    print(f"{len(wanted)} prompts, {tokens:,} tokens; all texts equal to those without company")
    base = median(speeds["Model.generate"])
    for name, values in speeds.items():
        first = f", first token p95 {1000 * median(firsts[name]):.0f} ms" if name in firsts else ""
        print(f"{name:>16}: {median(values):6.0f} tokens/s, {median(values) / base:.2f} times Model.generate{first}")


def measure_classify(folder: Path, rounds: int, requests: int) -> None:
    model = classifier(folder)
    handler = folder / "handler.py"
    handler.write_text(FASTAPI)
    with headway_server(model) as ours, serving(str(handler), str(model.run.folder), "{port}") as theirs:
        for sentences in (1, 3):
            compare_classifiers(model, {"headway serve": ours, "FastAPI": theirs}, texts(requests, sentences), rounds)


def compare_classifiers(model: hw.Model, servers: dict[str, int], wanted: list[str], rounds: int) -> None:
    labels = [each.label for each in model.predict(wanted)]
    speeds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, port in servers.items():
            started = time.monotonic()
            answers = asyncio.run(ask(port, 32, wanted, Client.classify))
            speeds.setdefault(name, []).append(len(answers) / (time.monotonic() - started))
            if [answer.content for answer in answers] != labels:
                raise SystemExit(f"{name}: labels are not those of predict")
    words = sum(len(text.split()) for text in wanted) / len(wanted)
    ratio = median(ours / theirs for ours, theirs in zip(*speeds.values(), strict=True))
    rates = ", ".join(f"{name} {median(values):.0f} requests/s" for name, values in speeds.items())
    print(f"texts of {words:.0f} words: {rates}, ratio {ratio:.2f}")


MEASURES = {"language": (measure_language, 96), "classify": (measure_classify, 2000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MEASURES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the models are kept for the next time")
    parser.add_argument("--requests", type=int, help="in each round")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        for name, (measure, usual) in MEASURES.items():
            if given.only in (None, name):
                measure(given.folder or Path(folder), given.rounds, given.requests or usual)


if __name__ == "__main__":
    main()
