"""By hand: embeddings, preferences, mixtures, parallel training, and what pictures of training show."""

import math
from itertools import pairwise
from random import Random
from typing import Any

from headway.learn import written_out
from headway.learn.answers import Question, rows
from headway.learn.exercise import Exercise
from headway.learn.tracks.by_hand import by_hand
from headway.tasks.word2vec.ngrams import Ngrams


def softmax(random: Random) -> Question:
    own = [random.choice([-1, 1, 2]) for _ in range(2)]
    outputs = [[random.choice([-1, 0, 1, 2]) for _ in range(2)] for _ in range(3)]
    products = [sum(a * b for a, b in zip(own, row, strict=True)) for row in outputs]
    powers = [math.exp(product) for product in products]
    shares = [power / sum(powers) for power in powers]
    text = f"""The input vector of word j is {own}; the output vectors of words 1, 2 and 3 are {outputs[0]},
    {outputs[1]} and {outputs[2]}. Compute P(i | j) for i = 1, 2, 3, with a softmax over these three words."""
    worked = (
        f"Products: {products}; exp of each, divided by their sum: {', '.join(f'{share:.4g}' for share in shares)}."
    )
    return Question(text, {"probabilities": shares}, worked)


def objective(random: Random) -> Question:
    window, negatives, words = random.randint(1, 3), random.randint(2, 10), random.randint(20, 60)
    pairs = sum(min(place, window) + min(words - 1 - place, window) for place in range(words))
    text = f"""Skip-gram with windows of 2c + 1 words, c = {window}, {negatives} negatives for each pair, on a text of
    {words} words. Away from the ends: how many pairs does a centre word have, and how many terms log
    sigmoid(...)? And how many pairs are there in the whole text, where windows are cut at both ends?"""
    worked = f"""2c = {2 * window} pairs, each with 1 + {negatives} terms: {2 * window * (1 + negatives)}. In the text,
    2c n - c (c + 1) = {pairs} pairs."""
    answers = {"pairs": 2 * window, "terms": 2 * window * (1 + negatives), "in_text": pairs}
    return Question(
        text, answers, worked, {"At the ends of the text, windows are shorter.": {"in_text": 2 * window * words}}
    )


def cosine(random: Random) -> Question:
    one, two = ([random.choice([1, 2, 3, -1]) for _ in range(3)] for _ in "ab")
    product = sum(a * b for a, b in zip(one, two, strict=True))
    lengths = [math.sqrt(sum(a * a for a in each)) for each in (one, two)]
    value = product / math.prod(lengths)
    text = f"Compute the cosine similarity of {one} and {two}, and that of the first vector times 10 with the second."
    worked = (
        f"{product} / ({lengths[0]:.4g} x {lengths[1]:.4g}) = {value:.4g}. Lengths do not matter: it stays the same."
    )
    wrong = (
        {"Lengths are divided out: ten times a vector has the same cosine.": {"times_ten": 10 * value}}
        if product
        else {}
    )
    return Question(text, {"cosine": value, "times_ten": value}, worked, wrong)


def units(random: Random) -> Question:
    word = random.choice(["where", "trees", "house", "under", "light", "words"])
    found = Ngrams(4, 6).of(word)
    text = f"""Write FastText's units of the word "{word}" for n-grams of 4 to 6 letters, with < and > at its borders,
    as a list of words in quotes, in any order, and without the whole word."""
    worked = f"The n-grams of <{word}>: {', '.join(found)}."
    inner = set(Ngrams(4, 6).of(word)) - {each for each in found if each[0] == "<" or each[-1] == ">"}
    return Question(
        text, {"units": set(found)}, worked, {"The borders < and > belong to n-grams, too.": {"units": inner}}
    )


