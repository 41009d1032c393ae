"""By hand: attention, positions, schedules, recurrent networks, language models, decoding."""

import math
from random import Random
from typing import Any

import torch

from headway.generation.beam import Beam, beam_search
from headway.generation.tree import Tree
from headway.learn import written_out
from headway.learn.answers import ByHand, Question, rows
from headway.learn.exercise import Exercise
from headway.training.schedules import linear


def rounded(matrix: torch.Tensor) -> list[Any]:
    values: list[Any] = matrix.double().mul(1e4).round().div(1e4).tolist()
    return values


def shown(name: str, matrix: torch.Tensor) -> str:
    return f"    {name} =\n" + "\n".join(rows(matrix.tolist()))


def attention(random: Random) -> Question:
    query, key, value = (
        torch.tensor([[random.randint(-1, 2) for _ in range(4)] for _ in range(3)]).double() for _ in "qkv"
    )
    scores = query @ key.T
    weights = (scores / 2).softmax(dim=-1)
    text = "\n\n".join(
        [
            "Three tokens, one head of width d = 4. Compute the attention weights, softmax(Q K^T / "
            "sqrt(d)), and the outputs.",
            *(shown(name, each) for name, each in {"Q": query, "K": key, "V": value}.items()),
        ]
    )
    worked = "\n\n".join(
        [
            "The scores Q K^T, then divided by sqrt(4) = 2, then the softmax of each row, then the product with V:",
            *(
                shown(name, each)
                for name, each in {"QK^T": scores, "weights": weights, "outputs": weights @ value}.items()
            ),
        ]
    )
    wrong = {
        "The scores are not divided by the root of d.": {"weights": rounded(scores.softmax(dim=-1))},
        "The scores are divided by d, not by its root.": {"weights": rounded((scores / 4).softmax(dim=-1))},
        "The softmax goes down the columns; it goes along the rows.": {"weights": rounded((scores / 2).softmax(dim=0))},
    }
    return Question(text, {"weights": rounded(weights), "outputs": rounded(weights @ value)}, worked, wrong)


def averages(random: Random) -> Question:
    first, second = random.sample(range(1, 4), 2)
    share = random.choice([0.25, 0.4, 0.75])
    matrix = [[1 / 3] * 3, [0.0] * 3, [0.0] * 3]
    matrix[1][first - 1] = matrix[1][second - 1] = 0.5
    matrix[2][first - 1], matrix[2][second - 1] = share, 1 - share
    text = f"""X has three rows. Row 1 of Y is the mean of all rows of X, row 2 the mean of rows {first} and {second},
    and row 3 is {share:g} times row {first} plus {1 - share:g} times row {second}. Write the matrix A with
    Y = A X. With Q, K and V (L x d), attention makes such a matrix from the data: write the product of two
    of them that has the scores before any scaling, in the form AB^T, and the shape of these scores as
    [rows, columns] for L = 7 and d = 3."""
    worked = (
        "Row i of A has the weights of the rows of X that make row i of Y. Scores are Q K^T: each query with each key."
    )
    return Question(
        text,
        {"A": matrix, "scores": "QK^T", "shape": [7, 7]},
        worked,
        {
            "This is the transpose: rows of A belong to rows of Y.": {
                "A": [list(each) for each in zip(*matrix, strict=True)]
            }
        },
    )


def shapes(random: Random) -> Question:
    batch, time, heads, head = (
        random.randint(2, 9),
        random.randint(5, 30),
        random.choice([2, 4, 8]),
        random.choice([4, 8, 16]),
    )
    width, times = heads * head, random.randint(2, 4)
    text = f"""A batch of {batch} texts of {time} tokens, width {width}, {heads} heads. Write each shape as a list: of
    the queries after they are split into heads; of all attention weights; of what the heads give, merged.
    Then, for one text of {time} tokens and a single head: the output's shape if each of the three
    projections has {times} times the width."""
    answers = {
        "queries": [batch, heads, time, head],
        "weights": [batch, heads, time, time],
        "merged": [batch, time, width],
        "wider": [time, times * width],
    }
    worked = f"""Heads have width {width} / {heads} = {head}. Weights: for each head, each of {time} queries has {time}
    keys. Merged, the heads are side by side again. The output of a head is as wide as its values: {times} x
    {width}."""
    return Question(text, answers, worked, {"Heads come before tokens.": {"queries": [batch, time, heads, head]}})


