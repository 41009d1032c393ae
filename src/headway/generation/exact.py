"""Exact search: the most likely sequence of all, by depth-first search that prunes whatever is already less likely than
the best sequence so far (Stahlberg & Byrne 2019, https://arxiv.org/abs/1908.10090).

Extending a sequence only makes it less likely, so that pruning never loses the best. The time grows quickly with
max_new_tokens and with the entropy of the model.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headway.generation.beam import Hypothesis
from headway.generation.decoder_step import DecoderStep, read_prompts


def exact_search(
    decoder: DecoderStep,
    prompt: Sequence[int],
    max_new_tokens: int,
    eos: int | None,
    device: torch.device | None = None,
    at_least: float = -math.inf,
) -> Hypothesis | None:
    """The most likely sequence; None if no log-probability exceeds ``at_least``."""
    best: list[Hypothesis] = []
    row = torch.zeros(1, dtype=torch.long, device=device)

    def visit(tokens: list[int], total: float, logits: Tensor, state: Any) -> None:
        for gain, token in zip(
            *(each.tolist() for each in logits[0].log_softmax(dim=-1).sort(descending=True)), strict=True
        ):
            log_probability = total + gain
            if log_probability <= (best[-1].log_probability if best else at_least):
                return
            if token == eos or len(tokens) + 1 == max_new_tokens:
                ended = token == eos
                whole = tokens if ended else [*tokens, token]
                best.append(Hypothesis(whole, log_probability, log_probability, ended))
            else:
                after = decoder.step(torch.tensor([[token]], device=device), copied(state, row))
                visit([*tokens, token], log_probability, *after)

    visit([], 0.0, *read_prompts(decoder, [prompt], max_new_tokens, device))
    return best[-1] if best else None


def copied(state: Any, row: Tensor) -> Any:
    """A copy, because a step overwrites its state."""
    return state.select(row.repeat(2)).select(row)
