"""The cross-attention of a translation: which source tokens each target token attends to.

Attention weights do not prove what a prediction is based on; for translations they are close to a word alignment.
"""

from dataclasses import dataclass
from typing import Any

import torch

from headway.config.errors import Problem
from headway.lab.plot import Plot, heatmap
from headway.models.encoder_decoder import source_batch
from headway.nn.attention import CrossAttention, watch_attention
from headway.runs.run import Run
from headway.tasks.abilities import Translates, need


@dataclass(frozen=True)
class Alignment:
    source: list[str]
    target: list[str]
    weights: list[list[float]]  # (target, source); each row sums to 1

    def plot(self) -> Plot:
        """Source on the x-axis, target on the y-axis; darker is more attention."""
        plot = Plot((1.5 + 0.35 * len(self.source), 1.5 + 0.35 * len(self.target)))
        heatmap(plot.axes[0, 0], self.weights, self.source, self.target)
        return plot

    def _repr_png_(self) -> bytes:
        return self.plot()._repr_png_()


@torch.inference_mode()
def align(
    run: Run, source: str, target: str | None = None, layer: int | None = None, to: str | None = None
) -> Alignment:
    """Mean over the heads of one layer (1, 2, ...), or of all; without ``target``, of the model's own translation."""
    translator = need(run.task, Translates).generator(run.network).into(to)
    source_tokens = translator.tokens_of(source)
    if target is None:
        target_tokens = [*translator.translate([source])[0][0].tokens, translator.eos or 0]
    else:
        target_tokens = translator.tokens_of_target(target)
    model = translator.model
    names = [name for name, part in model.named_modules() if isinstance(part, CrossAttention)]
    if layer is not None and not 1 <= layer <= len(names):
        raise Problem(f"there is no layer {layer}: the decoder has {len(names)}")
    with watch_attention(model) as maps:
        inputs = torch.tensor([[translator.bos, *target_tokens[:-1]]], device=translator.device)
        model(source_batch([source_tokens], translator.device)[0], inputs)
    weights = torch.stack([maps[name][0] for name in names])  # (layers, H, T, S)
    weights = weights if layer is None else weights[layer - 1 : layer]
    return Alignment(
        [piece(translator.source, token, translator.eos) for token in source_tokens],
        [piece(translator.tokenizer, token, translator.eos) for token in target_tokens],
        weights.double().mean(dim=(0, 1)).tolist(),
    )


def piece(tokenizer: Any, token: int, eos: int | None) -> str:
    if tokenizer.is_special[token]:
        return "." if token == eos else tokenizer.vocabulary.symbols[token]
    return tokenizer.decode([token]).strip() or "_"
