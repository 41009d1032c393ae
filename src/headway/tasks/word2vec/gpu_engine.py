"""Training word vectors on a GPU: with matrix products, a thousand words at a time.

The pairs are those of cpu_engine, but the text is cut into blocks of BLOCK center words and the words within a window
of them. All pairs of a block share NEGATIVES negative samples, weighted so that each pair has as many as configured
(Ji et al. 2016, https://arxiv.org/abs/1604.04661). With X for the logits of a block, negated for negative samples, and
W for their weights, the loss of a block is

    sum of -W log sigmoid(X)

An update has several blocks from distant parts of the text, so that they share few words. Gradients of the same row are
added in a fixed order. Since they are all computed at the same point, their sum may overshoot: a row moves no further
than MAX_STEP / rate pairs would take it. Everything that does not depend on the vectors is computed for all texts of a
step at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from headway.nn.cuda_graphs import record
from headway.tasks.word2vec.cpu_engine import FIRST, GOLDEN, LOW, SECOND, EngineConfig, TrainingText

BLOCK, NEGATIVES = 64, 64
SKIPGRAM, CBOW = 16, 64  # blocks per update: skip-gram has several pairs for each one of CBOW
MAX_STEP = 2.0
GRAPHED = 4  # updates per CUDA graph


class RowSums(NamedTuple):
    """How to add up the gradients of each row: sorted by row, each segment of equal rows is a sum."""

    order: Tensor  # (R,)
    ends: Tensor  # (R + 1,): 0, then the end of each segment; there may be fewer than R, the others are empty
    rows: Tensor  # (R,): the row of each segment
    rates: Tensor  # (R,): learning rate of each segment


class Update(NamedTuple):
    """B blocks with A words, M of them centers, and N negative samples. There are H hidden vectors: the A words for
    skip-gram, the M context means for CBOW."""

    words: Tensor  # (B, A)
    pairs: Tensor  # (B, A, M): 1 where a word is in the context of a center word
    shares: Tensor  # (B, H, 1): weight of a row in its hidden vector
    targets: Tensor  # (B, M + N): center words and negative samples
    weights: Tensor  # (B, H, M + N): of the logits, negative for negative samples
    inputs: RowSums
    outputs: RowSums


def signed(number: int) -> int:
    """The same 64 bits as a signed integer, for torch."""
    return number - (1 << 64) if number >> 63 else number


def shifted(numbers: Tensor, bits: int) -> Tensor:
    """Logical right shift."""
    return (numbers >> bits) & ((1 << (64 - bits)) - 1)


def mixed(numbers: Tensor) -> Tensor:
    """SplitMix64, as in cpu_engine."""
    numbers = (numbers ^ shifted(numbers, 30)) * signed(FIRST)
    numbers = (numbers ^ shifted(numbers, 27)) * signed(SECOND)
    return numbers ^ shifted(numbers, 31)


class GpuEngine:
    def __init__(self, text: TrainingText, config: EngineConfig, inputs: Tensor, outputs: Tensor):
        self.text, self.config, self.inputs, self.outputs = text, config, inputs, outputs
        self.device, self.dtype = inputs.device, inputs.dtype
        self.keep, self.probability, self.alias = (
            self.on_device(np.asarray(each, np.int64)) for each in (text.keep, config.probability, config.alias)
        )
        rows, real = padded(config.row_starts, config.rows)
        self.rows, self.real = self.on_device(rows), self.on_device(real).to(self.dtype)
        self.plain = rows.shape[1] == 1  # the input vector of each word is a single row
        self.blocks = CBOW if config.cbow else SKIPGRAM
        self.sign = torch.ones(BLOCK + NEGATIVES, dtype=self.dtype, device=self.device)
        self.sign[BLOCK:] = -1
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.play: Callable[[Update], None] | None = None

    def on_device(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def learn(self, first: int, last: int, rate: float, key: np.uint64) -> tuple[float, int]:
        """Train on the texts from ``first`` to ``last``; return the sum of the losses and their number."""
        updates = self.prepare(*self.read(first, last, key), rate)
        if self.play is None:
            self.play = self.graphed(at(updates, slice(GRAPHED))) if self.device.type == "cuda" else self.update_all
        self.loss.zero_()
        for first in range(0, len(updates.words), GRAPHED):
            self.play(at(updates, slice(first, first + GRAPHED)))
        return self.loss.item(), int(updates.weights[..., :BLOCK].sum())

    def read(self, first: int, last: int, key: np.uint64) -> tuple[Tensor, Tensor, Tensor]:
        """Blocks of words (n, A), the pairs among them (n, A, M), and their negative samples (n, N)."""
        text, window = self.text, self.config.window
        starts, sizes = self.on_device(text.starts[first:last]), self.on_device(text.sizes[first:last])
        begin, end = int(text.starts[first]), int(text.starts[last - 1] + text.sizes[last - 1])
        tokens = self.on_device(text.tokens[begin:end].astype(np.int64))
        sentence = torch.arange(last - first, device=self.device).repeat_interleave(sizes)
        positions = torch.arange(len(sentence), device=self.device) + (starts - (sizes.cumsum(0) - sizes))[sentence]
        words, bits = tokens[positions - begin], mixed(positions * signed(GOLDEN) + signed(int(key)))
        sentence = sentence + (words == text.sentence_end).cumsum(0)
        read = shifted(bits, 32) < self.keep[words]
        words, bits, sentence = words[read], bits[read], sentence[read]

        size = BLOCK * self.blocks
        rest = -len(words) % size if len(words) else size
        words, sentences = (
            F.pad(each, (window, rest + window), value=padding).unfold(0, BLOCK + 2 * window, BLOCK)
            for each, padding in ((words, 0), (sentence, -1))
        )
        bits = F.pad(bits, (0, rest)).view(-1, BLOCK)
        reach, own = 1 + (bits & LOW) % window, sentences[:, window : window + BLOCK]
        offsets = torch.arange(BLOCK + 2 * window, device=self.device)[:, None] - window
        distance = (offsets - torch.arange(BLOCK, device=self.device)).abs()
        near = (distance <= reach[:, None]) & (distance > 0)
        pairs = near & (sentences[:, :, None] == own[:, None]) & (own[:, None] >= 0)
        steps = torch.arange(1, NEGATIVES + 1, device=self.device) * signed(GOLDEN)
        return words, pairs, self.draw(mixed(bits[:, :1] + steps))

    def draw(self, bits: Tensor) -> Tensor:
        """Samples of the alias table."""
        indices = shifted(shifted(bits, 32) * len(self.probability), 32)
        return torch.where((bits & LOW) < self.probability[indices], indices, self.alias[indices])

    def prepare(self, words: Tensor, pairs: Tensor, negatives: Tensor, rate: float) -> Update:
        """All updates, stacked in a first dimension U."""
        words, pairs, negatives = (self.grouped(each) for each in (words, pairs.to(self.dtype), negatives))
        centers = words[..., self.config.window : -self.config.window]
        sizes = self.real.sum(dim=1)[words][..., None]  # (U, B, A, 1): the number of rows of each word
        if self.config.cbow:
            sizes = pairs.mT @ sizes
            positive = torch.diag_embed((sizes[..., 0] > 0).to(self.dtype))
        else:
            positive = pairs
        differs = (centers[..., :, None] != negatives[..., None, :]).to(self.dtype)
        negative = positive @ differs * (self.config.negatives / NEGATIVES)
        targets, weights = torch.cat([centers, negatives], dim=-1), torch.cat([positive, negative], dim=-1)
        return Update(
            words,
            pairs,
            1 / sizes.clamp(min=1),
            targets,
            weights * self.sign,
            row_sums(words.flatten(1), pairs.sum(dim=-1).flatten(1), rate),
            row_sums(targets.flatten(1), weights.sum(dim=-2).flatten(1), rate),
        )

    def grouped(self, blocks: Tensor) -> Tensor:
        """(U, B, ...): the blocks of an update are far apart in the text; the last updates may be empty."""
        updates = blocks.unflatten(0, (self.blocks, -1)).transpose(0, 1)
        return torch.cat([updates, updates.new_zeros(-len(updates) % GRAPHED, *updates.shape[1:])])

    def update_all(self, updates: Update) -> None:
        for number in range(GRAPHED):
            self.update(at(updates, number))

    def update(self, update: Update) -> None:
        vectors, outputs = self.sums(update.words), self.outputs[update.targets]
        hidden = (update.pairs.mT @ vectors if self.config.cbow else vectors) * update.shares
        logits = hidden @ outputs.mT * self.sign
        self.loss -= ((F.logsigmoid(logits) * update.weights).sum(dim=(0, 1)) * self.sign).sum()
        gradients = torch.sigmoid(-logits) * update.weights  # of the log-likelihood, in hidden @ outputs
        to_hidden, to_outputs = gradients @ outputs, gradients.mT @ hidden
        to_inputs = update.pairs @ to_hidden if self.config.cbow else to_hidden
        self.add(update.inputs.rows, summed(to_inputs, update.inputs))
        self.outputs.index_add_(0, update.outputs.rows, summed(to_outputs, update.outputs))

    def sums(self, words: Tensor) -> Tensor:
        """(..., D): the sums of the input rows of words."""
        if self.plain:
            return self.inputs[words]
        rows, real = self.rows[words].flatten(0, -2), self.real[words].flatten(0, -2)
        sums = F.embedding_bag(rows, self.inputs, per_sample_weights=real, mode="sum")
        return sums.view(*words.shape, -1)

    def add(self, words: Tensor, steps: Tensor) -> None:
        """To all rows of distinct words (R,), which may share n-grams."""
        if self.plain:
            self.inputs.index_add_(0, words, steps)
        else:
            steps = steps[:, None] * self.real[words][..., None]
            self.inputs.index_put_((self.rows[words].flatten(),), steps.flatten(0, 1), accumulate=True)

    def graphed(self, example: Update) -> Callable[[Update], None]:
        """Updates as a CUDA graph: launching their kernels from Python would take longer than running them."""
        static = map_tensors(torch.clone, example)
        static.inputs.rates.zero_()
        static.outputs.rates.zero_()
        graph = record(lambda: self.update_all(static))

        def play(updates: Update) -> None:
            torch._foreach_copy_(tensors(static), tensors(updates))
            graph.replay()

        return play


def map_tensors(function: Callable[[Tensor], Tensor], update: Update) -> Update:
    parts: list[Any] = [
        RowSums(*map(function, each)) if isinstance(each, RowSums) else function(each) for each in update
    ]
    return Update(*parts)


def at(updates: Update, index: int | slice) -> Update:
    return map_tensors(lambda each: each[index], updates)


def tensors(update: Update) -> list[Tensor]:
    return [*update[:-2], *update.inputs, *update.outputs]


def padded(starts: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V, most): the rows of each word, padded with its first row, and which of them are real."""
    sizes = np.diff(starts)
    steps = np.arange(sizes.max())
    real = steps < sizes[:, None]
    return rows[np.where(real, starts[:-1, None] + steps, starts[:-1, None])], real


