"""Times encoder-decoders beside torch's nn.Transformer (training) and transformers' Marian (searching).

    python benchmarks/translation.py
    python benchmarks/translation.py --only search --run RUN --file SOURCES     # of a trained run, for real lengths

Both networks have 4 + 4 layers, width 128, 4 heads, post-norm, a vocabulary of 8,000 and the same weights. Training: a
batch of 64 pairs of 5 to 35 tokens, dropout 0.1, AdamW. Searching: 128 sentences, beam 5. With random weights nothing
ever ends, so that every translation has 30 tokens; a RUN of this shape (model.layers=4 model.width=128 model.norm=post)
has real lengths. If CTranslate2 is installed, it takes part.

On a CPU in float32, on a GPU in bf16. Sides run in turn, round after round; a ratio is the median over rounds.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from headway.data.batch import PairBatch
from headway.generation import Beam, beam_search
from headway.models import ModelSpec, build_encoder_decoder
from headway.models.encoder_decoder import source_batch
from headway.models.fast_decoder import fast_decoder
from headway.nn.positions import Sinusoidal
from headway.runs.run import Run
from headway.tasks.abilities import Translates, need
from headway.tasks.seq2seq import logits_of
from headway.training.fabric import set_up_torch
from headway.training.optimizers import adamw
from marian import SHAPE, as_marian

VOCABULARY, BEGIN, END, LENGTH = 8_000, 0, 3, 128
SPEC = ModelSpec(layers=4, width=128, heads=4, dropout=0.1, **SHAPE)


class Theirs(nn.Module):
    """nn.Transformer with what it lacks: embeddings, positions, and a head tied to them."""

    def __init__(self, spec: ModelSpec):
        super().__init__()
        self.table, self.position = nn.Embedding(VOCABULARY, spec.width), Sinusoidal(spec.width)
        self.body = nn.Transformer(
            spec.width, spec.heads, spec.layers, spec.layers, 4 * spec.width, spec.dropout, batch_first=True
        )
        self.drop = nn.Dropout(spec.dropout)

    def embed(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.drop(self.position.embed(self.table(tokens) * self.table.embedding_dim**0.5, places))

    def forward(self, sources: Tensor, inputs: Tensor, lengths: Tensor) -> Tensor:
        padding = torch.arange(sources.shape[1], device=sources.device) >= lengths[:, None]
        later = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], device=inputs.device)
        states = self.body(
            self.embed(sources),
            self.embed(inputs),
            tgt_mask=later,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(states, self.table.weight)


def pairs(rows: int, generator: torch.Generator) -> PairBatch:
    """Random tokens; sorted by length into a batch of like ones, as training does, would make padding rare."""
    sizes = torch.randint(5, 36, (2, rows), generator=generator)
    sources, targets = (torch.randint(4, VOCABULARY, (rows, int(side.max())), generator=generator) for side in sizes)
    weights = torch.arange(targets.shape[1]) < sizes[1][:, None]
    given = torch.cat([torch.full((rows, 1), BEGIN), targets[:, :-1]], dim=1)
    return PairBatch(given, targets, sizes[1], weights, sources=sources, source_lengths=sizes[0])


def training(device: torch.device) -> dict[str, Callable[[], None]]:
    batch = pairs(64, torch.Generator().manual_seed(1))
    on_gpu = device.type == "cuda"
    ours, theirs = build_encoder_decoder(SPEC, VOCABULARY, VOCABULARY, LENGTH, joint=True), Theirs(SPEC)
    models: dict[str, Any] = {"headway": ours.to(device), "nn.Transformer": theirs.to(device)}
    optimizers = {
        "headway": adamw(ours, 1e-3, 0.01)[0],
        "nn.Transformer": torch.optim.AdamW(theirs.parameters(), 1e-3, fused=on_gpu),
    }

    def step(side: str) -> None:
        model, optimizer = models[side], optimizers[side]
        parts = batch.without_waste() if side == "headway" and not on_gpu else [batch]
        for each in parts:
            rows = each.to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
                if side == "headway":
                    scores, targets, weights = logits_of(model, rows, rows.sources, rows.inputs, rows.source_lengths)
                else:
                    scores, targets, weights = (
                        model(rows.sources, rows.inputs, rows.source_lengths),
                        rows.targets,
                        rows.weights,
                    )
                if weights is not None:
                    targets = targets.masked_fill(~weights, -100)
                loss = F.cross_entropy(scores.flatten(0, -2), targets.flatten(), reduction="sum") / batch.count
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return {side: lambda side=side: step(side) for side in models}  # type: ignore[misc]


def searching(device: torch.device, run: Path | None, file: Path | None) -> dict[str, Callable[[], Any]]:
    if run is None:
        model: Any = build_encoder_decoder(SPEC, VOCABULARY, VOCABULARY, LENGTH, joint=True)
        generator = torch.Generator().manual_seed(1)
        sizes = torch.randint(5, 25, (128,), generator=generator).tolist()
        sources = [[*torch.randint(4, VOCABULARY, (size,), generator=generator).tolist(), END] for size in sizes]
        spec, symbols, begin, end, length, limit = SPEC, VOCABULARY, BEGIN, END, LENGTH, 30
    else:
        trained = Run(run)
        translator: Any = need(trained.task, Translates).generator(trained.model())
        assert file is not None
        sources = [translator.tokens_of(line) for line in file.read_text(encoding="utf-8").splitlines()[:128]]
        model, spec, symbols = translator.model, trained.recipe.model, len(translator.tokenizer)
        begin, end, length, limit = translator.opening, translator.end, trained.recipe.data.longest, 100
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    theirs = as_marian(model.cpu().float(), spec, symbols, length, begin, end).to(device, kind)
    model = model.to(device, kind).eval()
    steps = fast_decoder(model.decoder)
    tokens, lengths = source_batch(sources, device)
    assert lengths is not None
    mask = (torch.arange(tokens.shape[1], device=device) < lengths[:, None]).long()
    padded = tokens.masked_fill(mask == 0, begin)
    how = {"num_beams": 5, "max_new_tokens": limit, "do_sample": False, "early_stopping": True}

    @torch.inference_mode()
    def search() -> list[list[int]]:
        found = beam_search(model.conditioned_on(tokens, lengths, steps), [[begin]] * 128, limit, end, Beam(5), device)
        return [best.tokens for (best,) in found]

    @torch.inference_mode()
    def generate() -> list[list[int]]:
        rows = theirs.generate(padded, attention_mask=mask, **how)[:, 1:].tolist()
        return [row[: row.index(end)] if end in row else row for row in rows]

    sides: dict[str, Callable[[], list[list[int]]]] = {"headway": search, "transformers": generate}
    if device.type == "cpu" and find_spec("ctranslate2"):
        sides["CTranslate2"] = in_ctranslate2(theirs, sources, begin, end, limit)
    written = [side() for side in sides.values()]
    same = sum(all(each == rows[0] for each in rows) for rows in zip(*written, strict=True))
    print(f"{same} of 128 translations are the same with {', '.join(sides)}")
    return sides


def in_ctranslate2(theirs: Any, sources: list[list[int]], begin: int, end: int, limit: int) -> Callable[[], Any]:
    """The same network in CTranslate2, in float32 on as many threads."""
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    loader: Any = MarianMTLoader()
    loader._remove_pad_weights = lambda spec: None  # ours begins with this token, in place of a vector of zeros
    spec = loader.get_model_spec(theirs)
    spec.decoder.start_from_zero_embedding = numpy.int8(0)
    symbols = [f"token{number}" for number in range(theirs.config.vocab_size)]
    symbols[begin], symbols[end] = "<begin>", "<end>"
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    spec.register_source_vocabulary(symbols)
    spec.register_target_vocabulary(symbols)
    given = {"bos_token": "<begin>", "decoder_start_token": "<begin>", "eos_token": "<end>", "unk_token": symbols[1]}
    for name, value in {**given, "add_source_eos": False}.items():
        setattr(spec.config, name, value)
    spec.validate()
    folder = tempfile.mkdtemp()
    spec.save(folder)
    translator = ctranslate2.Translator(folder, compute_type="float32", intra_threads=torch.get_num_threads())
    shutil.rmtree(folder)
    rows = [[symbols[token] for token in source] for source in sources]

    def translate() -> list[list[int]]:
        how: Any = {"beam_size": 5, "max_decoding_length": limit, "max_batch_size": 0, "length_penalty": 1.0}
        found = [each.hypotheses[0] for each in translator.translate_batch(rows, **how)]
        return [[numbers[symbol] for symbol in each if symbol != "<end>"] for each in found]

    return translate


def race(name: str, sides: dict[str, Callable[[], Any]], rounds: int, device: torch.device, rows: int) -> None:
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):  # the first round warms up
        for side, work in sides.items():
            synchronize(device)
            began = perf_counter()
            work()
            synchronize(device)
            if number:
                speeds[side].append(rows / (perf_counter() - began))
    _, other, *_ = sides
    for side in sides.keys() - {other}:
        ratios = [our / their for our, their in zip(speeds[side], speeds[other], strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f} over {rounds} rounds"
        print(f"{name}, {side} over {other}: {statistics.median(ratios):.2f} ({spread})")
    print(", ".join(f"{side} {statistics.median(found):,.1f} a second" for side, found in speeds.items()), flush=True)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=["train", "search"])
    parser.add_argument("--run", type=Path, help="a trained run of this shape")
    parser.add_argument("--file", type=Path, help="sources, a sentence a line")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    set_up_torch()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads; headway's speed over theirs")
    if options.only in (None, "train"):
        race("training, pairs", training(device), options.rounds, device, 64)
    if options.only in (None, "search"):
        sides = searching(device, options.run, options.file)
        race("searching, sentences", sides, options.rounds, device, 128)


if __name__ == "__main__":
    main()
