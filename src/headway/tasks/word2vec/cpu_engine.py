"""Learning word vectors on a CPU: compiled by numba, a word at a time, on all cores.

Skip-gram: each of the words around is looked from, the one in the middle is looked for. CBOW: the mean of the words
around is looked from. What is looked from may be made of several rows (the n-grams of a word, the words around): the
gradient of their mean is added to each of them, as word2vec and fastText have it, so that the mean moves as far as a
single row would. The negatives of a word in the middle serve all of its pairs.

Where a word has several rows, these are gathered when the window reaches it, and moved when the window has left it: so
that n-grams, of which a word has many, are read and written once. Cores write to the same matrices without asking each
other (Recht et al. 2011, https://arxiv.org/abs/1106.5730): few of them meet. With one core, the order is fixed, and so
is the result.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int64, njit, uint64

GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
LOW = 0xFFFFFFFF
SHARES = 4  # of a stretch, for each thread
FULL, NEGATIVE, HIERARCHICAL = 0, 1, 2
compiled: Any = njit(fastmath=True, nogil=True, error_model="numpy")  # anew each time: its cache would be a pickle
inlined: Any = njit(inline="always", fastmath=True, error_model="numpy")


class Text(NamedTuple):
    """What is read: see tasks/word2vec/windows."""

    tokens: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    kept: np.ndarray  # (V,) of 2^32 chances
    border: int  # the token at which a text ends and the next one begins; below zero: there is none


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

    @property
    def plain(self) -> bool:
        """Whether each word has one row, its own."""
        return np.array_equal(self.units, np.arange(len(self.unit_starts) - 1))


@inlined
def mixed(number):  # type: ignore[no-untyped-def]
    """64 bits that look like chance, of a number (Steele et al. 2014, https://doi.org/10.1145/2714064.2660195)."""
    number = (number ^ (number >> uint64(30))) * uint64(FIRST)
    number = (number ^ (number >> uint64(27))) * uint64(SECOND)
    return number ^ (number >> uint64(31))


def key_of(seed: int, epoch: int) -> np.uint64:
    return np.uint64(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])


class Threads:
    def __init__(self, text: Text, plan: Plan, inputs: np.ndarray, outputs: np.ndarray, threads: int):
        self.text, self.plan, self.inputs, self.outputs, self.threads = text, plan, inputs, outputs, threads
        self.compiled, self.pool = learner(plan.cbow, plan.kind, plan.plain), ThreadPoolExecutor(threads)

    def learn(self, first: int, last: int, rate: float, key: np.uint64) -> tuple[float, int]:
        borders = self.shares(first, last)

        def work(place: int) -> tuple[float, int]:
            own = borders[place], borders[place + 1]
            return self.compiled(self.text, self.plan, self.inputs, self.outputs, *own, rate, key)

        total, count = (sum(each) for each in zip(*self.pool.map(work, range(len(borders) - 1)), strict=True))
        return total, int(count)

    def shares(self, first: int, last: int) -> list[int]:
        """Borders between texts with about as many words each; more shares than threads, so that none has to wait."""
        ends = np.cumsum(self.text.sizes[first:last])
        wanted = np.linspace(0, ends[-1], SHARES * self.threads + 1)[1:-1]
        return [first, *(first + np.searchsorted(ends, wanted)).tolist(), last]


