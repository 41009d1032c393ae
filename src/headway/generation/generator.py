"""Text generation with a trained model: prompts in, texts out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch

from headway.config.errors import Problem, is_unicode
from headway.generation import Beam, DecoderStep, Hypothesis, Sampling, beam_search, exact_search, sample
from headway.generation.beam import Candidate
from headway.models.fast_decoder import fast_decoder
from headway.text.detokenize import Detokenizer
from headway.text.tokenizer import Tokenizer

MOST_TOKENS = 10**8  # of a text; their random numbers are drawn ahead


@dataclass(frozen=True)
class Generator:
    model: Any
    tokenizer: Tokenizer
    bos: int | None  # begin-of-text token, if texts have one; every prompt starts with it, unless ``always_bos`` is off
    eos: int | None  # end-of-text token, if texts have one
    window: int | None  # maximum context length; None: unlimited
    format_prompt: Callable[[str], str] = str  # puts a prompt into the task's template
    after: str = ""  # suffix of every generated text, removed from the output
    int8: bool = False  # int8 matrices: faster on a CPU, slightly less exact
    always_bos: bool = True  # if not, only an empty prompt starts with it, as in GPT-2

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @cached_property
    def decoder(self) -> DecoderStep:
        return fast_decoder(self.model, self.int8)

    def into(self, language: str | None) -> Self:
        """The same, for a language to translate into; None: it is not named."""
        if language is not None:
            raise Problem(f"no language to write in can be chosen here: leave out {language!r} (to=, --to)")
        return self

    def tokens_of(self, prompt: str) -> list[int]:
        """Without a bos token, an empty prompt becomes a line break, so that there is something to continue."""
        if not is_unicode(prompt):
            raise Problem("the prompt is not valid UTF-8: it has a broken character")
        tokens = self.tokenizer.encode([self.format_prompt(prompt)])[0].tolist()
        if self.bos is not None and (self.always_bos or not tokens):
            return [self.bos, *tokens]
        return tokens or self.tokenizer.encode(["\n"])[0].tolist() or refuse_empty()

    def start(self, prompts: Sequence[str]) -> tuple[DecoderStep, list[list[int]]]:
        """A decoder for these prompts, and the tokens to start it with."""
        return self.decoder, [self.tokens_of(prompt) for prompt in prompts]

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
        """Yields the next piece of each text, until all have ended or have ``max_new_tokens`` tokens."""
        refuse_none(max_new_tokens)
        rows = [Detokenizer(self.tokenizer.decode, self.eos, stops) for _ in prompts]
        decoder, tokens = self.start(prompts)
        for new in sample(decoder, tokens, max_new_tokens, sampling, seeds, self.window, self.device):
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
        """A completion for each prompt."""
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
        """The most likely completions of each prompt, by beam search."""
        refuse_none(max_new_tokens)
        decoder, tokens = self.start(prompts)
        tokens = [self.truncated(each, max_new_tokens) for each in tokens]
        return beam_search(decoder, tokens, max_new_tokens, self.eos, beam, self.device, tree)

    @torch.inference_mode()
    def exact(self, prompt: str, max_new_tokens: int, at_least: float) -> Hypothesis | None:
        """The most likely completion, if its log-probability exceeds ``at_least``."""
        decoder, (tokens,) = self.start([prompt])
        tokens = self.truncated(tokens, max_new_tokens)
        return exact_search(decoder, tokens, max_new_tokens, self.eos, self.device, at_least)

    def truncated(self, tokens: list[int], max_new_tokens: int) -> list[int]:
        """The end of a prompt that fits into the window together with the new tokens."""
        if self.window is None:
            return tokens
        if max_new_tokens >= self.window:
            raise Problem(f"{max_new_tokens} new tokens do not fit the model's window of {self.window}: ask for fewer")
        return tokens[-(self.window - max_new_tokens) :]


def refuse_none(max_new_tokens: int) -> None:
    if not isinstance(max_new_tokens, int) or not 1 <= max_new_tokens <= MOST_TOKENS:
        raise Problem(f"max_new_tokens={max_new_tokens!r} is not a whole number from 1 to {MOST_TOKENS:,}")


def refuse_empty() -> list[int]:
    raise Problem("the model knows no token of the prompt: give it a few more words")
