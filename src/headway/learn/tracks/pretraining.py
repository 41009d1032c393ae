"""Word embeddings, pre-training, and mixtures of languages."""

from typing import Any

import numpy as np
import torch

from headway.data.corruption import Masked, Row, Span, Symbols, sizes_of
from headway.learn.exercise import Args, Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers
from headway.tasks.word2vec.ngrams import Ngrams

of = Mistake.of
WORDS, CORRUPTION, MIXTURES = "headway.tasks.word2vec.model", "headway.data.corruption", "headway.data.mixtures"
SYMBOLS = Symbols(12, np.arange(4, 12), np.ones(12, bool), mask=1, cls=2, sep=3, eos=0)


def word_pairs() -> Args:
    targets = torch.tensor([0, 3, 3])
    return numbers(3, 4), numbers(5, 4), targets, torch.tensor([[1, 2], [3, 4], [0, 0]])


NEGATIVE = FillIn(
    id="embed.negative",
    title="skip-gram with negative sampling",
    task="""
    hidden (N, D) are the vectors of the centre words, outputs (V, D) the output vectors of all words,
    targets (N,) the words that were there, negatives (N, K) words drawn at random. The loss is -log
    sigmoid(w_target h) minus the sum over negatives of log sigmoid(-w_n h). A negative that equals its target does
    not count. Return a Tally: the sum over all pairs, and their number.
    """,
    hints=(
        "What should happen to the product with a word that was not there?",
        "outputs[negatives] is (N, K, D); logsigmoid of minus the products, times a mask, summed.",
    ),
    module=WORDS,
    cases=lambda: {
        "two negatives": word_pairs(),
        "one": (numbers(2, 3), numbers(4, 3), torch.tensor([0, 1]), torch.tensor([[2], [3]])),
        "none": (numbers(2, 3), numbers(4, 3), torch.tensor([0, 1]), torch.zeros(2, 0, dtype=torch.long)),
    },
    mistakes=[
        of(
            "Negatives are made likelier: their products need a minus.",
            ("logsigmoid(-negative_logits)", "logsigmoid(negative_logits)"),
        ),
        of("Negatives that equal the target are counted.", (" * counted)", ")")),
        of("The target's part is missing.", ("-F.logsigmoid(positive_logits).sum() - ", "-")),
        of("The negatives' part is missing.", (" - (F.logsigmoid(-negative_logits) * counted).sum()", "")),
        of(
            "This is the mean; a Tally holds the sum and the count.",
            ("return Tally(total, len(targets))", "return Tally(total / len(targets), len(targets))"),
        ),
        of(
            "The sign is missing: a loss is minus the log-probability.",
            ("total = -F.logsigmoid(positive_logits).sum() - (", "total = F.logsigmoid(positive_logits).sum() + ("),
        ),
        of(
            "The negatives are averaged; they are summed.",
            ("* counted).sum()", "* counted).sum() / max(negatives.shape[1], 1)"),
        ),
    ],
)
FULL = FillIn(
    id="embed.full",
    title="the probability of a word given another, over all words",
    task="""
    hidden (N, D) and outputs (V, D): the probability of word i is the softmax over all words of w_i h. Return a
    Tally of -log p(target): the sum, and the number of targets (N,).
    """,
    hints=(
        "How many products does one prediction take?",
        "All products at once: hidden @ outputs.T; then cross-entropy with a sum.",
    ),
    module=WORDS,
    cases=lambda: {"three pairs": word_pairs()[:3], "one pair": (numbers(1, 3), numbers(4, 3), torch.tensor([2]))},
    mistakes=[
        of("This is the mean; a Tally holds the sum and the count.", ('reduction="sum"', 'reduction="mean"')),
        of(
            "The softmax goes over the pairs, not over the words.",
            (
                'F.cross_entropy(hidden @ outputs.T, targets, reduction="sum")',
                "-(hidden @ outputs.T).log_softmax(dim=0).gather(1, targets[:, None]).sum()",
            ),
        ),
        of(
            "Products are divided by a root, as in attention; here they are not.",
            ("hidden @ outputs.T", "hidden @ outputs.T / hidden.shape[1] ** 0.5"),
        ),
    ],
)
UNITS = FillIn(
    id="embed.units",
    title="FastText's units of a word",
    task="""
    marked is the word between < and >. Return all its n-grams with self.least to self.most characters, by their first
    character and then by their length. < and > alone are not units.
    """,
    hints=(
        "Do the borders belong to n-grams: is '<wh' one of 'where'?",
        "Two loops: over first characters, and over sizes that still fit.",
    ),
    module="headway.tasks.word2vec.ngrams",
    cases=lambda: {
        "4 to 6": (Ngrams(4, 6), "where"),
        "3 to 3": (Ngrams(3, 3), "as"),
        "1 to 2": (Ngrams(1, 2), "ab"),
        "too short": (Ngrams(5, 6), "a"),
        "6 to 9": (Ngrams(6, 9), "where"),
    },
    mistakes=[
        of(
            "The last size is missing: it is included.",
            ("min(self.most, len(marked)) + 1)\n", "min(self.most, len(marked)))\n"),
        ),
        of(
            "The ends of the word are left out: n-grams include < and >.",
            ("for first in range(len(marked))", "for first in range(1, len(marked) - 1)"),
            ("if first + size <= len(marked) and", "if first + size <= len(marked) - 1 and"),
        ),
        of("< and > alone are not units.", (" and not (size == 1 and first in (0, len(marked) - 1))", "")),
        of(
            "Pieces at the end are too short: n-grams must fit into the word.",
            ("first + size <= len(marked) and", "True and"),
        ),
    ],
)
NEAREST = FillIn(
    id="embed.nearest",
    title="the nearest words",
    task="""
    vectors (V, D) has a row for each word. Return the indices of the ``count`` words with the highest cosine
    similarity to row ``word``, from the best on; the word itself is left out.
    """,
    hints=(
        "Does a word with a long vector come first under the cosine?",
        "Divide every row by its length; then products are cosines. Minus infinity for the word itself.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "ten words": (numbers(10, 4) * torch.arange(1, 11)[:, None], 3, 4),
        "one": (numbers(5, 3), 0, 1),
        "all others": (numbers(6, 2) * torch.tensor([[9.0], [1], [5], [1], [7], [3]]), 5, 5),
    },
    mistakes=[
        of(
            "These are products, not cosines: divide by the lengths.",
            ("vectors / vectors.norm(dim=-1, keepdim=True)", "vectors"),
        ),
        of(
            "The word itself is its own nearest: leave it out.",
            ("cosines.scatter(0, torch.tensor(word), -math.inf)", "cosines"),
        ),
        of(
            "These are the farthest words.",
            ("cosines.topk(count)", "(-cosines).nan_to_num(neginf=0, posinf=-9).topk(count)"),
        ),
        of(
            "The columns have length one, not the rows.",
            ("vectors.norm(dim=-1, keepdim=True)", "vectors.norm(dim=0, keepdim=True)"),
        ),
    ],
)


