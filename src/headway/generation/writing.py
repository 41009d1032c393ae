"""A text that is being written token by token: what was asked for, and what each step adds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from headway.generation.generator import Generator
from headway.generation.sampling import Sampling
from headway.text.detokenize import Detokenizer, overlap


@dataclass(frozen=True)
class Request:
    key: Any
    prompt: str
    sampling: Sampling = field(default_factory=Sampling)
    max_new_tokens: int = 200
    seed: int = 1
    stops: Sequence[str] = ()
    top_logprobs: int | None = None  # of how many tokens the log-probabilities are wanted; 0: of the chosen one


@dataclass(frozen=True)
class TokenLogprob:
    token: str
    logprob: float
    top: list[tuple[str, float]]


@dataclass(frozen=True)
class Piece:
    """What one step adds to a sequence: a token, and the text that it completes."""

    key: Any
    text: str
    logprob: TokenLogprob | None = None
    finish: str | None = None  # at the end: "stop" (an end token or a stop text) or "length"
    prompt_tokens: int = 0  # with the first piece


class Writing:
    """A request that is being answered."""

    def __init__(self, request: Request, generator: Generator):
        self.request = request
        self.prompt = generator.tokens_of(request.prompt)
        self.tokens = list(self.prompt)  # with those that were written
        self.context = self.prompt[-generator.window :] if generator.window else self.prompt  # what a row reads
        self.detokenizer = Detokenizer(generator.tokenizer.decode, generator.eos, request.stops)
        self.ending = Ending(generator.after)
        drawn = torch.rand(request.max_new_tokens, generator=torch.Generator().manual_seed(request.seed))
        self.draws = drawn.double()
        self.written = 0

    def push(self, token: int, eos: int | None, logprob: TokenLogprob | None) -> Piece:
        self.tokens.append(token)
        self.written += 1
        text = self.detokenizer.push(token)
        finish = "stop" if self.detokenizer.done else None
        if finish is None and self.written == self.request.max_new_tokens:
            text, finish = text + self.detokenizer.finish(), "length"
        text = self.ending.push(text) if finish is None else self.ending.finish(text)
        return Piece(self.request.key, text, logprob, finish, len(self.prompt) if self.written == 1 else 0)


class Ending:
    """Holds back a text that may be the template's own ending, and leaves that out."""

    def __init__(self, suffix: str):
        self.suffix, self.held = suffix, ""

    def push(self, text: str) -> str:
        if not self.suffix:
            return text
        both = self.held + text
        size = len(self.suffix) if both.endswith(self.suffix) else overlap(both, self.suffix)
        self.held = both[len(both) - size :]
        return both[: len(both) - size]

    def finish(self, text: str) -> str:
        out, self.held = (self.held + text).removesuffix(self.suffix), ""
        return out
