"""Whole models: from tokens to logits, and from [CLS] to a loss and an accuracy."""

import torch
from torch import nn

from headway.learn.exercise import Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers

of = Mistake.of


def layer(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.Tanh()).double()


WHOLE = FillIn(
    id="model.whole",
    title="a whole model: encoder, layers, decoder",
    task="""
    Tokens come as one-hot rows (B, T, V). A linear encoder, the matrix (V, D), makes vectors of them; each of the
    layers maps (B, T, D) to (B, T, D), one after the other; a linear decoder, the matrix (D, C), gives the logits. No
    biases.
    """,
    hints=(
        "What does a layer read: the embeddings, or what the layer before it gives?",
        "A product, a loop that replaces x, another product.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "two layers": (numbers(2, 5, 7), numbers(7, 4), [layer(4), layer(4)], numbers(4, 3)),
        "no layers": (numbers(1, 3, 7), numbers(7, 4), [], numbers(4, 3)),
        "one token": (numbers(1, 1, 7), numbers(7, 4), [layer(4)], numbers(4, 1)),
    },
    mistakes=[
        of(
            "Only the last layer is used: each has to read what the one before it gives.",
            ("x = layer(x)", "y = layer(x)"),
            ("return x", "return (y if layers else x)"),
        ),
        of("The layers are in the wrong order: the first one comes first.", ("in layers:", "in layers[::-1]:")),
        of("The layers are not used.", ("x = layer(x)", "layer(x)")),
        of(
            "There is a residual around each layer; that is the layers' own business.",
            ("x = layer(x)", "x = x + layer(x)"),
        ),
        of("The decoder is missing.", (" @ decoder", "")),
    ],
)

SCORES = FillIn(
    id="model.scores",
    title="loss and accuracy from one score at [CLS]",
    task="""
    The first token of each text is [CLS]; the product of its state with weight is the score of the class 1. From states
    (B, T, D), weight (D,) and targets (B,) of 0 and 1, return the mean binary cross-entropy and the accuracy. A score
    above 0 means class 1.
    """,
    hints=(
        "Which probability belongs to a score of 0?",
        "One score for each text; the loss takes scores, the accuracy compares them with 0.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "five texts": (numbers(5, 3, 4), numbers(4), torch.tensor([0, 1, 1, 0, 1])),
        "one text": (numbers(1, 2, 4), numbers(4), torch.tensor([1])),
        "small scores": (0.1 * numbers(20, 2, 4), numbers(4), torch.tensor([0, 1] * 10)),
        "large scores": (1000 * numbers(6, 2, 4), numbers(4), torch.tensor([0, 1, 0, 1, 0, 1])),
    },
    mistakes=[
        of("This is the last token; [CLS] comes first.", ("states[:, 0]", "states[:, -1]")),
        of("This is the mean of all tokens; only [CLS] counts.", ("states[:, 0]", "states.mean(dim=1)")),
        of("0.5 is a threshold for probabilities; the one for scores is 0.", ("scores > 0)", "scores > 0.5)")),
        of(
            "The loss is summed, not averaged.",
            ("targets.to(scores.dtype))", 'targets.to(scores.dtype), reduction="sum")'),
        ),
        of(
            "The sigmoid is applied twice: this loss does it itself.",
            ("with_logits(scores,", "with_logits(scores.sigmoid(),"),
        ),
        of("Right and wrong are swapped in the accuracy.", ("== (targets == 1)", "!= (targets == 1)")),
        of("Accuracy and loss are returned in the wrong order.", ("return loss, accuracy", "return accuracy, loss")),
    ],
)

EXERCISES: list[Exercise] = [WHOLE, SCORES]
