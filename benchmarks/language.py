"""Times language models beside the same networks in transformers, with the same weights' shapes.

    python benchmarks/language.py               # training and generation on this machine's CPU or GPU
    python benchmarks/language.py --only train

On a CPU: training nanoGPT's baby GPT (6 layers, width 384, 256 characters, dropout 0.2), and generation with a network
of GPT-2's size (124 M, random weights, float32), greedy, with keys and values kept. Both run in one process, in turn,
round after round; a ratio is the median over rounds of tokens a second.

On a GPU: training and generation with a network of GPT-2's size in bf16, training compiled on both sides, 1024 tokens a
row. Model FLOPs are 6 x parameters + 12 x layers x width x length a token, over the speed of a large matrix product.
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
from headway.models.quick import quick
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


def training(device: torch.device, spec: ModelSpec, vocabulary: int, length: int, rows: int) -> dict[str, Work]:
    tokens = torch.randint(vocabulary, (rows, length + 1), device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    ours = build_decoder(spec, vocabulary, length).to(device)
    other = theirs(spec, vocabulary, length, spec.dropout).to(device)
    (own,) = adamw(ours, 1e-3, 0.1)
    usual = torch.optim.AdamW(other.parameters(), lr=1e-3, weight_decay=0.1, fused=device.type == "cuda")

    def loss_of_ours() -> torch.Tensor:
        return F.cross_entropy(ours(inputs).flatten(0, 1), targets.flatten())

    def loss_of_theirs() -> torch.Tensor:
        return F.cross_entropy(other(inputs, use_cache=False).logits.flatten(0, 1), targets.flatten())

    if device.type == "cuda":
        loss_of_ours, loss_of_theirs = torch.compile(loss_of_ours), torch.compile(loss_of_theirs)

    def step(loss: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer) -> int:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            total = loss()
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        return rows * length

    return {"headway": lambda: step(loss_of_ours, own), "transformers": lambda: step(loss_of_theirs, usual)}


def generation(device: torch.device, rows: int, new: int = 64, prompt: int = 32, int8: bool = False) -> dict[str, Work]:
    vocabulary, length = 50_257, 1024
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    ours = build_decoder(SMALL, vocabulary, length).to(device, kind).eval()
    other = theirs(SMALL, vocabulary, length, 0.0).to(device, kind).eval()
    tokens = torch.randint(vocabulary, (rows, prompt), device=device)
    steps = quick(ours, int8)

    @torch.inference_mode()
    def write() -> int:
        made = list(sample(steps, tokens.tolist(), new, Sampling(0.0), device=device))
        return len(made) * rows

    @torch.inference_mode()
    def write_theirs() -> int:
        found = other.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new, do_sample=False, pad_token_id=0
        )
        return found[:, prompt:].numel()

    return {"headway": write, "transformers": write_theirs}


def race(name: str, works: dict[str, Work], rounds: int, device: torch.device) -> float:
    """Prints how often as fast ours is, and gives its tokens a second."""
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
    return statistics.median(speeds["headway"])


def ceiling(device: torch.device, size: int = 8192) -> float:
    """FLOPs a second of a matrix product in bf16."""
    matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    times = []
    for _ in range(10):
        synchronize(device)
        began = perf_counter()
        matrix @ matrix
        synchronize(device)
        times.append(perf_counter() - began)
    return 2 * size**3 / statistics.median(times)


def on_gpu(device: torch.device, rounds: int, only: str | None) -> None:
    if only != "generate":
        vocabulary, length = 50_304, 1024
        speed = race("training, GPT-2 124M", training(device, SMALL, vocabulary, length, 32), rounds, device)
        weights = sum(weight.numel() for weight in build_decoder(SMALL, vocabulary, length).parameters())
        flops = 6 * weights + 12 * SMALL.layers * SMALL.width * length
        top = ceiling(device)
        print(f"model FLOPs {speed * flops / 1e12:.0f} T/s, {speed * flops / top:.0%} of {top / 1e12:.0f} T/s")
    if only != "train":
        size = 2 * sum(weight.numel() for weight in build_decoder(SMALL, 50_257, 1024).parameters())
        for rows in (1, 32):
            speed = race(f"generation, GPT-2 124M, batch {rows}", generation(device, rows, 256), rounds, device)
            print(f"weights read: {speed / rows * size / 1e12:.2f} TB/s")


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
    if device.type == "cuda":
        on_gpu(device, options.rounds, options.only)
        return
    if options.only != "generate":
        race("training, baby GPT", training(device, BABY, 65, 256, 16), options.rounds, device)
    if options.only != "train":
        for rows in (1, 8):
            race(f"generation, GPT-2's size, batch {rows}", generation(device, rows), options.rounds, device)
            quicker = generation(device, rows, int8=True)
            race(f"generation, GPT-2's size, batch {rows}, int8", quicker, options.rounds, device)


if __name__ == "__main__":
    main()
