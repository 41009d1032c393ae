"""Times a training step and an inference step of our classifier beside the same network in torch.nn and in plain code.

    python benchmarks/steps.py            # about three minutes on two cores
    python benchmarks/steps.py --profile  # and where our time goes

All networks run in one process, in turn, round after round; a ratio is the median over rounds of their time over ours.
The classifier's batches are as long as film reviews are (a median of 174 tokens), cut and padded to 200; the parity
strings all have 16 bits. Each network is run as people run it: torch.nn.TransformerEncoder and the plain code also drop
out attention weights and hidden numbers, and use AdamW as it comes; ours drops out after every sublayer, uses the fused
AdamW, and works through a padded batch in parts of like length, as ``headway train`` does.
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

from headway.data.batch import LabelledBatch
from headway.models import ModelSpec, build_classifier
from headway.objectives.likelihood import cross_entropy
from headway.training.fabric import set_up_torch
from headway.training.optimizers import OPTIMIZERS


@dataclass(frozen=True)
class Case:
    """A network of width 32 with 2 heads and 128 hidden numbers, and the batches that it is given."""

    name: str
    layers: int
    vocabulary: int
    length: int
    batch: int
    padded: bool
    positions: bool  # learned ones, or none
    pre_norm: bool

    def random_batch(self) -> LabelledBatch:
        """Lengths, where they differ, are as of film reviews: log-normal, cut at the longest."""
        tokens = torch.randint(self.vocabulary, (self.batch, self.length))
        lengths = torch.empty(self.batch).log_normal_(math.log(174), 0.65).long().clamp(10, self.length)
        lengths[0] = self.length
        return LabelledBatch(tokens, torch.randint(2, (self.batch,)), lengths if self.padded else None)


WIDTH, HEADS, HIDDEN = 32, 2, 128
CASES = [
    Case("classifier", 1, vocabulary=50_002, length=200, batch=128, padded=True, positions=True, pre_norm=False),
    Case("parity", 2, vocabulary=4, length=16, batch=64, padded=False, positions=False, pre_norm=True),
]


class Peer(nn.Module):
    """Embeddings, learned positions, the layers of a subclass, a mean, and a linear layer."""

    def __init__(self, case: Case, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(case.vocabulary, WIDTH)
        self.position = nn.Parameter(torch.randn(case.length, WIDTH)) if case.positions else None
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, tokens: Tensor, lengths: Tensor | None) -> Tensor:
        padding = None if lengths is None else torch.arange(tokens.shape[1]) >= lengths[:, None]
        x = self.embedding(tokens)
        states = self.run_layers(self.dropout(x if self.position is None else x + self.position), padding)
        if padding is None:
            return self.head(states.mean(dim=1))
        total = states.masked_fill(padding[..., None], 0).sum(dim=1)
        return self.head(total / (~padding).sum(dim=1, keepdim=True))

    def run_layers(self, x: Tensor, padding: Tensor | None) -> Tensor:
        raise NotImplementedError


class TorchClassifier(Peer):
    def __init__(self, case: Case, dropout: float):
        super().__init__(case, dropout)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout, batch_first=True, norm_first=case.pre_norm)
        self.encoder = nn.TransformerEncoder(
            layer, case.layers, nn.LayerNorm(WIDTH) if case.pre_norm else None, not case.pre_norm
        )

    def run_layers(self, x: Tensor, padding: Tensor | None) -> Tensor:
        return self.encoder(x, src_key_padding_mask=padding)


class PlainClassifier(Peer):
    def __init__(self, case: Case, dropout: float):
        super().__init__(case, dropout)
        self.layers = nn.ModuleList(PlainLayer(dropout, case.pre_norm) for _ in range(case.layers))
        self.norm = nn.LayerNorm(WIDTH) if case.pre_norm else nn.Identity()

    def run_layers(self, x: Tensor, padding: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x, padding)
        return self.norm(x)


class PlainLayer(nn.Module):
    """With an explicit softmax, as one writes it from the paper."""

    def __init__(self, dropout: float, pre_norm: bool):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.inner, self.outer = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.dropout, self.pre_norm = nn.Dropout(dropout), pre_norm

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        if self.pre_norm:
            x = x + self.dropout(self.attend(self.norm1(x), padding))
            return x + self.dropout(self.feed_forward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attend(x, padding)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))

    def attend(self, x: Tensor, padding: Tensor | None) -> Tensor:
        query, key, value = (
            linear(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None], -math.inf)
        return self.output((self.dropout(scores.softmax(dim=-1)) @ value).transpose(1, 2).flatten(-2))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(F.relu(self.inner(x))))


def our_classifier(case: Case, dropout: float) -> nn.Module:
    spec = ModelSpec(
        layers=case.layers,
        width=WIDTH,
        heads=HEADS,
        hidden=HIDDEN,
        position="learned" if case.positions else "none",
        feedforward="relu",
        norm="pre" if case.pre_norm else "post",
        pooling="mean",
        dropout=dropout,
    )
    return build_classifier(spec, case.vocabulary, case.length, classes=2)


class Contender:
    def __init__(self, name: str, model: nn.Module):
        self.name, self.model = name, model
        self.optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.training: list[float] = []
        self.inference: list[float] = []

    def train(self, batch: LabelledBatch) -> None:
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(batch.inputs, batch.lengths), batch.targets).backward()
        self.optimizer.step()

    @torch.inference_mode()
    def infer(self, batch: LabelledBatch) -> None:
        self.model(batch.inputs, batch.lengths)


class Ours(Contender):
    def __init__(self, case: Case, dropout: float):
        super().__init__("headway", our_classifier(case, dropout))
        (self.optimizer,) = OPTIMIZERS["adamw"](self.model, learning_rate=1e-3, weight_decay=0.01)

    def train(self, batch: LabelledBatch) -> None:
        self.optimizer.zero_grad()
        for part in batch.without_waste():
            (cross_entropy(self.model(part.inputs, part.lengths), part.targets).total / batch.count).backward()
        self.optimizer.step()

    @torch.inference_mode()
    def infer(self, batch: LabelledBatch) -> None:
        for part in batch.without_waste():
            self.model(part.inputs, part.lengths)


def contenders(case: Case, dropout: float) -> list[Contender]:
    return [
        Ours(case, dropout),
        Contender("torch.nn.TransformerEncoder", TorchClassifier(case, dropout)),
        Contender("plain code", PlainClassifier(case, dropout)),
    ]


def timed(action: Callable[[], None]) -> float:
    began = perf_counter()
    action()
    return perf_counter() - began


def race(case: Case, dropout: float, rounds: int) -> list[Contender]:
    racing = contenders(case, dropout)
    for number in range(rounds + 2):
        batch = case.random_batch()
        for each in racing:
            each.model.train()
            training = timed(partial(each.train, batch))
            each.model.eval()
            inference = timed(partial(each.infer, batch))
            if number >= 2:  # the first two warm up
                each.training.append(training)
                each.inference.append(inference)
    return racing


def ratio(theirs: list[float], ours: list[float]) -> float:
    return statistics.median(their / our for their, our in zip(theirs, ours, strict=True))


def profile(case: Case, dropout: float) -> None:
    ours, batch = Ours(case, dropout), case.random_batch()
    for _ in range(3):
        ours.train(batch)
    with torch.profiler.profile() as seen:
        for _ in range(10):
            ours.train(batch)
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
                training = ratio(each.training, racing[0].training)
                inference = ratio(each.inference, racing[0].inference)
                print(f"{case.name:<12}{dropout:<9}{each.name:<30}{training:>9.2f}{inference:>11.2f}", flush=True)
    if options.profile:
        for case in CASES:
            profile(case, dropout=0.1)


if __name__ == "__main__":
    main()
