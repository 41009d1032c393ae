"""Training word vectors on a CPU: compiled by numba, one word at a time, on all cores.

As in word2vec.c, skip-gram predicts the center word from each context word, CBOW from the mean of the context words.
The input vector of a word may be the mean of several rows (FastText's n-grams): the gradient of the mean is added to
each row, as word2vec and fastText do, so that the mean moves as far as a single row would. All pairs of a center word
share its negative samples.

If a word has several rows, their mean is gathered when the window reaches the word, and its change is scattered to the
rows when the window has left it, so that each row is read and written once. Threads write to the same matrices without
locks (Hogwild, Recht et al. 2011, https://arxiv.org/abs/1106.5730). With one thread the result is deterministic.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int64, njit, uint64

# Constants of SplitMix64.
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
LOW = 0xFFFFFFFF  # mask of the lower 32 bits
SHARES = 4  # the texts of a step are divided into this many shares per thread
FULL, NEGATIVE, HIERARCHICAL = 0, 1, 2
compiled: Any = njit(fastmath=True, nogil=True, error_model="numpy")  # not cached: numba's cache is a pickle
inlined: Any = njit(inline="always", fastmath=True, error_model="numpy")


class TrainingText(NamedTuple):
    """The texts to train on, see tasks/word2vec/windows."""

    tokens: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    keep: np.ndarray  # (V,): probability of keeping a word (subsampling), times 2^32
    sentence_end: int  # the token that ends a sentence; negative: there is none


class EngineConfig(NamedTuple):
    """Hyperparameters and lookup tables of an engine."""

    cbow: bool
    loss: int  # FULL, NEGATIVE or HIERARCHICAL
    window: int
    negatives: int
    probability: np.ndarray  # alias table of the negative samples
    alias: np.ndarray
    row_starts: np.ndarray  # (V + 1,): the input rows of each word are rows[row_starts[word] : row_starts[word + 1]]
    rows: np.ndarray
    path_starts: np.ndarray  # (V + 1,): the same for the Huffman path of each word:
    nodes: np.ndarray  # its inner nodes,
    codes: np.ndarray  # and whether it goes on to the first child

    @property
    def plain(self) -> bool:
        """Whether the input vector of each word is a single row."""
        return np.array_equal(self.rows, np.arange(len(self.row_starts) - 1))


@inlined
def mixed(number):  # type: ignore[no-untyped-def]
    """64 random bits from a counter: SplitMix64 (Steele et al. 2014, https://doi.org/10.1145/2714064.2660195)."""
    number = (number ^ (number >> uint64(30))) * uint64(FIRST)
    number = (number ^ (number >> uint64(27))) * uint64(SECOND)
    return number ^ (number >> uint64(31))


def epoch_key(seed: int, epoch: int) -> np.uint64:
    """The random numbers of an epoch are a function of this key and the position in the text."""
    return np.uint64(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])


class CpuEngine:
    def __init__(self, text: TrainingText, config: EngineConfig, inputs: np.ndarray, outputs: np.ndarray, threads: int):
        self.text, self.config, self.inputs, self.outputs, self.threads = text, config, inputs, outputs, threads
        self.learn_texts, self.pool = learner(config.cbow, config.loss, config.plain), ThreadPoolExecutor(threads)

    def learn(self, first: int, last: int, rate: float, key: np.uint64) -> tuple[float, int]:
        bounds = self.shares(first, last)

        def work(share: int) -> tuple[float, int]:
            own = bounds[share], bounds[share + 1]
            return self.learn_texts(self.text, self.config, self.inputs, self.outputs, *own, rate, key)

        total, count = (sum(each) for each in zip(*self.pool.map(work, range(len(bounds) - 1)), strict=True))
        return total, int(count)

    def shares(self, first: int, last: int) -> list[int]:
        """Bounds of shares with about equally many words; more shares than threads, so that no thread has to wait."""
        ends = np.cumsum(self.text.sizes[first:last])
        targets = np.linspace(0, ends[-1], SHARES * self.threads + 1)[1:-1]
        return [first, *(first + np.searchsorted(ends, targets)).tolist(), last]


