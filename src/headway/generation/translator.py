"""Translation with a trained encoder-decoder: texts in, texts out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch

from headway.config.errors import Problem, did_you_mean, is_unicode
from headway.data.files import Progress, silent
from headway.data.samplers import buckets
from headway.generation import Beam, DecoderStep, Hypothesis, beam_search
from headway.generation.generator import Generator
from headway.models.encoder_decoder import source_batch
from headway.models.fast_decoder import fast_decoder
from headway.text.tokenizer import Tokenizer

DEFAULT_LENGTH = 256  # maximum tokens per side if the model has no window
PAD_MULTIPLE = 16  # on a GPU, padding sources to multiples of this means fewer shapes, and so fewer CUDA graphs
ROWS, TOKENS = 128, 1 << 13  # maximum size of a batch


@dataclass(frozen=True)
class Translator(Generator):
    """``tokenizer``, ``bos`` and ``eos`` are those of the target; ``window`` is the maximum length of either side."""

    source: Tokenizer = field(kw_only=True)
    beam: Beam = field(kw_only=True)
    tags: Mapping[str, int] = field(default_factory=dict, kw_only=True)  # by language: the token before a source
    language: str | None = field(default=None, kw_only=True)  # the one to translate into, if there are several

    def into(self, language: str | None) -> Self:
        if not self.tags:
            return super().into(language)
        if language is None and len(self.tags) == 1:
            (language,) = self.tags
        if language is not None and language not in self.tags:
            raise Problem(f"it does not translate into {language!r}; {did_you_mean(language, self.tags)}")
        return replace(self, language=language)

    @property
    def tag(self) -> list[int]:
        if not self.tags:
            return []
        if self.language is None:
            raise Problem(f"into which language? name one of {', '.join(self.tags)} (to=, --to)")
        return [self.tags[self.language]]

    def tokens_of(self, prompt: str) -> list[int]:
        """The tokens of a source, truncated, with the token of the target language, if any, and an eos token."""
        if not prompt.strip():
            raise Problem("the text is empty: there is nothing to translate")
        return [*self.tag, *encoded(self.source, prompt)[: self.longest - 1 - len(self.tag)], self.eos or 0]

    def tokens_of_target(self, text: str) -> list[int]:
        return [*encoded(self.tokenizer, text)[: self.longest - 1], self.eos or 0]

    @property
    def longest(self) -> int:
        return self.window or DEFAULT_LENGTH

    @cached_property
    def decoder(self) -> DecoderStep:
        return fast_decoder(self.model.decoder, self.int8)

    def start(self, prompts: Sequence[str]) -> tuple[DecoderStep, list[list[int]]]:
        return self.encode([self.tokens_of(text) for text in prompts])

    def encode(self, sources: list[list[int]]) -> tuple[DecoderStep, list[list[int]]]:
        """A decoder conditioned on the sources, and the tokens to start it with."""
        with torch.inference_mode():
            multiple = 1 if self.device.type == "cpu" else PAD_MULTIPLE
            decoder = self.model.conditioned_on(*source_batch(sources, self.device, multiple), self.decoder)
        return decoder, [[self.bos or 0] for _ in sources]

    def translate(
        self, texts: Sequence[str], beam: Beam | None = None, progress: Progress = silent
    ) -> list[list[Hypothesis]]:
        """The best translations of each text, in the order of the texts; none for an empty text."""
        indices = [index for index, text in enumerate(texts) if text.strip()]
        translations: list[list[Hypothesis]] = [[] for _ in texts]
        results = self.translate_tokens([self.tokens_of(texts[index]) for index in indices], beam, progress)
        for index, hypotheses in zip(indices, results, strict=True):
            translations[index] = hypotheses
        return translations

    @torch.inference_mode()
    def translate_tokens(
        self, sources: list[list[int]], beam: Beam | None = None, progress: Progress = silent
    ) -> list[list[Hypothesis]]:
        translations: list[list[Hypothesis]] = [[] for _ in sources]
        if not sources:
            return translations
        lengths = np.array([len(source) for source in sources], dtype=np.int64)
        done = 0
        for rows in buckets(np.argsort(lengths, kind="stable"), lengths, ROWS, TOKENS):
            decoder, prompts = self.encode([sources[row] for row in rows])
            results = beam_search(decoder, prompts, self.longest - 1, self.eos, beam or self.beam, self.device)
            for row, result in zip(rows, results, strict=True):
                translations[row] = result
            done += len(rows)
            progress("translating", done / len(sources))
        return translations

    def text_of(self, hypotheses: list[Hypothesis]) -> str:
        """The text of the best hypothesis; empty if there is none."""
        return self.tokenizer.decode(hypotheses[0].tokens) if hypotheses else ""


def encoded(tokenizer: Tokenizer, text: str) -> list[int]:
    if not is_unicode(text):
        raise Problem(f"{text.encode('utf-8', 'replace').decode()!r} is not valid UTF-8: it has a broken character")
    return tokenizer.encode([text])[0].tolist()
