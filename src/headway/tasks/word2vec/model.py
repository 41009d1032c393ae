"""Word vectors: a row for each word that is looked from, or several (see ngrams), and one for each that is looked for.

The losses are those of tasks/word2vec/losses. tasks/word2vec/cpu_engine does the same step by step on a CPU.
"""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.objectives.tally import Tally
from headway.tasks.word2vec.losses import full, hierarchical, negative


class Ways(NamedTuple):
    """From the root of a binary tree to each word: nodes, and whether it goes on to the first of two."""

    starts: np.ndarray  # (V + 1,)
    nodes: np.ndarray
    turns: np.ndarray


NO_WAYS = Ways(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, bool))


def huffman(counts: np.ndarray) -> Ways:
    """The tree in which the mean way to a word of the text is the shortest (Huffman 1952)."""
    size = len(counts)
    heap = [(int(count), number) for number, count in enumerate(counts)]
    heapq.heapify(heap)
    above: dict[int, tuple[int, bool]] = {}  # the node above, and whether this is the first of its two
    for node in range(size, 2 * size - 1):
        (least, one), (more, other) = heapq.heappop(heap), heapq.heappop(heap)
        above[one], above[other] = (node, True), (node, False)
        heapq.heappush(heap, (least + more, node))
    ways = []
    for word in range(size):
        way, place = [], word
        while place in above:
            place, turn = above[place]
            way.append((place - size, turn))
        ways.append(way[::-1])
    starts = np.concatenate([[0], np.cumsum([len(way) for way in ways])])
    steps = [step for way in ways for step in way] or [(0, False)]
    return Ways(starts, np.array([node for node, _ in steps]), np.array([turn for _, turn in steps]))


@dataclass(frozen=True)
class Shape:
    """What the vectors of a vocabulary are made of."""

    words: int
    rows: int  # of what is looked from
    unit_starts: np.ndarray  # (words + 1,)
    units: np.ndarray
    cbow: bool
    softmax: str  # full, negative or hierarchical
    ways: Ways = NO_WAYS


class WordVectors(nn.Module):
    def __init__(self, shape: Shape, width: int):
        super().__init__()
        self.shape = shape
        self.inputs = nn.Parameter(torch.empty(shape.rows, width).uniform_(-1 / width, 1 / width))
        self.outputs = nn.Parameter(torch.zeros(shape.words, width))

    def sums(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) words: the sums (N, D) of their rows, and how many these are."""
        starts = torch.from_numpy(self.shape.unit_starts).to(words.device)
        sizes = starts[words + 1] - starts[words]
        first = sizes.cumsum(0) - sizes
        places = torch.arange(int(sizes.sum()), device=words.device) + (starts[words] - first).repeat_interleave(sizes)
        rows = torch.from_numpy(self.shape.units).to(words.device)[places]
        return F.embedding_bag(rows, self.inputs, first, mode="sum"), sizes

    def vectors(self, words: Tensor) -> Tensor:
        """(N, D): the mean of the rows of each word."""
        total, sizes = self.sums(words)
        return total / sizes[:, None]

    def loss(self, middle: Tensor, around: Tensor, there: Tensor, negatives: Tensor) -> Tally:
        """Of words (N,) and those around them (N, C), as far as they are ``there``; negatives (N, K)."""
        rows, _ = there.nonzero(as_tuple=True)
        if not self.shape.cbow:
            return self.towards(self.vectors(around[there]), middle[rows], negatives[rows])
        some = there.any(dim=1)
        total, sizes = self.sums(around[there])
        sums = total.new_zeros(len(middle), total.shape[1]).index_add(0, rows, total)
        counts = sizes.new_zeros(len(middle)).index_add(0, rows, sizes)
        return self.towards((sums / counts.clamp(min=1)[:, None])[some], middle[some], negatives[some])

    def towards(self, hidden: Tensor, targets: Tensor, negatives: Tensor) -> Tally:
        if self.shape.softmax == "full":
            return full(hidden, self.outputs, targets)
        if self.shape.softmax == "negative":
            return negative(hidden, self.outputs, targets, negatives)
        starts, nodes, turns = (torch.from_numpy(each).to(targets.device) for each in self.shape.ways)
        sizes = starts[targets + 1] - starts[targets]
        steps = torch.arange(int(sizes.max()) if len(sizes) else 0, device=targets.device)
        there = steps < sizes[:, None]
        places = (starts[targets, None] + steps).clamp(max=len(nodes) - 1)
        return hierarchical(hidden, self.outputs, nodes[places], turns[places], there)
