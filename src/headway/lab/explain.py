"""Which tokens mattered for a prediction.

- gradient x input: x[t] . d score / d x[t] for the embedding x[t] of each token, where the score is the log-odds of the
  label: a linear approximation of the token's contribution (Shrikumar et al. 2017, https://arxiv.org/abs/1605.01713).
  For two classes, a bag of tokens and a linear head it is exact.
- attention: the attention weight of the token in the last layer, mean over heads and queries; or, with attention
  pooling, its weight there.
"""

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config.arguments import checked
from headway.config.errors import Problem
from headway.data.sequences import LabelledSequences
from headway.data.storage import write_whole
from headway.nn import watch_attention
from headway.runs.run import Run
from headway.tasks.abilities import Predicts, need


@dataclass(frozen=True)
class Piece:
    """A token of the text, or the characters between two tokens."""

    text: str
    gradient: float | None = None  # for the label, or against it
    attention: float | None = None


@dataclass(frozen=True)
class Explanation:
    label: str | int
    probability: float
    pieces: list[Piece]

    @property
    def gradients(self) -> list[float]:
        return [each.gradient for each in self.pieces if each.gradient is not None]

    @property
    def attentions(self) -> list[float]:
        return [each.attention for each in self.pieces if each.attention is not None]

    def _repr_html_(self) -> str:
        return f"<p>{title_of(self)}</p>{colours(self)}"

    @checked
    def save(self, path: str | Path) -> None:
        """Write an HTML page."""
        style = "body{font:18px/1.7 system-ui;max-width:50em;margin:2em auto}small{color:#777}span{border-radius:3px}"
        head = f'<!doctype html><meta charset="utf-8"><title>{title_of(self)}</title><style>{style}</style>'
        write_whole(Path(path), f"{head}<h1>{title_of(self)}</h1>{colours(self)}\n")


def explain(run: Run, text: str) -> Explanation:
    task = need(run.task, Predicts)
    model = run.network
    if not text.strip():
        raise Problem("the text is empty: there is nothing to explain")
    data = task.sequences([text])
    probabilities, gradients, attention = look_inside(task, model, data)
    best = int(probabilities.argmax())
    pieces = in_pieces(text, [task.spans(text)[index] for index in data.kept_tokens(0)], gradients, attention)
    return Explanation(task.own_labels[best], float(probabilities[best]), pieces)


def look_inside(task: Predicts, model: Any, data: LabelledSequences) -> tuple[Tensor, list[float], list[float] | None]:
    """The class probabilities, and the gradient x input and the attention of each token."""
    inputs = data.pad(np.array([0]))[0].to(next(model.parameters()).device)
    vectors: list[Tensor] = []
    hook = model.encoder.embedding.register_forward_hook(lambda module, inputs, output: keep(vectors, output))
    try:
        with watch_attention(model) as maps:
            logits = model(inputs)
    finally:
        hook.remove()
    probabilities = task.probabilities(logits.double())[0]  # in float32 a confident prediction would be exactly 1
    (gradient,) = torch.autograd.grad(log_odds(probabilities), vectors[0])
    first = int(task.has_cls)
    towards = (gradient * vectors[0]).sum(dim=-1)[0, first:]
    return probabilities.detach(), towards.tolist(), attention_of(model, maps, inputs, first)


def log_odds(probabilities: Tensor) -> Tensor:
    """Of the most likely class: by the sum of the others, since 1 minus a probability near 1 is exactly 0."""
    best = probabilities.argmax()
    others = torch.cat([probabilities[:best], probabilities[best + 1 :]]).sum()
    return probabilities[best].log() - others.log()


def keep(vectors: list[Tensor], output: Tensor) -> Tensor:
    vectors.append(output.detach().requires_grad_())
    return vectors[0]


def attention_of(model: Any, maps: dict[str, Tensor], inputs: Tensor, first: int) -> list[float] | None:
    """The attention weight of each token; None if the model has no attention."""
    with torch.no_grad():
        pooling: Tensor | None = model.pooling.attention(model.encoder(inputs))
    if pooling is not None:
        return pooling[0].tolist()
    if not maps:
        return None
    last = list(maps.values())[-1][0].mean(dim=0)  # (queries, keys)
    return (last[0] if first else last.mean(dim=0))[first:].tolist()


def in_pieces(
    text: str, spans: list[tuple[int, int]], gradients: list[float], attention: list[float] | None
) -> list[Piece]:
    """The whole text, each token with its values."""
    pieces, done = [], 0
    for index, (start, end) in enumerate(spans):
        if start > done:
            pieces.append(Piece(text[done:start]))
        weight = None if attention is None else attention[index]
        pieces.append(Piece(text[max(start, done) : end], gradients[index], weight))
        done = max(done, end)
    return [*pieces, Piece(text[done:])] if done < len(text) else pieces


def title_of(explanation: Explanation) -> str:
    return f"{html.escape(str(explanation.label))} ({explanation.probability:.1%})"


def colours(explanation: Explanation) -> str:
    """The text with gradients in green (for the label) and red (against it), and with attention in blue."""
    caption = "gradient × input: green for the label, red against it"
    body = paragraph([(each.text, each.gradient) for each in explanation.pieces], "gradient", caption)
    if explanation.attentions:
        body += paragraph(
            [(each.text, each.attention) for each in explanation.pieces], "attention", "attention weights"
        )
    return body


def paragraph(pieces: list[tuple[str, float | None]], what: str, caption: str) -> str:
    top = max((abs(value) for _, value in pieces if value is not None), default=1.0) or 1.0
    spans = "".join(coloured(text, value, top, what) for text, value in pieces)
    return f"<p>{spans}</p><small>{caption}</small>"


def coloured(text: str, value: float | None, top: float, what: str) -> str:
    if value is None:
        return html.escape(text)
    colour = "30,100,220" if what == "attention" else "20,150,60" if value > 0 else "210,40,40"
    style = f"background:rgba({colour},{0.7 * abs(value) / top:.2f})"
    return f'<span title="{value:.4f}" style="{style}">{html.escape(text)}</span>'