def bradley_terry(random: Random) -> Question:
    first, second = random.choice([0.5, 1.0, 2.0]), random.choice([-1.0, 0.0, 1.5])
    probability = 1 / (1 + math.exp(second - first))
    text = f"""A reward model gives two answers the rewards {first:g} and {second:g}. What is the probability
    that the first one is preferred (Bradley-Terry)? What is the loss if it is, and if the second one is?"""
    worked = f"""sigmoid({first:g} - {second:g}) = {probability:.4g}. The losses are -log of it,
    {-math.log(probability):.4g}, and -log of the rest, {-math.log(1 - probability):.4g}."""
    answers = {
        "probability": probability,
        "loss_first": -math.log(probability),
        "loss_second": -math.log(1 - probability),
    }
    return Question(
        text,
        answers,
        worked,
        {
            "The rewards are not probabilities: take the sigmoid of their difference.": {
                "probability": first / (first + second) if first + second else 0.0
            }
        },
    )


def clip(random: Random) -> Question:
    epsilon, size = random.choice([0.1, 0.2, 0.3]), random.choice([1, 2, 3])
    high, low = round(1 + 2 * epsilon, 2), round(1 - 2 * epsilon, 2)
    cases = [(high, size), (low, size), (high, -size), (low, -size)]
    gains = [min(ratio * gain, min(max(ratio, 1 - epsilon), 1 + epsilon) * gain) for ratio, gain in cases]
    slopes = ["no" if (ratio > 1) == (gain > 0) else "yes" for ratio, gain in cases]
    listed = "; ".join(f"ratio {ratio:g}, advantage {gain:g}" for ratio, gain in cases)
    text = f"""PPO with a clip range of {epsilon:g}. Write the gain min(rho A, clip(rho) A) in these four cases:
    {listed}. And in which of them is there still a gradient, "yes" or "no"?"""
    worked = f"""Gains: {", ".join(f"{gain:g}" for gain in gains)}. A ratio that has already moved where the advantage
    wants it gains no more and has no gradient; one that has moved the wrong way is not clipped."""
    clipped = [min(max(ratio, 1 - epsilon), 1 + epsilon) * gain for ratio, gain in cases]
    return Question(
        text,
        {"gains": gains, "gradient": slopes},
        worked,
        {"The ratio is not always clipped: take the smaller one of both products.": {"gains": clipped}},
    )


def shares(random: Random) -> Question:
    sizes, alpha = random.choice([[1000, 10], [800, 50], [90, 10], [10000, 100]]), random.choice([0.5, 0.3, 0.7])
    powers = [size**alpha for size in sizes]
    plain, tempered = sizes[1] / sum(sizes), powers[1] / sum(powers)
    text = f"""English has {sizes[0]} million words, Swahili {sizes[1]}. What is Swahili's share in proportion to the
    sizes, and with shares proportional to n^{alpha:g}? How many times more often is each Swahili text read
    then, in a training of the same length?"""
    worked = f"""{sizes[1]} / {sum(sizes)} = {plain:.4g}. {sizes[1]}^{alpha:g} / (sum of both powers) = {tempered:.4g}:
    {tempered / plain:.4g} times as often."""
    return Question(text, {"proportional": plain, "tempered": tempered, "times": tempered / plain}, worked)


def all_reduce(random: Random) -> Question:
    workers, millions, size = random.choice([2, 4, 8]), random.choice([10, 50, 120]), random.choice([2, 4])
    total = millions * size
    sent = 2 * (workers - 1) / workers * total
    text = f"""{workers} workers train a model of {millions} million parameters; each gradient takes {size} bytes. How
    many million bytes are all gradients of one worker? How many million bytes does each worker send in a
    ring all-reduce? And how many would it send if every worker sent all of its gradients to every other
    one?"""
    worked = f"""{millions} x {size} = {total}. A ring: a reduce-scatter and an all-gather, each of (n - 1) / n of the
    data: 2 x {workers - 1}/{workers} x {total} = {sent:g}. To all others: {workers - 1} x {total} =
    {(workers - 1) * total}."""
    answers = {"gradients": float(total), "ring": sent, "to_all": float((workers - 1) * total)}
    return Question(
        text, answers, worked, {"There are two rounds: a reduce-scatter and an all-gather.": {"ring": sent / 2}}
    )


