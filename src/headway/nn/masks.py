"""Boolean masks; True means "may look". Combine them with ``&``."""

import torch
from torch import Tensor


def real_tokens(lengths: Tensor, time: int) -> Tensor:
    """(B, T): True at the first ``lengths[b]`` positions of row b, False at its padding."""
    # learn: begin mask.padding
    return torch.arange(time, device=lengths.device) < lengths[:, None]
    # learn: end


def over_keys(real: Tensor | None) -> Tensor | None:
    """(B, 1, 1, S): every query may look at the real keys."""
    return None if real is None else real[:, None, None, :]


def same_document(documents: Tensor) -> Tensor:
    """(B, 1, T, T): every token may look at the tokens of its own document."""
    # learn: begin mask.documents
    return documents[:, None, :, None] == documents[:, None, None, :]
    # learn: end


def within_documents(documents: Tensor) -> Tensor:
    """(B, T): the position of each token in its document; a document starts where the id changes."""
    # learn: begin pos.restart
    positions = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    starts = torch.ones_like(documents, dtype=torch.bool)
    starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return positions - torch.where(starts, positions, 0).cummax(dim=1).values
    # learn: end


def no_later(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """(T, S): the causal mask. The last query may look at all keys, each earlier query at one key fewer."""
    # learn: begin mask.causal
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
    # learn: end
