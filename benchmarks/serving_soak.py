"""``headway serve`` under mixed load for a long time: right answers, memory, and what follows the death of its model.

    python benchmarks/serving_soak.py                 # 30 minutes
    python benchmarks/serving_soak.py --minutes 2

Clients complete texts, classify, send bad JSON and texts that are too long, and leave in the middle of an answer. A
third and two thirds of the way, the model process is killed. Every answer is compared with the one of the Python API.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import headway as hw
from headway.data.grammar import LABELS
from serving import classifier, texts

CLIENTS = 8
WARM = 0.1  # of the time, until memory is compared
Expected = list[tuple[str, Any, Any]]  # path, content, answer


def language_model(folder: Path) -> hw.Model:
    data = {"train": texts(200), "vocab_size": 600, "window": 64, "validation": 0.05, "cross_document": True}
    settings = {"train.batch_size": 4, "train.steps": 40, "train.warmup": 2}
    model = {"layers": 2, "width": 64, "heads": 2}
    return hw.train("language", data=data, model=model, settings=settings, out=folder / "gpt", progress=False)


def expected(language: hw.Model, labels: hw.Model) -> Expected:
    """What is asked, with the answers."""
    made: Expected = []
    for number, text in enumerate(texts(60)):
        prompt, tokens, temperature = text[: 5 + 3 * number], 10 + number, 0.8 * (number % 2)
        wanted = {"prompt": prompt, "max_tokens": tokens, "temperature": temperature}
        answer = language.generate(prompt, max_new_tokens=tokens, temperature=temperature, seed=number)
        made.append(("/v1/completions", {**wanted, "seed": number, "model": "gpt"}, answer))
        made.append(("/classify", {"texts": text}, labels.predict(text).label))
    return made


class Soak:
    def __init__(self, port: int, known: Expected, seconds: float):
        self.port, self.known = port, known
        self.end = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.dice = random.Random(1)

    async def work(self) -> None:
        kinds = [self.ask] * 12 + [self.leave, self.break_json, self.say_too_much]
        while time.monotonic() < self.end:
            try:
                await self.dice.choice(kinds)()
            except OSError as error:
                self.counts[f"connection: {type(error).__name__}"] += 1
                await asyncio.sleep(0.1)

    async def send(self, path: str, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return reader, writer

    async def answer(self, path: str, body: bytes) -> tuple[int, bytes, bytes]:
        reader, writer = await self.send(path, body)
        whole = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        head, _, content = whole.partition(b"\r\n\r\n")
        return int(head[9:12] or 0), head, content

    async def ask(self) -> None:
        path, content, right = self.dice.choice(self.known)
        status, head, body = await self.answer(path, json.dumps(content).encode())
        self.counts[f"{path} {status}"] += 1
        if status == 200:
            answer = json.loads(body)
            own = answer["choices"][0]["text"] if "choices" in answer else answer["predictions"][0]["label"]
            if own != right:
                self.wrong.append(f"{content}: {own!r}, not {right!r}")
        elif status in (429, 503):
            if b"retry-after" not in head.lower():
                self.wrong.append(f"{status} without Retry-After")
            await asyncio.sleep(0.1)
        else:
            self.wrong.append(f"{status}: {body[:200]!r}")

    async def leave(self) -> None:
        body = {"prompt": "the", "max_tokens": 2000, "stream": True, "model": "gpt"}
        reader, writer = await self.send("/v1/completions", json.dumps(body).encode())
        await asyncio.wait_for(reader.read(1000), 60)
        writer.close()
        self.counts["left"] += 1

    async def break_json(self) -> None:
        await self.refused("bad JSON", b'{"texts": ', 400)

    async def say_too_much(self) -> None:
        await self.refused("too long", json.dumps({"texts": "x" * 70_000}).encode(), 400)

    async def refused(self, name: str, body: bytes, status: int) -> None:
        own, _, content = await self.answer("/classify", body)
        self.counts[f"{name} {own}"] += 1
        if own != status:
            self.wrong.append(f"{name}: {own} {content[:200]!r}")

    async def kill(self, server: int, after: float) -> float:
        """Seconds from the death of the model process to the next right answer."""
        await asyncio.sleep(after)
        os.kill(model_of(server), signal.SIGKILL)
        started = time.monotonic()
        path, content, _ = self.known[1]
        while True:
            await asyncio.sleep(0.05)
            status, *_ = await self.answer(path, json.dumps(content).encode())
            if status == 200:
                return time.monotonic() - started


def model_of(server: int) -> int:
    return int(Path(f"/proc/{server}/task/{server}/children").read_text().split()[0])


def memory(process: int) -> float:
    """MiB that are in use."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


async def soak(server: int, port: int, known: Expected, seconds: float) -> Soak:
    load = Soak(port, known, seconds)
    workers = [asyncio.create_task(load.work()) for _ in range(CLIENTS)]
    sizes: list[tuple[float, float]] = []
    for part in (1, 2, 3):
        await asyncio.sleep(WARM * seconds)
        before = memory(server), memory(model_of(server))
        sizes.append(before)
        if part < 3:
            print(f"killed: back after {await load.kill(server, (1 / 3 - WARM) * seconds):.1f} s", flush=True)
    await asyncio.gather(*workers)
    after = memory(server), memory(model_of(server))
    print(f"web process: {sizes[0][0]:.1f} MiB at first, {after[0]:.1f} at the end ({after[0] / sizes[0][0] - 1:+.1%})")
    print(f"last model process: {sizes[2][1]:.1f} MiB, {after[1]:.1f} at the end ({after[1] / sizes[2][1] - 1:+.1%})")
    return load


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    given = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        language, labels = language_model(Path(folder)), classifier(Path(folder))
        known = expected(language, labels)
        assert {right for path, _, right in known if path == "/classify"} <= set(LABELS)
        runs = [str(model.run.folder) for model in (language, labels)]
        command = [sys.executable, "-m", "headway", "serve", *runs, "--port", "0", "--quiet"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().split(" at ")[1].split()[0].rpartition(":")[2])
            load = asyncio.run(soak(server.pid, port, known, 60 * given.minutes))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
    for name, number in sorted(load.counts.items()):
        print(f"{number:>9,}  {name}")
    print(f"{len(load.wrong)} wrong answers")
    if load.wrong:
        raise SystemExit("\n".join(load.wrong[:10]))


if __name__ == "__main__":
    main()
