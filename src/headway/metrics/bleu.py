"""BLEU and chrF of translations, by sacrebleu.

- BLEU: precision of word n-grams up to length four, times a brevity penalty (Papineni et al. 2002,
  https://aclanthology.org/P02-1040)
- chrF: F-score of character n-grams up to length six (Popovic 2015, https://aclanthology.org/W15-3049)

Scores are comparable only if their signatures agree: tokenization, and sacrebleu's version.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headway.config.errors import Problem


class CorpusScore(NamedTuple):
    name: str
    score: float
    signature: str
    detail: str  # sacrebleu's breakdown


def corpus_scores(
    texts: Sequence[str], references: Sequence[Sequence[str]], lower: bool = False, tokenize: str | None = None
) -> list[CorpusScore]:
    """BLEU and chrF of texts against one or more sets of references. ``tokenize`` is a tokenizer of sacrebleu;
    "none" if the texts are already tokenized."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if not texts:
        raise Problem("there is no text to score")
    if not references:
        raise Problem("there are no references to score against: pass at least one set of them")
    for number, each in enumerate(references, start=1):
        if len(each) != len(texts):
            raise Problem(f"{len(texts):,} texts cannot be scored against {len(each):,} references (set {number})")
    # force: no warning that the texts look tokenized, if "none" says that they are.
    try:
        bleu = BLEU(lowercase=lower, tokenize=tokenize, force=tokenize == "none")
    except (KeyError, RuntimeError, ImportError) as error:
        raise Problem(f"sacrebleu has no tokenizer {tokenize!r}: {error}; use 13a, intl, char or none") from None
    scores = []
    for name, metric in {"bleu": bleu, "chrf": CHRF(lowercase=lower)}.items():
        result = metric.corpus_score(list(texts), [list(each) for each in references])
        scores.append(CorpusScore(name, result.score, str(metric.get_signature()), str(result)))
    return scores


def sentence_counts(texts: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """(N, 10): what BLEU is computed from, for each text: matching and all n-grams of four orders, and both lengths."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(effective_order=True)
    scores = [scorer.sentence_score(text, [own]) for text, own in zip(texts, references, strict=True)]
    rows = [[*each.counts, *each.totals, each.sys_len, each.ref_len] for each in scores]
    return np.array(rows, np.float64).reshape(-1, 10)


def signatures() -> dict[str, str]:
    """The signatures of scores against one reference with sacrebleu's default settings."""
    return {each.name: each.signature for each in corpus_scores(["a"], [["a"]])}
