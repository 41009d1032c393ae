"""Times language models beside the same networks in transformers, with the same weights' shapes.

    python benchmarks/language.py               # training and generation on this machine's CPU or GPU
    python benchmarks/language.py --only train

On a CPU: training nanoGPT's baby GPT (6 layers, width 384, 256 characters, dropout 0.2), and generation with a network
of GPT-2's size (124 M, random weights, float32), greedy, with keys and values kept. Both run in one process, in turn,
round after round; a ratio is the median over rounds of tokens a second.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch.nn import functional as F

from headway.generate import Sampling, sample
from headway.models import ModelSpec, build_decoder
from headway.train.fabric import set_up_torch
from headway.train.optim import adamw

BABY = ModelSpec(
    layers=6,
    width=384,
    heads=6,
    embedding="lookup(start=0.02, scale=1)",
    position="learned(start=0.02)",
    feedforward="gelu(tanh=True)",
    init="gpt2",
    dropout=0.2,
)
SMALL = ModelSpec(
    layers=12,
    width=768,
    heads=12,
    embedding="lookup(start=0.02, scale=1)",
    position="learned(start=0.02)",
    feedforward="gelu(tanh=True)",
    init="gpt2",
)
Work = Callable[[], int]  # does it, and gives how many tokens it came to


def theirs(spec: ModelSpec, vocabulary: int, length: int, dropout: float) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary,
            n_positions=length,
            n_embd=spec.width,
            n_layer=spec.layers,
            n_head=spec.heads,
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
            bos_token_id=0,
            eos_token_id=None,
        )
    )


def training(device: torch.device) -> dict[str, Work]:
    vocabulary, length, rows = 65, 256, 16
    tokens = torch.randint(vocabulary, (rows, length + 1), device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    ours, other = build_decoder(BABY, vocabulary, length).to(device), theirs(BABY, vocabulary, length, 0.2).to(device)
    (own,) = adamw(ours, 1e-3, 0.1)
    usual = torch.optim.AdamW(other.parameters(), lr=1e-3, weight_decay=0.1)

    def step(loss: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer) -> int:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()
        return rows * length

    return {
        "headway": lambda: step(lambda: F.cross_entropy(ours(inputs).flatten(0, 1), targets.flatten()), own),
        "transformers": lambda: step(
            lambda: F.cross_entropy(other(inputs, use_cache=False).logits.flatten(0, 1), targets.flatten()), usual
        ),
    }


def generation(device: torch.device, rows: int, new: int = 64, prompt: int = 32) -> dict[str, Work]:
    vocabulary, length = 50_257, 1024
    ours = build_decoder(SMALL, vocabulary, length).to(device).eval()
    other = theirs(SMALL, vocabulary, length, 0.0).to(device).eval()
    tokens = torch.randint(vocabulary, (rows, prompt), device=device)

    @torch.inference_mode()
    def write() -> int:
        made = list(sample(ours, tokens.tolist(), new, Sampling(0.0), device=device))
        return len(made) * rows

    @torch.inference_mode()
    def write_theirs() -> int:
        found = other.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new, do_sample=False, pad_token_id=0
        )
        return found[:, prompt:].numel()

    return {"headway": write, "transformers": write_theirs}


def race(name: str, works: dict[str, Work], rounds: int, device: torch.device) -> None:
    speeds: dict[str, list[float]] = {each: [] for each in works}
    for number in range(rounds + 1):  # the first round warms up
        for each, work in works.items():
            synchronize(device)
            began = perf_counter()
            tokens = work()
            synchronize(device)
            if number:
                speeds[each].append(tokens / (perf_counter() - began))
    ratios = [our / their for our, their in zip(speeds["headway"], speeds["transformers"], strict=True)]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f} over {rounds} rounds"
    absolute = ", ".join(f"{each} {statistics.median(found):,.0f} tokens/s" for each, found in speeds.items())
    print(f"{name}: {statistics.median(ratios):.2f} ({spread}); {absolute}", flush=True)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["train", "generate"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    set_up_torch()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads; headway's speed over transformers'")
    if options.only != "generate":
        race("training, baby GPT", training(device), options.rounds, device)
    if options.only != "train":
        for rows in (1, 8):
            race(f"generation, GPT-2's size, batch {rows}", generation(device, rows), options.rounds, device)


if __name__ == "__main__":
    main()
