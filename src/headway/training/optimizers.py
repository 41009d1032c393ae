"""Optimizers: how gradients become updates.

Each entry makes a list of torch optimizers, which divide the model's parameters among them. Only matrices have weight
decay; biases, norms and scalars have none.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RAdam

from headway.config.errors import BadSetting
from headway.training.muon import Muon


def adamw(
    model: nn.Module, learning_rate: float, weight_decay: float, beta1: float = 0.9, beta2: float = 0.999
) -> list[Optimizer]:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, https://arxiv.org/abs/1711.05101)."""
    groups = decay_groups(model.parameters(), weight_decay)
    return [AdamW(groups, learning_rate, (beta1, beta2), fused=True)]


def adam(
    model: nn.Module, learning_rate: float, weight_decay: float, beta1: float = 0.9, beta2: float = 0.999
) -> list[Optimizer]:
    """Adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980); weight decay is added to the gradient."""
    groups = decay_groups(model.parameters(), weight_decay)
    return [Adam(groups, learning_rate, (beta1, beta2), fused=True)]


def radam(
    model: nn.Module, learning_rate: float, weight_decay: float, beta1: float = 0.9, beta2: float = 0.999
) -> list[Optimizer]:
    """Adam with a warm-up derived from its variance (Liu et al. 2020, https://arxiv.org/abs/1908.03265)."""
    groups = decay_groups(model.parameters(), weight_decay)
    return [RAdam(groups, learning_rate, (beta1, beta2), decoupled_weight_decay=True)]


def sgd(model: nn.Module, learning_rate: float, weight_decay: float, momentum: float = 0.9) -> list[Optimizer]:
    groups = decay_groups(model.parameters(), weight_decay)
    return [SGD(groups, learning_rate, momentum, fused=True)]


def muon(
    model: nn.Module,
    learning_rate: float,
    weight_decay: float,
    matrix_rate: float = 0.02,
    momentum: float = 0.95,
) -> list[Optimizer]:
    """Orthogonal updates for the matrices of linear layers (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon)
    at their own learning rate; AdamW for embeddings, biases, norms and the head."""
    matrices = {
        f"{name}.weight": module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] != "head"
    }
    rest = [weight for name, weight in model.named_parameters() if name not in matrices]
    others = AdamW(decay_groups(rest, weight_decay), learning_rate, fused=True)
    return [Muon(matrices.values(), matrix_rate, weight_decay, momentum), others] if matrices else [others]


def decay_groups(weights: Iterable[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    weights = list(weights)
    groups = [
        {"params": [weight for weight in weights if weight.ndim >= 2], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def freeze(model: nn.Module, prefixes: str) -> None:
    """Do not train the weights whose names have one of these prefixes."""
    for prefix in prefixes.replace(",", " ").split():
        weights = [weight for name, weight in model.named_parameters() if name.startswith(prefix)]
        if not weights:
            known = ", ".join(dict.fromkeys(".".join(name.split(".")[:2]) for name, _ in model.named_parameters()))
            raise BadSetting("train.freeze", f"no weight has a name that begins with {prefix!r}; available: {known}")
        for weight in weights:
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise BadSetting("train.freeze", f"{prefixes!r} freezes every weight: nothing is left to train")


def slow_lower_layers(model: nn.Module, optimizers: list[Optimizer], decay: float) -> None:
    """Layer-wise learning rate decay: the full rate for the head, ``decay`` times that for the last block, and so on
    down to the embedding (Howard & Ruder 2018, https://arxiv.org/abs/1801.06146)."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    blocks = {weight: re.search(r"\bblocks\.(\d+)\.", name) for weight, name in names.items()}
    top = max((int(block[1]) for block in blocks.values() if block), default=-1) + 1

    def factor(weight: Tensor) -> float:
        block, name = blocks[weight], names[weight]
        below = top - int(block[1]) if block else top + 1 if "embedding" in name or "position" in name else 0
        return decay**below

    for optimizer in optimizers:
        groups = []
        for group in optimizer.param_groups:
            for rate in sorted({factor(weight) for weight in group["params"]}):
                weights = [weight for weight in group["params"] if factor(weight) == rate]
                groups.append({**group, "params": weights, "lr": rate * group["lr"]})
        optimizer.param_groups[:] = groups


OPTIMIZERS: dict[str, Callable[..., list[Optimizer]]] = {
    "adamw": adamw,
    "adam": adam,
    "radam": radam,
    "sgd": sgd,
    "muon": muon,
}
