"""Which kinds of parallelism interfere with a feed-forward network that reads neighbouring tokens?

    torchrun --standalone --nproc-per-node 2 benchmarks/neighbours.py

The loss and the gradient of a causal model on two processes, beside those of one; in float64.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from unittest import mock

import torch
from torch import Tensor, distributed, nn

from headway.config.parallel import Layout
from headway.config.recipe import ModelSpec
from headway.metrics.table import Table
from headway.models.build import build_decoder
from headway.nn import feedforward
from headway.nn.collectives import Axis
from headway.objectives.likelihood import cross_entropy
from headway.training.shares import Shares, ranks_of

SPEC = ModelSpec(layers=2, width=64, heads=4, feedforward="neighbourhood(before=2, after=0)", position="rotary")
VOCABULARY, ROWS, TIME = 100, 4, 64


def step(layout: Layout | None, rank: int) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(1)
    model = build_decoder(SPEC, VOCABULARY, TIME).double()
    tokens = torch.randint(VOCABULARY, (ROWS, TIME + 1))
    shares = None if layout is None else Shares(model, ranks_of(layout, rank))
    own = tokens if layout is None else tokens[rank :: layout.size("data")] if layout.size("data") > 1 else tokens
    loss = cross_entropy(model(own[:, :-1]), own[:, 1:]).total
    (loss / (ROWS * TIME)).backward()
    mean = loss.detach() / (ROWS * TIME)
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    if shares is None:
        return mean, gradients
    mean = shares.add_up(mean)
    return mean, shares.whole(gradients)


def without_halo(x: Tensor, axis: Axis, before: int, after: int) -> Tensor:
    return nn.functional.pad(x, (0, 0, before, after))


def main() -> None:
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    loss, gradients = step(None, 0)
    blind: Callable[[], AbstractContextManager[object]] = lambda: mock.patch.object(  # noqa: E731
        feedforward, "with_halo", without_halo
    )
    rows = []
    for title, axis, patch in (
        ("data", "data", nullcontext),
        ("tensor", "tensor", nullcontext),
        ("context, zeros at the edges", "context", blind),
        ("context, with a halo", "context", nullcontext),
    ):
        with patch():
            own_loss, own = step(Layout({axis: 2}), rank)
        furthest = max(float((own[name] - each).abs().max()) for name, each in gradients.items())
        rows.append([title, f"{float(abs(own_loss - loss)):.1e}", f"{furthest:.1e}"])
    if rank == 0:
        print(Table(["two processes", "loss is off by", "gradient is off by"], rows))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
