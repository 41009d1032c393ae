"""Times masked pre-training, sequences of all lengths in one row, beside transformers' BERT, padded.

    python benchmarks/pretraining.py

Both have BERT's smaller shape (12 layers, width 768; on a CPU 4 of 256), a vocabulary of 16,000 and the same weights,
and find the same 15 % of the tokens again: sequences of 1 to 512 tokens, of such lengths as film reviews have. Theirs
is compiled as a whole, by sdpa, each batch padded to 512 tokens; ours has its blocks compiled. bf16 on a GPU, float32
on a CPU; dropout 0.1 on the states and none on the attention weights; AdamW. What is counted are real tokens.

Sides run in turn, round after round; a ratio is the median over rounds.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.interop.weights import import_weights
from headway.models.build import build_masked
from headway.nn.packing import Packing
from headway.training.fabric import compile_blocks, set_up_torch
from headway.training.optimizers import adamw

VOCABULARY, LONGEST, RATE = 16_000, 512, 0.15
MEDIAN, SPREAD = 218, 0.73  # of the lengths of IMDB's reviews in BPE of 16,000: exp(ln(median) + spread * normal)


class Sizes(NamedTuple):
    layers: int
    width: int
    heads: int
    sequences: int  # of a batch
    batches: int  # of a round


class Sequences(NamedTuple):
    tokens: Tensor  # (N,) of one behind another
    lengths: Tensor  # (n,)
    places: Tensor  # (K,) of those that are to be found again,
    targets: Tensor  # (K,) and what they were


def sequences(count: int, random: np.random.Generator, device: torch.device) -> Sequences:
    lengths = np.exp(np.log(MEDIAN) + SPREAD * random.standard_normal(count)).astype(np.int64).clip(1, LONGEST)
    tokens = random.integers(0, VOCABULARY, lengths.sum())
    places = np.sort(random.permutation(len(tokens))[: round(RATE * len(tokens))])
    targets = random.integers(0, VOCABULARY, len(places))
    return Sequences(*(torch.from_numpy(each).to(device) for each in (tokens, lengths, places, targets)))


def padded(batch: Sequences) -> dict[str, Tensor]:
    """As transformers has it: what is not to be found again is labelled -100."""
    packing = Packing(F.pad(batch.lengths.cumsum(0), (1, 0)).to(torch.int32), LONGEST)
    labels = torch.full_like(batch.tokens, -100).index_copy(0, batch.places, batch.targets)
    rows = {"input_ids": packing.pad(batch.tokens[None]), "attention_mask": packing.real.long()}
    return rows | {"labels": torch.where(packing.real, packing.pad(labels[None]), -100)}


def training(sizes: Sizes, device: torch.device) -> tuple[dict[str, Callable[[], Any]], int]:
    from transformers import BertConfig, BertForMaskedLM

    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "num_hidden_layers": sizes.layers,
        "hidden_size": sizes.width,
        "num_attention_heads": sizes.heads,
        "intermediate_size": 4 * sizes.width,
        "attention_probs_dropout_prob": 0.0,
        "attn_implementation": "sdpa",
    }
    config = BertConfig(**shape)
    theirs: Any = BertForMaskedLM(config)
    imported = import_weights(config.to_dict() | {"model_type": "bert"}, theirs.state_dict())
    ours: Any = build_masked(replace(imported.spec, dropout=0.1), VOCABULARY, imported.length)
    ours.load_state_dict(imported.model.state_dict())
    ours, theirs = ours.to(device), theirs.to(device)
    random = np.random.default_rng(1)
    batches = [sequences(sizes.sequences, random, device) for _ in range(sizes.batches)]
    rows = [(batch, padded(batch), Packing.of(batch.lengths)) for batch in batches]

    def our_loss(batch: Sequences, packing: Packing) -> Tensor:
        return F.cross_entropy(ours(batch.tokens[None], packing, batch.places).float(), batch.targets)

    say_losses(ours, theirs, our_loss, rows[0], device)
    compile_blocks(ours)
    theirs = torch.compile(theirs)
    ours_of = [partial(our_loss, batch, packing) for batch, _, packing in rows]
    theirs_of = [partial(their_loss, theirs, padding) for _, padding, _ in rows]
    sides = {"headway": trained(ours, ours_of, device), "transformers": trained(theirs, theirs_of, device)}
    return sides, sum(len(batch.tokens) for batch in batches)


def their_loss(model: Any, rows: dict[str, Tensor]) -> Tensor:
    return model(**rows).loss


def say_losses(ours: nn.Module, theirs: Any, our_loss: Callable[..., Tensor], row: Any, device: torch.device) -> None:
    """Without dropout, of the first batch: that both do the same."""
    ours.eval(), theirs.eval()
    with torch.no_grad(), autocast(device):
        found = our_loss(row[0], row[2]).item(), theirs(**row[1]).loss.item()
    ours.train(), theirs.train()
    print(f"loss of the first batch: headway {found[0]:.4f}, transformers {found[1]:.4f}")


def autocast(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def trained(model: nn.Module, losses: Sequence[Callable[[], Tensor]], device: torch.device) -> Callable[[], None]:
    (optimizer,) = adamw(model, learning_rate=1e-4, weight_decay=0.01)

    def work() -> None:
        for loss in losses:
            with autocast(device):
                total = loss()
            total.backward()
            optimizer.step()
            optimizer.zero_grad()

    return work


def race(sides: dict[str, Callable[[], Any]], rounds: int, device: torch.device, tokens: int) -> None:
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 2):  # the first two warm up
        for side, work in sides.items():
            began = perf_counter()
            work()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if number > 1:
                speeds[side].append(tokens / (perf_counter() - began))
    ratios = [our / their for our, their in zip(*speeds.values(), strict=True)]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f} over {rounds} rounds"
    print(f"training, real tokens, headway over transformers: {statistics.median(ratios):.2f} ({spread})")
    print(", ".join(f"{side} {statistics.median(found):,.0f} a second" for side, found in speeds.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    set_up_torch()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads")
    sizes = Sizes(12, 768, 12, 128, 8) if device.type == "cuda" else Sizes(4, 256, 4, 8, 2)
    sides, tokens = training(sizes, device)
    race(sides, options.rounds, device, tokens)


if __name__ == "__main__":
    main()
