"""Which words mattered for an answer.

- gradient x input: x[t] . d score / d x[t] for the vector x[t] of each token, the score being the log-odds of the
  label: what the token adds to the score, as far as a straight line can tell (Shrikumar et al. 2017,
  https://arxiv.org/abs/1605.01713). For two classes, a bag of tokens and a linear head it is exact.
- attention: how much is looked at the token in the last layer, mean over heads and over the tokens that look; or, if
  the sequence is pooled by attention, the weight of the token there.
"""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.data.sequences import KEEPS, LabelledSequences
from headway.nn import watch_attention
from headway.nn.pooling import AdditiveAttention
from headway.runs.run import Run
from headway.tasks.abilities import Predicts, need


@dataclass(frozen=True)
class Piece:
    """A token of the text, or what stands between two of them."""

    text: str
    gradient: float | None = None  # towards the label, or away from it
    attention: float | None = None


@dataclass(frozen=True)
class Explanation:
    label: str
    probability: float
    pieces: list[Piece]

    @property
    def gradients(self) -> list[float]:
        return [each.gradient for each in self.pieces if each.gradient is not None]

    @property
    def attentions(self) -> list[float]:
        return [each.attention for each in self.pieces if each.attention is not None]


def explain(run: Run, text: str) -> Explanation:
    task = need(run.task, Predicts)
    model = run.model()
    if not text.strip():
        raise Problem("the text is empty: there is nothing to explain")
    data = task.sequences([text])
    probabilities, gradients, attention = look_inside(task, model, data)
    best = int(probabilities.argmax())
    pieces = in_pieces(text, [task.spans(text)[place] for place in kept_places(data)], gradients, attention)
    return Explanation(task.labels[best], float(probabilities[best]), pieces)


def look_inside(task: Predicts, model: Any, data: LabelledSequences) -> tuple[Tensor, list[float], list[float] | None]:
    """The probabilities of the classes, and of each token of the text its gradient x input and its attention."""
    inputs = data.pad(np.array([0]))[0].to(next(model.parameters()).device)
    vectors: list[Tensor] = []
    hook = model.encoder.embedding.register_forward_hook(lambda module, inputs, output: keep(vectors, output))
    try:
        with watch_attention(model) as maps:
            logits = model(inputs)
    finally:
        hook.remove()
    probabilities = task.probabilities(logits.double())[0]  # in float32 a sure answer would be exactly 1
    (gradient,) = torch.autograd.grad(probabilities.max().logit(eps=1e-15), vectors[0])
    first = int(task.has_cls)
    towards = (gradient * vectors[0]).sum(dim=-1)[0, first:]
    return probabilities.detach(), towards.tolist(), attention_of(model, maps, inputs, first)


def keep(vectors: list[Tensor], output: Tensor) -> Tensor:
    vectors.append(output.detach().requires_grad_())
    return vectors[0]


def attention_of(model: Any, maps: dict[str, Tensor], inputs: Tensor, first: int) -> list[float] | None:
    """Of each token of the text; None if the model has no attention at all."""
    if isinstance(model.pooling, AdditiveAttention):
        with torch.no_grad():
            return model.pooling.weights(model.encoder(inputs))[0].tolist()
    if not maps:
        return None
    last = list(maps.values())[-1][0].mean(dim=0)  # (from, to)
    return (last[0] if first else last.mean(dim=0))[first:].tolist()


def kept_places(data: LabelledSequences) -> list[int]:
    """Which tokens of the first text are read, if it is too long to be read whole."""
    size, kept = int(data.sizes[0]), data.kept[:1]
    front = int(KEEPS[data.keep](kept)[0])
    return [*range(front), *range(size - int(kept[0]) + front, size)]


def in_pieces(
    text: str, spans: list[tuple[int, int]], gradients: list[float], attention: list[float] | None
) -> list[Piece]:
    """The whole text in its order, each token with its numbers."""
    pieces, done = [], 0
    for place, (start, end) in enumerate(spans):
        if start > done:
            pieces.append(Piece(text[done:start]))
        looked = None if attention is None else attention[place]
        pieces.append(Piece(text[max(start, done) : end], gradients[place], looked))
        done = max(done, end)
    return [*pieces, Piece(text[done:])] if done < len(text) else pieces


def to_html(found: Explanation) -> str:
    """A page of its own: green for the label, red against it; below, what is looked at in blue."""
    body = paragraph(found.pieces, "gradient", found.gradients, "gradient × input: green for the label, red against it")
    if found.attentions:
        body += paragraph(found.pieces, "attention", found.attentions, "attention: what is looked at")
    title = f"{html.escape(found.label)} ({found.probability:.1%})"
    style = "body{font:18px/1.7 system-ui;max-width:50em;margin:2em auto}small{color:#777}span{border-radius:3px}"
    return f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{style}</style><h1>{title}</h1>{body}\n'


def paragraph(pieces: list[Piece], what: str, values: list[float], caption: str) -> str:
    top = max((abs(value) for value in values), default=1.0) or 1.0
    written = "".join(coloured(each, getattr(each, what), top, what) for each in pieces)
    return f"<p>{written}</p><small>{caption}</small>"


def coloured(piece: Piece, value: float | None, top: float, what: str) -> str:
    text = html.escape(piece.text)
    if value is None:
        return text
    colour = "30,100,220" if what == "attention" else "20,150,60" if value > 0 else "210,40,40"
    return f'<span title="{value:.4f}" style="background:rgba({colour},{abs(value) / top:.2f})">{text}</span>'