@cache
def learner(cbow: bool, kind: int, plain: bool) -> Any:
    """Compiled for what is learned alone: all of it together would take twice as long to compile, and more memory.

    Where words are ``plain``, the rows themselves are looked from and moved, else what is gathered of them.
    """
    towards = TOWARDS[kind]

    @inlined
    def slot_of(words, place, ring):  # type: ignore[no-untyped-def]
        return words[place] if plain else place % ring

    @inlined
    def add(gradient, means, moved, slot):  # type: ignore[no-untyped-def]
        for place in range(len(gradient)):
            means[slot, place] += gradient[place]
            if not plain:
                moved[slot, place] += gradient[place]

    @inlined
    def mean_of(words, middle, low, high, plan, means, mean, ring):  # type: ignore[no-untyped-def]
        """Of all rows of the words around."""
        rows = 0
        for place in range(mean.shape[1]):
            mean[0, place] = 0
        for other in range(low, high):
            if other != middle:
                own = plan.unit_starts[words[other] + 1] - plan.unit_starts[words[other]]
                slot = slot_of(words, other, ring)
                rows += own
                for place in range(mean.shape[1]):
                    mean[0, place] += float32(own) * means[slot, place]
        share = float32(1) / float32(rows)
        for place in range(mean.shape[1]):
            mean[0, place] *= share

    @compiled
    def learn_text(words, chances, plan, inputs, outputs, rate, room):  # type: ignore[no-untyped-def]
        means, moved, mean, gradient, drawn, logits = room
        ring, read, loss, count = 2 * plan.window + 1, len(words), 0.0, 0
        for place in range(0 if plain else min(plan.window, read)):
            gather(words[place], plan, inputs, means, moved, place % ring)
        for middle in range(read):
            if not plain and middle > plan.window:
                scatter(words[middle - plan.window - 1], plan, inputs, moved, (middle - plan.window - 1) % ring)
            if not plain and middle + plan.window < read:
                gather(words[middle + plan.window], plan, inputs, means, moved, (middle + plan.window) % ring)
            chance = chances[middle]
            reach = 1 + int64((chance & uint64(LOW)) % uint64(plan.window))
            low, high = max(0, middle - reach), min(read, middle + reach + 1)
            if high - low < 2:
                continue
            if kind == NEGATIVE:
                for number in range(plan.negatives):
                    chance = mixed(chance + uint64(GOLDEN))
                    drawn[number] = draw(chance, plan.stays, plan.instead)
            if cbow:
                mean_of(words, middle, low, high, plan, means, mean, ring)
                loss += towards(words[middle], plan, outputs, drawn, mean, 0, gradient, logits, rate)
                count += 1
                for other in range(low, high):
                    if other != middle:
                        add(gradient, means, moved, slot_of(words, other, ring))
                gradient[:] = 0
            else:
                for other in range(low, high):
                    if other != middle:
                        slot = slot_of(words, other, ring)
                        loss += towards(words[middle], plan, outputs, drawn, means, slot, gradient, logits, rate)
                        count += 1
                        add(gradient, means, moved, slot)
                        gradient[:] = 0
        for place in range(read if plain else max(0, read - plan.window - 1), read):
            scatter(words[place], plan, inputs, moved, place % ring)
        return loss, count

    @compiled
    def learn(text, plan, inputs, outputs, first, last, rate, key):  # type: ignore[no-untyped-def]
        """Texts ``first`` to ``last``; gives the sum of the losses, and how many there were."""
        size = 1
        for row in range(first, last):
            size = max(size, text.sizes[row])
        words, chances = np.empty(size, np.int64), np.empty(size, np.uint64)
        ring, width = 2 * plan.window + 1, inputs.shape[1]  # words that are gathered at once
        room = (
            inputs if plain else np.empty((ring, width), np.float32),
            np.empty((1 if plain else ring, width), np.float32),
            np.empty((1, width), np.float32),
            np.zeros(width, np.float32),
            np.empty(plan.negatives, np.int64),
            np.empty(outputs.shape[0] if kind == FULL else 1, np.float32),
        )
        loss, count = 0.0, 0
        for row in range(first, last):
            place, end = text.starts[row], text.starts[row] + text.sizes[row]
            while place < end:
                place, read = read_text(text, place, end, key, words, chances)
                more, pairs = learn_text(words[:read], chances[:read], plan, inputs, outputs, rate, room)
                loss, count = loss + more, count + pairs
        return loss, count

    return learn


@inlined
def read_text(text, place, end, key, words, chances):  # type: ignore[no-untyped-def]
    """Up to the next border, the words that are learned from, and their chances; gives where to go on, and how many."""
    read = 0
    while place < end:
        word, chance = int64(text.tokens[place]), mixed(key + uint64(place) * uint64(GOLDEN))
        place += 1
        if word == text.border:
            break
        if (chance >> uint64(32)) < text.kept[word]:
            words[read], chances[read] = word, chance
            read += 1
    return place, read


