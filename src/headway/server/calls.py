"""A request being answered: what it wants, of which model, and what is counted and logged of it."""

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from headway.server.link import ModelProcess
from headway.server.logs import Log
from headway.server.metrics import Metrics
from headway.server.security import Refused


class Call:
    def __init__(self, route: str, process: ModelProcess, metrics: Metrics, log: Log):
        self.route, self.process, self.metrics, self.log = route, process, metrics, log
        self.model = ""
        self.wanted: dict[str, Any] = {}
        self.started = time.monotonic()
        self.first_token: float | None = None
        self.usage: dict[str, int] = {}
        self.problem: str | None = None
        self.is_done = False

    @property
    def seconds(self) -> float:
        return self.process.limits.seconds

    async def answer(self, do: str, ask: dict[str, Any]) -> dict[str, Any]:
        """By a job of the model process."""
        return await self.process.answer(1, {"do": do, "model": self.model, "ask": ask})

    def pieces(self, ask: dict[str, Any], texts: int) -> AsyncIterator[list[Any]]:
        return self.process.pieces(texts, {"do": "write", "model": self.model, "ask": ask}, texts)

    # --- what is counted

    def saw_token(self) -> None:
        if self.first_token is None:
            self.first_token = time.monotonic() - self.started
            self.metrics.first.observe(self.first_token)

    def count(self, answers: Sequence[Any], per_prompt: int) -> dict[str, int]:
        """The usage, as OpenAI counts it: a prompt with several answers is read once."""
        prompt = sum(answer.prompt_tokens for answer in answers[::per_prompt])
        return self.count_tokens(prompt, sum(answer.tokens for answer in answers))

    def count_tokens(self, prompt: int, completion: int = 0) -> dict[str, int]:
        self.metrics.tokens.labels("prompt").inc(prompt)
        self.metrics.tokens.labels("completion").inc(completion)
        self.usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        return self.usage

    def failed(self, refused: Refused) -> None:
        self.problem = refused.code

    def done(self, status: int) -> None:
        """Once: a stream is done when its last piece is."""
        if self.is_done:
            return
        self.is_done = True
        seconds = time.monotonic() - self.started
        self.metrics.requests.labels(self.route, str(status)).inc()
        self.metrics.seconds.labels(self.route).observe(seconds)
        first = None if self.first_token is None else round(1000 * self.first_token, 1)
        self.log.write(
            "request",
            route=self.route,
            status=status,
            ms=round(1000 * seconds, 1),
            first_token_ms=first,
            model=self.model or None,
            problem=self.problem,
            texts=self.wanted if self.log.texts and self.wanted else None,
            **self.usage,
        )
