"""Exact search: the most likely sequence of all, found by going through them, best first, and leaving out whatever is
already less likely than the best one found (Stahlberg & Byrne 2019, https://arxiv.org/abs/1908.10090).

A sequence only becomes less likely by going on, so that nothing better can be left out. The time grows quickly with the
limit and with how unsure the model is.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headway.generation.beam import Hypothesis
from headway.generation.decoder_step import DecoderStep, read_prompts


def exact_search(
    steps: DecoderStep,
    prompt: Sequence[int],
    max_new_tokens: int,
    eos: int | None,
    device: torch.device | None = None,
    at_least: float = -math.inf,
) -> Hypothesis | None:
    """The sequence with the highest probability; None if none has more than ``at_least``, a logarithm."""
    best: list[Hypothesis] = []
    row = torch.zeros(1, dtype=torch.long, device=device)

    def visit(tokens: list[int], total: float, logits: Tensor, state: Any) -> None:
        for gain, token in zip(
            *(each.tolist() for each in logits[0].log_softmax(dim=-1).sort(descending=True)), strict=True
        ):
            reached = total + gain
            if reached <= (best[-1].log_probability if best else at_least):
                return
            if token == eos or len(tokens) + 1 == max_new_tokens:
                ended = token == eos
                best.append(Hypothesis(tokens if ended else [*tokens, token], reached, reached, ended))
            else:
                following = steps.step(torch.tensor([[token]], device=device), copied(state, row))
                visit([*tokens, token], reached, *following)

    visit([], 0.0, *read_prompts(steps, [prompt], max_new_tokens, device))
    return best[-1] if best else None


def copied(state: Any, row: Tensor) -> Any:
    """A step uses its state up: others need one of their own."""
    return state.select(row.repeat(2)).select(row)
