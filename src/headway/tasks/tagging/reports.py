"""What metrics of a tagger are made of, and what an evaluation shows beside them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.data.tagged_sequences import TaggedSequences
from headway.metrics.classification import Predictions, confusion, most_confused
from headway.metrics.spans import PLAIN, SpanCounts, TagSet, tag_report
from headway.objectives.tally import Tally

WORST = 10  # sentences in a report


class Outcome(NamedTuple):
    """Of a sequence of words."""

    tags: np.ndarray
    chances: np.ndarray  # the probability of each of them
    log_probability: float  # of all of them together,
    log_likelihood: float  # and of the true ones


def span_tallies(kinds: TagSet, predicted: Tensor, targets: Tensor, real: Tensor) -> dict[str, Tally]:
    """F1 of the spans, with precision and recall unless all are the same."""
    size = real.sum(dim=1).cpu().numpy()
    begins = np.zeros(int(size.sum()), bool)
    begins[np.cumsum(size) - size] = True
    own, true = (kinds.spans(each[real].cpu().numpy(), begins) for each in (predicted, targets))
    counts = SpanCounts.of(own, true, max(len(kinds.types), 1))
    hits, said, are = (torch.tensor(float(each.sum())) for each in counts)
    f1 = {"f1": Tally(2 * hits, said + are)}
    return f1 if kinds.scheme == PLAIN else {"precision": Tally(hits, said), "recall": Tally(hits, are), **f1}


def details_of(kinds: TagSet, data: TaggedSequences, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    words = data.own_words
    targets = data.tags[words]
    predicted = np.concatenate([np.empty(0, np.int64), *(each.tags for each in outcomes)])
    counts = confusion(Predictions(targets, predicted, np.ones(len(targets))), len(kinds.names))
    details: dict[str, Any] = {
        "classes": tag_report(counts, kinds.names),
        "confusion": counts.tolist(),
        "mixed_up": most_confused(counts, list(kinds.names)),
        "worst": worst_sentences(kinds, data, outcomes),
    }
    if kinds.scheme != PLAIN:
        own, true = (kinds.spans(each, data.begins) for each in (predicted, targets))
        details["spans"] = SpanCounts.of(own, true, len(kinds.types)).report(kinds.types)
    return details


def worst_sentences(kinds: TagSet, data: TaggedSequences, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Those with wrong tags whose true tags are the least likely, with each wrong one beside its word."""
    worst = []
    for row in np.argsort([each.log_likelihood for each in outcomes], kind="stable").tolist():
        first, count = int(data.word_starts[row]), int(data.word_counts[row])
        targets, tags = data.tags[first : first + count], outcomes[row].tags
        wrong = int((targets != tags).sum())
        if not wrong:
            continue
        shown = [
            word if true == said else f"{word} [{kinds.names[said]}, not {kinds.names[true]}]"
            for word, true, said in zip(data.texts[first : first + count], targets, tags, strict=True)
        ]
        loss = -outcomes[row].log_likelihood
        worst.append({"sentence": " ".join(shown), "wrong": wrong, "words": count, "loss": loss})
        if len(worst) == WORST:
            break
    return worst
