"""Streams of several languages, one behind the other in one array, which training mixes window by window.

A language is read in a circle: behind its last document comes its first. So one with less text than a window is read,
too, and each pass cuts its text into other windows. Each stream begins with a mark, so that every token is a target.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from headway.config.recipe import TrainSpec
from headway.data.batch import NextTokenBatch
from headway.data.mixtures import Mixture, Plan
from headway.data.samplers import Sampler
from headway.data.stream import Stream, Windows


@dataclass(frozen=True, kw_only=True)
class LanguageStream(Stream):
    names: list[str]
    bounds: np.ndarray  # (languages, 2): where each stream begins and ends
    mixture: Mixture

    @property
    def sizes(self) -> np.ndarray:
        return self.bounds[:, 1] - self.bounds[:, 0]

    @property
    def size(self) -> int:
        return int(self.sizes.sum())

    @property
    def spans(self) -> list[slice]:
        return [slice(begin, end) for begin, end in self.bounds.tolist() if end > begin]

    def __len__(self) -> int:
        return len(self.windows().starts)

    def by_language(self) -> dict[str, Stream]:
        """Of languages with text."""
        spans = {name: span for name, span in zip(self.names, self.bounds.tolist(), strict=True) if span[1] > span[0]}
        return {
            name: Stream(self.tokens[first:last], self.window, self.stride, self.mark, key=f"{self.key}-{name}")
            for name, (first, last) in spans.items()
        }

    def of_languages(self, names: Container[str]) -> "LanguageStream":
        own = [index for index, name in enumerate(self.names) if name in names]
        return replace(self, names=[self.names[index] for index in own], bounds=self.bounds[own])

    def with_tokens(self, language: int, tokens: np.ndarray) -> "LanguageStream":
        """With this text for a language, instead of what it had."""
        bounds = self.bounds.copy()
        bounds[language] = len(self.tokens), len(self.tokens) + len(tokens)
        return replace(self, tokens=np.concatenate([self.tokens, tokens]), bounds=bounds)

    def sampler(self, spec: TrainSpec) -> Sampler:
        return MixedWindowSampler(self.bounds, self.plan(spec).shares, self.window, spec.batch_size, spec.seed)

    def plan(self, spec: TrainSpec) -> Plan:
        return self.mixture.plan(self.names, self.sizes, spec, self.weight_of_step(spec))

    def batch(self, rows: np.ndarray, size: int | None = None) -> NextTokenBatch:
        """The windows that begin at these positions, in a circle."""
        spans = self.bounds[self.sizes > 0]
        spans = spans[spans[:, 0].argsort()]
        begins, ends = spans[np.searchsorted(spans[:, 0], rows, side="right") - 1, :, None].swapaxes(0, 1)
        indices = begins + (rows[:, None] - begins + np.arange((size or self.window) + 1)) % (ends - begins)
        tokens = torch.from_numpy(self.tokens[indices].astype(np.int64))
        inputs = tokens[:, :-1]
        documents = None if self.mark is None else (inputs == self.mark).cumsum(dim=1)
        return NextTokenBatch(inputs, tokens[:, 1:], documents=documents)

    def longest(self) -> NextTokenBatch:
        return self.batch(self.bounds[self.sizes.argmax(), :1])

    def windows(self) -> Windows:
        """Those of all languages; none crosses from one to the next."""
        begins = self.bounds[self.sizes > 0, 0]
        own = [stream.windows() for stream in self.by_language().values()]
        starts = [begin + windows.starts for begin, windows in zip(begins, own, strict=True)]
        sizes, counted = ([getattr(windows, name) for windows in own] for name in ("sizes", "counted"))
        return Windows(*(np.concatenate(columns) for columns in (starts, sizes, counted)))


def hold_out_ends(
    train: LanguageStream, held_out: Mapping[str, LanguageStream], shares: Mapping[str, float], single: Sequence[bool]
) -> tuple[LanguageStream, dict[str, LanguageStream]]:
    """The end of each language that is a single text is held out, since no text of it could be."""
    bounds, streams = train.bounds.copy(), dict(held_out)
    for index, (begin, end) in enumerate(train.bounds.tolist()):
        sizes = {use: int(share * (end - begin)) for use, share in shares.items()}
        if not single[index] or min(sizes.values(), default=0) < 2:
            continue
        for use, size in sizes.items():
            streams[use] = streams[use].with_tokens(index, train.tokens[end - size : end])
            end -= size
        bounds[index, 1] = end
    return replace(train, bounds=bounds), streams


class MixedWindowSampler(Sampler):
    """Samples windows of each language in proportion to its share. An epoch has as many windows as fit into all streams
    together, and goes on in each language where the epoch before has stopped."""

    static_shapes = True

    def __init__(self, bounds: np.ndarray, shares: np.ndarray, window: int, batch_size: int, seed: int):
        super().__init__(seed)
        self.bounds, self.shares, self.window, self.batch_size = bounds, shares, window, batch_size
        self.windows = max(int((bounds[:, 1] - bounds[:, 0]).sum()) // window, 1)  # in an epoch

    def make_epoch(self, epoch: int) -> list[np.ndarray]:
        spans = [self.span(language, epoch) for language in np.flatnonzero(self.shares).tolist()]
        starts = np.random.default_rng([self.seed, epoch]).permutation(np.concatenate(spans))
        # An incomplete batch is dropped: a compiled model is compiled for one shape.
        filled = len(starts) // self.batch_size * self.batch_size or len(starts)
        return [starts[first : first + self.batch_size] for first in range(0, filled, self.batch_size)]

    def span(self, language: int, epoch: int) -> np.ndarray:
        """Where the windows of a language begin. Its first one begins anywhere in its text, and some way into the first
        epoch: otherwise every language, however small its share, would have one at once."""
        random = np.random.default_rng([self.seed, language, 0])
        begin, end = self.bounds[language].tolist()
        phase, offset = float(random.random()), int(random.integers(end - begin))
        ends = [self.windows * self.shares[language] * number - phase for number in (epoch, epoch + 1)]
        numbers = np.arange(*(math.ceil(end) for end in ends))
        return begin + (offset + numbers * self.window) % (end - begin)
