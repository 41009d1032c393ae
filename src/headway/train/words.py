"""Learning word vectors on a CPU: compiled by numba, a word at a time, on all cores.

Skip-gram: the word in the middle is looked from, each word around it is looked for. CBOW: the mean of the words around
is looked from, the one in the middle is looked for. What is looked from may be made of several rows (the n-grams of a
word, the words around): the gradient of their mean is added to each of them, as word2vec and fastText have it, so that
the mean moves as far as a single row would. The negatives of a word serve all of its pairs.

Cores write to the same matrices without asking each other (Recht et al. 2011, https://arxiv.org/abs/1106.5730): few of
them meet. With one core, the order is fixed, and so is the result.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int64, njit, uint64

GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
LOW = 0xFFFFFFFF
FULL, NEGATIVE, HIERARCHICAL = 0, 1, 2
compiled: Any = njit(fastmath=True, nogil=True, cache=True, error_model="numpy")
inlined: Any = njit(inline="always", fastmath=True, error_model="numpy")


class Text(NamedTuple):
    """What is read: see data/words."""

    tokens: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    kept: np.ndarray  # (V,) of 2^32 chances


class Plan(NamedTuple):
    """What is learned from it."""

    cbow: bool
    kind: int  # FULL, NEGATIVE or HIERARCHICAL
    window: int
    negatives: int
    stays: np.ndarray  # how negatives are drawn
    instead: np.ndarray
    unit_starts: np.ndarray  # (V + 1,): where the rows of each word begin
    units: np.ndarray  # all of them
    way_starts: np.ndarray  # (V + 1,): where the way to each word begins,
    nodes: np.ndarray  # the nodes on it,
    turns: np.ndarray  # and whether it turns to the first of two


@inlined
def mixed(number):  # type: ignore[no-untyped-def]
    """64 bits that look like chance, of a number (Steele et al. 2014, https://doi.org/10.1145/2714064.2660195)."""
    number = (number ^ (number >> uint64(30))) * uint64(FIRST)
    number = (number ^ (number >> uint64(27))) * uint64(SECOND)
    return number ^ (number >> uint64(31))


def key_of(seed: int, epoch: int) -> np.uint64:
    return np.uint64(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])


@compiled
def learn(text, plan, inputs, outputs, first, last, rate, key):  # type: ignore[no-untyped-def]
    """Texts ``first`` to ``last``; gives the sum of the losses, and how many there were."""
    size = 1
    for row in range(first, last):
        size = max(size, text.sizes[row])
    width = inputs.shape[1]
    words, chances = np.empty(size, np.int64), np.empty(size, np.uint64)
    hidden, gradient, moved = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    drawn = np.empty(plan.negatives, np.int64)
    scores = np.empty(outputs.shape[0] if plan.kind == FULL else 1, np.float32)
    loss, count = 0.0, 0
    for row in range(first, last):
        read = 0
        for place in range(text.starts[row], text.starts[row] + text.sizes[row]):
            word, chance = int64(text.tokens[place]), mixed(key + uint64(place) * uint64(GOLDEN))
            if (chance >> uint64(32)) < text.kept[word]:
                words[read], chances[read] = word, chance
                read += 1
        for middle in range(read):
            chance = chances[middle]
            reach = 1 + int64((chance & uint64(LOW)) % uint64(plan.window))
            low, high = max(0, middle - reach), min(read, middle + reach + 1)
            if high - low < 2:
                continue
            if plan.kind == NEGATIVE:
                for number in range(plan.negatives):
                    chance = mixed(chance + uint64(GOLDEN))
                    drawn[number] = draw(chance, plan.stays, plan.instead)
            for place in range(width):
                hidden[place], gradient[place], moved[place] = 0, 0, 0
            if plan.cbow:
                rows = 0
                for other in range(low, high):
                    if other != middle:
                        rows += gather(words[other], plan, inputs, hidden)
                divide(hidden, rows)
                loss += towards(words[middle], plan, outputs, drawn, hidden, gradient, scores, rate)
                count += 1
                for other in range(low, high):
                    if other != middle:
                        scatter(words[other], plan, inputs, gradient)
            else:
                divide(hidden, gather(words[middle], plan, inputs, hidden))
                for other in range(low, high):
                    if other != middle:
                        loss += towards(words[other], plan, outputs, drawn, hidden, gradient, scores, rate)
                        count += 1
                        for place in range(width):
                            hidden[place] += gradient[place]  # as far as the mean of its rows will move
                            moved[place] += gradient[place]
                            gradient[place] = 0
                scatter(words[middle], plan, inputs, moved)
    return loss, count