def neighbours(random: Random) -> Question:
    before, after = random.randint(1, 3), random.randint(1, 2)
    pieces, length = random.choice([2, 4]), random.choice([64, 128])
    text = f"""An MLP reads each position with the {before} before it and the {after} after it. Which kind of parallel
    training does this disturb: data (each worker has whole texts), pipeline (each worker has some of the
    layers) or sequence (each worker has some of the positions)? A text of {length} positions is cut into
    {pieces} equal pieces: how many vectors must a worker with a piece in the middle (or, with two pieces,
    the first one) receive from others before this MLP?"""
    count = before + after if pieces > 2 else after
    worked = f"""Workers with whole texts have all neighbours. With pieces of a text, those at the borders belong to
    others: {count} vectors have to come from them, in every layer."""
    return Question(
        text,
        {"kind": "sequence", "vectors": count},
        worked,
        {"In data-parallel training, each worker has whole texts, and so all neighbours.": {"kind": "data"}},
    )


def dashboard(random: Random) -> Question:
    steps = (0, 100, 200, 300)
    kinds = {
        "learns": ([0.1, 0.8, 1.3, 1.5], [0.1, 0.7, 1.1, 1.2], [0.0, 2.1, 4.0, 5.2], [40, 44, 47, 48]),
        "hacks": ([0.1, 1.2, 2.9, 4.8], [0.1, 0.6, 0.2, -0.7], [0.0, 8.3, 31.0, 77.0], [40, 66, 121, 200]),
        "stands still": ([0.1, 0.1, 0.2, 0.1], [0.1, 0.1, 0.1, 0.1], [0.0, 0.0, 0.1, 0.0], [40, 40, 41, 40]),
        "breaks": ([0.1, -0.6, -1.9, -2.4], [0.1, -0.5, -1.6, -2.0], [0.0, 22.0, 60.0, 95.0], [40, 12, 3, 1]),
    }
    order = random.sample(list(kinds), 4)
    blocks = []
    for letter, kind in zip("ABCD", order, strict=True):
        columns = zip(steps, *kinds[kind], strict=True)
        lines = "\n".join(
            f"    {step:>5}{reward:>8g}{human:>8g}{kl:>8g}{length:>8g}" for step, reward, human, kl, length in columns
        )
        blocks.append(f"    {letter}: step  reward  judges      KL  length\n{lines}")
    text = (
        "Four runs of PPO: the mean reward of the reward model, that of human judges, the KL divergence "
        "from the reference, and the length of the answers. Which run hacks its reward, which one learns, "
        "and in which one is the learning rate (or 1 / beta) probably far too small?\n\n" + "\n\n".join(blocks)
    )
    answers = {
        name: "ABCD"[order.index(kind)]
        for name, kind in {"hacks": "hacks", "learns": "learns", "too_small": "stands still"}.items()
    }
    worked = (
        f"{answers['hacks']} hacks: its reward goes up and up while judges like it less, with a large KL and "
        f"ever longer answers. {answers['learns']} learns: both go up, at a moderate KL. In "
        f"{answers['too_small']}, the policy does not move: the KL stays 0."
    )
    return Question(text, answers, worked)


def previous(random: Random) -> Question:
    size = 5
    kinds: dict[str, Any] = {
        "previous": lambda i, j: 0.8 if j == max(i - 1, 0) else 0.2 / max(i, 1) if j <= i else 0.0,
        "first": lambda i, j: (0.9 if j == 0 else 0.1 / i if j <= i else 0.0) if i else float(j == 0),
        "itself": lambda i, j: (0.9 if j == i else 0.1 / i if j < i else 0.0) if i else float(j == 0),
        "all": lambda i, j: 1 / (i + 1) if j <= i else 0.0,
    }
    order = random.sample(list(kinds), 4)
    blocks = []
    for number, kind in enumerate(order, start=1):
        matrix = [[kinds[kind](i, j) for j in range(size)] for i in range(size)]
        matrix = [[round(value / sum(row), 2) for value in row] for row in matrix]
        blocks.append(f"    head {number}\n" + "\n".join(rows(matrix)))
    text = (
        "The attention weights of four heads (a row for each query, a column for each key). Write the number of the "
        "head that looks at the previous token, and of the one that takes the mean of all tokens so far.\n\n"
        + "\n\n".join(blocks)
    )
    answers = {"previous": order.index("previous") + 1, "mean": order.index("all") + 1}
    worked = "The head that looks back is large just below the diagonal; the mean has equal weights in each row."
    return Question(text, answers, worked)


