"""How much a translation has in common with references, by sacrebleu.

- BLEU: n-grams of words, up to four, that a reference has too, times a penalty for brevity (Papineni et al. 2002,
  https://aclanthology.org/P02-1040)
- chrF: n-grams of characters, up to six, as a mean of precision and recall (Popovic 2015,
  https://aclanthology.org/W15-3049)

A score without its signature cannot be compared: it says how texts were cut into words, and by which version.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headway.config.errors import Problem


class Overlap(NamedTuple):
    name: str
    score: float
    signature: str
    detail: str  # how it comes about


def overlaps(
    written: Sequence[str], references: Sequence[Sequence[str]], lower: bool = False, tokenize: str | None = None
) -> list[Overlap]:
    """BLEU and chrF of texts against one or more sets of references, each as long. ``tokenize`` as sacrebleu names it;
    "none" for texts that are words with spaces between them already."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if not written:
        raise Problem("there is no text to score")
    for number, each in enumerate(references, start=1):
        if len(each) != len(written):
            raise Problem(f"{len(written):,} texts cannot be held against {len(each):,} references (set {number})")
    # sacrebleu warns of texts that look tokenised already; who asks for "none" knows.
    try:
        bleu = BLEU(lowercase=lower, tokenize=tokenize, force=tokenize == "none")
    except (KeyError, RuntimeError, ImportError) as error:
        raise Problem(f"sacrebleu cannot cut words by {tokenize!r}: {error}; take 13a, intl, char or none") from None
    found = []
    for name, metric in {"bleu": bleu, "chrf": CHRF(lowercase=lower)}.items():
        result = metric.corpus_score(list(written), [list(each) for each in references])
        found.append(Overlap(name, result.score, str(metric.get_signature()), str(result)))
    return found


def signatures() -> dict[str, str]:
    """Of scores against one reference, cut into words and compared as sacrebleu does if nothing else is said."""
    return {each.name: each.signature for each in overlaps(["a"], [["a"]])}
