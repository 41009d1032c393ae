"""Times language models beside the same networks in transformers.

    python benchmarks/language.py               # training and generation on this machine's CPU or GPU
    python benchmarks/language.py --only train

On a CPU: training nanoGPT's baby GPT (6 layers, width 384, 256 characters, dropout 0.2), generation with a network of
GPT-2's size (124 M, random weights, float32), greedy, with keys and values kept, and the rollouts of a policy, which
are drawn. On a GPU: training, generation and rollouts with a network of GPT-2's size in bf16, 1024 tokens a row,
training compiled on both sides. Model FLOPs a token are 6 x parameters + 12 x layers x width x length, and are set
against the speed of a large matrix product.

Each side has a process of its own, since ours sets up torch otherwise (docs/experiments/speed.md); they run in turn,
round after round, and a ratio is the median over rounds of tokens a second.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

import torch
from torch.nn import functional as F

from headway.generation import Sampling, sample
from headway.models import ModelSpec, build_decoder
from headway.models.fast_decoder import fast_decoder
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.tasks.rlhf.sampler import RolloutSampler
from headway.text.tokenizer import Tokenizer
from headway.training.fabric import set_up_torch
from headway.training.optimizers import adamw

GPT2: dict[str, Any] = {
    "embedding": "lookup(start=0.02, scale=1)",
    "position": "learned(start=0.02)",
    "feedforward": "gelu(tanh=True)",
    "init": "gpt2",
}
BABY = ModelSpec(layers=6, width=384, heads=6, dropout=0.2, **GPT2)
SMALL = ModelSpec(layers=12, width=768, heads=12, **GPT2)
SIDES = ("headway", "transformers")
GREEDY: dict[str, Any] = {"do_sample": False}
Work = Callable[[], int]  # does it, and gives how many tokens it came to


@dataclass(frozen=True)
class Case:
    name: str
    kind: str  # one of WORKS
    spec: ModelSpec
    vocabulary: int
    length: int
    rows: int
    int8: bool = False
    new: int = 64  # tokens to write


ON_CPU = [
    Case("training, baby GPT", "train", BABY, 65, 256, 16),
    Case("rollouts, baby GPT, batch 64", "roll out", BABY, 4_000, 256, 64),
    *(
        Case(f"generation, GPT-2's size, batch {rows}{', int8' * int8}", "generate", SMALL, 50_257, 1024, rows, int8)
        for rows in (1, 8)
        for int8 in (False, True)
    ),
]
ON_GPU = [
    Case("training, GPT-2 124M", "train", SMALL, 50_304, 1024, 32),
    *(
        Case(f"generation, GPT-2 124M, batch {rows}", "generate", SMALL, 50_257, 1024, rows, new=256)
        for rows in (1, 32)
    ),
    Case("rollouts, GPT-2 124M, batch 64", "roll out", SMALL, 50_257, 1024, 64, new=256),
]


def network(side: str, case: Case, device: torch.device) -> Any:
    if side == "headway":
        return build_decoder(case.spec, case.vocabulary, case.length).to(device)
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=case.vocabulary,
        n_positions=case.length,
        n_embd=case.spec.width,
        n_layer=case.spec.layers,
        n_head=case.spec.heads,
        resid_pdrop=case.spec.dropout,
        embd_pdrop=case.spec.dropout,
        attn_pdrop=case.spec.dropout,
        bos_token_id=0,
        eos_token_id=None,
    )
    model: Any = GPT2LMHeadModel(config)
    return model.to(device)


def training(side: str, case: Case, device: torch.device) -> Work:
    model, on_gpu = network(side, case, device), device.type == "cuda"
    tokens = torch.randint(case.vocabulary, (case.rows, case.length + 1), device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    if side == "headway":
        (optimizer,) = adamw(model, 1e-3, 0.1)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=on_gpu)

    def loss() -> torch.Tensor:
        scores = model(inputs) if side == "headway" else model(inputs, use_cache=False).logits
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    total = torch.compile(loss) if on_gpu else loss

    def step() -> int:
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            found = total()
        found.backward()
        optimizer.step()
        optimizer.zero_grad()
        return targets.numel()

    return step


def generation(side: str, case: Case, device: torch.device, prompt: int = 32, how: Mapping[str, Any] = GREEDY) -> Work:
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = network(side, case, device).to(kind).eval()
    tokens = torch.randint(case.vocabulary, (case.rows, prompt), device=device)
    steps = fast_decoder(model, case.int8) if side == "headway" else None

    @torch.inference_mode()
    def write() -> int:
        if steps is not None:
            return case.rows * len(list(sample(steps, tokens.tolist(), case.new, Sampling(0.0), device=device)))
        given = {"attention_mask": torch.ones_like(tokens), "pad_token_id": 0, **how}
        return model.generate(tokens, max_new_tokens=case.new, **given)[:, prompt:].numel()

    return write


def rollouts(side: str, case: Case, device: torch.device, prompt: int = 32) -> Work:
    """Ours as a policy writes them while it learns: drawn, by matrices that are kept in full precision."""
    if side == "transformers":
        return generation(side, case, device, prompt, {"do_sample": True, "top_k": 0})
    model = network(side, case, device).eval()
    policy, end = PolicyWithReference(model, model), case.vocabulary  # which is no token: all are written to the last
    sampler = RolloutSampler(Tokenizer.of_words([]), end, case.new, case.length)
    prompts = torch.randint(case.vocabulary, (case.rows, prompt)).tolist()

    def write() -> int:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            return sampler.sample(policy, prompts, range(case.rows)).tokens.numel()

    return write


def serve(side: str, case: Case, line: Connection) -> None:
    """Do the work whenever asked, and answer with the tokens a second."""
    warnings.simplefilter("ignore")
    if side == "headway":
        set_up_torch()
    device = this_device()
    work = WORKS[case.kind](side, case, device)
    while line.recv():
        synchronize(device)
        began = perf_counter()
        tokens = work()
        synchronize(device)
        line.send(tokens / (perf_counter() - began))


WORKS: dict[str, Callable[[str, Case, torch.device], Work]] = {
    "train": training,
    "generate": generation,
    "roll out": rollouts,
}


def race(case: Case, rounds: int) -> float:
    """Prints how often as fast ours is, and gives its tokens a second."""
    lines: dict[str, Any] = {}
    for side in SIDES:
        lines[side], other = get_context("spawn").Pipe()
        get_context("spawn").Process(target=serve, args=(side, case, other), daemon=True).start()
    speeds: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(rounds + 1):  # the first round warms up
        for side, line in lines.items():
            line.send(True)
            speed = line.recv()
            if number:
                speeds[side].append(speed)
    for line in lines.values():
        line.send(False)
    ratios = [our / their for our, their in zip(*speeds.values(), strict=True)]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f} over {rounds} rounds"
    absolute = ", ".join(f"{side} {statistics.median(found):,.0f} tokens/s" for side, found in speeds.items())
    print(f"{case.name}: {statistics.median(ratios):.2f} ({spread}); {absolute}", flush=True)
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


def explain(case: Case, speed: float, device: torch.device) -> None:
    """What the speed is of what a GPU can do."""
    weights = sum(weight.numel() for weight in build_decoder(case.spec, case.vocabulary, case.length).parameters())
    if case.kind == "train":
        flops = speed * (6 * weights + 12 * case.spec.layers * case.spec.width * case.length)
        top = ceiling(device)
        print(f"  model FLOPs {flops / 1e12:.0f} T/s, {flops / top:.0%} of {top / 1e12:.0f} T/s", flush=True)
    else:
        print(f"  weights read at {2 * weights * speed / case.rows / 1e12:.2f} TB/s", flush=True)


def this_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=list(WORKS))
    options = parser.parse_args()
    device = this_device()
    print(f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads; headway's speed over transformers'")
    for case in ON_GPU if device.type == "cuda" else ON_CPU:
        if options.only in (None, case.kind):
            speed = race(case, options.rounds)
            if device.type == "cuda":
                explain(case, speed, device)


if __name__ == "__main__":
    main()