def merges(random: Random) -> Question:
    words = random.sample(["banana", "bandana", "ananas", "panama", "canada", "savanna", "cabana"], 3)
    counts = dict(zip(words, random.sample([2, 3, 4, 5], 3), strict=True))
    pairs = written_out.merge_pairs([list(word) for word, count in counts.items() for _ in range(count)], 3)
    listed = ", ".join(f"{word} ({count} times)" for word, count in counts.items())
    text = f"""The words of a text: {listed}. Begin with single characters, and write the first three symbols that BPE
    makes. Of equally frequent pairs, take the first in the alphabet. Words are not joined across their
    borders."""
    first = {
        f"{a}{b}": sum(n * sum(pair == (a, b) for pair in pairwise(w)) for w, n in counts.items())
        for w in counts
        for a, b in pairwise(w)
    }
    listed = ", ".join(f"{pair} {count}" for pair, count in sorted(first.items(), key=lambda each: -each[1])[:4])
    worked = (
        f"The most frequent pairs at first: {listed}. Then, counted again after each merge: "
        f"{', '.join(a + b for a, b in pairs)}."
    )
    return Question(text, {"symbols": [a + b for a, b in pairs]}, worked)


EXERCISES: list[Exercise] = [
    by_hand(
        "embed.softmax",
        "the probability of a word given another",
        softmax,
        "Which vectors have to be multiplied?",
        "Products with the output vectors, exp, and divide by the sum.",
    ),
    by_hand(
        "embed.objective",
        "counting skip-gram's terms",
        objective,
        "How many neighbours does a word in the middle have?",
        "One positive and all negatives for each neighbour; the first and the last words have fewer neighbours.",
    ),
    by_hand(
        "embed.cosine",
        "cosine similarity",
        cosine,
        "What does the length of a vector change?",
        "The product, divided by both lengths.",
    ),
    by_hand(
        "embed.units_by_hand",
        "FastText's units of a word",
        units,
        "How many characters does the word have, borders included?",
        "All pieces of 4, 5 and 6 characters, those with < and > included.",
    ),
    by_hand(
        "rlhf.bradley_terry",
        "Bradley-Terry",
        bradley_terry,
        "What is the probability if both rewards are equal?",
        "The sigmoid of the difference; losses are minus logarithms.",
    ),
    by_hand(
        "rlhf.clip",
        "PPO's clip in four cases",
        clip,
        "In which cases has the ratio moved where the advantage wants it?",
        "Two products for each case, and the smaller one of them.",
    ),
    by_hand(
        "look.dashboard",
        "which run hacks its reward",
        dashboard,
        "Who should agree with the reward model?",
        "Compare both rewards, and look at KL and length.",
    ),
    by_hand(
        "look.heads",
        "which head looks at the previous token",
        previous,
        "Where in the matrix is the key just before the query?",
        "One column to the left of the diagonal.",
    ),
    by_hand(
        "multi.shares",
        "shares under a temperature",
        shares,
        "Does an exponent below 1 help the small language?",
        "Powers first, then divide by their sum.",
    ),
    by_hand(
        "parallel.all_reduce",
        "bytes of an all-reduce",
        all_reduce,
        "In how many rounds does a ring work?",
        "Each round sends (n - 1) / n of the data.",
    ),
    by_hand(
        "parallel.neighbours",
        "what an MLP with neighbours disturbs",
        neighbours,
        "Who has the neighbours of a position?",
        "Think of the positions at the border of a worker's part.",
    ),
    by_hand(
        "tokens.merges",
        "three merges of BPE",
        merges,
        "Which pair of neighbours is the most frequent?",
        "Count pairs with the counts of their words; after a merge, count again.",
    ),
]
