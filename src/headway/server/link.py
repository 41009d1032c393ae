"""The web process's side of the model process: it starts it, asks it, and starts another one if it ends."""

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from headway.config.errors import Problem
from headway.server.limits import Limits
from headway.server.logs import Log
from headway.server.security import Refused

Message = dict[str, Any]
LONGEST_LINE = 1 << 28
RETRY_AFTER = {"Retry-After": "1"}
PATIENCE = 30.0  # seconds beyond the time of a request after which a silent model process hangs
LATER = 1.0  # seconds after its deadline until a request does not wait for the model process to say so
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # seconds before another start, if starts fail
GONE: Message = {"gone": True}


def unavailable() -> Refused:
    return Refused(503, "the model is being started again", "unavailable", RETRY_AFTER)


def too_busy() -> Refused:
    return Refused(429, "too many requests are waiting", "too_busy", RETRY_AFTER)


def too_late(seconds: float) -> Refused:
    message = f"the answer was not complete after {seconds:g} seconds: ask for less, or later"
    return Refused(503, message, "too_late", RETRY_AFTER)


class Ticket:
    """A request on its way: its answers, as they come."""

    def __init__(self, number: int, seconds: float):
        self.number, self.seconds = number, seconds
        self.deadline = time.monotonic() + seconds
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.is_complete = False

    async def next(self) -> Message:
        try:
            async with asyncio.timeout(max(self.deadline + LATER - time.monotonic(), 0)):
                message = await self.messages.get()
        except TimeoutError:  # it is in the middle of a batch
            raise too_late(self.seconds) from None
        self.is_complete = "piece" not in message
        if message is GONE:
            raise unavailable()
        if message.get("late"):
            raise too_late(self.seconds)
        if "problem" in message:
            raise Refused(400, message["problem"], "bad_request")
        if "failed" in message:
            raise Refused(500, "this request could not be answered", "failed")
        return message


class ModelProcess:
    def __init__(self, runs: Mapping[str, str], limits: Limits, log: Log):
        self.runs, self.limits, self.log = runs, limits, log
        self.cards: dict[str, Message] = {}
        self.counts = {"writing": 0, "waiting": 0, "shared_tokens": 0}
        self.restarts = 0
        self.ready = self.closing = False
        self.tickets: dict[int, Ticket] = {}
        self.cost = 0  # of all that is open
        self.silent_since: float | None = None  # when it was told something that it has not reacted to
        self.numbers = itertools.count(1)
        self.process: asyncio.subprocess.Process | None = None
        self.spare: asyncio.subprocess.Process | None = None  # has imported what takes seconds, and waits for its runs
        self.watcher: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    # --- its life

    async def start(self) -> None:
        """Raises what is wrong with the runs."""
        await self.spawn()
        self.watcher = asyncio.create_task(self.watch())

    async def launch(self) -> asyncio.subprocess.Process:
        # -P: the working directory is not a place to import from.
        command = [sys.executable, "-P", "-m", "headway.server.model_process"]
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, limit=LONGEST_LINE, start_new_session=True, env=environment()
        )

    async def spawn(self) -> None:
        spare, self.spare = self.spare, None
        self.process = spare if spare is not None and spare.returncode is None else await self.launch()
        self.say({"runs": list(self.runs.items()), "limits": asdict(self.limits)})
        first = await self.hear()
        if first is None:
            raise Problem("the model process ended before it was ready")
        if "refused" in first:
            raise Problem(first["refused"])
        self.cards, self.ready = first["ready"], True
        self.spare = await self.launch()

    async def watch(self) -> None:
        """Hand out answers; when the process ends, start another one."""
        pause = FIRST_PAUSE
        while True:
            while (message := await self.hear()) is not None:
                self.hand_out(message)
                pause = FIRST_PAUSE
            self.give_up()
            if self.closing:
                return
            self.restarts += 1
            self.log.write("model_process_ended", code=await self.ended())
            while not self.ready and not self.closing:
                try:
                    await self.spawn()
                    self.log.write("model_process_started", pid=self.pid)
                except (Problem, OSError) as error:
                    self.log.write("model_process_failed", message=str(error))
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)

    async def ended(self) -> int | None:
        assert self.process is not None
        return await self.process.wait()

    def give_up(self) -> None:
        """Nobody answers those who wait."""
        self.ready = False
        self.counts = {"writing": 0, "waiting": 0, "shared_tokens": 0}
        for ticket in self.tickets.values():
            ticket.messages.put_nowait(GONE)

    async def stop(self) -> None:
        self.closing = True
        if self.spare is not None and self.spare.returncode is None:
            self.spare.kill()
            await self.spare.wait()
        if self.process is None or self.process.returncode is not None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        if self.watcher is not None:
            await self.watcher

    # --- lines

    def say(self, message: Message) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.silent_since = self.silent_since or time.monotonic()
        with suppress(OSError, RuntimeError):  # it has just ended: the watcher will see it, too
            self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Message | None:
        assert self.process is not None
        assert self.process.stdout is not None
        try:
            line = await self.process.stdout.readline()
            self.silent_since = None
            message: Message | None = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            message = None
        return message

    def hand_out(self, message: Message) -> None:
        if "counts" in message:
            self.counts = message["counts"]
        elif "pieces" in message:
            for number, *piece in message["pieces"]:
                if (ticket := self.tickets.get(number)) is not None:
                    ticket.messages.put_nowait({"piece": piece})
        elif (ticket := self.tickets.get(message["id"])) is not None:
            if "failed" in message:
                self.log.write("failed", trace=message["failed"])
            ticket.messages.put_nowait(message)

    # --- requests

    @contextmanager
    def ask(self, cost: int, message: Message) -> Iterator[Ticket]:
        """Send a request; whoever leaves before the answer is complete costs nothing any more."""
        self.refuse_more(cost)
        ticket = Ticket(next(self.numbers), self.limits.seconds)
        self.tickets[ticket.number] = ticket
        self.cost += cost
        self.say({**message, "id": ticket.number, "deadline": ticket.deadline})
        try:
            yield ticket
        finally:
            del self.tickets[ticket.number]
            self.cost -= cost
            if self.ready and not ticket.is_complete:
                self.say({"cancel": ticket.number})

    def refuse_more(self, cost: int) -> None:
        self.kill_if_stuck()
        if not self.ready:
            raise unavailable()
        if self.cost + cost > self.limits.batch + self.limits.queue:
            raise too_busy()

    def kill_if_stuck(self) -> None:
        longest = self.limits.seconds + PATIENCE
        if self.ready and self.silent_since is not None and time.monotonic() > self.silent_since + longest:
            self.log.write("model_process_hangs", pid=self.pid)
            assert self.process is not None
            self.process.kill()

    async def answer(self, cost: int, message: Message) -> Message:
        with self.ask(cost, message) as ticket:
            answer: Message = (await ticket.next())["answer"]
            return answer

    async def pieces(self, cost: int, message: Message, texts: int) -> AsyncIterator[list[Any]]:
        """Index, text, finish, prompt tokens and log-probability of each token, until all texts are complete."""
        with self.ask(cost, message) as ticket:
            while texts:
                piece = (await ticket.next())["piece"]
                texts -= piece[2] is not None
                ticket.is_complete = not texts
                yield piece


def environment() -> dict[str, str]:
    """Without what may name another program to run."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSTARTUP"}
