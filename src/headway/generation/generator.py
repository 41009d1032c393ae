"""A trained model that writes: prompts in, texts out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from headway.config.errors import Problem
from headway.data.examples import is_unicode
from headway.generation import Beam, DecoderStep, Hypothesis, Sampling, beam_search, exact_search, sample
from headway.generation.beam import Candidate
from headway.models.fast_decoder import fast_decoder
from headway.text.detokenize import Detokenizer
from headway.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Generator:
    model: Any
    tokenizer: Tokenizer
    bos: int | None  # the token that texts begin with; None: there is none
    eos: int | None  # the token that they end with; None: the model has seen no end
    window: int | None  # tokens that it reads at once; None: any number
    format_prompt: Callable[[str], str] = str  # in what a prompt stands
    after: str = ""  # what stands behind every text that it writes, and is no part of it
    int8: bool = False  # whether its matrices are rounded to whole numbers: quicker, and a little less exact

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @cached_property
    def steps(self) -> DecoderStep:
        return fast_decoder(self.model, self.int8)

    def tokens_of(self, prompt: str) -> list[int]:
        """Where texts have no opening, an empty one begins as a line does."""
        if not is_unicode(prompt):
            raise Problem("the prompt is not in UTF-8, or has half a character in it")
        bos = [] if self.bos is None else [self.bos]
        tokens = bos + self.tokenizer.encode([self.format_prompt(prompt)])[0].tolist()
        return tokens or self.tokenizer.encode(["\n"])[0].tolist() or refuse_empty()

    def opened(self, prompts: Sequence[str]) -> tuple[DecoderStep, list[list[int]]]:
        """What writes on from these prompts, and the tokens that it begins with."""
        return self.steps, [self.tokens_of(prompt) for prompt in prompts]

    def name_of(self, token: int) -> str:
        return "<end>" if token == self.eos else self.tokenizer.decode([token])

    @torch.inference_mode()
    def stream(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 200,
        sampling: Sampling | None = None,
        seeds: Sequence[int] | None = None,
        stops: Sequence[str] = (),
    ) -> Iterator[list[str]]:
        """What comes next in each text, piece by piece, until all have come to an end or have ``limit`` tokens."""
        rows = [Detokenizer(self.tokenizer.decode, self.eos, stops) for _ in prompts]
        steps, tokens = self.opened(prompts)
        for new in sample(steps, tokens, max_new_tokens, sampling, seeds, self.window, self.device):
            yield [row.push(token) for row, token in zip(rows, new.tolist(), strict=True)]
            if all(row.done for row in rows):
                return
        yield [row.finish() for row in rows]

    def write(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 200,
        sampling: Sampling | None = None,
        seeds: Sequence[int] | None = None,
        stops: Sequence[str] = (),
    ) -> list[str]:
        """What comes after each prompt."""
        if not prompts:
            return []
        pieces = list(self.stream(prompts, max_new_tokens, sampling, seeds, stops))
        return ["".join(row).removesuffix(self.after) for row in zip(*pieces, strict=True)]

    @torch.inference_mode()
    def search(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 50,
        beam: Beam | None = None,
        tree: list[Candidate] | None = None,
    ) -> list[list[Hypothesis]]:
        """The most likely texts after each prompt, by beam search."""
        steps, tokens = self.opened(prompts)
        tokens = [self.room_for(each, max_new_tokens) for each in tokens]
        return beam_search(steps, tokens, max_new_tokens, self.eos, beam, self.device, tree)

    @torch.inference_mode()
    def exact(self, prompt: str, max_new_tokens: int, at_least: float) -> Hypothesis | None:
        """The most likely text of all, if it is more likely than ``at_least`` (a logarithm)."""
        steps, (tokens,) = self.opened([prompt])
        return exact_search(
            steps, self.room_for(tokens, max_new_tokens), max_new_tokens, self.eos, self.device, at_least
        )

    def room_for(self, tokens: list[int], max_new_tokens: int) -> list[int]:
        if self.window is None:
            return tokens
        if max_new_tokens >= self.window:
            raise Problem(f"the model reads {self.window} tokens at once: there is no room to search {max_new_tokens}")
        return tokens[-(self.window - max_new_tokens) :]


def refuse_empty() -> list[int]:
    raise Problem("the prompt has no token that the model knows: give it a few words")
