"""Masks: which token may look at which."""

import torch

from headway.learn.exercise import Exercise, FillIn, Mistake

of = Mistake.of
MASKS = "headway.nn.masks"

CAUSAL = FillIn(
    id="mask.causal",
    title="the causal mask",
    task="""
    A boolean matrix (queries, keys), True where a query may look: at its own key and at earlier ones. There may be
    fewer queries than keys: then the queries are the last positions, and the last query may look at all keys.
    """,
    hints=(
        "Where does the diagonal begin if there are two queries and five keys?",
        "A lower triangle of ones, moved to the right by the number of keys that come before the first query.",
    ),
    module=MASKS,
    cases=lambda: {f"{q} queries, {k} keys": (q, k) for q, k in ((4, 4), (1, 1), (2, 5), (1, 6))},
    mistakes=[
        of("The mask is inverted: True must mean that a query may look.", ("torch.ones(", "~torch.ones(")),
        of("Queries see what comes later, not what came before.", (".tril(keys - queries)", ".triu(keys - queries)")),
        of(
            "A token may look at itself: the diagonal belongs to the mask.",
            ("tril(keys - queries)", "tril(keys - queries - 1)"),
        ),
        of(
            "With fewer queries than keys, the queries stand at the last positions, not at the first.",
            ("tril(keys - queries)", "tril()"),
        ),
    ],
)
PADDING = FillIn(
    id="mask.padding",
    title="the padding mask",
    task="""
    Row b of a batch has lengths[b] real tokens, and padding after them. Return a boolean (B, time): True for the
    real ones.
    """,
    hints=(
        "Which positions of a row with three tokens are real: 0, 1 and 2, or 1, 2 and 3?",
        "Compare a row of positions with a column of lengths; broadcasting does the rest.",
    ),
    module=MASKS,
    cases=lambda: {
        "three rows": (torch.tensor([3, 1, 4]), 4),
        "an empty row": (torch.tensor([0, 2]), 3),
        "one token": (torch.tensor([1]), 1),
    },
    mistakes=[
        of("One token too many is real: positions count from 0.", ("< lengths", "<= lengths")),
        of("The mask is inverted: True must mean a real token.", ("< lengths", ">= lengths")),
        of(
            "The padding is at the beginning here; it comes last.",
            ("return torch.arange(time", "return time - 1 - torch.arange(time"),
        ),
    ],
)
DOCUMENTS = FillIn(
    id="mask.documents",
    title="several documents in one row",
    task="""
    Rows are packed with several documents; documents (B, T) holds the number of each token's document. Return a mask
    (B, 1, T, T): a token may look at the tokens of its own document. The dimension of size 1 is for the heads.
    """,
    hints=(
        "Which two positions does an entry of the mask compare?",
        "Compare a column of documents with a row of them, and leave room for the heads.",
    ),
    module=MASKS,
    cases=lambda: {
        "two rows": (torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]]),),
        "one document": (torch.zeros(1, 3, dtype=torch.long),),
        "one token": (torch.tensor([[7]]),),
    },
    mistakes=[
        of("The mask is inverted: tokens look at all other documents.", ("==", "!=")),
        of(
            "The dimension for the heads is missing, or at another place.",
            ("documents[:, None, :, None]", "documents[:, :, None]"),
            ("documents[:, None, None, :]", "documents[:, None, :]"),
        ),
        of("Later documents may look at earlier ones, too.", ("==", ">=")),
    ],
)
RESTART = FillIn(
    id="pos.restart",
    title="positions that restart with each document",
    task="""
    documents (B, T) holds the number of each token's document; a document starts where the number changes. Return the
    position (B, T) of each token in its own document, from 0 on, without a loop over the tokens.
    """,
    hints=(
        "What do you have to subtract from a position in the row, to get that in the document?",
        "Mark the starts; the largest start so far (cummax) is that of the token's own document.",
    ),
    module=MASKS,
    cases=lambda: {
        "two rows": (torch.tensor([[0, 0, 1, 1, 1], [0, 1, 2, 2, 0]]),),
        "one document": (torch.zeros(2, 3, dtype=torch.long),),
        "one token": (torch.tensor([[7]]),),
    },
    mistakes=[
        of(
            "Positions go on through all documents.",
            ("positions - torch.where(starts, positions, 0).cummax(dim=1).values", "positions.clone()"),
        ),
        of("Positions count from 1.", ("return positions -", "return 1 + positions -")),
    ],
)

EXERCISES: list[Exercise] = [CAUSAL, PADDING, DOCUMENTS, RESTART]