def parameters(random: Random) -> Question:
    width, layers, vocabulary = random.choice([8, 16, 32]), random.randint(1, 4), random.choice([20, 50, 100])
    hidden = 4 * width
    attention_, feedforward = 4 * width * width, 2 * width * hidden
    text = f"""A Transformer of width {width} with {layers} layers, {hidden} hidden numbers in each feed-forward
    network, embeddings of {vocabulary} tokens, and an output matrix of its own; no biases, no norms with
    parameters, sinusoidal positions. How many parameters do the attention of one layer, one feed-forward
    network, and the whole model have?"""
    total = layers * (attention_ + feedforward) + 2 * vocabulary * width
    worked = f"""Attention: four matrices of {width} x {width} (queries, keys, values, output): {attention_}.
    Feed-forward: {width} x {hidden} and back: {feedforward}. The model: {layers} x ({attention_} +
    {feedforward}) + 2 x {vocabulary} x {width} = {total}. The number of heads does not matter."""
    wrong = {
        "The attention has an output matrix, too.": {"attention": 3 * width * width},
        "There are two tables of the vocabulary: embeddings and the output matrix.": {
            "model": total - vocabulary * width
        },
    }
    return Question(text, {"attention": attention_, "feedforward": feedforward, "model": total}, worked, wrong)


