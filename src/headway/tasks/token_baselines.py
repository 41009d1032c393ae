"""The baselines of models of tokens: n-grams with Kneser-Ney smoothing, the compression of xz, the most frequent
token."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from headway.baselines.language_model import LONGEST_TEXT, KneserNey, xz_bits
from headway.data.files import Progress, silent
from headway.data.sequences import Completions
from headway.data.stream import Stream
from headway.metrics.items import Items
from headway.objectives.tally import Tally
from headway.tasks.baselines import (
    Baseline,
    HasBaselines,
    Measured,
    Scored,
    hash_of,
    hash_of_tokens,
    items_of_batches,
)
from headway.text.tokenizer import Tokenizer

BITS = "bits_per_byte"
SHORT = 1.6  # bytes per token, below which tokens are characters: n-grams are longer then
LENGTHS = {True: 8, False: 5}
PER_MILLION = 2.0  # seconds for a million tokens
PER_MEGABYTE, USUAL_SIZE = 0.7, 3  # seconds of xz, and bytes of a token
PER_ROW = 5e-4  # seconds for each sequence that is measured by itself
ROWS_OF_AN_ITEM = 8  # sequences of which the losses are added up


class ComparesStreams(HasBaselines):
    compared_by = BITS

    @abstractmethod
    def splits(self, progress: Progress = silent) -> Any: ...

    @abstractmethod
    def tokenizer_of(self, side: str) -> Tokenizer: ...

    @abstractmethod
    def logits_of(self, model: nn.Module, batch: Any) -> torch.Tensor: ...

    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        tokenizer = self.tokenizer_of("")
        longest = LENGTHS[float(tokenizer.byte_sizes.mean()) < SHORT]
        return [
            Baseline("all tokens equally likely", partial(self.measure_ngrams, tests, 0)),
            Baseline("xz", partial(self.measure_xz, tests)),
            Baseline(f"{longest}-grams with Kneser-Ney smoothing", partial(self.measure_ngrams, tests, longest)),
        ]

    def measure_ngrams(self, tests: Mapping[str, Stream], longest: int) -> Measured:
        """0: without any n-gram."""
        vocabulary = len(self.tokenizer_of(""))
        model = KneserNey(self.splits().train.parts, vocabulary, longest) if longest else None
        known: dict[int, np.ndarray] = {}  # by the identity of the tokens: windows of several kinds are over the same

        def bits_of(data: Stream) -> np.ndarray:
            bits = np.full(len(data.tokens), math.log2(vocabulary))
            if model is not None:
                for span in data.spans:
                    bits[span] = -np.log2(model.probabilities(data.tokens[span]))
            return bits

        sets = {}
        for name, data in tests.items():
            if id(data.tokens) not in known:
                known[id(data.tokens)] = bits_of(data)
            sets[name] = Scored(self.items_in_windows(known[id(data.tokens)], data))
        return Measured(sets, 0 if model is None else model.parameters)

    def items_in_windows(self, bits: np.ndarray, data: Stream) -> Items:
        """Each window of an evaluation is an item: the bits of its targets, and their bytes."""
        windows = data.windows()
        ends = windows.starts + windows.sizes
        sizes = self.tokenizer_of("").byte_sizes[data.tokens]
        totals = [np.append(0, np.cumsum(each)) for each in (bits, sizes)]
        return Items(BITS, np.stack([each[ends + 1] - each[ends + 1 - windows.counted] for each in totals], axis=1))

    def measure_xz(self, tests: Mapping[str, Stream]) -> Measured:
        train = self.bytes_of(np.concatenate(self.splits().train.parts)[-LONGEST_TEXT:])
        known: dict[int, Scored] = {}  # as above
        for data in tests.values():
            if id(data.tokens) not in known:
                text = self.bytes_of(np.concatenate(data.parts))
                items = Items(BITS, np.array([[xz_bits(train, text), max(len(text), 1)]], float))
                known[id(data.tokens)] = Scored(items)
        return Measured({name: known[id(data.tokens)] for name, data in tests.items()})

    def bytes_of(self, tokens: np.ndarray) -> bytes:
        return b"".join(map(self.tokenizer_of("").pieces.__getitem__, tokens.tolist()))

    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        windows = [(name, data.window, data.stride or 0) for name, data in tests.items()]
        texts = [part for data in (self.splits().train, *tests.values()) for part in data.parts]
        return hash_of(self.tokenizer_of("").to_json(), *windows, *texts)

    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        size, own = self.splits().train.size, {id(data.tokens): data.size for data in tests.values()}
        text = sum(2 * min(size * USUAL_SIZE, LONGEST_TEXT) + each * USUAL_SIZE for each in own.values())
        return (PER_MILLION * (size + sum(own.values())) + PER_MEGABYTE * text) / 1e6

    @torch.inference_mode()
    def items_of(self, model: Any, data: Stream) -> Items:
        """A network on the same windows."""
        device, windows = next(model.parameters()).device, data.windows()
        nats = np.zeros(len(windows.starts))
        done = 0
        for rows, batch in data.batches():
            own = batch.to(device)
            losses = F.cross_entropy(self.logits_of(model, own).float().transpose(1, 2), own.targets, reduction="none")
            losses = losses if own.weights is None else losses * own.weights
            places = np.arange(done, done + 1) if data.carries else rows
            nats[places] = losses.double().sum(dim=1).cpu().numpy()
            done += len(places)
        counted = self.items_in_windows(np.zeros(len(data.tokens)), data).sums[:, 1]
        return Items(BITS, np.stack([nats / math.log(2), counted], axis=1))


class ComparesCompletions(HasBaselines):
    """Of sequences whose ends count: an n-gram model, by the loss of a token."""

    compared_by = "loss"
    vocab_size: int

    @abstractmethod
    def splits(self, progress: Progress = silent) -> Any: ...

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> Tally: ...

    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        name = f"{LENGTHS[False]}-grams with Kneser-Ney smoothing"
        return [Baseline(name, partial(self.measure_ngrams, tests))]

    def measure_ngrams(self, tests: Mapping[str, Completions]) -> Measured:
        train = self.splits().train
        streams = [train.tokens[first : first + size] for first, size in zip(train.starts, train.sizes, strict=True)]
        model = KneserNey(streams, self.vocab_size, LENGTHS[False])
        return Measured(
            {name: Scored(self.items_in_batches(model, data)) for name, data in tests.items()}, model.parameters
        )

    def items_in_batches(self, model: KneserNey, data: Completions) -> Items:
        nats = np.zeros((len(data), 2))
        for row, (first, size, prompt) in enumerate(zip(data.starts, data.sizes, data.prompt_sizes, strict=True)):
            chances = model.probabilities(data.tokens[first : first + size])[prompt:]
            nats[row] = -np.log(chances).sum(), len(chances)
        return Items("loss", np.array([nats[rows].sum(axis=0) for rows, _ in data.batches(ROWS_OF_AN_ITEM)]))

    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        sets = (self.splits().train, *tests.values())
        return hash_of(self.vocab_size, *tests, *(part for data in sets for part in (data.key, data.prompt_sizes)))

    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        sizes = sum(int(data.sizes.sum()) for data in (self.splits().train, *tests.values()))
        return PER_MILLION * sizes / 1e6 + PER_ROW * sum(map(len, tests.values()))

    def items_of(self, model: Any, data: Completions) -> Items:
        batches = (batch for _, batch in data.batches(ROWS_OF_AN_ITEM))
        return items_of_batches("loss", lambda batch: self.loss(model, batch), batches, next(model.parameters()).device)


class ComparesHiddenTokens(HasBaselines):
    """Of texts in which some tokens are to be predicted: the most frequent of them."""

    compared_by = "accuracy"

    @abstractmethod
    def splits(self, progress: Progress = silent) -> Any: ...

    @abstractmethod
    def metrics(self, model: Any, batch: Any) -> dict[str, Tally]: ...

    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        return [Baseline("most frequent token", partial(self.most_frequent, tests))]

    def most_frequent(self, tests: Mapping[str, Any]) -> Measured:
        """Of those that are to be predicted in the validation data, as in the test data."""
        held_out = [batch.targets.numpy() for data in self.splits().validation.values() for _, batch in data.batches()]
        token = int(np.bincount(np.concatenate(held_out)).argmax())
        sets = {}
        for name, data in tests.items():
            right = [[int((batch.targets == token).sum()), len(batch.targets)] for _, batch in data.batches()]
            sets[name] = Scored(Items("accuracy", np.array(right, float)))
        return Measured(sets, 1)

    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        sets = {**self.splits().validation, **tests}
        parts = [each for name, data in sets.items() for each in (name, hash_of_tokens(data), data.window)]
        return hash_of(*parts, next(iter(tests.values())).corrupt)

    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        return PER_MILLION * sum(data.size for data in (*self.splits().validation.values(), *tests.values())) / 1e6

    def items_of(self, model: Any, data: Any) -> Items:
        batches = (batch for _, batch in data.batches())
        device = next(model.parameters()).device
        return items_of_batches("accuracy", lambda batch: self.metrics(model, batch)["accuracy"], batches, device)
