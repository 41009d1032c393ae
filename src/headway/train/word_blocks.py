"""Learning word vectors on a GPU: by products of matrices, a thousand words at a time.

The same pairs of words as in train/words, but what is read is cut into blocks: SIZE words in the middle, and those that
a window reaches on either side. Each block has SHARED negatives, which serve all of its pairs; each of them counts for
so much that a pair has as many as it should (Ji et al. 2016, https://arxiv.org/abs/1604.04661). An update moves
TOGETHER blocks from places far apart, so that few of their words are the same. Gradients that meet in a row are those
of one point, and their sum may lead too far: of more than 1 / rate pairs, a row moves by the mean.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from headway.objectives.contrastive import full_in_blocks, negative_in_blocks
from headway.train.words import FIRST, FULL, GOLDEN, LOW, SECOND, Plan, Text

SIZE, SHARED, TOGETHER = 64, 64, 16
WARM_UP = 2  # updates before one is recorded, in which libraries set themselves up


class Blocks(NamedTuple):
    """Of a stretch of text, for one update after another (U of them)."""

    words: Tensor  # (U, TOGETHER, SIZE + 2 window)
    pairs: Tensor  # (U, TOGETHER, SIZE + 2 window, SIZE) whether the one in the middle is looked for from there
    negatives: Tensor  # (U, TOGETHER, SHARED)


def signed(number: int) -> int:
    """The same 64 bits, as torch has them."""
    return number - (1 << 64) if number >> 63 else number


def shifted(numbers: Tensor, places: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (numbers >> places) & ((1 << (64 - places)) - 1)


def mixed(numbers: Tensor) -> Tensor:
    """As in train/words."""
    numbers = (numbers ^ shifted(numbers, 30)) * signed(FIRST)
    numbers = (numbers ^ shifted(numbers, 27)) * signed(SECOND)
    return numbers ^ shifted(numbers, 31)


class BlockEngine:
    def __init__(self, text: Text, plan: Plan, inputs: Tensor, outputs: Tensor):
        self.text, self.plan, self.inputs, self.outputs = text, plan, inputs, outputs
        self.device = inputs.device
        self.kept, self.stays, self.instead = (
            self.there(np.asarray(each, np.int64)) for each in (text.kept, plan.stays, plan.instead)
        )
        units, counted = padded(plan.unit_starts, plan.units)
        self.units, self.counted = self.there(units), self.there(counted).to(inputs.dtype)
        self.everything = torch.arange(len(outputs), device=self.device)
        self.rate = torch.zeros((), dtype=inputs.dtype, device=self.device)
        self.sums = torch.zeros(2, dtype=torch.float64, device=self.device)  # losses, and how many
        self.play: Callable[[Blocks], None] | None = None

    def there(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def learn(self, first: int, last: int, rate: float, key: np.uint64) -> tuple[float, int]:
        """Texts ``first`` to ``last``; gives the sum of the losses, and how many there were."""
        blocks = self.read(first, last, key)
        if self.play is None:
            self.play = self.recorded(blocks) if self.device.type == "cuda" else self.update
        self.sums.zero_()
        self.rate.fill_(rate)
        for update in zip(*blocks, strict=True):
            self.play(Blocks(*update))
        loss, count = self.sums.tolist()
        return loss, int(count)

    def read(self, first: int, last: int, key: np.uint64) -> Blocks:
        text, window = self.text, self.plan.window
        starts, sizes = self.there(text.starts[first:last]), self.there(text.sizes[first:last])
        begin, end = int(text.starts[first]), int(text.starts[last - 1] + text.sizes[last - 1])
        tokens = self.there(text.tokens[begin:end].astype(np.int64))
        number = torch.arange(last - first, device=self.device).repeat_interleave(sizes)
        places = torch.arange(len(number), device=self.device) + (starts - (sizes.cumsum(0) - sizes))[number]
        words, chances = tokens[places - begin], mixed(places * signed(GOLDEN) + signed(int(key)))
        read = shifted(chances, 32) < self.kept[words]
        words, chances, number = words[read], chances[read], number[read]

        updates = max(1, -(-len(words) // (SIZE * TOGETHER)))
        rest = updates * SIZE * TOGETHER - len(words)
        around_words, around_number = (
            F.pad(each, (window, rest + window), value=nothing).unfold(0, SIZE + 2 * window, SIZE)
            for each, nothing in ((words, 0), (number, -1))
        )
        chances = F.pad(chances, (0, rest)).view(-1, SIZE)
        reach = 1 + (chances & LOW) % window
        number = around_number[:, window : window + SIZE]
        offsets = torch.arange(SIZE + 2 * window, device=self.device)[:, None] - window
        distance = (offsets - torch.arange(SIZE, device=self.device)).abs()
        pairs = (distance <= reach[:, None]) & (distance > 0) & (around_number[:, :, None] == number[:, None])
        pairs &= number[:, None] >= 0
        steps = torch.arange(1, SHARED + 1, device=self.device) * signed(GOLDEN)
        negatives = self.draw(mixed(chances[:, :1] + steps))
        return Blocks(*(apart(each, updates) for each in (around_words, pairs, negatives)))

    def draw(self, chances: Tensor) -> Tensor:
        places = shifted(shifted(chances, 32) * len(self.stays), 32)
        return torch.where((chances & LOW) < self.stays[places], places, self.instead[places])

    @torch.no_grad()
    def update(self, blocks: Blocks) -> None:
        words, pairs, negatives = blocks
        middle, pairs = words[:, self.plan.window : -self.plan.window], pairs.to(self.inputs.dtype)
        units, counted = self.units[words], self.counted[words]
        rows, sizes = units.flatten(0, 1), counted.sum(dim=-1, keepdim=True)
        sums = F.embedding_bag(rows, self.inputs, per_sample_weights=counted.flatten(0, 1), mode="sum")
        sums = sums.view(*words.shape, -1)
        if self.plan.cbow:
            counts = pairs.mT @ sizes
            hidden, wanted = pairs.mT @ sums / counts.clamp(min=1), torch.diag_embed((counts > 0).to(pairs)[..., 0])
        else:
            hidden, wanted = sums / sizes, pairs
        loss, of_hidden = self.descend(hidden, middle, negatives, wanted)
        moved = pairs @ of_hidden if self.plan.cbow else of_hidden
        weights, gradients = pairs.sum(dim=-1)[..., None] * counted, moved[:, :, None] * counted[..., None]
        self.move(self.inputs, units.flatten(), gradients.flatten(0, 2), weights.flatten())
        self.sums += torch.stack([loss, wanted.sum()])

    def descend(self, hidden: Tensor, middle: Tensor, negatives: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Move the outputs; gives the loss, and its gradient in what is looked from."""
        full = self.plan.kind == FULL
        rows = self.everything if full else torch.cat([middle, negatives], dim=1)
        with torch.enable_grad():
            hidden, outputs = hidden.requires_grad_(), self.outputs[rows].requires_grad_()
            if full:
                loss, weights = full_in_blocks(hidden, outputs, middle, wanted)
            else:
                loss, weights = negative_in_blocks(hidden, outputs, middle, negatives, wanted, self.plan.negatives)
            of_hidden, of_outputs = torch.autograd.grad(loss.total, (hidden, outputs))
        self.move(self.outputs, rows.flatten(), of_outputs.flatten(0, -2), weights.flatten())
        return loss.total.detach(), of_hidden

    def move(self, matrix: Tensor, rows: Tensor, gradients: Tensor, weights: Tensor) -> None:
        """Against the gradients, each of which is of so many pairs."""
        pairs = matrix.new_zeros(len(matrix)).index_put_((rows,), weights, accumulate=True)
        rates = -self.rate / (self.rate * pairs[rows]).clamp(min=1)
        matrix.index_put_((rows,), gradients * rates[:, None], accumulate=True)

    def recorded(self, blocks: Blocks) -> Callable[[Blocks], None]:
        """An update whose kernels a GPU plays back: to start each of them from Python would take longer."""
        where = Blocks(*(each[0].clone() for each in blocks))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self.update(where)  # the rate is 0 yet
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.update(where)

        def play(update: Blocks) -> None:
            for place, values in zip(where, update, strict=True):
                place.copy_(values)
            graph.replay()

        return play


def apart(blocks: Tensor, updates: int) -> Tensor:
    """(updates, TOGETHER, ...): those of an update come from places far apart."""
    return blocks.unflatten(0, (TOGETHER, updates)).transpose(0, 1).contiguous()


def padded(starts: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V, most): the rows of each word, filled up with its own row, and whether they count."""
    sizes = np.diff(starts)
    steps = np.arange(sizes.max())
    counted = steps < sizes[:, None]
    return units[np.where(counted, starts[:-1, None] + steps, starts[:-1, None])], counted
