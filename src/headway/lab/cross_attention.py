"""Which words of a source a translation looks at, as it is written: the weights of cross attention.

A picture of where a model looks is no proof of what it goes by; for a translation it is close to which word stands for
which.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.config.errors import Problem
from headway.lab.plot import pyplot, save
from headway.models.encoder_decoder import source_batch
from headway.nn.attention import CrossAttention, watch_attention
from headway.runs.run import Run
from headway.tasks.abilities import Translates, need


@dataclass(frozen=True)
class Alignment:
    source: list[str]
    target: list[str]
    weights: list[list[float]]  # of each target piece, over the source pieces; each row adds up to 1


@torch.inference_mode()
def align(run: Run, source: str, target: str | None = None, layer: int | None = None) -> Alignment:
    """Of a translation, the model's own if none is given: the mean of the heads of one layer (1, 2, ...), or of all."""
    translator = need(run.task, Translates).generator(run.model())
    read = translator.tokens_of(source)
    if target is None:
        written = [*translator.translate([source])[0][0].tokens, translator.eos or 0]
    else:
        written = translator.tokens_of_target(target)
    model = translator.model
    names = [name for name, part in model.named_modules() if isinstance(part, CrossAttention)]
    if layer is not None and not 1 <= layer <= len(names):
        raise Problem(f"there is no layer {layer}: the decoder has {len(names)}")
    with watch_attention(model) as maps:
        given = torch.tensor([[translator.bos, *written[:-1]]], device=translator.device)
        model(source_batch([read], translator.device)[0], given)
    looked = torch.stack([maps[name][0] for name in names])  # (layers, H, T, S)
    looked = looked if layer is None else looked[layer - 1 : layer]
    sides = [piece(translator.source, token, translator.eos) for token in read]
    return Alignment(
        sides,
        [piece(translator.tokenizer, token, translator.eos) for token in written],
        looked.double().mean(dim=(0, 1)).tolist(),
    )


def piece(tokenizer: Any, token: int, end: int | None) -> str:
    return "." if token == end else tokenizer.decode([token]).strip() or "_"


def save_picture(path: Path, found: Alignment) -> None:
    """Source across, target down; the darker, the more it is looked at."""
    plot = pyplot()
    size = (1.5 + 0.35 * len(found.source), 1.5 + 0.35 * len(found.target))
    figure, axes = plot.subplots(figsize=size, layout="constrained")
    axes.imshow(found.weights, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(found.source)), found.source, rotation=90)
    axes.set_yticks(range(len(found.target)), found.target)
    axes.xaxis.tick_top()
    save(figure, path)
