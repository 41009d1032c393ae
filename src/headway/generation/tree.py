"""A hand-written probability tree that can be searched like a model.

    {"a": [0.6, {"c": 0.5, "<eos>": 0.5}], "b": 0.4}

Each word has a probability, or a probability and a subtree of what may follow. A word without a subtree ends the text.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.config.json_files import load_json

END = "<eos>"


class Tree:
    """A ``DecoderStep`` whose state is the current node of each row."""

    def __init__(self, content: Any, source: str = "the tree"):
        self.source, self.words = source, [END]
        self.root = self.read(content, "the root")

    @classmethod
    def load(cls, path: Path) -> "Tree":
        try:
            return cls(load_json(path), str(path))
        except (OSError, ValueError) as error:
            raise Problem(f"{path} is not a tree in JSON: {error}") from None
        except RecursionError:  # it could just be parsed
            raise Problem(f"{path} is not a tree in JSON: it is nested too deeply") from None

    def read(self, content: Any, where: str) -> dict[int, tuple[float, Any]]:
        """A node: token ids, each with its probability and its subtree."""
        if not isinstance(content, dict) or not content:
            raise Problem(f'{self.source}: at {where} there should be words, such as {{"a": 0.6, "b": 0.4}}')
        node: dict[int, tuple[float, Any]] = {}
        for word, value in content.items():
            probability, below = value if isinstance(value, list) and len(value) == 2 else (value, None)
            if not isinstance(probability, int | float) or not 0 <= probability <= 1:
                raise Problem(f"{self.source}: {probability!r} for {word!r} at {where} is not a probability")
            if word not in self.words:
                self.words.append(word)
            node[self.words.index(word)] = probability, None if below is None else self.read(below, repr(word))
        total = math.fsum(probability for probability, _ in node.values())
        if abs(total - 1) > 1e-6:
            raise Problem(f"{self.source}: the probabilities at {where} add up to {total:g}, not to 1")
        return node

    def word(self, token: int) -> str:
        return self.words[token]

    def text(self, tokens: Sequence[int]) -> str:
        return " ".join(self.words[token] for token in tokens)

    @property
    def depth(self) -> int:
        """The length of the longest text, with its end token."""

        def depth(node: Any) -> int:
            return 1 if node is None else 1 + max(depth(below) for _, below in node.values())

        return depth(self.root)

    def begin(self, rows: int, room: int) -> "NodeState":
        return NodeState([self.root] * rows)

    def step(self, tokens: Tensor, state: "NodeState", new: Tensor | None = None) -> tuple[Tensor, "NodeState"]:
        """Token 0, the end token, also starts a text: it leads to the root."""
        nodes = [
            node if token == 0 else (node[token][1] if node and token in node else None)
            for token, node in zip(tokens[:, -1].tolist(), state.nodes, strict=True)
        ]
        logits = torch.full((len(nodes), len(self.words)), -math.inf)
        for row, node in enumerate(nodes):
            for token, (probability, _) in ({0: (1.0, None)} if node is None else node).items():
                logits[row, token] = math.log(probability) if probability else -math.inf
        return logits, NodeState(nodes)


class NodeState:
    def __init__(self, nodes: list[Any]):
        self.nodes = nodes

    def expand_beams(self, width: int) -> "NodeState":
        return NodeState([node for node in self.nodes for _ in range(width)])

    def reorder(self, rows: Tensor) -> "NodeState":
        return NodeState([self.nodes[row] for row in rows.tolist()])

    select = reorder
