"""Times a training step and an inference step of our classifier beside the same network in torch.nn and in plain code.

    python benchmarks/steps.py            # about three minutes on two cores
    python benchmarks/steps.py --profile  # and where our time goes

All networks run in one process, in turn, round after round; a ratio is the median over rounds of their time over ours.
The classifier's batches are as long as film reviews are (a median of 174 tokens), cut and padded to 200; the parity
strings all have 16 bits. Each network is run as people run it: torch.nn.TransformerEncoder and the plain code also drop
out attention weights and hidden numbers, and use AdamW as it comes; ours drops out after every sublayer, and uses the
fused AdamW of ``headway train``.
"""

import argparse
import math
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.models import ModelSpec, build_classifier
from headway.train.fabric import set_up_torch
from headway.train.optim import OPTIMIZERS


@dataclass(frozen=True)
class Case:
    name: str
    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    length: int
    batch: int
    padded: bool

    def lengths(self) -> Tensor | None:
        """As of film reviews: log-normal, cut at the length."""
        if not self.padded:
            return None
        drawn = torch.empty(self.batch).log_normal_(math.log(174), 0.65).long().clamp(10, self.length)
        drawn[0] = self.length
        return drawn


CASES = [
    Case("classifier", layers=1, width=32, heads=2, hidden=128, vocabulary=50_002, length=200, batch=128, padded=True),
    Case("parity", layers=2, width=32, heads=2, hidden=128, vocabulary=4, length=16, batch=64, padded=False),
]


