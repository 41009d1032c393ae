"""Word vectors: every word has an input vector, the mean of one or several rows (see ngrams), and an output vector.

With h for the input vector (skip-gram) or the mean of several (CBOW), and w for output vectors, the losses are

- full: -log softmax(w h)[target], over all words
- negative: -log sigmoid(w_target h) - sum of log sigmoid(-w_n h) over negative samples n (Mikolov et al. 2013,
  https://arxiv.org/abs/1310.4546)
- hierarchical: - sum of log sigmoid(+-w_node h) over the nodes on the Huffman path of the target (Morin & Bengio 2005,
  https://proceedings.mlr.press/r5/morin05a.html)

cpu_engine computes the same, one pair at a time.
"""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.objectives.tally import Tally


def full(hidden: Tensor, outputs: Tensor, targets: Tensor) -> Tally:
    """hidden (N, D), outputs (V, D), targets (N,)."""
    # learn: begin embed.full
    return Tally(F.cross_entropy(hidden @ outputs.T, targets, reduction="sum"), len(targets))
    # learn: end


def negative(hidden: Tensor, outputs: Tensor, targets: Tensor, negatives: Tensor) -> Tally:
    """negatives (N, K); those that equal the target do not count."""
    # learn: begin embed.negative
    positive_logits = (hidden * outputs[targets]).sum(dim=-1)
    negative_logits = (outputs[negatives] @ hidden[..., None])[..., 0]
    counted = negatives != targets[:, None]
    total = -F.logsigmoid(positive_logits).sum() - (F.logsigmoid(-negative_logits) * counted).sum()
    return Tally(total, len(targets))
    # learn: end


def hierarchical(hidden: Tensor, outputs: Tensor, nodes: Tensor, codes: Tensor, real: Tensor) -> Tally:
    """nodes (N, depth) on the paths of the targets, codes (N, depth) True where a path goes on to the first child,
    real (N, depth) False after its end."""
    logits = (outputs[nodes] @ hidden[..., None])[..., 0]
    signed = logits * (2 * codes.to(logits.dtype) - 1)
    return Tally(-(F.logsigmoid(signed) * real).sum(), len(nodes))


class HuffmanPaths(NamedTuple):
    """From the root of a binary tree to each word."""

    starts: np.ndarray  # (V + 1,): the path of a word is starts[word] : starts[word + 1] of
    nodes: np.ndarray  # inner nodes,
    codes: np.ndarray  # and whether the path goes on to the first child


NO_PATHS = HuffmanPaths(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, bool))


def huffman(counts: np.ndarray) -> HuffmanPaths:
    """The tree with the shortest mean path to the words of a text (Huffman 1952)."""
    size = len(counts)
    heap = [(int(count), number) for number, count in enumerate(counts)]
    heapq.heapify(heap)
    parents: dict[int, tuple[int, bool]] = {}  # the parent of a node, and whether it is the first child
    for node in range(size, 2 * size - 1):
        (least, first), (more, second) = heapq.heappop(heap), heapq.heappop(heap)
        parents[first], parents[second] = (node, True), (node, False)
        heapq.heappush(heap, (least + more, node))
    paths = []
    for word in range(size):
        path, node = [], word
        while node in parents:
            node, is_first = parents[node]
            path.append((node - size, is_first))
        paths.append(path[::-1])
    starts = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
    steps = [step for path in paths for step in path] or [(0, False)]
    return HuffmanPaths(starts, np.array([node for node, _ in steps]), np.array([code for _, code in steps]))


@dataclass(frozen=True)
class VectorsSpec:
    vocab_size: int
    input_rows: int
    row_starts: np.ndarray  # (V + 1,): the input rows of each word are rows[row_starts[word] : row_starts[word + 1]]
    rows: np.ndarray
    cbow: bool
    loss: str  # full, negative or hierarchical
    paths: HuffmanPaths = NO_PATHS


class WordVectorModel(nn.Module):
    def __init__(self, spec: VectorsSpec, width: int):
        super().__init__()
        self.spec = spec
        self.inputs = nn.Parameter(torch.empty(spec.input_rows, width).uniform_(-1 / width, 1 / width))
        self.outputs = nn.Parameter(torch.zeros(spec.vocab_size, width))

    def sums(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Of words (N,): the sums (N, D) of their input rows, and the numbers (N,) of rows."""
        starts = torch.from_numpy(self.spec.row_starts).to(words.device)
        sizes = starts[words + 1] - starts[words]
        first = sizes.cumsum(0) - sizes
        indices = torch.arange(int(sizes.sum()), device=words.device)
        indices = indices + (starts[words] - first).repeat_interleave(sizes)
        rows = torch.from_numpy(self.spec.rows).to(words.device)[indices]
        return F.embedding_bag(rows, self.inputs, first, mode="sum"), sizes

    def vectors(self, words: Tensor) -> Tensor:
        """(N, D): the input vectors."""
        total, sizes = self.sums(words)
        return total / sizes[:, None]

    def loss(self, centers: Tensor, contexts: Tensor, real: Tensor, negatives: Tensor) -> Tally:
        """Of center words (N,) and context words (N, C), those that are ``real``; negatives (N, K)."""
        rows, _ = real.nonzero(as_tuple=True)
        if not self.spec.cbow:
            return self.prediction_loss(self.vectors(contexts[real]), centers[rows], negatives[rows])
        has_context = real.any(dim=1)
        total, sizes = self.sums(contexts[real])
        sums = total.new_zeros(len(centers), total.shape[1]).index_add(0, rows, total)
        counts = sizes.new_zeros(len(centers)).index_add(0, rows, sizes)
        means = (sums / counts.clamp(min=1)[:, None])[has_context]
        return self.prediction_loss(means, centers[has_context], negatives[has_context])

    def prediction_loss(self, hidden: Tensor, targets: Tensor, negatives: Tensor) -> Tally:
        if self.spec.loss == "full":
            return full(hidden, self.outputs, targets)
        if self.spec.loss == "negative":
            return negative(hidden, self.outputs, targets, negatives)
        starts, nodes, codes = (torch.from_numpy(each).to(targets.device) for each in self.spec.paths)
        sizes = starts[targets + 1] - starts[targets]
        steps = torch.arange(int(sizes.max()) if len(sizes) else 0, device=targets.device)
        real = steps < sizes[:, None]
        indices = (starts[targets, None] + steps).clamp(max=len(nodes) - 1)
        return hierarchical(hidden, self.outputs, nodes[indices], codes[indices], real)