def schedule(random: Random) -> Question:
    warmup, steps = random.choice([10, 20, 50]), random.choice([100, 200, 400])
    asked = [0, warmup // 2, warmup, (warmup + steps) // 2, steps]
    text = f"""The learning rate is 0 at step 0, linear up to its peak 1 at step {warmup}, and linear down to 0 at step
    {steps}. Draw it, and write its values at the steps {", ".join(map(str, asked))}."""
    worked = "During the warm-up: step / warmup. After it: (steps - step) / (steps - warmup)."
    values = [linear(step, warmup, steps) for step in asked]
    wrong = {
        "The decay begins at the end of the warm-up, not at step 0.": {
            "values": [step / warmup if step < warmup else (steps - step) / steps for step in asked]
        }
    }
    return Question(text, {"values": values}, worked, wrong)


def recurrence(random: Random) -> Question:
    weight, start, target = (
        random.choice([0.5, 2.0, -0.5, 3.0]),
        random.choice([1.0, 2.0, -1.0]),
        random.choice([0.0, 1.0, 3.0]),
    )
    states = [start]
    for _ in range(3):
        states.append(weight * states[-1])
    error = states[-1] - target
    gradient = error * sum(weight ** (2 - step) * states[step] for step in range(3))
    text = f"""A linear recurrent network of one number: h_t = w h_(t-1), with w = {weight:g} and h_0 = {start:g}. The
    loss is (h_3 - {target:g})^2 / 2. Compute h_3, and the derivative of the loss with respect to h_0 and to w (through
    all three steps)."""
    answers = {"h_3": states[-1], "by_h_0": error * weight**3, "by_w": gradient}
    worked = f"""h_3 = w^3 h_0 = {states[-1]:g}; the error is {error:g}. With respect to h_0: error w^3. To w: error
    (h_2 + w h_1 + w^2 h_0) = error 3 w^2 h_0 = {gradient:g}: each step adds a term with a power of w, which vanishes
    or explodes with the steps."""
    wrong = (
        {"Only the last step is counted: w is used three times.": {"by_w": error * states[2]}}
        if states[2] * error
        else {}
    )
    return Question(text, answers, worked, wrong)


def perplexity(random: Random) -> Question:
    parts = random.choices([2, 4, 5, 8, 10], k=4)
    size = random.choice([10, 50, 1000])
    value = math.prod(parts) ** 0.25
    text = f"""A model gives the four words of a text the probabilities {", ".join(f"1/{part}" for part in parts)}. What
    is its perplexity? What would be the perplexity of the best model that there can be, of one that gives
    all {size} words of the vocabulary the same probability, and of one that gives a word of the text the
    probability 0 ("infinity")?"""
    worked = f"""exp of the mean of -log p is the geometric mean of 1 / p: ({" x ".join(map(str, parts))})^(1/4) =
    {value:.4g}. The best is 1, a uniform one {size}, the worst is infinite."""
    wrong = (
        {"This is the mean of 1 / p; take the geometric mean.": {"perplexity": sum(parts) / 4}}
        if len(set(parts)) > 1
        else {}
    )
    return Question(text, {"perplexity": value, "best": 1, "uniform": size, "worst": "infinity"}, worked, wrong)


def bleu(random: Random) -> Question:
    reference = "the small dog runs in the park"
    words = reference.split()
    place = random.randrange(1, 5)
    candidate = ["the", "the", *words[place : place + 3]]
    precisions = []
    for size in (1, 2):
        ngrams, others = (
            [tuple(each[i : i + size]) for i in range(len(each) - size + 1)] for each in (candidate, words)
        )
        precisions.append(sum(min(ngrams.count(one), others.count(one)) for one in set(ngrams)) / len(ngrams))
    penalty, score = math.exp(1 - len(words) / len(candidate)), written_out.bleu(candidate, words, 2)
    text = f"""Candidate: "{" ".join(candidate)}". Reference: "{reference}". Compute the precisions of single words and
    of pairs (with clipping), the brevity penalty, and BLEU with n-grams up to 2, from 0 to 1."""
    worked = f"""Precisions {precisions[0]:.4g} and {precisions[1]:.4g}: each n-gram counts at most as often as in the
    reference. The candidate has {len(candidate)} words, the reference {len(words)}: exp(1 -
    {len(words)}/{len(candidate)}) = {penalty:.4g}. BLEU is that times the geometric mean: {score:.4g}."""
    wrong = {"The brevity penalty is missing in BLEU.": {"bleu": score / penalty}}
    return Question(
        text, {"words": precisions[0], "pairs": precisions[1], "penalty": penalty, "bleu": score}, worked, wrong
    )


def tree_of(random: Random) -> dict[str, Any]:
    """Greedy search takes the first branch, whose continuations are all unlikely."""
    best = random.choice([0.5, 0.55, 0.6])
    low, high = random.choice([0.35, 0.4]), random.choice([0.85, 0.9])
    a, b, c, d = random.sample(["sun", "rain", "snow", "wind", "fog", "hail"], 4)
    flat = {c: low, d: round(1 - low - 0.3, 2), "<eos>": 0.3}
    return {a: [best, flat], b: [round(0.95 - best, 2), {d: high, c: round(1 - high, 2)}], "<eos>": 0.05}


def beams(random: Random) -> Question:
    content = tree_of(random)
    tree = Tree(content)
    found = {}
    for width in (1, 2):
        ((best, *_),) = beam_search(tree, [[0]], tree.depth, 0, Beam(width, length_penalty=0.0, early=False))
        found[width] = tree.text(best.tokens), math.exp(best.log_probability)
    lines = []
    for word, value in content.items():
        probability, below = value if isinstance(value, list) else (value, {})
        lines.append(f"    {word} {probability:g}")
        lines += [f"        {inner} {share:g}" for inner, share in below.items()]
    text = (
        "Each word has its probability after the words above it; a word without words below it ends the "
        "text, and so does <eos>. Which texts do beam searches of width 1 and 2 return, without length "
        "normalisation, and how likely are they?\n\n" + "\n".join(lines)
    )
    worked = f"""Width 1 takes the likeliest word at each step: "{found[1][0]}", {found[1][1]:.4g}. Width 2 keeps two
    first words and compares all of their continuations: "{found[2][0]}", {found[2][1]:.4g}."""
    answers = {
        "width_1": found[1][0],
        "probability_1": found[1][1],
        "width_2": found[2][0],
        "probability_2": found[2][1],
    }
    return Question(text, answers, worked)


def by_hand(id: str, title: str, make: Any, question: str, direction: str) -> ByHand:
    return ByHand(id=id, title=title, make=make, hints=(question, direction))


EXERCISES: list[Exercise] = [
    by_hand(
        "attn.averages",
        "averages as products of matrices",
        averages,
        "What does row i of a product A X consist of?",
        "Row i of A holds the weights of the rows of X.",
    ),
    by_hand(
        "attn.by_hand",
        "attention of three tokens",
        attention,
        "Which number do you divide the scores by, if d is 4?",
        "Scores, division, a softmax for each row, and a weighted mean of the rows of V.",
    ),
    by_hand(
        "mask.shapes",
        "shapes in an attention layer",
        shapes,
        "How wide is one head?",
        "Every query has a weight for every key, in every head of every text.",
    ),
    by_hand(
        "model.parameters",
        "counting parameters",
        parameters,
        "How many matrices does an attention layer have?",
        "Heads split a matrix, they do not add parameters.",
    ),
    by_hand(
        "train.schedule",
        "a learning rate with warm-up",
        schedule,
        "How many steps does the decay take?",
        "Two lines, which meet at the end of the warm-up.",
    ),
    by_hand(
        "rnn.gradient",
        "a gradient through time",
        recurrence,
        "In how many places is w used?",
        "The chain rule, once for each use of w, and the sum of these.",
    ),
    by_hand(
        "lm.by_hand",
        "perplexity by hand",
        perplexity,
        "What is the perplexity of a fair die?",
        "The geometric mean of one over each probability.",
    ),
    by_hand(
        "decode.tree",
        "beam search on a drawn tree",
        beams,
        "What has greedy search given up after its first word?",
        "At each step, keep the best sums of logarithms (or products of probabilities).",
    ),
    by_hand(
        "decode.bleu_by_hand",
        "BLEU by hand",
        bleu,
        "How often does 'the' count, if the reference has it twice?",
        "Two clipped precisions, their geometric mean, and a penalty for being shorter.",
    ),
]