def row_sums(rows: Tensor, pairs: Tensor, rate: float) -> RowSums:
    """Of rows (U, R), each moved by this many pairs (U, R)."""
    size = rows.shape[1]
    ordered, order = rows.sort(dim=1, stable=True)
    segment = (ordered.diff(dim=1, prepend=ordered[:, :1] - 1) != 0).cumsum(dim=1) - 1
    numbers = torch.arange(size + 1, device=rows.device).expand(len(rows), -1).contiguous()
    ends = torch.searchsorted(segment, numbers)
    first = ends[:, :-1].clamp(max=size - 1)
    counts = F.pad(pairs.gather(1, order).cumsum(dim=1), (1, 0)).gather(1, ends).diff(dim=1)
    real = ends[:, :-1] < size
    rates = rate / (rate / MAX_STEP * counts).clamp(min=1)
    return RowSums(order, ends, torch.where(real, ordered.gather(1, first), 0), torch.where(real, rates, 0))


def summed(gradients: Tensor, row_sums: RowSums) -> Tensor:
    """(R, D): the steps of the rows, from gradients (B, ..., D)."""
    ordered = gradients.flatten(0, 1)[row_sums.order]
    sums = torch.segment_reduce(ordered, "sum", offsets=row_sums.ends, unsafe=True)
    return sums * row_sums.rates[:, None]
