"""Boolean masks; True means "may look". They are joined with ``&``."""

import torch
from torch import Tensor


def real_tokens(lengths: Tensor, time: int) -> Tensor:
    """(B, T): True at the first ``lengths[b]`` positions of row b, False at its padding."""
    return torch.arange(time, device=lengths.device) < lengths[:, None]


def over_keys(real: Tensor | None) -> Tensor | None:
    """(B, 1, 1, S): every head of every query may look at the real keys."""
    return None if real is None else real[:, None, None, :]


def no_later(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """(T, S): the last query may look at all keys, each one before it at one key less."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