@cache
def learner(cbow: bool, loss: int, plain: bool) -> Any:
    """Compiled for one combination: a general function would take twice as long to compile, and more memory.

    If words are ``plain``, the input rows are used and updated in place, else the gathered means.
    """
    update = UPDATES[loss]

    @inlined
    def slot_of(words, position, ring):  # type: ignore[no-untyped-def]
        return words[position] if plain else position % ring

    @inlined
    def add(gradient, means, moved, slot):  # type: ignore[no-untyped-def]
        for d in range(len(gradient)):
            means[slot, d] += gradient[d]
            if not plain:
                moved[slot, d] += gradient[d]

    @inlined
    def context_mean(words, center, low, high, config, means, mean, ring):  # type: ignore[no-untyped-def]
        """Of all rows of the context words."""
        rows = 0
        for d in range(mean.shape[1]):
            mean[0, d] = 0
        for context in range(low, high):
            if context != center:
                own = config.row_starts[words[context] + 1] - config.row_starts[words[context]]
                slot = slot_of(words, context, ring)
                rows += own
                for d in range(mean.shape[1]):
                    mean[0, d] += float32(own) * means[slot, d]
        share = float32(1) / float32(rows)
        for d in range(mean.shape[1]):
            mean[0, d] *= share

    @compiled
    def learn_sentence(words, bits, config, inputs, outputs, rate, buffers):  # type: ignore[no-untyped-def]
        means, moved, mean, gradient, negatives, logits = buffers
        ring, length, total, count = 2 * config.window + 1, len(words), 0.0, 0
        for position in range(0 if plain else min(config.window, length)):
            gather(words[position], config, inputs, means, moved, position % ring)
        for center in range(length):
            if not plain and center > config.window:
                scatter(words[center - config.window - 1], config, inputs, moved, (center - config.window - 1) % ring)
            if not plain and center + config.window < length:
                gather(words[center + config.window], config, inputs, means, moved, (center + config.window) % ring)
            random = bits[center]  # the lower half serves the window; read_sentence subsampled with the upper half
            reach = 1 + int64((random & uint64(LOW)) % uint64(config.window))
            low, high = max(0, center - reach), min(length, center + reach + 1)
            if high - low < 2:
                continue
            if loss == NEGATIVE:
                for number in range(config.negatives):
                    random = mixed(random + uint64(GOLDEN))
                    negatives[number] = draw(random, config.probability, config.alias)
            if cbow:
                context_mean(words, center, low, high, config, means, mean, ring)
                total += update(words[center], config, outputs, negatives, mean, 0, gradient, logits, rate)
                count += 1
                for context in range(low, high):
                    if context != center:
                        add(gradient, means, moved, slot_of(words, context, ring))
                gradient[:] = 0
            else:
                for context in range(low, high):
                    if context != center:
                        slot = slot_of(words, context, ring)
                        total += update(words[center], config, outputs, negatives, means, slot, gradient, logits, rate)
                        count += 1
                        add(gradient, means, moved, slot)
                        gradient[:] = 0
        for position in range(length if plain else max(0, length - config.window - 1), length):
            scatter(words[position], config, inputs, moved, position % ring)
        return total, count

    @compiled
    def learn_texts(text, config, inputs, outputs, first, last, rate, key):  # type: ignore[no-untyped-def]
        """Train on the texts from ``first`` to ``last``; return the sum of the losses and their number."""
        size = 1
        for row in range(first, last):
            size = max(size, text.sizes[row])
        words, bits = np.empty(size, np.int64), np.empty(size, np.uint64)
        ring = 2 * config.window + 1  # words gathered at the same time
        width = inputs.shape[1]
        buffers = (
            inputs if plain else np.empty((ring, width), np.float32),  # means
            np.empty((1 if plain else ring, width), np.float32),  # moved
            np.empty((1, width), np.float32),  # mean
            np.zeros(width, np.float32),  # gradient
            np.empty(config.negatives, np.int64),  # negatives
            np.empty(outputs.shape[0] if loss == FULL else 1, np.float32),  # logits
        )
        total, count = 0.0, 0
        for row in range(first, last):
            position, end = text.starts[row], text.starts[row] + text.sizes[row]
            while position < end:
                position, read = read_sentence(text, position, end, key, words, bits)
                more, pairs = learn_sentence(words[:read], bits[:read], config, inputs, outputs, rate, buffers)
                total, count = total + more, count + pairs
        return total, count

    return learn_texts


@inlined
def read_sentence(text, position, end, key, words, bits):  # type: ignore[no-untyped-def]
    """The words of the next sentence that subsampling keeps, with their random bits; returns the position after it, and
    the number of words."""
    read = 0
    while position < end:
        word, random = int64(text.tokens[position]), mixed(key + uint64(position) * uint64(GOLDEN))
        position += 1
        if word == text.sentence_end:
            break
        if (random >> uint64(32)) < text.keep[word]:
            words[read], bits[read] = word, random
            read += 1
    return position, read


