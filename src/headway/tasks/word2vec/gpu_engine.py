"""Learning word vectors on a GPU: by products of matrices, a thousand words at a time.

The same pairs of words as in cpu_engine, but what is read is cut into blocks: SIZE words in the middle, and those that
a window reaches on either side. A block has SHARED negatives, which serve all of its pairs; each of them counts for so
much that a pair has as many as it should (Ji et al. 2016, https://arxiv.org/abs/1604.04661). With X for the scores of a
block, those of negatives with their sign turned, and W for how often each of them counts, a block's loss is

    sum of -W log sigmoid(X)

An update moves several blocks from places far apart, so that few of their words are the same. What comes to a row is
added up in a fixed order; it is from one point, and may lead too far: a row goes no farther than FAR / rate pairs would
take it. All that does not depend on the vectors is worked out for a whole stretch of text at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from headway.nn.cuda_graphs import record
from headway.tasks.word2vec.cpu_engine import FIRST, GOLDEN, LOW, SECOND, Plan, Text

SIZE, SHARED = 64, 64
SKIPGRAM, CBOW = 16, 64  # blocks in an update: skip-gram has several pairs for each of CBOW's
FAR = 2.0
RECORDED = 4  # updates at once


class Merging(NamedTuple):
    """How gradients for rows are added up: sorted by their rows, and each stretch of one row is a sum."""

    order: Tensor  # (R,)
    ends: Tensor  # (R + 1,): 0, and where each stretch ends; as many as there may be, the last of them empty
    rows: Tensor  # (R,): which row each stretch is for
    rates: Tensor  # (R,): what the sum is multiplied by


class Update(NamedTuple):
    """Of blocks (B of them) with words around (A), in the middle (M) and negatives (N); H of them are looked from."""

    words: Tensor  # (B, A)
    pairs: Tensor  # (B, A, M): 1 where a word is around one in the middle
    shares: Tensor  # (B, H, 1): of a row, in what is looked from
    targets: Tensor  # (B, M + N): the words that are looked for
    weights: Tensor  # (B, H, M + N): how often, those of negatives below zero
    inputs: Merging
    outputs: Merging


def signed(number: int) -> int:
    """The same 64 bits, as torch has them."""
    return number - (1 << 64) if number >> 63 else number


def shifted(numbers: Tensor, places: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (numbers >> places) & ((1 << (64 - places)) - 1)


def mixed(numbers: Tensor) -> Tensor:
    """As in tasks/word2vec/cpu_engine."""
    numbers = (numbers ^ shifted(numbers, 30)) * signed(FIRST)
    numbers = (numbers ^ shifted(numbers, 27)) * signed(SECOND)
    return numbers ^ shifted(numbers, 31)


class BlockEngine:
    def __init__(self, text: Text, plan: Plan, inputs: Tensor, outputs: Tensor):
        self.text, self.plan, self.inputs, self.outputs = text, plan, inputs, outputs
        self.device, self.kind = inputs.device, inputs.dtype
        self.kept, self.stays, self.instead = (
            self.there(np.asarray(each, np.int64)) for each in (text.kept, plan.stays, plan.instead)
        )
        units, counted = padded(plan.unit_starts, plan.units)
        self.units, self.counted = self.there(units), self.there(counted).to(self.kind)
        self.whole = units.shape[1] == 1  # a word has a row of its own, and no others
        self.together = CBOW if plan.cbow else SKIPGRAM
        self.sign = torch.ones(SIZE + SHARED, dtype=self.kind, device=self.device)
        self.sign[SIZE:] = -1
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.play: Callable[[Update], None] | None = None

    def there(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def learn(self, first: int, last: int, rate: float, key: np.uint64) -> tuple[float, int]:
        """Texts ``first`` to ``last``; gives the sum of the losses, and how many there were."""
        updates = self.prepare(*self.read(first, last, key), rate)
        if self.play is None:
            self.play = self.recorded(at(updates, slice(RECORDED))) if self.device.type == "cuda" else self.update_all
        self.loss.zero_()
        for first in range(0, len(updates.words), RECORDED):
            self.play(at(updates, slice(first, first + RECORDED)))
        return self.loss.item(), int(updates.weights[..., :SIZE].sum())

    def read(self, first: int, last: int, key: np.uint64) -> tuple[Tensor, Tensor, Tensor]:
        """Blocks of words (n, A), the pairs among them (n, A, M), and their negatives (n, N)."""
        text, window = self.text, self.plan.window
        starts, sizes = self.there(text.starts[first:last]), self.there(text.sizes[first:last])
        begin, end = int(text.starts[first]), int(text.starts[last - 1] + text.sizes[last - 1])
        tokens = self.there(text.tokens[begin:end].astype(np.int64))
        number = torch.arange(last - first, device=self.device).repeat_interleave(sizes)
        places = torch.arange(len(number), device=self.device) + (starts - (sizes.cumsum(0) - sizes))[number]
        words, chances = tokens[places - begin], mixed(places * signed(GOLDEN) + signed(int(key)))
        number = number + (words == text.border).cumsum(0)  # texts of one row that a border divides are two
        read = shifted(chances, 32) < self.kept[words]
        words, chances, number = words[read], chances[read], number[read]

        whole = SIZE * self.together
        rest = -len(words) % whole if len(words) else whole
        words, texts = (
            F.pad(each, (window, rest + window), value=nothing).unfold(0, SIZE + 2 * window, SIZE)
            for each, nothing in ((words, 0), (number, -1))
        )
        chances = F.pad(chances, (0, rest)).view(-1, SIZE)
        reach, own = 1 + (chances & LOW) % window, texts[:, window : window + SIZE]
        around = torch.arange(SIZE + 2 * window, device=self.device)[:, None] - window
        distance = (around - torch.arange(SIZE, device=self.device)).abs()
        near = (distance <= reach[:, None]) & (distance > 0)
        pairs = near & (texts[:, :, None] == own[:, None]) & (own[:, None] >= 0)
        steps = torch.arange(1, SHARED + 1, device=self.device) * signed(GOLDEN)
        return words, pairs, self.draw(mixed(chances[:, :1] + steps))

    def draw(self, chances: Tensor) -> Tensor:
        places = shifted(shifted(chances, 32) * len(self.stays), 32)
        return torch.where((chances & LOW) < self.stays[places], places, self.instead[places])

    def prepare(self, words: Tensor, pairs: Tensor, negatives: Tensor, rate: float) -> Update:
        """For one update after another: each tensor has one more dimension."""
        words, pairs, negatives = (self.apart(each) for each in (words, pairs.to(self.kind), negatives))
        middle = words[..., self.plan.window : -self.plan.window]
        sizes = self.counted.sum(dim=1)[words][..., None]  # (U, B, A, 1): of how many rows a word is made
        if self.plan.cbow:
            sizes = pairs.mT @ sizes
            wanted = torch.diag_embed((sizes[..., 0] > 0).to(self.kind))
        else:
            wanted = pairs
        other = (middle[..., :, None] != negatives[..., None, :]).to(self.kind)
        unwanted = wanted @ other * (self.plan.negatives / SHARED)
        targets, weights = torch.cat([middle, negatives], dim=-1), torch.cat([wanted, unwanted], dim=-1)
        return Update(
            words,
            pairs,
            1 / sizes.clamp(min=1),
            targets,
            weights * self.sign,
            merging(words.flatten(1), pairs.sum(dim=-1).flatten(1), rate),
            merging(targets.flatten(1), weights.sum(dim=-2).flatten(1), rate),
        )

    def apart(self, blocks: Tensor) -> Tensor:
        """(U, B, ...): those of an update come from places far apart; the last updates may be of nothing."""
        updates = blocks.unflatten(0, (self.together, -1)).transpose(0, 1)
        return torch.cat([updates, updates.new_zeros(-len(updates) % RECORDED, *updates.shape[1:])])

    def update_all(self, updates: Update) -> None:
        for number in range(RECORDED):
            self.update(at(updates, number))

    def update(self, update: Update) -> None:
        around, outputs = self.sums(update.words), self.outputs[update.targets]
        hidden = (update.pairs.mT @ around if self.plan.cbow else around) * update.shares
        logits = hidden @ outputs.mT * self.sign
        self.loss -= ((F.logsigmoid(logits) * update.weights).sum(dim=(0, 1)) * self.sign).sum()
        gradients = torch.sigmoid(-logits) * update.weights  # of what is maximised, in hidden @ outputs
        to_hidden, to_outputs = gradients @ outputs, gradients.mT @ hidden
        to_inputs = update.pairs @ to_hidden if self.plan.cbow else to_hidden
        self.add(update.inputs.rows, merged(to_inputs, update.inputs))
        self.outputs.index_add_(0, update.outputs.rows, merged(to_outputs, update.outputs))

    def sums(self, words: Tensor) -> Tensor:
        """(..., D): of the rows of words."""
        if self.whole:
            return self.inputs[words]
        rows, counted = self.units[words].flatten(0, -2), self.counted[words].flatten(0, -2)
        found = F.embedding_bag(rows, self.inputs, per_sample_weights=counted, mode="sum")
        return found.view(*words.shape, -1)

    def add(self, words: Tensor, steps: Tensor) -> None:
        """To all rows of words (R,), of which no two are the same; but they may share n-grams."""
        if self.whole:
            self.inputs.index_add_(0, words, steps)
        else:
            steps = steps[:, None] * self.counted[words][..., None]
            self.inputs.index_put_((self.units[words].flatten(),), steps.flatten(0, 1), accumulate=True)

    def recorded(self, example: Update) -> Callable[[Update], None]:
        """Updates whose kernels a GPU plays back: to start each of them from Python would take longer."""
        where = of_all(torch.clone, example)
        where.inputs.rates.zero_()
        where.outputs.rates.zero_()
        graph = record(lambda: self.update_all(where))

        def play(updates: Update) -> None:
            torch._foreach_copy_(tensors(where), tensors(updates))
            graph.replay()

        return play


def of_all(function: Callable[[Tensor], Tensor], update: Update) -> Update:
    parts: list[Any] = [
        Merging(*map(function, each)) if isinstance(each, Merging) else function(each) for each in update
    ]
    return Update(*parts)


def at(updates: Update, place: int | slice) -> Update:
    return of_all(lambda each: each[place], updates)


def tensors(update: Update) -> list[Tensor]:
    return [*update[:-2], *update.inputs, *update.outputs]


def padded(starts: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V, most): the rows of each word, filled up with its own row, and whether they count."""
    sizes = np.diff(starts)
    steps = np.arange(sizes.max())
    counted = steps < sizes[:, None]
    return units[np.where(counted, starts[:-1, None] + steps, starts[:-1, None])], counted


def merging(rows: Tensor, pairs: Tensor, rate: float) -> Merging:
    """Of rows (U, R), each of which so many pairs (U, R) move."""
    size = rows.shape[1]
    ordered, order = rows.sort(dim=1, stable=True)
    stretch = (ordered.diff(dim=1, prepend=ordered[:, :1] - 1) != 0).cumsum(dim=1) - 1
    numbers = torch.arange(size + 1, device=rows.device).expand(len(rows), -1).contiguous()
    ends = torch.searchsorted(stretch, numbers)
    first = ends[:, :-1].clamp(max=size - 1)
    whole = F.pad(pairs.gather(1, order).cumsum(dim=1), (1, 0)).gather(1, ends).diff(dim=1)
    there = ends[:, :-1] < size
    rates = rate / (rate / FAR * whole).clamp(min=1)
    return Merging(order, ends, torch.where(there, ordered.gather(1, first), 0), torch.where(there, rates, 0))


def merged(gradients: Tensor, merging: Merging) -> Tensor:
    """(R, D) of gradients (B, ..., D)."""
    ordered = gradients.flatten(0, 1)[merging.order]
    sums = torch.segment_reduce(ordered, "sum", offsets=merging.ends, unsafe=True)
    return sums * merging.rates[:, None]
