"""Training a small language model: batches, loss, schedule, steps and evaluation. Token 0 is padding."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PAD = 0


def make_batch(texts: list[list[int]]) -> Tensor:
    """(B, T): texts, padded at their ends."""
    longest = max(len(text) for text in texts)
    return torch.tensor([text + [PAD] * (longest - len(text)) for text in texts])


def shift(batch: Tensor) -> tuple[Tensor, Tensor]:
    """What the model reads, and what it should predict: the next token."""
    return batch[:, :-1], batch[:, 1:]


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all targets that are no padding; logits are (B, T, V)."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


def factor(step: int, warmup: int, steps: int) -> float:
    """Of the learning rate at steps 1, 2, ...: up to 1 at the end of the warm-up, then down to 0."""
    if step < warmup:
        return step / warmup
    return (steps - step) / (steps - warmup)


def set_rate(optimizer: torch.optim.Optimizer, peak: float, step: int, warmup: int, steps: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = peak * factor(step, warmup, steps)


def update(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> float:
    """One step of training."""
    inputs, targets = shift(batch)
    loss = loss_of(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def evaluate(model: nn.Module, batches: list[Tensor]) -> float:
    """The mean loss over all targets of all batches, without dropout."""
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for batch in batches:
            inputs, targets = shift(batch)
            real = int((targets != PAD).sum())
            total += float(loss_of(model(inputs), targets)) * real
            count += real
    model.train()
    return total / count


def train(model: nn.Module, batches: list[Tensor], peak: float, warmup: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak)
    losses = []
    for step, batch in enumerate(batches, start=1):
        set_rate(optimizer, peak, step, warmup, len(batches))
        losses.append(update(model, optimizer, batch))
    return losses
