"""Writing texts with a language model: filters, greedy decoding and beam search. ``step`` gives the logits (V,) of the
next token after a list of tokens."""

import math
from collections.abc import Callable

from torch import Tensor

Step = Callable[[list[int]], Tensor]


def cooled(logits: Tensor, temperature: float) -> Tensor:
    return logits / temperature


def keep_best(logits: Tensor, count: int) -> Tensor:
    """Top-k: all but the ``count`` likeliest tokens become impossible."""
    least = logits.topk(count).values[-1]
    return logits.masked_fill(logits < least, -math.inf)


def keep_nucleus(logits: Tensor, share: float) -> Tensor:
    """Top-p: the smallest set of likely tokens with at least this probability stays."""
    ordered, order = logits.sort(descending=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    removed = order[before >= share]
    return logits.index_fill(0, removed, -math.inf)


def greedy(step: Step, prompt: list[int], eos: int, most: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(most):
        token = int(step(tokens).argmax())
        if token == eos:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


def extend(beams: list[tuple[float, list[int]]], step: Step, width: int) -> list[tuple[float, list[int]]]:
    """The best ``width`` of all extensions by one token, the best one first."""
    found = []
    for total, tokens in beams:
        for token, gain in enumerate(step(tokens).log_softmax(dim=-1).tolist()):
            found.append((total + gain, [*tokens, token]))
    return sorted(found, reverse=True)[:width]


def score(total: float, length: int, penalty: float) -> float:
    """Length normalisation: log-probability / length ^ penalty."""
    return total / length**penalty


def beam_search(step: Step, prompt: list[int], eos: int, width: int, most: int, penalty: float) -> list[int]:
    beams: list[tuple[float, list[int]]] = [(0.0, list(prompt))]
    finished = []
    for _ in range(most):
        beams = extend(beams, step, width)
        finished += [(total, tokens) for total, tokens in beams if tokens[-1] == eos]
        beams = [(total, tokens) for total, tokens in beams if tokens[-1] != eos]
        if not beams:
            break
    ranked = sorted(finished or beams, key=lambda each: -score(each[0], len(each[1]) - len(prompt), penalty))
    return ranked[0][1][len(prompt) :]
