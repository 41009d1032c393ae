"""Decoding: from logits to text, and what a text is worth."""

from collections.abc import Callable

import torch
from torch import Tensor

from headway.learn.exercise import Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers

of = Mistake.of
SAMPLING = "headway.generation.sampling"
END = 0  # the end token of the made-up models


def chain(table: Tensor) -> Callable[[list[int]], Tensor]:
    """A model that looks at the last token only: row i of the table has the logits after token i."""
    return lambda tokens: table[tokens[-1]]


def log_probs(*shape: int) -> Tensor:
    return numbers(*shape).log_softmax(dim=-1)


GREEDY = FillIn(
    id="decode.greedy",
    title="greedy decoding",
    task="""
    step(tokens) gives the logits (V,) of the next token after a list of tokens. Starting from the prompt, append
    the likeliest token, at most ``most`` times, and stop at the end token eos. Return the new tokens, without the
    prompt and without eos.
    """,
    hints=(
        "What does the model read after its first new token?",
        "Append to a copy of the prompt, break at eos, and cut the prompt off.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "until the end": (chain(torch.tensor([[0, 0, 0], [0, 1, 2], [3, 1, 2]])), [1], END, 5),
        "cut off": (chain(torch.tensor([[0, 0, 0], [0, 1, 2], [0, 3, 2]])), [2, 1], END, 5),
        "ended at once": (chain(torch.tensor([[0, 0, 0], [9, 1, 2], [0, 3, 2]])), [1], END, 5),
        "nothing allowed": (chain(torch.eye(3)), [1], END, 0),
    },
    mistakes=[
        of("The prompt is returned, too.", ("tokens[len(prompt) :]", "tokens")),
        of(
            "The end token is returned, too.",
            (
                "        if token == eos:\n            break\n        tokens.append(token)",
                "        tokens.append(token)\n        if token == eos:\n            break",
            ),
        ),
        of("It does not stop at the end token.", ("if token == eos:", "if False:")),
        of("The least likely token is taken.", ("argmax", "argmin")),
        of("The model only reads the prompt: give it the new tokens, too.", ("step(tokens)", "step(list(prompt))")),
        of("One token too many.", ("range(most)", "range(most + 1)")),
    ],
)
BEAM = FillIn(
    id="decode.beam",
    title="one step of beam search",
    task="""
    W hypotheses have the log-probabilities totals (W,); their next tokens have log_probs (W, V). Of all W V extensions,
    keep the best ``width``: return their totals, from the best on, the hypotheses that they extend, and their tokens.
    """,
    hints=(
        "Can both of the best extensions come from one hypothesis?",
        "Add with broadcasting, flatten, topk; // and % with V give hypothesis and token.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "width 3": (numbers(3).cumsum(0), log_probs(3, 5), 3),
        "width 1": (numbers(1), log_probs(1, 4), 1),
        "all from one": (torch.tensor([0.0, -50.0], dtype=torch.double), log_probs(2, 6), 2),
    },
    mistakes=[
        of(
            "Only the new log-probability counts: add that of the hypothesis so far.",
            ("totals[:, None] + log_probs", "0 * totals[:, None] + log_probs"),
        ),
        of(
            "Log-probabilities are multiplied; they have to be added.",
            ("totals[:, None] + log_probs", "totals[:, None] * log_probs"),
        ),
        of(
            "Hypotheses and tokens are swapped.",
            (
                "best.indices // log_probs.shape[1], best.indices % log_probs.shape[1]",
                "best.indices % log_probs.shape[1], best.indices // log_probs.shape[1]",
            ),
        ),
        of(
            "The indices are divided by the number of hypotheses; a row has V entries.",
            ("best.indices // log_probs.shape[1]", "best.indices // log_probs.shape[0]"),
            ("best.indices % log_probs.shape[1]", "best.indices % log_probs.shape[0]"),
        ),
        of(
            "Each hypothesis has one extension; the best ones of all must compete.",
            (
                "best = sums.flatten().topk(width)",
                "best = sums.max(dim=1)\n    order = best.values.argsort(descending=True)[:width]\n    "
                "return best.values[order], order, best.indices[order]",
            ),
        ),
        of("These are the worst extensions.", ("topk(width)", "topk(width, largest=False)")),
    ],
)
LENGTH = FillIn(
    id="decode.length",
    title="length normalisation",
    task="""
    totals (N,) are log-probabilities of finished hypotheses, lengths (N,) their numbers of tokens. The score is
    log-probability / length ^ penalty. Return the indices of the hypotheses from the best score to the worst.
    """,
    hints=(
        "Does a penalty above 0 favour long or short texts?",
        "Log-probabilities are negative: dividing by more brings them closer to 0.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "a penalty of 1": (torch.tensor([-4.0, -5.0, -4.5]), torch.tensor([2.0, 5.0, 3.0]), 1.0),
        "none": (torch.tensor([-4.0, -5.0, -3.0]), torch.tensor([2.0, 5.0, 1.0]), 0.0),
        "a half": (torch.tensor([-4.0, -5.0, -4.4]), torch.tensor([3.0, 5.0, 4.0]), 0.5),
        "a short one": (torch.tensor([-1.0, -2.0]), torch.tensor([9.0, 2.0]), 1.0),
        "long and short": (torch.tensor([-8.0, -1.9, -9.0]), torch.tensor([9.0, 2.0, 10.5]), 1.0),
    },
    mistakes=[
        of("The lengths are not used.", ("totals / lengths**penalty", "totals")),
        of("The penalty is not used: this divides by the length itself.", ("lengths**penalty", "lengths")),
        of("The worst comes first.", ("descending=True", "descending=False")),
        of("Multiplied instead of divided: that punishes length twice.", ("totals / lengths", "totals * lengths")),
    ],
)
TEMPERATURE = FillIn(
    id="decode.temperature",
    title="temperature",
    task="Logits (B, V) and a temperature above 0: below 1, the distribution becomes sharper, above 1 flatter.",
    hints=("What happens to the differences between logits if the temperature is a half?", "Divide."),
    module=SAMPLING,
    cases=lambda: {"cold": (numbers(2, 5), 0.5), "hot": (numbers(2, 5), 2.0), "one": (numbers(1, 3), 1.0)},
    mistakes=[
        of(
            "Multiplied instead of divided: a low temperature should sharpen.",
            ("logits / temperature", "logits * temperature"),
        ),
        of(
            "These are probabilities; what follows wants logits.",
            ("logits / temperature", "(logits / temperature).softmax(dim=-1)"),
        ),
    ],
)
TOP_K = FillIn(
    id="decode.top_k",
    title="top-k filtering",
    task="""
    Keep the ``count`` most likely tokens of each row of logits (B, V), and any that tie with the last of them; all
    others become minus infinity. There may be fewer tokens than count.
    """,
    hints=("Which logit is the smallest that stays?", "topk gives it, in the last place; compare all logits with it."),
    module=SAMPLING,
    cases=lambda: {
        "two of five": (numbers(3, 5), 2),
        "ties": (torch.tensor([[1.0, 3.0, 2.0, 2.0, 0.0]]).double(), 2),
        "more than there are": (numbers(2, 3), 9),
        "the best": (numbers(2, 4), 1),
    },
    mistakes=[
        of("The others become 0; a logit of 0 is a likely token. Use minus infinity.", ("-math.inf", "0.0")),
        of(
            "Tokens that tie with the last one must stay.",
            (
                "logits < least",
                "(logits < least) | ((logits == least) & (torch.arange(logits.shape[-1]) != (logits == "
                "least).int().argmax(dim=-1, keepdim=True)))",
            ),
        ),
        of("The best tokens are removed.", ("logits < least", "logits >= least")),
        of("One token too few stays.", ("logits < least", "logits <= least")),
        of("The threshold is that of the first row for all rows.", ("[:, -1:]", "[:1, -1:]")),
    ],
)
TOP_P = FillIn(
    id="decode.top_p",
    title="top-p (nucleus) filtering",
    task="""
    Of each row of logits (B, V), keep the smallest set of most likely tokens whose probability is at least
    ``share``; all others become minus infinity. A share of 1 or more keeps everything. Ten equal tokens of 0.1 add
    up to a little less than 1: allow for ROUNDING, so that share (1 - ROUNDING) counts as reached.
    """,
    hints=(
        "Does the token with which the sum passes the share belong to the set?",
        "Sort; a token stays if the probability of all before it is still below the share; sort back.",
    ),
    module=SAMPLING,
    cases=lambda: {
        "60 %": (2 * numbers(3, 6), 0.6),
        "by hand": (torch.tensor([[0.1, 0.5, 0.3, 0.1]]).double().log(), 0.7),
        "exactly reached": (torch.tensor([[0.5, 0.25, 0.25]]).double().log(), 0.5),
        "ten equal ones": (torch.zeros(1, 10).double(), 0.9),
        "all": (numbers(2, 4), 1.0),
        "very small": (numbers(2, 4), 1e-6),
    },
    mistakes=[
        of("The token that passes the share belongs to the set.", ("cumsum(dim=-1) - probabilities", "cumsum(dim=-1)")),
        of(
            "The order is not undone: what stays are the first tokens, not the likeliest.",
            ("reached.gather(1, order.argsort(dim=-1))", "reached"),
        ),
        of(
            "The least likely tokens are kept.",
            ("logits.sort(descending=True, stable=True)", "logits.sort(descending=False, stable=True)"),
        ),
        of("The others become 0, which is a likely token. Use minus infinity.", (", -math.inf)", ", 0.0)")),
        of(
            "These are tokens at least as likely as the share; add up probabilities.",
            ("reached = before >= share * (1 - ROUNDING)", "reached = probabilities < share"),
        ),
    ],
)
REPETITION = FillIn(
    id="decode.repetition",
    title="the repetition penalty",
    task="""
    seen (B, T) are the tokens so far. The logits (B, V) of these tokens are divided by the penalty where they are
    positive, and multiplied by it where they are negative; once, however often a token occurred.
    """,
    hints=(
        "Why is dividing a negative logit the wrong way?",
        "gather the logits of what was seen, change them, scatter them back.",
    ),
    module=SAMPLING,
    cases=lambda: {
        "two rows": (numbers(2, 6), torch.tensor([[0, 1, 1], [5, 2, 0]]), 1.5),
        "no penalty": (numbers(1, 4), torch.tensor([[1]]), 1.0),
        "all seen": (numbers(1, 3), torch.tensor([[0, 1, 2]]), 2.0),
    },
    mistakes=[
        of(
            "A negative logit that is divided becomes more likely: multiply it.",
            ("repeated * penalty", "repeated / penalty"),
        ),
        of(
            "Tokens that were seen become more likely.",
            ("repeated / penalty", "repeated * penalty"),
            (".where(repeated >= 0, repeated * penalty)", ".where(repeated >= 0, repeated / penalty)"),
        ),
        of(
            "The penalty is subtracted; here it is a factor.",
            (
                "repeated.where(repeated < 0, repeated / penalty).where(repeated >= 0, repeated * penalty)",
                "repeated - penalty",
            ),
        ),
        of(
            "A token pays once, however often it occurred.",
            ("return logits.scatter(1, seen, penalised)", "return logits.scatter_add(1, seen, penalised - repeated)"),
        ),
    ],
)
BLEU = FillIn(
    id="decode.bleu",
    title="BLEU of one sentence",
    task="""
    candidate and reference are lists of words. For n = 1 ... longest, the precision is the share of the candidate's
    n-grams that are in the reference, where each counts at most as often as it occurs there (clipping). BLEU is
    their geometric mean times the brevity penalty, exp(1 - r/c) if the candidate (c words) is shorter than the
    reference (r words). Without any match of one length it is 0. Return it from 0 to 1.
    """,
    hints=(
        "What is the precision of 'the the the' against 'the cat'?",
        "Counters of n-grams; the minimum of both counts; logarithms are added and divided by longest.",
    ),
    module=WRITTEN,
    cases=lambda: {
        name: (candidate.split(), ["the", "cat", "is", "on", "the", "mat"], longest)
        for name, candidate, longest in (
            ("itself", "the cat is on the mat", 4),
            ("clipping", "the the the cat is", 2),
            ("too short", "the cat is on", 3),
            ("too long", "the cat is on the mat and on the rug", 3),
            ("no match", "a dog", 1),
            ("no pair", "mat the cat", 3),
        )
    },
    mistakes=[
        of(
            "There is no clipping: a word counts at most as often as in the reference.",
            ("min(count, other[ngram])", "count * (ngram in other)"),
        ),
        of("The brevity penalty is missing.", ("math.exp(brevity + log_precisions)", "math.exp(log_precisions)")),
        of(
            "Long candidates get a bonus: the penalty is never above 1.",
            ("min(0.0, 1 - len(reference) / len(candidate))", "1 - len(reference) / len(candidate)"),
        ),
        of(
            "The brevity penalty has both lengths swapped.",
            ("len(reference) / len(candidate)", "len(candidate) / len(reference)"),
        ),
        of(
            "This is the product of the precisions; take the geometric mean.",
            ("/ own.total()) / longest", "/ own.total())"),
        ),
        of(
            "This is recall: divide by the n-grams of the candidate.",
            ("matches / own.total()", "matches / max(other.total(), 1)"),
        ),
        of("Only the longest n-grams count.", ("log_precisions += ", "log_precisions = ")),
    ],
)

EXERCISES: list[Exercise] = [GREEDY, BEAM, LENGTH, TEMPERATURE, TOP_K, TOP_P, REPETITION, BLEU]
