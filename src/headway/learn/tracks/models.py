"""Models: from the states of a sequence to an answer."""

import torch

from headway.learn.exercise import Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers
from headway.nn import pooling
from headway.nn.embedding import OneHot

of = Mistake.of
POOLING = "headway.nn.pooling"
REAL = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])

MEAN = FillIn(
    id="model.mean",
    title="mean pooling",
    task="""
    From the states of a sequence (B, T, D) to one vector (B, D): the mean of the real tokens. real (B, T) is False at
    padding, or None if there is none. A row without any real token gives zeros.
    """,
    hints=(
        "By which number do you divide a row with two real tokens and three of padding?",
        "Zeros at padding, then the sum over T, then divide by the number of real tokens, but by 1 at least.",
    ),
    module=POOLING,
    cases=lambda: {
        "no padding": (pooling.Mean(), numbers(2, 5, 4)),
        "padding": (pooling.Mean(), numbers(2, 5, 4), REAL),
        "one token": (pooling.Mean(), numbers(1, 1, 4)),
        "an empty row": (pooling.Mean(), numbers(2, 3, 4), torch.tensor([[True] * 3, [False] * 3])),
    },
    mistakes=[
        of("Padding is part of the mean.", ("if real is None", "if True")),
        of(
            "Padding is zero, but counted: divide by the number of real tokens.",
            ("real.sum(dim=1, keepdim=True).clamp(min=1)", "real.shape[1]"),
        ),
        of(
            "This is the sum, not the mean.",
            ("total / real.sum(dim=1, keepdim=True).clamp(min=1)", "total"),
            ("states.mean(dim=1)", "states.sum(dim=1)"),
        ),
        of("The mask is inverted: real is True for the tokens that count.", ("~real", "real")),
        of(
            "All rows are divided by the length of the whole batch.",
            ("real.sum(dim=1, keepdim=True).clamp(min=1)", "real.sum().clamp(min=1)"),
        ),
        of("A row without real tokens gives NaN: never divide by 0.", (".clamp(min=1)", "")),
    ],
)
CLS = FillIn(
    id="model.cls",
    title="a classifier that reads [CLS]",
    task="""
    The task has put a [CLS] token in front of each text; its state stands for the whole sequence. From states (B, T, D)
    return (B, D).
    """,
    hints=("At which position does the [CLS] token stand, padding or not?", "Index the second dimension."),
    module=POOLING,
    cases=lambda: {
        "two rows": (pooling.Cls(), numbers(2, 5, 4)),
        "padding": (pooling.Cls(), numbers(2, 5, 4), REAL),
        "one token": (pooling.Cls(), numbers(1, 1, 4)),
    },
    mistakes=[
        of("This is the last token; [CLS] stands in front.", ("states[:, 0]", "states[:, -1]")),
        of("This is the mean of all tokens.", ("states[:, 0]", "states.mean(dim=1)")),
        of("This is the token after [CLS].", ("states[:, 0]", "states[:, min(1, states.shape[1] - 1)]")),
    ],
)
LAST = FillIn(
    id="model.last",
    title="the last real state",
    task="""
    A recurrent network has read everything at its last real token. From states (B, T, D) and real (B, T) (None: no
    padding), return the state of each row's last real token, (B, D). zero_empty(pooled, real) makes rows without
    tokens zeros.
    """,
    hints=(
        "At which index is the last real token of a row with two of them?",
        "Index rows and columns at once: states[arange(B), ends].",
    ),
    module=POOLING,
    cases=lambda: {
        "no padding": (pooling.Last(), numbers(2, 5, 4)),
        "padding": (pooling.Last(), numbers(2, 5, 4), REAL),
        "an empty row": (pooling.Last(), numbers(2, 3, 4), torch.tensor([[True] * 3, [False] * 3])),
    },
    mistakes=[
        of("This is the state after all padding.", ("if real is None", "if True")),
        of(
            "This is one token before the last one.",
            (".clamp(min=1) - 1", ".clamp(min=2) - 2"),
            ("states[:, -1]", "states[:, -2]"),
        ),
        of(
            "All rows are read at the longest row's end.",
            ("real.sum(dim=1).clamp(min=1) - 1", "real.sum(dim=1).amax().expand(len(real)) - 1"),
        ),
        of(
            "A row without real tokens should be zeros.",
            (
                "zero_empty(states[torch.arange(states.shape[0], device=states.device), ends], real)",
                "states[torch.arange(states.shape[0], device=states.device), ends]",
            ),
        ),
    ],
)
ONEHOT = FillIn(
    id="model.onehot",
    title="an embedding as a product with one-hot vectors",
    task="""
    The token's one-hot vector times the matrix self.table.weight (V, D), times self.scale: the same as looking up a
    row. tokens is (B, T), self.vocabulary is V; zero_dropped(vectors, kept) sets those of dropped tokens to zero.
    """,
    hints=(
        "What does a product with a vector pick that is 1 at one place and 0 elsewhere?",
        "F.one_hot makes integers; the matrix has floating-point numbers.",
    ),
    module="headway.nn.embedding",
    cases=lambda: {
        "two rows": (OneHot(7, 4).double(), torch.tensor([[0, 3, 6], [1, 1, 2]])),
        "dropped tokens": (OneHot(7, 4).double(), torch.tensor([[0, 3, 6]]), torch.tensor([[True, False, True]])),
    },
    mistakes=[
        of("The vectors are not scaled: multiply by self.scale.", (" * self.scale", "")),
        of("Dropped tokens have to be zeros.", (", kept)", ", None)")),
        of("The vectors are divided by the scale instead of multiplied.", ("* self.scale", "/ self.scale")),
    ],
)
BINARY = FillIn(
    id="model.binary",
    title="binary cross-entropy from one score",
    task="""
    logits (N, 1) hold one score for each example, targets (N,) are 0 or 1. Return a Tally: the sum of -log
    sigmoid(logit) where the target is 1 and -log(1 - sigmoid(logit)) where it is 0, and the number of examples.
    Large logits, such as 1000, must not give infinity.
    """,
    hints=(
        "What is 1 - sigmoid(x), written as a sigmoid?",
        "F.binary_cross_entropy_with_logits does it in a stable way; mind the last dimension and "
        "the type of the targets.",
    ),
    module="headway.objectives.likelihood",
    cases=lambda: {
        "five examples": (numbers(5, 1), torch.tensor([0, 1, 1, 0, 1])),
        "one example": (numbers(1, 1), torch.tensor([1])),
        "large logits": (torch.tensor([[1000.0], [-1000.0]], dtype=torch.double), torch.tensor([0, 1])),
    },
    mistakes=[
        of("This is the mean; a Tally holds the sum and the count.", ('reduction="sum"', 'reduction="mean"')),
        of("The targets are swapped: 1 means yes.", ("targets.to(logits.dtype)", "1 - targets.to(logits.dtype)")),
        of(
            "The logits are treated as probabilities.",
            (
                "binary_cross_entropy_with_logits(logits.squeeze(-1)",
                "binary_cross_entropy(logits.squeeze(-1).clamp(0, 1)",
            ),
        ),
        of(
            "The sigmoid is applied twice: this function does it itself.",
            ("logits.squeeze(-1)", "logits.squeeze(-1).sigmoid()"),
        ),
    ],
)
TOKENIZE = FillIn(
    id="tokens.onehot",
    title="characters to one-hot rows, with [CLS] in front",
    task="""
    Split a text into characters, put the symbol [CLS] in front, and return the one-hot matrix (n + 1, V) in
    float64. The vocabulary is the list symbols, which holds "[CLS]" and every character.
    """,
    hints=(
        "How many rows does a text of three characters give?",
        "First numbers, by symbols.index; then F.one_hot with as many columns as symbols.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "abc": ("cab", ["a", "b", "c", "[CLS]"]),
        "an empty text": ("", ["[CLS]", "a"]),
        "[CLS] first": ("0110", ["[CLS]", "0", "1", "2"]),
    },
    mistakes=[
        of(
            "[CLS] is missing in front.",
            ('[symbols.index("[CLS]"), *(', "[*("),
            ("torch.tensor(numbers)", "torch.tensor(numbers, dtype=torch.long)"),
        ),
        of(
            "[CLS] stands at the end; it comes first.",
            ("torch.tensor(numbers)", "torch.tensor(numbers[1:] + numbers[:1])"),
        ),
        of("[CLS] is not always symbol 0: look it up.", ('symbols.index("[CLS]")', "0")),
        of("The text is read backwards.", ("for character in text", "for character in text[::-1]")),
    ],
)
VOCABULARY = FillIn(
    id="tokens.vocabulary",
    title="a vocabulary with special tokens",
    task="""
    Return a dict from each symbol to its number: first the special symbols, in their order, then every character that
    occurs in the texts, once, in the order of the alphabet.
    """,
    hints=(
        "Which number does the first character get after four special symbols?",
        "A sorted set of all characters, after the specials, with enumerate.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "two texts": (["banana", "cab"], ["<pad>", "<unk>", "[CLS]"]),
        "no specials": (["ba"], []),
        "no texts": ([], ["<pad>"]),
    },
    mistakes=[
        of(
            "The special symbols come last; they should have the first numbers.",
            ("[*specials, *characters]", "[*characters, *specials]"),
        ),
        of(
            "The characters are in the order in which they occur; sort them.",
            ('sorted(set("".join(texts)))', 'list(dict.fromkeys("".join(texts)))'),
        ),
        of(
            "The numbers start at 1.",
            ("enumerate([*specials, *characters])", "enumerate([*specials, *characters], start=1)"),
        ),
    ],
)
MERGE = FillIn(
    id="tokens.merge",
    title="applying a BPE merge",
    task="""
    word is a list of symbols, pair two of them. Wherever the two stand beside each other, they become one symbol, from
    left to right: [a, a, a] with (a, a) is [aa, a].
    """,
    hints=(
        "At which place do you continue after a merge?",
        "A loop with an index that moves by two after a merge and by one otherwise.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "twice": (list("abcab"), ("a", "b")),
        "overlapping": (list("aaaaa"), ("a", "a")),
        "longer symbols": (["lo", "w", "lo", "wer"], ("lo", "w")),
        "none": (list("abc"), ("c", "a")),
        "empty": ([], ("a", "b")),
    },
    mistakes=[
        of("Symbols are used twice: after a merge, skip both.", ("place += 2", "place += 1")),
        of(
            "Only the first place is merged.",
            (
                "if tuple(word[place : place + 2]) == pair:",
                "if tuple(word[place : place + 2]) == pair and pair[0] + pair[1] not in result:",
            ),
        ),
        of("The two are joined in the wrong order.", ("pair[0] + pair[1]", "pair[1] + pair[0]")),
    ],
)
BPE = FillIn(
    id="tokens.bpe",
    title="training BPE",
    task="""
    words are lists of symbols, each listed as often as it occurs. merges times: count all pairs of neighbours, take
    the most frequent one (of equals, the first in the alphabet), and join it everywhere. Return the pairs in their
    order; stop when no pair is left. joined(word, pair) applies a merge.
    """,
    hints=(
        "What has to happen after each choice, before you count again?",
        "Counter over pairwise(word); min with the key (-count, pair) breaks ties.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "low lower": ([list("low")] * 5 + [list("lower")] * 2 + [list("newest")] * 6 + [list("widest")] * 3, 5),
        "ties": ([list("ab"), list("cd"), list("ba")], 2),
        "fewer pairs than merges": ([list("ab")], 5),
        "no words": ([], 2),
    },
    mistakes=[
        of(
            "After a merge, the words must be joined before pairs are counted again.",
            ("parts = [joined(word, best) for word in parts]", "pass"),
        ),
        of(
            "Of equally frequent pairs, the first in the alphabet is taken, not the last.",
            (
                "key=lambda pair: (-counts[pair], pair))",
                "key=lambda pair: (-counts[pair], [-ord(c) for c in ''.join(pair)]))",
            ),
        ),
        of("The rarest pair is taken.", ("(-counts[pair], pair)", "(counts[pair], pair)")),
        of(
            "A word counts as often as it is listed, not once.",
            ("for word in parts for pair", "for word in dict.fromkeys(map(tuple, parts)) for pair"),
        ),
    ],
)

EXERCISES: list[Exercise] = [MEAN, CLS, LAST, ONEHOT, BINARY, VOCABULARY, TOKENIZE, MERGE, BPE]