class TorchClassifier(nn.Module):
    """torch.nn.TransformerEncoder on learned positions, with a mean and a linear layer on top."""

    def __init__(self, case: Case, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(case.vocabulary, case.width)
        self.position = nn.Parameter(torch.randn(case.length, case.width))
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(case.width, case.heads, case.hidden, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, case.layers)
        self.head = nn.Linear(case.width, 2)

    def forward(self, tokens: Tensor, lengths: Tensor | None) -> Tensor:
        padding = None if lengths is None else torch.arange(tokens.shape[1]) >= lengths[:, None]
        x = self.dropout(self.embedding(tokens) + self.position)
        return self.head(mean(self.encoder(x, src_key_padding_mask=padding), padding))


def mean(states: Tensor, padding: Tensor | None) -> Tensor:
    if padding is None:
        return states.mean(dim=1)
    return states.masked_fill(padding[..., None], 0).sum(dim=1) / (~padding).sum(dim=1, keepdim=True)


class PlainLayer(nn.Module):
    """A post-norm layer with an explicit softmax, as one writes it from the paper."""

    def __init__(self, case: Case, dropout: float):
        super().__init__()
        self.heads = case.heads
        self.query, self.key, self.value, self.output = (nn.Linear(case.width, case.width) for _ in range(4))
        self.inner, self.outer = nn.Linear(case.width, case.hidden), nn.Linear(case.hidden, case.width)
        self.norm1, self.norm2 = nn.LayerNorm(case.width), nn.LayerNorm(case.width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        query, key, value = (
            linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None], -math.inf)
        mixed = (self.dropout(scores.softmax(dim=-1)) @ value).transpose(1, 2).flatten(-2)
        x = self.norm1(x + self.dropout(self.output(mixed)))
        return self.norm2(x + self.dropout(self.outer(self.dropout(F.relu(self.inner(x))))))


class PlainClassifier(nn.Module):
    def __init__(self, case: Case, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(case.vocabulary, case.width)
        self.position = nn.Parameter(torch.randn(case.length, case.width))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(PlainLayer(case, dropout) for _ in range(case.layers))
        self.head = nn.Linear(case.width, 2)

    def forward(self, tokens: Tensor, lengths: Tensor | None) -> Tensor:
        padding = None if lengths is None else torch.arange(tokens.shape[1]) >= lengths[:, None]
        x = self.dropout(self.embedding(tokens) + self.position)
        for layer in self.layers:
            x = layer(x, padding)
        return self.head(mean(x, padding))


def our_classifier(case: Case, dropout: float) -> nn.Module:
    spec = ModelSpec(
        layers=case.layers,
        width=case.width,
        heads=case.heads,
        hidden=case.hidden,
        position="learned",
        feedforward="relu",
        norm="post",
        pooling="mean",
        dropout=dropout,
    )
    return build_classifier(spec, case.vocabulary, case.length, classes=2)


class Contender:
    def __init__(self, name: str, model: nn.Module, optimizer: torch.optim.Optimizer):
        self.name, self.model, self.optimizer = name, model, optimizer
        self.training: list[float] = []
        self.inference: list[float] = []

    def train(self, tokens: Tensor, lengths: Tensor | None, targets: Tensor) -> None:
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(tokens, lengths), targets).backward()
        self.optimizer.step()

    @torch.inference_mode()
    def infer(self, tokens: Tensor, lengths: Tensor | None) -> None:
        self.model(tokens, lengths)


def contenders(case: Case, dropout: float) -> list[Contender]:
    ours = our_classifier(case, dropout)
    found = [Contender("headway", ours, OPTIMIZERS["adamw"](ours, learning_rate=1e-3, weight_decay=0.01)[0])]
    for name, kind in (("torch.nn.TransformerEncoder", TorchClassifier), ("plain code", PlainClassifier)):
        model = kind(case, dropout)
        found.append(Contender(name, model, torch.optim.AdamW(model.parameters(), lr=1e-3)))
    return found


def timed(action: Callable[[], None]) -> float:
    began = perf_counter()
    action()
    return perf_counter() - began


def race(case: Case, dropout: float, rounds: int) -> list[Contender]:
    racing = contenders(case, dropout)
    for number in range(rounds + 2):
        tokens = torch.randint(case.vocabulary, (case.batch, case.length))
        lengths, targets = case.lengths(), torch.randint(2, (case.batch,))
        for each in racing:
            each.model.train()
            training = timed(partial(each.train, tokens, lengths, targets))
            each.model.eval()
            inference = timed(partial(each.infer, tokens, lengths))
            if number >= 2:  # the first two warm up
                each.training.append(training)
                each.inference.append(inference)
    return racing


def ratio(theirs: list[float], ours: list[float]) -> float:
    return statistics.median(their / our for their, our in zip(theirs, ours, strict=True))


def profile(case: Case, dropout: float) -> None:
    ours = contenders(case, dropout)[0]
    tokens, targets = torch.randint(case.vocabulary, (case.batch, case.length)), torch.randint(2, (case.batch,))
    lengths = case.lengths()
    for _ in range(3):
        ours.train(tokens, lengths, targets)
    with torch.profiler.profile() as seen:
        for _ in range(10):
            ours.train(tokens, lengths, targets)
    events = sorted(seen.key_averages(), key=lambda event: -event.self_cpu_time_total)
    whole = sum(event.self_cpu_time_total for event in events)
    print(f"\nwhere our time goes: {case.name}, dropout {dropout}")
    for event in events[:10]:
        print(f"  {event.self_cpu_time_total / whole:6.1%}  {event.key}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=0, help="rounds of each race; 0: 25 or 200 by the network's size")
    parser.add_argument("--profile", action="store_true", help="show where our time goes")
    options = parser.parse_args()
    set_up_torch()
    warnings.filterwarnings("ignore", message=".*nested tensors.*")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; times as multiples of headway's, in one run")
    print(f"{'network':<12}{'dropout':<9}{'against':<30}{'training':>9}{'inference':>11}")
    for case in CASES:
        for dropout in (0.1, 0.0):
            racing = race(case, dropout, options.rounds or (25 if case.length > 100 else 200))
            for each in racing[1:]:
                training, inference = ratio(each.training, racing[0].training), ratio(each.inference, racing[0].inference)
                print(f"{case.name:<12}{dropout:<9}{each.name:<30}{training:>9.2f}{inference:>11.2f}", flush=True)
    if options.profile:
        for case in CASES:
            profile(case, dropout=0.1)


if __name__ == "__main__":
    main()
