"""Look inside: the exercise trains a small model, and asks what is in it. The answers are computed from that model."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product

import numpy as np
import torch

from headway.lab.attention_maps import attention_maps
from headway.learn.exercise import Exercise
from headway.learn.training import Asked, Entrant, Results, Train
from headway.nn.attention import Attention
from headway.runs.run import Run
from headway.tasks.abilities import Predicts, need

TEXTS = 40
SHORT, LONG = 10, 20  # bits


# --- which head looks at the previous token


def heads_by_distance(run: Run) -> Mapping[str, float]:
    """For each head, the mean weight on the token before: rows 2, 3, ... of the attention weights."""
    random = np.random.default_rng(run.recipe.train.seed)
    letters = list("abc")
    texts = ["".join(random.choice(letters, 10)) for _ in range(TEXTS)]
    found: dict[str, list[float]] = {}
    for text in texts:
        for weights in attention_maps(run, text).layers.values():
            for head, own in enumerate(weights, start=1):
                found.setdefault(str(head), []).append(float(np.diagonal(own, -1).mean()))
    return {name: float(np.mean(values)) for name, values in found.items()}


def strongest(results: Results) -> list[int]:
    """The head that looks back the most, and those that do it nearly as much."""
    scores = results["model"].scores
    order = sorted(scores, key=lambda name: -scores[name])
    return [int(name) for name in order if scores[name] > scores[order[0]] - 0.03]


PREVIOUS = Train(
    id="look.previous",
    title="which head looks at the previous token",
    task="""
    The check trains a causal Transformer with one layer and four heads to see whether a string contains "cab"; it tells
    you the folder of the run. Look at its attention on some strings of the letters a, b and c, with headway attention
    RUN cabacbabca, or in Python:

        import headway as hw
        model = hw.load("learn/18_look/previous.runs/model")
        for weights in model.attention("cabacbabca").layers.values():
            print(weights.round(2))  # (heads, queries, keys)

    Which of the heads 1 to 4 gives the previous token the most weight, and how much on average?
    """,
    hints=(
        "Where in the matrix of a head are the weights on the token just before?",
        "numpy.diagonal(weights[head], -1) has them: take the mean, over several strings.",
        "the head with the dark line just below the diagonal",
    ),
    runs={
        "model": Entrant(
            "substring",
            (
                *("data.pattern=cab", "data.letters=3", "data.length=10", "data.examples=4000", "data.tests=300"),
                *("model.layers=1", "model.width=32", "model.heads=4", "model.causal=true", "model.pooling=max"),
                *("train.steps=500", "train.learning_rate=5e-3", "train.warmup=30"),
            ),
            measure=heads_by_distance,
        )
    },
    asked={
        "head": Asked(lambda results: strongest(results)[0], "1, 2, 3 or 4", also=strongest),
        "weight": Asked(
            lambda results: max(results["model"].scores.values()), "from 0 to 1; it may be off by 0.1", tolerance=0.1
        ),
    },
    looks=True,
    worked="""
    To see "cab" at a b, one head has to bring what stands just before it, and another one what stands before that. With
    Toeplitz positions that is one number for all places, so that the head has a line just below the diagonal.
    """,
)

# --- why parity fails at lengths never seen


def bits(length: int, ones: int, random: np.random.Generator) -> str:
    text = np.array(["0"] * length)
    text[random.choice(length, ones, replace=False)] = "1"
    return "".join(text)


def parity_beyond(run: Run) -> Mapping[str, float]:
    """Accuracies at the length of training and at twice that length; and how often, there, the answer is the parity
    of half the number of ones."""
    task, random = need(run.task, Predicts), np.random.default_rng(run.recipe.train.seed)

    def share(length: int, counts: list[int], divisor: int = 1) -> float:
        texts = [bits(length, ones, random) for ones in counts for _ in range(20)]
        labels = [prediction.label for prediction in task.predict(run.network, texts)]
        right = [("even", "odd")[text.count("1") // divisor % 2] for text in texts]
        return sum(one == other for one, other in zip(labels, right, strict=True)) / len(texts)

    even = list(range(0, LONG + 1, 2))
    return {
        "short": share(SHORT, list(range(SHORT + 1))),
        "long": share(LONG, list(range(LONG + 1))),
        "half": share(LONG, even, divisor=2),
    }


LENGTHS = Train(
    id="look.parity",
    title="why parity fails at lengths never seen",
    task=f"""
    The check trains a Transformer with mean pooling, and without positions, on the parity of strings of {SHORT} bits,
    and tells you the folder of the run. Try it on longer strings, in Python:

        import headway as hw
        model = hw.load("learn/18_look/parity.runs/model")
        print(model.predict("1" * 6 + "0" * 14).label)

    Measure its accuracy on strings of {SHORT} bits and on strings of {LONG} bits, in which every number of ones is
    equally likely. Then take strings of {LONG} bits with an even number k of ones: how often is its answer the parity
    of k / 2? What does the network see of the ones, their "number" or their "share"?
    """,
    hints=(
        "What does a mean over 20 bits say about 6 ones that a mean over 10 bits says about 3?",
        "Mean pooling gives k / n. Write down k / n for strings that it knows, and look for the same value at n = 20.",
        "the share: 6 ones of 20 look like 3 of 10, so that it answers the parity of 3",
    ),
    runs={
        "model": Entrant(
            "parity",
            (
                *(f"data.length={SHORT}", "data.uniform=1.0", "data.examples=4000", "data.tests=100"),
                *("model.layers=1", "model.width=16", "model.heads=2", "model.hidden=16"),
                *("train.steps=500", "train.learning_rate=4e-3", "train.warmup=30"),
            ),
            measure=parity_beyond,
        )
    },
    asked={
        f"at_{SHORT}": Asked(lambda results: results["model"].scores["short"], "accuracy from 0 to 1", 0.1),
        f"at_{LONG}": Asked(lambda results: results["model"].scores["long"], "accuracy from 0 to 1", 0.1),
        "half": Asked(lambda results: results["model"].scores["half"], "how often, from 0 to 1", 0.1),
        "sees": Asked(
            lambda results: "share" if results["model"].scores["half"] > 0.7 else "number", "number or share"
        ),
    },
    looks=True,
    worked="""
    Mean pooling shows the network k / n, the share of ones. At 20 bits, 6 ones are the share of 3 ones in 10 bits, and
    the answer is that for 3. With an odd number of ones the share lies between two that it knows. So the rule that it
    has learned is about shares, and holds for one length only; a recurrent network can keep the parity itself.
    """,
)

# --- remove a head, predict the change


@contextmanager
def without_head(attention: Attention, head: int) -> Iterator[None]:
    """What this head gives (from 0 on) is multiplied by zeros in the output matrix."""
    columns = slice(head * attention.head_width, (head + 1) * attention.head_width)
    weight = attention.output.weight
    before = weight.detach().clone()
    with torch.no_grad():
        weight[:, columns] = 0.0
    try:
        yield
    finally:
        with torch.no_grad():
            weight.copy_(before)


def accuracy_without_heads(run: Run) -> Mapping[str, float]:
    """The test accuracy, and that without each of the heads: "2.1" is the first head of the second layer."""
    (data,) = run.task.splits().test.values()
    layers = [part for part in run.network.modules() if isinstance(part, Attention)]
    scores = {"all": run.task.measure(run.network, data)["accuracy"]}
    for layer, head in product(range(len(layers)), range(layers[0].heads)):
        with without_head(layers[layer], head):
            scores[f"{layer + 1}.{head + 1}"] = run.task.measure(run.network, data)["accuracy"]
    return scores


def most_needed(results: Results) -> list[str]:
    """The head without which the accuracy is lowest, and those that are needed as much, but for a few texts."""
    scores = {name: score for name, score in results["model"].scores.items() if name != "all"}
    order = sorted(scores, key=lambda name: scores[name])
    return [name for name in order if scores[name] <= scores[order[0]] + 0.01]


REMOVE = Train(
    id="look.remove_head",
    title="remove a head, predict the change",
    task="""
    The check trains a classifier of reviews with one layer and four heads, and tells you the folder of the run. Look at
    its attention (headway attention RUN "the plot was not dull ."), choose the head that you believe the answers need
    the most, and write down which accuracy you expect without it. Then remove heads, one at a time: zeros in the
    columns of the output matrix that belong to a head remove it.

        import torch, headway as hw
        run = hw.Run("learn/18_look/remove_head.runs/model")
        model = hw.load(run)
        attention = next(part for part in model.network.modules() if hasattr(part, "head_width"))
        width, head = attention.head_width, 0  # the first head
        with torch.no_grad():
            attention.output.weight[:, head * width : (head + 1) * width] = 0
        (test,) = run.task.splits().test.values()
        print(run.task.measure(model.network, test)["accuracy"])

    Which head is needed the most ("1.3" is the third one of the first layer), and what is the accuracy without it?
    """,
    hints=(
        "Which word of a negated review changes its meaning, and which head looks from there to where?",
        "Load the model again before you remove the next head, and compare the accuracies.",
        "the head whose removal leaves the lowest accuracy",
    ),
    runs={
        "model": Entrant(
            "reviews",
            (
                *("data.examples=5000", "data.tests=500", "model.layers=1", "model.width=32", "model.hidden=64"),
                *(
                    "model.embedding=lookup(start=0.4)",
                    "train.steps=400",
                    "train.learning_rate=6e-3",
                    "train.warmup=40",
                ),
            ),
            measure=accuracy_without_heads,
        )
    },
    asked={
        "expected": Asked(
            lambda results: min(results["model"].scores.values()), "your guess, from 0 to 1", is_guess=True
        ),
        "head": Asked(lambda results: most_needed(results)[0], 'such as "1.3"', also=most_needed),
        "accuracy": Asked(
            lambda results: min(results["model"].scores.values()), "what you measured; it may be off by 0.02", 0.02
        ),
    },
    looks=True,
    worked="""
    Most heads can be removed with little change, because others do the same, or because the residual path carries the
    words anyway. The head that looks from a word to its "not" is another matter: without it, negated reviews turn.
    """,
)

EXERCISES: list[Exercise] = [PREVIOUS, LENGTHS, REMOVE]