def corrupting(kind: Any, *sizes: int, seed: int = 3) -> Args:
    random = np.random.default_rng(seed)
    tokens = [random.choice(SYMBOLS.ordinary, size) for size in sizes]
    return kind, Row(np.concatenate(tokens), sizes_of(tokens), max(sizes)), SYMBOLS, random


MASKED = FillIn(
    id="pretrain.masked",
    title="masking 80/10/10, as BERT does",
    task="""
    positions are those to predict, and fate has a number from 0 to 1 for each. In inputs, a copy of the tokens:
    where fate is below self.hidden, the token becomes symbols.mask; in the next self.other, a random one, drawn
    once with random.choice(symbols.ordinary, count); the rest stays as it is.
    """,
    hints=(
        "Why are some tokens to be predicted left as they are?",
        "positions[fate < self.hidden] selects; what becomes random lies between self.hidden and the sum of both.",
    ),
    module=CORRUPTION,
    cases=lambda: {
        "two texts": corrupting(Masked(0.5), 30, 20),
        "half are random": corrupting(Masked(0.5, hidden=0.2, other=0.5), 40),
        "all are hidden": corrupting(Masked(0.3, hidden=1.0, other=0.0), 20),
    },
    mistakes=[
        of("Nothing becomes random.", ("inputs[swapped] = ", "_ = ")),
        of(
            "What stays and what becomes random are swapped.",
            ("(self.hidden <= fate) & (fate < self.hidden + self.other)", "fate >= self.hidden + self.other"),
        ),
        of(
            "All of them become [MASK].", ("positions[fate < self.hidden]", "positions"), ("inputs[swapped] = ", "_ = ")
        ),
        of("Nothing becomes [MASK].", ("inputs[positions[fate < self.hidden]] = symbols.mask", "pass")),
        of(
            "What is neither hidden nor to stay becomes random: the limit is the sum of both shares.",
            ("fate < self.hidden + self.other", "fate < self.other"),
        ),
        of(
            "The first tokens of the row are masked, not those at the positions.",
            ("inputs[positions[fate < self.hidden]]", "inputs[np.flatnonzero(fate < self.hidden)]"),
        ),
    ],
)
SPAN = FillIn(
    id="pretrain.span",
    title="span corruption, as T5 does",
    task="""
    sizes has two arrays: how many tokens are kept before each removed span, and how many the span has; kept and removed
    pieces alternate, a kept one first. Return two arrays: the source, the kept pieces, each followed by a sentinel in
    place of what was removed; and the target, each sentinel followed by what it stands for, and symbols.eos at the end.
    Sentinel i is token symbols.size + i.
    """,
    hints=(
        "Which tokens stand in both the source and the target?",
        "Stack the two arrays of sizes as columns, ravel and cumsum: the borders. np.split gives the pieces.",
    ),
    module=CORRUPTION,
    cases=lambda: {
        f"{size} tokens, {rate:.0%}": (Span(rate, mean), np.arange(4, 4 + size), SYMBOLS, np.random.default_rng(size))
        for size, rate, mean in ((30, 0.3, 3.0), (10, 0.5, 1.0), (3, 0.15, 3.0))
    },
    mistakes=[
        of(
            "The end token is missing in the target.",
            ("np.concatenate([*target, [symbols.eos]])", "np.concatenate(target)"),
        ),
        of(
            "What is kept and what is removed are swapped.",
            ("zip(parts[::2], sentinels", "zip(parts[1::2], sentinels"),
            ("zip(sentinels, parts[1::2]", "zip(sentinels, parts[::2]"),
        ),
        of(
            "In the target, the sentinel comes before its span.",
            ("for part in (sentinel, span)]", "for part in (span, sentinel)]"),
        ),
        of("All spans have the same sentinel.", ("symbols.size + number", "symbols.size + 0 * number")),
        of("The source has no sentinels.", ("for part in (kept, sentinel)]", "for part in (kept,)]")),
        of(
            "The sentinels count downwards; here the first one is symbols.size.",
            ("symbols.size + number", "symbols.size + spans - 1 - number"),
        ),
    ],
)
TEMPERATURE = FillIn(
    id="multi.temperature",
    title="shares of languages under a temperature",
    task="""
    sizes holds how much text there is of each language. Return their shares p, proportional to n^alpha: alpha is 1 for
    shares as they are, 0 for equal ones. Sizes may be as large as 1e300, and they must not overflow.
    """,
    hints=(
        "Does a small alpha help large or small languages?",
        "Divide by the largest size first, or subtract its logarithm.",
    ),
    module=MIXTURES,
    cases=lambda: {
        "three languages": (np.array([1e6, 1e4, 100.0]), 0.3),
        "as they are": (np.array([3.0, 1.0]), 1.0),
        "equal": (np.array([3.0, 1.0]), 0.0),
        "huge": (np.array([1e300, 1e299]), 2.0),
    },
    mistakes=[
        of("The exponent is one over alpha.", ("np.exp(alpha * (", "np.exp((1 / max(alpha, 1e-9)) * (")),
        of("The shares are not normalised: they must add up to 1.", ("powers / powers.sum()", "powers")),
        of("The temperature is not used: these are the shares as they are.", ("alpha * (np.log", "(np.log")),
        of(
            "This is a softmax of the sizes themselves, not of their logarithms.",
            ("(np.log(sizes) - np.log(sizes.max()))", "(sizes - sizes.max())"),
        ),
        of(
            "Large sizes overflow: divide by the largest first.",
            ("np.exp(alpha * (np.log(sizes) - np.log(sizes.max())))", "sizes * sizes ** (alpha - 1)"),
        ),
    ],
)
UNIMAX = FillIn(
    id="multi.unimax",
    title="as even as possible, without repeating too often",
    task="""
    budget is how much text is read in all. From the smallest language on, each gets an equal part of what is left,
    but at most ``epochs`` times its own size; what it cannot use is left for the larger ones. Return the shares,
    which add up to 1.
    """,
    hints=(
        "Who gets what a small language cannot use up?",
        "A loop over np.argsort(sizes), with what is left divided by the number of languages that are left.",
    ),
    module=MIXTURES,
    cases=lambda: {
        "small and large": (np.array([1000.0, 10.0, 100.0]), 900.0, 4.0),
        "enough of each": (np.array([1000.0, 900.0]), 300.0, 4.0),
        "all used up": (np.array([10.0, 20.0]), 1000.0, 2.0),
        "one": (np.array([5.0]), 7.0, 1.0),
    },
    mistakes=[
        of(
            "Nobody is limited: a small language is repeated too often.",
            ("min(left / (len(sizes) - place), epochs * sizes[index])", "left / (len(sizes) - place)"),
        ),
        of(
            "What small languages cannot use is lost: the larger ones should share it.",
            ("left -= given[index]", "left -= left / (len(sizes) - place)"),
        ),
        of("A language may be repeated for several epochs, not only once.", ("epochs * sizes[index]", "sizes[index]")),
    ],
)

EXERCISES: list[Exercise] = [FULL, NEGATIVE, UNITS, NEAREST, MASKED, SPAN, TEMPERATURE, UNIMAX]
