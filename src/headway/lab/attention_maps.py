"""Attention maps: how much each token of a text attends to each other one, by layer and head."""

from dataclasses import dataclass

import numpy as np

from headway.config.arguments import checked
from headway.config.errors import Problem
from headway.lab.plot import Plot, heatmap
from headway.nn import watch_attention
from headway.runs.run import Run
from headway.tasks.abilities import Embeds, need

CELL = 0.22  # inches per token


@dataclass(frozen=True)
class AttentionMaps:
    tokens: list[str]
    layers: dict[str, np.ndarray]  # attention module -> (heads, queries, keys); the weights of a query sum to 1

    @checked
    def plot(self, layer: int | None = None) -> Plot:
        """A heat map for each head, and a row for each layer; ``layer`` (1, 2, ...) shows one of them."""
        names = list(self.layers)
        if layer is not None and not 1 <= layer <= len(names):
            raise Problem(f"there is no layer {layer}: the model has {len(names)}")
        shown = names if layer is None else names[layer - 1 : layer]
        heads = max(len(self.layers[name]) for name in shown)
        side = 1.2 + CELL * len(self.tokens)
        plot = Plot((side * heads, side * len(shown)), len(shown), heads)
        labels = [token.strip() or repr(token)[1:-1] for token in self.tokens]
        for row, name in zip(plot.axes, shown, strict=True):
            for head, axes in enumerate(row):
                heatmap(axes, self.layers[name][head], labels, labels)
                axes.set_xlabel(f"layer {names.index(name) + 1}, head {head + 1}")
        return plot

    def _repr_png_(self) -> bytes:
        return self.plot()._repr_png_()


def attention_maps(run: Run, text: str) -> AttentionMaps:
    """Of the network that reads the text: the classifier, the decoder, or the encoder of a translator."""
    task = need(run.task, Embeds)
    with watch_attention(run.network) as maps:
        task.embed(run.network, [text])
    if not maps:
        raise Problem(f"{run.folder} has no attention: there is nothing to show")
    return AttentionMaps(task.tokens_in(text), {name: weights[0].cpu().numpy() for name, weights in maps.items()})