@inlined
def draw(random, probability, alias):  # type: ignore[no-untyped-def]
    """A sample of an alias table."""
    index = int64(((random >> uint64(32)) * uint64(len(probability))) >> uint64(32))
    return index if (random & uint64(LOW)) < probability[index] else alias[index]


@inlined
def gather(word, config, inputs, means, moved, slot):  # type: ignore[no-untyped-def]
    """The mean of the rows of a word; ``moved`` collects its change from here on."""
    first, last = config.row_starts[word], config.row_starts[word + 1]
    for d in range(means.shape[1]):
        means[slot, d], moved[slot, d] = 0, 0
    for index in range(first, last):
        row = config.rows[index]
        for d in range(means.shape[1]):
            means[slot, d] += inputs[row, d]
    share = float32(1) / float32(last - first)
    for d in range(means.shape[1]):
        means[slot, d] *= share


@inlined
def scatter(word, config, inputs, moved, slot):  # type: ignore[no-untyped-def]
    """Add the change of a word's mean to each of its rows."""
    for index in range(config.row_starts[word], config.row_starts[word + 1]):
        row = config.rows[index]
        for d in range(moved.shape[1]):
            inputs[row, d] += moved[slot, d]


# A training step towards a target: update the output vectors, add the step of the hidden vector to ``gradient``, and
# return the loss. ``gradient`` is a step: already multiplied by the rate, it points downhill and is added. A sum of
# log(1 + exp(-|x|)) is computed as the log of a product.


@inlined
def negative_update(target, config, outputs, negatives, hidden, slot, gradient, logits, rate):  # type: ignore[no-untyped-def]
    product, loss = 1.0, 0.0
    for number in range(-1, len(negatives)):  # -1 is the target itself
        row = target if number < 0 else negatives[number]
        if number < 0 or row != target:
            factor, more = binary_update(row, number < 0, outputs, hidden, slot, gradient, rate)
            product, loss = product * factor, loss + more
    return loss + math.log(product)


@inlined
def hierarchical_update(target, config, outputs, negatives, hidden, slot, gradient, logits, rate):  # type: ignore[no-untyped-def]
    product, loss = 1.0, 0.0
    for step in range(config.path_starts[target], config.path_starts[target + 1]):
        factor, more = binary_update(config.nodes[step], config.codes[step], outputs, hidden, slot, gradient, rate)
        product, loss = product * factor, loss + more
    return loss + math.log(product)


@inlined
def binary_update(row, yes, outputs, hidden, slot, gradient, rate):  # type: ignore[no-untyped-def]
    """One binary prediction: update the output vector of ``row``, and add to ``gradient``.

    The loss is -log sigmoid(x) = log(1 + exp(-|x|)) + max(-x, 0), with x the logit, or its negative if not ``yes``.
    Returns 1 + exp(-|x|) and max(-x, 0).
    """
    logit = float32(0)
    for d in range(len(gradient)):
        logit += hidden[slot, d] * outputs[row, d]
    small = math.exp(-abs(logit))
    probability = 1 / (1 + small) if logit >= 0 else small / (1 + small)
    step = float32((yes - probability) * rate)
    for d in range(len(gradient)):
        before = outputs[row, d]
        gradient[d] += step * before
        outputs[row, d] = before + step * hidden[slot, d]
    wrong = -logit if yes else logit
    return 1 + small, wrong if wrong > 0 else float32(0)


@inlined
def full_update(target, config, outputs, negatives, hidden, slot, gradient, logits, rate):  # type: ignore[no-untyped-def]
    """-log softmax(logits)[target]."""
    top = float32(-np.inf)
    for row in range(len(logits)):
        logit = float32(0)
        for d in range(len(gradient)):
            logit += hidden[slot, d] * outputs[row, d]
        logits[row] = logit
        top = max(top, logit)
    total = 0.0
    for row in range(len(logits)):
        total += math.exp(logits[row] - top)
    for row in range(len(logits)):
        step = float32(((row == target) - math.exp(logits[row] - top) / total) * rate)
        for d in range(len(gradient)):
            before = outputs[row, d]
            gradient[d] += step * before
            outputs[row, d] = before + step * hidden[slot, d]
    return math.log(total) + top - logits[target]


UPDATES = {FULL: full_update, NEGATIVE: negative_update, HIERARCHICAL: hierarchical_update}
