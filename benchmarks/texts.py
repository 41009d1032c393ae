"""Times whole training loops over texts as long as film reviews are, beside the same networks as a course writes them.

    python benchmarks/texts.py      # about four minutes on two cores

Each loop has a process of its own, since ours sets up torch otherwise (docs/experiments/speed.md); they run in turn,
round after round, and a ratio is the median over rounds of examples a second. Ours is what ``headway train`` runs:
batches of like length under a budget of tokens. Theirs takes the examples in random order, pads a batch to its longest
text, and uses torch.nn and AdamW as they come.
"""

import argparse
import math
import statistics
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY, EXAMPLES, DROPOUT = 50_007, 6_400, 0.1
MEDIAN, SPREAD = 201, 0.77  # of the lengths of film reviews, in words and signs, as a log-normal distribution


@dataclass(frozen=True)
class Case:
    name: str
    length: int  # longer texts are cut
    batch: int
    steps: int  # in a round


CASES = [
    Case("Transformer", 200, batch=128, steps=20),
    Case("Transformer", 512, batch=128, steps=6),
    Case("LSTM", 200, batch=128, steps=10),
]


def texts(case: Case) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(math.log(MEDIAN), SPREAD, EXAMPLES).astype(int), 10, case.length)
    return [random.integers(7, VOCABULARY, length) for length in lengths]


Step = Callable[[int], int]  # a step by its number; gives how many examples it took


def ours(case: Case) -> Step:
    from headway.config.recipe import TrainSpec
    from headway.data.samplers import ExampleSampler
    from headway.data.sequences import LabelledSequences
    from headway.models import ModelSpec, build_classifier
    from headway.objectives.likelihood import cross_entropy
    from headway.objectives.tally import Tally
    from headway.training.fabric import launch
    from headway.training.loop import Loop

    spec = TrainSpec(
        batch_size=case.batch,
        batch_tokens=case.batch * case.length,
        steps=100_000,
        schedule="constant",
        grad_clip=None,
    )
    sizes = ModelSpec(
        layers=1, width=32, heads=2, hidden=128, feedforward="relu", norm="post", pooling="mean", dropout=DROPOUT
    )
    if case.name == "LSTM":
        sizes = replace(
            sizes,
            width=128,
            mixer="lstm",
            feedforward="none",
            norm="plain",
            position="none",
            pooling="last",
            dropout=0.0,
        )
    data = LabelledSequences.of(texts(case), [place % 2 for place in range(EXAMPLES)])
    order = ExampleSampler(data.lengths, spec.batch_size, spec.batch_tokens, seed=1)

    def our_loss(model: Any, batch: Any) -> Tally:
        return cross_entropy(model(*batch.model_inputs), batch.targets)

    loop = Loop(
        launch(spec),
        build_classifier(sizes, VOCABULARY, case.length, classes=2),
        our_loss,
        lambda step: data.batch(order.rows_at(step)),
        spec,
    )

    def step(number: int) -> int:
        loop.step(number)
        return len(order.rows_at(number))

    return step


class Transformer(nn.Module):
    def __init__(self, case: Case):
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, 32), nn.Linear(32, 2)
        self.position, self.dropout = nn.Parameter(torch.randn(case.length, 32)), nn.Dropout(DROPOUT)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 128, DROPOUT, batch_first=True), 1)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        padding = torch.arange(tokens.shape[1]) >= lengths[:, None]
        x = self.dropout(self.embedding(tokens) + self.position[: tokens.shape[1]])
        states = self.encoder(x, src_key_padding_mask=padding).masked_fill(padding[..., None], 0)
        return self.head(states.sum(dim=1) / lengths[:, None])


class Lstm(nn.Module):
    def __init__(self, case: Case):
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, 128), nn.Linear(128, 2)
        self.lstm = nn.LSTM(128, 128, batch_first=True)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        _, (last, _) = self.lstm(self.embedding(tokens))
        return self.head(last[-1])  # padding and all, as it is usually written


def theirs(case: Case) -> Step:
    model: nn.Module = Lstm(case) if case.name == "LSTM" else Transformer(case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data, order = [torch.from_numpy(text) for text in texts(case)], torch.randperm(EXAMPLES)

    def step(number: int) -> int:
        first = (number - 1) * case.batch % (EXAMPLES - case.batch)
        rows = order[first : first + case.batch]
        some = [data[row] for row in rows]
        tokens = nn.utils.rnn.pad_sequence(some, batch_first=True)
        lengths = torch.tensor([len(text) for text in some])
        optimizer.zero_grad()
        F.cross_entropy(model(tokens, lengths), rows % 2).backward()
        optimizer.step()
        return len(rows)

    return step


MAKERS = {"headway": ours, "torch.nn": theirs}


def serve(name: str, case: Case, line: Connection) -> None:
    """Run a round of steps whenever asked, and answer with the examples a second."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    step, number = MAKERS[name](case), 0
    while line.recv():
        began, examples = perf_counter(), 0
        for _ in range(case.steps):
            number += 1
            examples += step(number)
        line.send(examples / (perf_counter() - began))


def race(case: Case, rounds: int) -> dict[str, list[float]]:
    """Examples a second of each, round by round; the first round warms up."""
    lines: dict[str, Any] = {}
    for name in MAKERS:
        lines[name], other = get_context("spawn").Pipe()
        get_context("spawn").Process(target=serve, args=(name, case, other), daemon=True).start()
    speeds: dict[str, list[float]] = {name: [] for name in MAKERS}
    for number in range(rounds + 1):
        for name, speed in in_turn(lines):
            if number:
                speeds[name].append(speed)
    for line in lines.values():
        line.send(False)
    return speeds


def in_turn(lines: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, line in lines.items():
        line.send(True)
        yield name, line.recv()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=sorted({case.name for case in CASES}))
    options = parser.parse_args()
    rounds = options.rounds
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; examples a second, headway's over torch.nn's")
    for case in CASES:
        if options.only not in (None, case.name):
            continue
        speeds = race(case, rounds)
        ratios = [our / their for our, their in zip(speeds["headway"], speeds["torch.nn"], strict=True)]
        spread = f"{min(ratios):.1f} to {max(ratios):.1f} over {rounds} rounds"
        print(f"{case.name}, up to {case.length} tokens: {statistics.median(ratios):.1f} ({spread})", flush=True)


if __name__ == "__main__":
    main()