@inlined
def draw(chance, stays, instead):  # type: ignore[no-untyped-def]
    place = int64(((chance >> uint64(32)) * uint64(len(stays))) >> uint64(32))
    return place if (chance & uint64(LOW)) < stays[place] else instead[place]


@inlined
def gather(word, plan, inputs, means, moved, slot):  # type: ignore[no-untyped-def]
    """The mean of the rows of a word; from here on, how far it moves is written down."""
    first, last = plan.unit_starts[word], plan.unit_starts[word + 1]
    for place in range(means.shape[1]):
        means[slot, place], moved[slot, place] = 0, 0
    for unit in range(first, last):
        row = plan.units[unit]
        for place in range(means.shape[1]):
            means[slot, place] += inputs[row, place]
    share = float32(1) / float32(last - first)
    for place in range(means.shape[1]):
        means[slot, place] *= share


@inlined
def scatter(word, plan, inputs, moved, slot):  # type: ignore[no-untyped-def]
    for unit in range(plan.unit_starts[word], plan.unit_starts[word + 1]):
        row = plan.units[unit]
        for place in range(moved.shape[1]):
            inputs[row, place] += moved[slot, place]


# Make a target likelier: move the outputs, add to ``gradient`` what moves the inputs, and give the loss. The logarithms
# of the chances are one of their product.


@inlined
def towards_beside_others(target, plan, outputs, drawn, hidden, slot, gradient, logits, rate):  # type: ignore[no-untyped-def]
    product, loss = 1.0, 0.0
    for number in range(-1, len(drawn)):  # the first is the target itself
        row = target if number < 0 else drawn[number]
        if number < 0 or row != target:
            factor, more = decide(row, number < 0, outputs, hidden, slot, gradient, rate)
            product, loss = product * factor, loss + more
    return loss + math.log(product)


@inlined
def towards_by_turns(target, plan, outputs, drawn, hidden, slot, gradient, logits, rate):  # type: ignore[no-untyped-def]
    product, loss = 1.0, 0.0
    for place in range(plan.way_starts[target], plan.way_starts[target + 1]):
        factor, more = decide(plan.nodes[place], plan.turns[place], outputs, hidden, slot, gradient, rate)
        product, loss = product * factor, loss + more
    return loss + math.log(product)


@inlined
def decide(row, yes, outputs, hidden, slot, gradient, rate):  # type: ignore[no-untyped-def]
    """-log sigmoid(x), of the score or its opposite, is log(1 + exp(-|x|)) + max(-x, 0): the 1 + exp(-|x|), and the
    rest."""
    score = float32(0)
    for place in range(len(gradient)):
        score += hidden[slot, place] * outputs[row, place]
    small = math.exp(-abs(score))
    chance = 1 / (1 + small) if score >= 0 else small / (1 + small)
    step = float32((yes - chance) * rate)
    for place in range(len(gradient)):
        before = outputs[row, place]
        gradient[place] += step * before
        outputs[row, place] = before + step * hidden[slot, place]
    wrong = -score if yes else score
    return 1 + small, wrong if wrong > 0 else float32(0)


@inlined
def towards_of_all(target, plan, outputs, drawn, hidden, slot, gradient, logits, rate):  # type: ignore[no-untyped-def]
    """-log softmax(scores)[target]."""
    top = float32(-np.inf)
    for row in range(len(logits)):
        score = float32(0)
        for place in range(len(gradient)):
            score += hidden[slot, place] * outputs[row, place]
        logits[row] = score
        top = max(top, score)
    total = 0.0
    for row in range(len(logits)):
        total += math.exp(logits[row] - top)
    for row in range(len(logits)):
        step = float32(((row == target) - math.exp(logits[row] - top) / total) * rate)
        for place in range(len(gradient)):
            before = outputs[row, place]
            gradient[place] += step * before
            outputs[row, place] = before + step * hidden[slot, place]
    return math.log(total) + top - logits[target]


TOWARDS = {FULL: towards_of_all, NEGATIVE: towards_beside_others, HIERARCHICAL: towards_by_turns}