@inlined
def draw(chance, stays, instead):  # type: ignore[no-untyped-def]
    place = int64(((chance >> uint64(32)) * uint64(len(stays))) >> uint64(32))
    return place if (chance & uint64(LOW)) < stays[place] else instead[place]


@inlined
def gather(word, plan, inputs, hidden):  # type: ignore[no-untyped-def]
    """Add the rows of a word; gives how many there are."""
    for unit in range(plan.unit_starts[word], plan.unit_starts[word + 1]):
        row = plan.units[unit]
        for place in range(len(hidden)):
            hidden[place] += inputs[row, place]
    return plan.unit_starts[word + 1] - plan.unit_starts[word]


@inlined
def divide(hidden, by):  # type: ignore[no-untyped-def]
    share = float32(1) / float32(by)
    for place in range(len(hidden)):
        hidden[place] *= share


@inlined
def scatter(word, plan, inputs, gradient):  # type: ignore[no-untyped-def]
    for unit in range(plan.unit_starts[word], plan.unit_starts[word + 1]):
        row = plan.units[unit]
        for place in range(len(gradient)):
            inputs[row, place] += gradient[place]


@inlined
def towards(target, plan, outputs, drawn, hidden, gradient, scores, rate):  # type: ignore[no-untyped-def]
    """Make a target likelier: move the outputs, add to ``gradient`` what moves the inputs, and give the loss."""
    loss = 0.0
    if plan.kind == NEGATIVE:
        loss += decide(target, True, outputs, hidden, gradient, rate)
        for number in range(len(drawn)):
            if drawn[number] != target:
                loss += decide(drawn[number], False, outputs, hidden, gradient, rate)
    elif plan.kind == HIERARCHICAL:
        for place in range(plan.way_starts[target], plan.way_starts[target + 1]):
            loss += decide(plan.nodes[place], plan.turns[place], outputs, hidden, gradient, rate)
    else:
        loss += decide_all(target, outputs, hidden, gradient, scores, rate)
    return loss


@inlined
def decide(row, yes, outputs, hidden, gradient, rate):  # type: ignore[no-untyped-def]
    """-log sigmoid(score), or -log sigmoid(-score)."""
    score = float32(0)
    for place in range(len(hidden)):
        score += hidden[place] * outputs[row, place]
    small = math.exp(-abs(score))
    chance = 1 / (1 + small) if score >= 0 else small / (1 + small)
    step = float32((yes - chance) * rate)
    for place in range(len(hidden)):
        before = outputs[row, place]
        gradient[place] += step * before
        outputs[row, place] = before + step * hidden[place]
    wrong = -score if yes else score
    return math.log1p(small) + (wrong if wrong > 0 else 0.0)


@compiled
def decide_all(target, outputs, hidden, gradient, scores, rate):  # type: ignore[no-untyped-def]
    """-log softmax(scores)[target]."""
    top = float32(-np.inf)
    for row in range(len(scores)):
        score = float32(0)
        for place in range(len(hidden)):
            score += hidden[place] * outputs[row, place]
        scores[row] = score
        top = max(top, score)
    total = 0.0
    for row in range(len(scores)):
        total += math.exp(scores[row] - top)
    for row in range(len(scores)):
        step = float32(((row == target) - math.exp(scores[row] - top) / total) * rate)
        for place in range(len(hidden)):
            before = outputs[row, place]
            gradient[place] += step * before
            outputs[row, place] = before + step * hidden[place]
    return math.log(total) + top - scores[target]
