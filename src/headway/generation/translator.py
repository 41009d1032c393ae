"""A trained encoder-decoder that translates: texts in, texts out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from headway.config.errors import Problem
from headway.data.examples import is_unicode
from headway.data.files import Progress, silent
from headway.data.samplers import buckets
from headway.generation import Beam, DecoderStep, Hypothesis, beam_search
from headway.generation.generator import Generator
from headway.models.encoder_decoder import source_batch
from headway.models.fast_decoder import fast_decoder
from headway.text.tokenizer import Tokenizer

LONGEST = 256  # tokens of a side, where nobody says otherwise
FEWER_SHAPES = 16  # sources are padded to multiples of it where steps are recorded for each shape
ROWS, TOKENS = 128, 1 << 13  # of sources that are translated together, at most


@dataclass(frozen=True)
class Translator(Generator):
    """``opening`` and ``end`` are of the target's tokens, as is ``tokenizer``; ``window`` is the longest side."""

    source: Tokenizer = field(kw_only=True)
    beam: Beam = field(kw_only=True)

    def tokens_of(self, prompt: str) -> list[int]:
        """Of a source, with an end behind, cut to what the model reads."""
        if not prompt.strip():
            raise Problem("the text is empty: there is nothing to translate")
        return [*encoded(self.source, prompt)[: self.longest - 1], self.eos or 0]

    def tokens_of_target(self, text: str) -> list[int]:
        return [*encoded(self.tokenizer, text)[: self.longest - 1], self.eos or 0]

    @property
    def longest(self) -> int:
        return self.window or LONGEST

    @cached_property
    def steps(self) -> DecoderStep:
        return fast_decoder(self.model.decoder, self.int8)

    def opened(self, prompts: Sequence[str]) -> tuple[DecoderStep, list[list[int]]]:
        return self.reading([self.tokens_of(text) for text in prompts])

    def reading(self, sources: list[list[int]]) -> tuple[DecoderStep, list[list[int]]]:
        """What has read the sources, and what their translations begin with."""
        with torch.inference_mode():
            multiple = 1 if self.device.type == "cpu" else FEWER_SHAPES
            steps = self.model.given(*source_batch(sources, self.device, multiple), self.steps)
        return steps, [[self.bos or 0] for _ in sources]

    def translate(
        self, texts: Sequence[str], beam: Beam | None = None, progress: Progress = silent
    ) -> list[list[Hypothesis]]:
        """The best translations of each text, in the order of the texts; an empty text has an empty one."""
        there = [place for place, text in enumerate(texts) if text.strip()]
        found: list[list[Hypothesis]] = [[] for _ in texts]
        translations = self.translate_tokens([self.tokens_of(texts[place]) for place in there], beam, progress)
        for place, some in zip(there, translations, strict=True):
            found[place] = some
        return found

    @torch.inference_mode()
    def translate_tokens(
        self, sources: list[list[int]], beam: Beam | None = None, progress: Progress = silent
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in sources]
        if not sources:
            return found
        lengths = np.array([len(source) for source in sources], dtype=np.int64)
        done = 0
        for rows in buckets(np.argsort(lengths, kind="stable"), lengths, ROWS, TOKENS):
            some = [sources[row] for row in rows]
            steps, prompts = self.reading(some)
            results = beam_search(steps, prompts, self.longest - 1, self.eos, beam or self.beam, self.device)
            for row, result in zip(rows, results, strict=True):
                found[row] = result
            done += len(rows)
            progress("translating", done / len(sources))
        return found

    def text_of(self, found: list[Hypothesis]) -> str:
        return self.tokenizer.decode(found[0].tokens) if found else ""


def encoded(tokenizer: Tokenizer, text: str) -> list[int]:
    if not is_unicode(text):
        raise Problem(f"{text.encode('utf-8', 'replace').decode()!r} is not in UTF-8, or has half a character in it")
    return tokenizer.encode([text])[0].tolist()
